//! Pure: which workload runs a pod, and at which revision, from the pod alone.
//!
//! Controllers put the revision's hash on the pod as a label, and name what they own by a rule. Where the rule is certain the
//! owner's owner is known without asking the API; where it is not, the direct owner is the workload, unless the API says more
//! ([`OwnerFacts`]).

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
    /// The pod's direct owner, where the API may say more of it.
    pub owner: Option<Owner>,
}

/// An object that runs pods.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owner {
    /// Its uid.
    pub uid: String,
    /// Its group and version, as in an object's `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The workload is known without asking for the owner.
    pub is_certain: bool,
}

/// What the API says of an owner. Nothing is an answer too: it does not exist, or we may not read it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OwnerFacts {
    /// Kind and name of the workload at the top, if it is not the owner itself.
    pub workload: Option<(String, String)>,
    /// The revision's number, counted from 1 by the workload's controller.
    pub revision_number: Option<String>,
}

/// Where controllers write a revision's number: on the `ReplicaSet`.
const REVISION_NUMBERS: [&str; 2] = ["deployment.kubernetes.io/revision", "rollout.argoproj.io/revision"];

/// The number of the revision that an owner with this metadata stands for.
pub fn revision_number(owner: &ObjectMeta) -> Option<String> {
    let annotations = owner.annotations.as_ref()?;
    REVISION_NUMBERS.iter().find_map(|key| annotations.get(*key)).cloned()
}

/// The workload and revision of the pod with this metadata.
pub fn workload(pod: &ObjectMeta) -> Workload {
    let label = |key| pod.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    let name = pod.name.clone().unwrap_or_default();
    let Some(owner) = controller(pod) else {
        return Workload { name, kind: "Pod".to_owned(), revision: String::new(), owner: None };
    };
    if owner.kind == "ReplicaSet" {
        // Argo's hash comes first: its ReplicaSets carry it, and a `pod-template-hash` copied by hand must not win.
        for (key, kind) in [(ROLLOUTS_POD_TEMPLATE_HASH, "Rollout"), (POD_TEMPLATE_HASH, "Deployment")] {
            if let Some(hash) = label(key) {
                return of_replica_set(owner, hash, kind);
            }
        }
    }
    let revision = label(CONTROLLER_REVISION_HASH).unwrap_or_default();
    Workload {
        name: owner.name.clone(),
        kind: owner.kind.clone(),
        revision: revision.to_owned(),
        owner: (!IS_WORKLOAD.contains(&owner.kind.as_str())).then(|| Owner::from_reference(owner, false)),
    }
}

/// Kinds that people roll out, and of which the API says nothing more; a static pod's owner is its node.
const IS_WORKLOAD: [&str; 3] = ["StatefulSet", "DaemonSet", "Node"];

impl Owner {
    fn from_reference(reference: &OwnerReference, is_certain: bool) -> Self {
        let OwnerReference { uid, api_version, kind, name, .. } = reference.clone();
        Self { uid, api_version, kind, name, is_certain }
    }
}

fn controller(pod: &ObjectMeta) -> Option<&OwnerReference> {
    pod.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// The controller of this object's metadata, as an owner of its own.
pub fn owner_of(object: &ObjectMeta) -> Option<Owner> {
    controller(object).map(|reference| Owner::from_reference(reference, false))
}

/// A ReplicaSet that a Deployment or Rollout made is named `<owner>-<hash>`. With another name it is the workload itself, for all that
/// the pod says.
fn of_replica_set(set: &OwnerReference, hash: &str, kind: &str) -> Workload {
    let name = set.name.as_str();
    let owner = name.strip_suffix(hash).and_then(|rest| rest.strip_suffix('-')).filter(|owner| !owner.is_empty());
    let (workload, kind) = owner.map_or((name, "ReplicaSet"), |owner| (owner, kind));
    Workload {
        name: workload.to_owned(),
        kind: kind.to_owned(),
        revision: hash.to_owned(),
        owner: Some(Owner::from_reference(set, owner.is_some())),
    }
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
    fn owners_are_asked_for_where_the_pod_does_not_say_enough() {
        let certain =
            |owner, labels: &[(&str, &str)]| workload(&pod(Some(owner), labels)).owner.map(|owner| owner.is_certain);
        assert_eq!(certain(("ReplicaSet", "web-5d4f"), &[("pod-template-hash", "5d4f")]), Some(true), "for its number");
        assert_eq!(certain(("ReplicaSet", "web"), &[("pod-template-hash", "5d4f")]), Some(false));
        assert_eq!(certain(("ReplicaSet", "experiment-a"), &[("rollouts-pod-template-hash", "5d4f")]), Some(false));
        assert_eq!(certain(("Job", "backup-29384560"), &[]), Some(false), "a CronJob may have made it");
        assert_eq!(certain(("PerconaServer", "db"), &[]), Some(false));
        assert_eq!(certain(("StatefulSet", "db"), &[]), None);
        assert_eq!(certain(("DaemonSet", "agent"), &[]), None);
        assert_eq!(certain(("Node", "node-a"), &[]), None);
    }

    #[test]
    fn owner_that_is_no_controller_does_not_count() {
        let mut pod = pod(Some(("ConfigMap", "x")), &[]);
        pod.owner_references.as_mut().expect("has one")[0].controller = None;
        assert_eq!(workload(&pod).kind, "Pod");
    }
}
