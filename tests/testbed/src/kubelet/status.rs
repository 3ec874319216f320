//! The Node and pod statuses that a kubelet writes, as merge patches. Pure.

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use serde_json::{Value, json};

/// What a status says about a pod's one container.
#[derive(Clone, Debug)]
pub(super) struct ContainerState {
    /// The bare id, without the runtime's prefix.
    pub id: String,
    pub ip: String,
    pub ready: bool,
    pub started_at: Timestamp,
    /// When `ready` last changed: a Deployment's `minReadySeconds` counts from here.
    pub ready_since: Timestamp,
}

/// The object to register, and the status to give it: Ready, with room for a handful of pods.
pub(super) fn node(name: &str) -> (Value, Value) {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
    });
    let resources = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
    let status = json!({"status": {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": time(Timestamp::now())}],
    }});
    (object, status)
}

/// The status of a pod that runs.
pub(super) fn running(pod: &Pod, state: &ContainerState) -> Value {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let (name, image) =
        container.map_or(("", ""), |container| (&container.name, container.image.as_deref().unwrap_or("")));
    let condition = |kind: &str, holds: bool, since: Timestamp| json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": time(since)});
    json!({"status": {
        "phase": "Running",
        "podIP": state.ip,
        "podIPs": [{"ip": state.ip}],
        "startTime": time(state.started_at),
        "conditions": [
            condition("Initialized", true, state.started_at),
            condition("Ready", state.ready, state.ready_since),
            condition("ContainersReady", state.ready, state.ready_since),
            condition("PodScheduled", true, state.started_at),
        ],
        "containerStatuses": [{
            "name": name,
            "image": image,
            "imageID": "",
            "containerID": format!("containerd://{}", state.id),
            "ready": state.ready,
            "started": true,
            "restartCount": 0,
            "state": {"running": {"startedAt": time(state.started_at)}},
        }],
    }})
}

/// As the API server prints times: whole seconds.
fn time(timestamp: Timestamp) -> String {
    timestamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_pod_reads_back_as_the_api_type() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "web", "image": "nginx-ok:1"}]},
        }))
        .expect("a pod");
        let started_at = Timestamp::from_second(1_796_078_076).expect("a time");
        let ready_since = Timestamp::from_second(1_796_078_079).expect("a time");
        let state =
            ContainerState { id: "c0ffee".into(), ip: "198.18.0.7".into(), ready: true, started_at, ready_since };
        let patched: Pod = serde_json::from_value(running(&pod, &state)).expect("a pod status");
        let status = patched.status.expect("a status");
        let ready =
            status.conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready").expect("Ready");
        assert_eq!((ready.status.as_str(), ready.last_transition_time.map(|time| time.0)), ("True", Some(ready_since)));
        let containers = status.container_statuses.expect("containers");
        assert_eq!(containers[0].container_id.as_deref(), Some("containerd://c0ffee"));
        assert_eq!(containers[0].name, "web", "the status must name the container as the spec does");
    }
}
