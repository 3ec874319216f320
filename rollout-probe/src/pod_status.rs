//! Pure: how a pod is doing, from its status, and which of three kinds of failure it has.
//!
//! "The rollout is stuck" and "users see errors" need different people. A pod that cannot start and one that starts but never gets Ready stop a
//! rollout, and Kubernetes says so; a pod that is Ready and serves errors is what nobody but the counts can tell.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus as ApiStatus};

/// Reasons of a waiting container that does not come up by itself (kubelet: `pkg/kubelet/images/types.go`,
/// `pkg/kubelet/container/sync_result.go`, `pkg/kubelet/kuberuntime/kuberuntime_container.go`).
const CANNOT_START: [&str; 12] = [
    "CrashLoopBackOff",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreStartHookError",
    "PostStartHookError",
];

/// What is kept of a pod's status.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PodStatus {
    /// `status.phase`; empty while there is none.
    pub phase: String,
    /// The condition `Ready`.
    pub ready: bool,
    /// Of all its containers together.
    pub restarts: u64,
    /// It waits for something that does not come by itself, or has failed.
    pub cannot_start: bool,
    /// It is being deleted.
    pub terminating: bool,
}

/// The kinds of failure; a pod has one at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// No image, no configuration, or it crashes again and again.
    CannotStart,
    /// Its containers run, and its readiness probe fails.
    NotReady,
    /// It is Ready, and users get errors.
    ServingErrors,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::CannotStart, Self::NotReady, Self::ServingErrors];

    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::CannotStart => "cannot_start",
            Self::NotReady => "not_ready",
            Self::ServingErrors => "serving_errors",
        }
    }
}

impl PodStatus {
    /// From a pod object, which need not be complete.
    pub fn from_pod(pod: &Pod) -> Self {
        let Some(status) = &pod.status else { return Self::default() };
        let phase = status.phase.clone().unwrap_or_default();
        Self {
            ready: has_condition(status, "Ready"),
            restarts: containers(status).map(|container| u64::try_from(container.restart_count).unwrap_or(0)).sum(),
            cannot_start: phase == "Failed" || containers(status).any(cannot_start),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            phase,
        }
    }

    /// What is wrong with the pod, given whether its users got errors lately.
    pub fn failure(&self, serves_errors: bool) -> Option<Failure> {
        if self.terminating {
            return None; // not Ready on purpose
        }
        if self.cannot_start {
            return Some(Failure::CannotStart);
        }
        match (self.phase.as_str(), self.ready) {
            ("Running", false) => Some(Failure::NotReady),
            (_, true) if serves_errors => Some(Failure::ServingErrors),
            _ => None,
        }
    }
}

fn containers(status: &ApiStatus) -> impl Iterator<Item = &ContainerStatus> {
    [&status.init_container_statuses, &status.container_statuses].into_iter().flatten().flatten()
}

fn cannot_start(container: &ContainerStatus) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    reason.is_some_and(|reason| CANNOT_START.contains(&reason))
}

fn has_condition(status: &ApiStatus, name: &str) -> bool {
    let conditions = status.conditions.iter().flatten();
    conditions.filter(|condition| condition.type_ == name).any(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::{Failure, PodStatus};

    fn status(status: &serde_json::Value, terminating: bool) -> PodStatus {
        let deleted = terminating.then_some("2026-01-01T00:00:00Z");
        let pod: Pod = serde_json::from_value(json!({"metadata": {"deletionTimestamp": deleted}, "status": status}))
            .expect("a pod");
        PodStatus::from_pod(&pod)
    }

    fn container(waiting: Option<&str>, restarts: u32) -> serde_json::Value {
        let state = waiting.map_or(json!({"running": {}}), |reason| json!({"waiting": {"reason": reason}}));
        json!({"name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": restarts, "state": state})
    }

    #[test]
    fn status_is_read_from_the_object() {
        let ready = json!({
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [container(None, 2)],
            "initContainerStatuses": [container(None, 1)],
        });
        let expected = PodStatus {
            phase: "Running".to_owned(),
            ready: true,
            restarts: 3,
            cannot_start: false,
            terminating: false,
        };
        assert_eq!(status(&ready, false), expected);
        assert_eq!(PodStatus::from_pod(&Pod::default()), PodStatus::default());
    }

    #[test]
    fn three_failures_are_told_apart() {
        let pulling = json!({"phase": "Pending", "containerStatuses": [container(Some("ImagePullBackOff"), 0)]});
        let creating = json!({"phase": "Pending", "containerStatuses": [container(Some("ContainerCreating"), 0)]});
        let crashing = json!({"phase": "Running", "containerStatuses": [container(Some("CrashLoopBackOff"), 9)]});
        let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let cases = [
            (&pulling, false, Some(Failure::CannotStart)),
            (&creating, false, None),
            (&crashing, true, Some(Failure::CannotStart)),
            (&unready, true, Some(Failure::NotReady)),
            (&ready, true, Some(Failure::ServingErrors)),
            (&ready, false, None),
            (&json!({"phase": "Succeeded"}), true, None),
            (&json!({"phase": "Failed"}), false, Some(Failure::CannotStart)),
        ];
        for (object, serves_errors, expected) in cases {
            assert_eq!(status(object, false).failure(serves_errors), expected, "{object}");
        }
        assert_eq!(status(&unready, true).failure(true), None, "a pod that ends is not Ready on purpose");
    }
}
