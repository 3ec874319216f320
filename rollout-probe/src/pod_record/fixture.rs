//! Pods for the tests of those who keep them.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::PodRecord;
use crate::naming::Naming;

/// A pod's uid.
pub(crate) const UID: &str = "0b1f9c6e-3c5d-4a7e-9f21-8a1b2c3d4e5f";

/// A container's id.
pub(crate) fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A pod of Deployment `shop/checkout` with an app, an init container and a native sidecar.
pub(crate) fn pod(uid: &str, status: &serde_json::Value) -> PodRecord {
    named(uid, status, &Naming::default())
}

/// The same under the operator's rules.
pub(crate) fn named(uid: &str, status: &serde_json::Value, naming: &Naming) -> PodRecord {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "checkout-5d4f8c7b9d-x", "namespace": "shop", "uid": uid,
            "labels": {"pod-template-hash": "5d4f8c7b9d"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "checkout-5d4f8c7b9d", "uid": "x", "controller": true,
            }],
        },
        "spec": {
            "containers": [{"name": "app"}],
            "initContainers": [{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always"}],
        },
        "status": status,
    }))
    .expect("a pod");
    PodRecord::from_pod(&pod, naming).expect("it has a uid")
}

/// A status whose app runs as the container with this id.
pub(crate) fn running(digit: char) -> serde_json::Value {
    json!({"containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": true, "restartCount": 0,
        "containerID": format!("containerd://{}", id(digit)),
    }]})
}
