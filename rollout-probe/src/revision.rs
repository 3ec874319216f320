//! Pure: which workload runs a pod, and at which revision, from the pod alone.
//!
//! Controllers put the revision's hash on the pod as a label, and name what they own by a rule. Where the rule is certain the
//! owner's owner is known without asking the API; where it is not, the direct owner is the workload.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Set by the Deployment controller (and by whatever else owns `ReplicaSet`s through one).
const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Set by Argo Rollouts, for Rollouts and Experiments.
const ROLLOUTS_POD_TEMPLATE_HASH: &str = "rollouts-pod-template-hash";
/// Set by the StatefulSet and DaemonSet controllers.
const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";

/// A pod's workload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The revision's hash as the controller wrote it; empty where there is none.
    pub revision: String,
}

/// The workload and revision of the pod with this metadata.
pub fn workload(pod: &ObjectMeta) -> Workload {
    let label = |key| pod.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    let name = pod.name.clone().unwrap_or_default();
    let Some(owner) = controller(pod) else {
        return Workload { name, kind: "Pod".to_owned(), revision: String::new() };
    };
    if owner.kind == "ReplicaSet" {
        // Argo's hash comes first: its ReplicaSets carry it, and a `pod-template-hash` copied by hand must not win.
        for (key, kind) in [(ROLLOUTS_POD_TEMPLATE_HASH, "Rollout"), (POD_TEMPLATE_HASH, "Deployment")] {
            if let Some(hash) = label(key) {
                return of_replica_set(&owner.name, hash, kind);
            }
        }
    }
    let revision = label(CONTROLLER_REVISION_HASH).unwrap_or_default();
    Workload { name: owner.name.clone(), kind: owner.kind.clone(), revision: revision.to_owned() }
}

fn controller(pod: &ObjectMeta) -> Option<&OwnerReference> {
    pod.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// A ReplicaSet that a Deployment or Rollout made is named `<owner>-<hash>`. With another name it is the workload itself.
fn of_replica_set(name: &str, hash: &str, kind: &str) -> Workload {
    let owner = name.strip_suffix(hash).and_then(|rest| rest.strip_suffix('-')).filter(|owner| !owner.is_empty());
    let (name, kind) = owner.map_or((name, "ReplicaSet"), |owner| (owner, kind));
    Workload { name: name.to_owned(), kind: kind.to_owned(), revision: hash.to_owned() }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

    use super::workload;

    fn pod(owner: Option<(&str, &str)>, labels: &[(&str, &str)]) -> ObjectMeta {
        ObjectMeta {
            name: Some("web-0".to_owned()),
            labels: Some(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
            owner_references: owner.map(|(kind, name)| {
                vec![OwnerReference {
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                    controller: Some(true),
                    ..OwnerReference::default()
                }]
            }),
            ..ObjectMeta::default()
        }
    }

    /// owner, labels, then the expected kind, name and revision.
    type Case<'a> = (Option<(&'a str, &'a str)>, &'a [(&'a str, &'a str)], (&'a str, &'a str, &'a str));

    #[test]
    fn workload_and_revision_come_from_owner_and_labels() {
        let cases: &[Case<'_>] = &[
            (
                Some(("ReplicaSet", "my-web-5d4f8c7b9d")),
                &[("pod-template-hash", "5d4f8c7b9d")],
                ("Deployment", "my-web", "5d4f8c7b9d"),
            ),
            (
                Some(("ReplicaSet", "web-6c9d7")),
                &[("rollouts-pod-template-hash", "6c9d7"), ("pod-template-hash", "old")],
                ("Rollout", "web", "6c9d7"),
            ),
            (Some(("ReplicaSet", "by-hand")), &[("pod-template-hash", "5d4f")], ("ReplicaSet", "by-hand", "5d4f")),
            (Some(("ReplicaSet", "-5d4f")), &[("pod-template-hash", "5d4f")], ("ReplicaSet", "-5d4f", "5d4f")),
            (Some(("ReplicaSet", "bare")), &[], ("ReplicaSet", "bare", "")),
            (
                Some(("StatefulSet", "web")),
                &[("controller-revision-hash", "web-7f6c")],
                ("StatefulSet", "web", "web-7f6c"),
            ),
            (Some(("DaemonSet", "agent")), &[("controller-revision-hash", "58d7")], ("DaemonSet", "agent", "58d7")),
            (Some(("Job", "migrate-28")), &[], ("Job", "migrate-28", "")),
            (Some(("PerconaServer", "db")), &[], ("PerconaServer", "db", "")),
            (None, &[("pod-template-hash", "copied")], ("Pod", "web-0", "")),
        ];
        for (owner, labels, (kind, name, revision)) in cases {
            let found = workload(&pod(*owner, labels));
            assert_eq!((found.kind.as_str(), found.name.as_str(), found.revision.as_str()), (*kind, *name, *revision));
        }
    }

    #[test]
    fn owner_that_is_no_controller_does_not_count() {
        let mut pod = pod(Some(("ConfigMap", "x")), &[]);
        pod.owner_references.as_mut().expect("has one")[0].controller = None;
        assert_eq!(workload(&pod).kind, "Pod");
    }
}
