//! Pure: the pods of this node, as far as counting needs them.
//!
//! Three verbs, `apply`, `delete` and `reset`, and a clock that is passed in. Of a pod object only a [`PodRecord`] is kept. A
//! deleted pod stays for a grace time, so that its last errors are scraped under its name.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::{
    cgroup::{ContainerId, PodUid},
    identity::{Identity, Labels},
    revision,
};

/// Container ids remembered per pod: one a container and restart, the oldest go first.
const CONTAINER_IDS: usize = 256;

/// What is kept of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodRecord {
    /// What its cgroups are called by.
    pub uid: PodUid,
    /// `metadata.uid`, which differs for static pods.
    pub object_uid: String,
    /// The labels of its series.
    pub identity: Identity,
    /// Names of its containers that run for as long as the pod does: the app's and native sidecars.
    pub containers: Vec<String>,
    /// Ids of all its containers so far, with their names.
    ids: VecDeque<(ContainerId, String)>,
}

impl PodRecord {
    /// Takes what is needed from a pod object, which need not be complete; nothing when it has no uid.
    pub fn from_pod(pod: &Pod) -> Option<Self> {
        let meta = &pod.metadata;
        let object_uid = meta.uid.clone()?;
        let annotation = |key| meta.annotations.as_ref().and_then(|all| all.get(key));
        // The kubelet names a static pod's cgroup by its configuration's hash, and the API object has another uid.
        let uid = annotation("kubernetes.io/config.hash").unwrap_or(&object_uid);
        let workload = revision::workload(meta);
        let identity = Identity::new(Labels {
            namespace: meta.namespace.clone().unwrap_or_default(),
            pod: meta.name.clone().unwrap_or_default(),
            workload: workload.name,
            workload_kind: workload.kind,
            revision: workload.revision,
        });
        let uid = PodUid::new(uid);
        Some(Self { uid, object_uid, identity, containers: container_names(pod), ids: container_ids(pod) })
    }

    /// The name of the container with this id.
    pub fn container(&self, id: &ContainerId) -> Option<&str> {
        self.ids.iter().rev().find(|(known, _)| known == id).map(|(_, name)| name.as_str())
    }

    fn keep_ids_of(&mut self, older: Self) {
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

/// A pod of the index.
#[derive(Debug)]
struct Entry {
    record: PodRecord,
    deleted: Option<Instant>,
}

/// The pods of this node.
#[derive(Debug, Default)]
pub struct Index {
    pods: HashMap<PodUid, Entry>,
}

impl Index {
    /// A pod was added or changed.
    pub fn apply(&mut self, mut record: PodRecord) {
        if let Some(older) = self.pods.remove(&record.uid) {
            record.keep_ids_of(older.record);
        }
        self.pods.insert(record.uid.clone(), Entry { record, deleted: None });
    }

    /// A pod was deleted. It stays for the grace time.
    pub fn delete(&mut self, uid: &PodUid, now: Instant) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.deleted.get_or_insert(now);
        }
    }

    /// These are all the pods: any other is deleted.
    pub fn reset(&mut self, live: Vec<PodRecord>, now: Instant) {
        let uids: Vec<PodUid> = live.iter().map(|record| record.uid.clone()).collect();
        for record in live {
            self.apply(record);
        }
        for (uid, entry) in &mut self.pods {
            if !uids.contains(uid) {
                entry.deleted.get_or_insert(now);
            }
        }
    }

    /// Removes the pods that were deleted more than `grace` ago.
    pub fn expire(&mut self, now: Instant, grace: Duration) -> Vec<PodUid> {
        let is_over = |entry: &Entry| entry.deleted.is_some_and(|deleted| now.duration_since(deleted) >= grace);
        let gone: Vec<PodUid> =
            self.pods.iter().filter(|(_, entry)| is_over(entry)).map(|(uid, _)| uid.clone()).collect();
        for uid in &gone {
            self.pods.remove(uid);
        }
        gone
    }

    /// The pod that the kubelet calls `uid`.
    pub fn get(&self, uid: &PodUid) -> Option<&PodRecord> {
        self.pods.get(uid).map(|entry| &entry.record)
    }

    /// All pods, the deleted ones of the grace time too.
    pub fn iter(&self) -> impl Iterator<Item = &PodRecord> {
        self.pods.values().map(|entry| &entry.record)
    }
}

#[cfg(test)]
mod tests;
