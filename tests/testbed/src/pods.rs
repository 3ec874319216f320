//! Pod objects as `kubectl get pods --output=json` prints them, for the daemon's `--pods-file`.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// A pod of a Deployment with one container that runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodObject {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub deployment: String,
    /// The label `pod-template-hash`, which also names the `ReplicaSet`.
    pub revision: String,
    pub node: String,
    pub image: String,
    pub ip: String,
    /// Without the runtime's name before it.
    pub container_id: String,
    pub ready: bool,
}

/// Writes a list of these pods. It takes an older file's place at once, so no reader sees half of it.
pub fn write(path: &Path, pods: &[PodObject]) -> Result<()> {
    let new = path.with_extension("new");
    let written = fs::write(&new, format!("{:#}\n", list(pods))).and_then(|()| fs::rename(&new, path));
    written.with_context(|| format!("cannot write the pods file `{}`", path.display()))
}

fn list(pods: &[PodObject]) -> Value {
    let items: Vec<_> = pods.iter().map(object).collect();
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

fn object(pod: &PodObject) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "labels": {"app": pod.deployment, "pod-template-hash": pod.revision},
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": format!("{}-{}", pod.deployment, pod.revision),
                "uid": format!("replicaset-{}", pod.revision),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {"nodeName": pod.node, "containers": [{"name": "web", "image": pod.image}]},
        "status": status(pod),
    })
}

fn status(pod: &PodObject) -> Value {
    let condition = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }});
    json!({
        "phase": "Running",
        "podIP": pod.ip,
        "podIPs": [{"ip": pod.ip}],
        "conditions": [condition("Ready", pod.ready), condition("ContainersReady", pod.ready)],
        "containerStatuses": [{
            "name": "web",
            "image": pod.image,
            "imageID": "",
            "containerID": format!("containerd://{}", pod.container_id),
            "ready": pod.ready,
            "started": true,
            "restartCount": 0,
            "state": {"running": {}},
        }],
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::{PodObject, object};

    #[test]
    fn object_reads_back_as_the_api_type() {
        let pod = PodObject {
            namespace: "shop".into(),
            name: "checkout-5d4f8c7b9d-x7k2p".into(),
            uid: "7b1f0c52".into(),
            deployment: "checkout".into(),
            revision: "5d4f8c7b9d".into(),
            node: "node-a".into(),
            image: "nginx-ok:1".into(),
            ip: "198.18.0.7".into(),
            container_id: "c0ffee".into(),
            ready: true,
        };
        let read: Pod = serde_json::from_value(object(&pod)).expect("a pod");
        let owner = &read.metadata.owner_references.expect("an owner")[0];
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("ReplicaSet", "checkout-5d4f8c7b9d"));
        let status = read.status.expect("a status");
        let container = &status.container_statuses.expect("a container")[0];
        assert_eq!(container.container_id.as_deref(), Some("containerd://c0ffee"));
        assert_eq!(status.conditions.expect("conditions")[0].status, "True");
    }
}
