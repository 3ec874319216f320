//! Pure: what is kept of a pod object, a few hundred bytes of the tens of thousands that it has.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::{
    cgroup::{ContainerId, PodUid},
    identity::{Identity, Labels},
    naming::Naming,
    pod_status::PodStatus,
    revision::{self, Owner},
};

/// Container ids remembered per pod: one a container and restart, the oldest go first.
const CONTAINER_IDS: usize = 256;

/// What is kept of a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodRecord {
    /// What its cgroups are called by.
    pub uid: PodUid,
    /// `metadata.uid`, which differs for static pods.
    pub object_uid: String,
    /// `metadata.name`, also when its series are not told apart by it.
    pub name: String,
    /// The labels of its series.
    pub identity: Identity,
    /// Names of its containers that run for as long as the pod does: the app's and native sidecars. One empty name when series are
    /// not told apart by it.
    pub containers: Vec<String>,
    /// Images of the app's containers, in their order.
    pub images: Vec<String>,
    /// How it is doing.
    pub status: PodStatus,
    /// When this node began with it, in seconds since 1970.
    pub started: Option<i64>,
    /// The operator wants no series of it.
    pub excluded: bool,
    /// The object that runs it, of which the API may say more.
    pub owner: Option<Owner>,
    /// Ids of all its containers so far, with their names.
    ids: VecDeque<(ContainerId, String)>,
}

impl PodRecord {
    /// Takes what is needed from a pod object, which need not be complete; nothing when it has no uid.
    pub fn from_pod(pod: &Pod, naming: &Naming) -> Option<Self> {
        let meta = &pod.metadata;
        let object_uid = meta.uid.clone()?;
        let annotation = |key| meta.annotations.as_ref().and_then(|all| all.get(key));
        // The kubelet names a static pod's cgroup by its configuration's hash, and the API object has another uid.
        let uid = PodUid::new(annotation("kubernetes.io/config.hash").unwrap_or(&object_uid));
        let workload = revision::workload(meta);
        let (name, namespace) = (meta.name.clone().unwrap_or_default(), meta.namespace.clone().unwrap_or_default());
        let excluded = !naming.takes(&namespace, meta.labels.as_ref().unwrap_or(&BTreeMap::new()));
        let identity = Identity::new(Labels {
            pod: if naming.keep_pod { name.clone() } else { String::new() },
            namespace,
            workload: workload.name,
            workload_kind: workload.kind,
            revision: workload.revision,
        });
        let mut record = Self {
            uid,
            object_uid,
            name,
            identity,
            containers: container_names(pod),
            images: images(pod),
            status: PodStatus::from_pod(pod),
            started: started(pod),
            excluded,
            owner: workload.owner,
            ids: container_ids(pod),
        };
        if !naming.keep_container {
            record.merge_containers();
        }
        Some(record)
    }

    /// Gives all its containers one empty name: their series become one.
    pub fn merge_containers(&mut self) {
        self.containers = vec![String::new()];
        for (_, name) in &mut self.ids {
            name.clear();
        }
    }

    /// The name of the container with this id.
    pub fn container(&self, id: &ContainerId) -> Option<&str> {
        self.ids.iter().rev().find(|(known, _)| known == id).map(|(_, name)| name.as_str())
    }

    /// A later status may not name earlier runs of a container any more.
    pub fn keep_ids_of(&mut self, older: Self) {
        for (id, name) in older.ids.into_iter().rev() {
            if self.container(&id).is_none() {
                self.ids.push_front((id, name));
            }
        }
        while self.ids.len() > CONTAINER_IDS {
            self.ids.pop_front();
        }
    }
}

fn container_names(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars).map(|container| container.name.clone()).collect()
}

fn images(pod: &Pod) -> Vec<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|container| container.image.clone()).collect()
}

fn started(pod: &Pod) -> Option<i64> {
    let by_kubelet = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    by_kubelet.or(pod.metadata.creation_timestamp.as_ref()).map(|time| time.0.as_second())
}

fn container_ids(pod: &Pod) -> VecDeque<(ContainerId, String)> {
    let Some(status) = &pod.status else { return VecDeque::new() };
    let all = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    all.into_iter().flatten().flatten().flat_map(ids_of).collect()
}

/// The ids in one container's status: the run before this one, and this one.
fn ids_of(status: &ContainerStatus) -> impl Iterator<Item = (ContainerId, String)> {
    let terminated = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state.as_ref()?.terminated.as_ref()?.container_id.clone()
    };
    let ids = [terminated(&status.last_state), terminated(&status.state), status.container_id.clone()];
    ids.into_iter().flatten().filter_map(|id| Some((ContainerId::from_status(&id)?, status.name.clone())))
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
