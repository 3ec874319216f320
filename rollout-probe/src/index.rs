//! Pure: the pods of this node, as far as counting needs them.
//!
//! Four verbs, `apply`, `delete`, `reset` and `owner_known`, and a clock that is passed in. A deleted pod stays for a grace time,
//! so that its last errors are scraped under its name. A pod gets its name once: it is held back for a moment while its
//! workload is looked up, rather than named twice, and a pod that came when there were too many stays in the overflow series.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use crate::{
    cgroup::PodUid,
    identity::{Identity, Labels},
    pod_record::PodRecord,
    revision::OwnerFacts,
};

/// How long a pod waits for the API to say which workload it belongs to, before it is named by its direct owner.
const OWNER_TIMEOUT: Duration = Duration::from_secs(10);

/// The `workload_kind` of the one series that all pods beyond the limit share.
pub const OVERFLOW: &str = "overflow";

/// A pod of the index.
#[derive(Debug)]
struct Entry {
    record: PodRecord,
    deleted: Option<Instant>,
    overflow: bool,
    /// Since when its workload's name is awaited.
    unnamed: Option<Instant>,
}

/// Whether a pod has series, and under which name.
#[derive(Debug)]
pub enum Known<'a> {
    /// Its own, or the overflow's.
    Named(&'a PodRecord),
    /// Not yet: see [`PodRecord::owner`].
    Unnamed,
    /// The operator wants none.
    Excluded,
    /// No such pod was heard of.
    Unknown,
}

/// What is known of a revision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Revision<'a> {
    /// Of its app containers, joined by commas.
    pub images: String,
    /// As its controller counts, where the API says it.
    pub number: Option<&'a str>,
    /// When its first pod began here, in seconds since 1970.
    pub first_seen: Option<i64>,
}

/// The pods of this node.
#[derive(Debug)]
pub struct Index {
    pods: HashMap<PodUid, Entry>,
    /// What the API said of owners, by their uid.
    owners: HashMap<String, OwnerFacts>,
    /// When the first pod of each revision began here, in seconds since 1970.
    first_seen: HashMap<Identity, i64>,
    /// How many pairs of pod and container get series of their own.
    limit: usize,
    overflowed: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self::with_limit(usize::MAX)
    }
}

impl Index {
    /// With room for the series of this many containers.
    pub fn with_limit(limit: usize) -> Self {
        Self { pods: HashMap::new(), owners: HashMap::new(), first_seen: HashMap::new(), limit, overflowed: 0 }
    }

    /// A pod was added or changed.
    pub fn apply(&mut self, mut record: PodRecord, now: Instant) {
        let (mut overflow, mut unnamed) = (false, None);
        match self.pods.remove(&record.uid) {
            Some(older) => {
                record.identity = older.record.identity.clone();
                (overflow, unnamed) = (older.overflow, older.unnamed);
                if overflow {
                    record.merge_containers();
                }
                record.keep_ids_of(older.record);
            }
            None if record.excluded => {}
            None => {
                unnamed = self.name(&mut record).then_some(now);
                overflow = self.is_full_for(&record);
                if overflow {
                    self.overflowed += 1;
                    record.identity = overflow_identity();
                    record.merge_containers();
                }
            }
        }
        if let Some(started) = record.started {
            let first = self.first_seen.entry(revision_of(&record)).or_insert(started);
            *first = started.min(*first);
        }
        self.pods.insert(record.uid.clone(), Entry { record, deleted: None, overflow, unnamed });
    }

    /// Takes over what is known of the owner; true when that has to be awaited.
    fn name(&self, record: &mut PodRecord) -> bool {
        let Some(owner) = &record.owner else { return false };
        match self.owners.get(&owner.uid) {
            Some(facts) => {
                rename(record, facts);
                false
            }
            None => !owner.is_certain,
        }
    }

    fn is_full_for(&self, record: &PodRecord) -> bool {
        let own = record.containers.iter().map(|container| (&record.identity, container));
        let mut groups: HashSet<_> = own.collect();
        for entry in self.pods.values().filter(|entry| !entry.record.excluded && !entry.overflow) {
            groups.extend(entry.record.containers.iter().map(|container| (&entry.record.identity, container)));
        }
        groups.len() > self.limit
    }

    /// The API has said what it says of this owner, if only that it says nothing.
    pub fn owner_known(&mut self, uid: &str, facts: OwnerFacts) {
        for entry in self.pods.values_mut() {
            if entry.record.owner.as_ref().is_some_and(|owner| owner.uid == uid)
                && entry.unnamed.take().is_some()
                && !entry.overflow
            {
                rename(&mut entry.record, &facts);
            }
        }
        self.owners.insert(uid.to_owned(), facts);
    }

    /// A pod was deleted. It stays for the grace time.
    pub fn delete(&mut self, uid: &PodUid, now: Instant) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.deleted.get_or_insert(now);
        }
    }

    /// These are all the pods: any other is deleted.
    pub fn reset(&mut self, live: Vec<PodRecord>, now: Instant) {
        let uids: HashSet<PodUid> = live.iter().map(|record| record.uid.clone()).collect();
        for record in live {
            self.apply(record, now);
        }
        for (uid, entry) in &mut self.pods {
            if !uids.contains(uid) {
                entry.deleted.get_or_insert(now);
            }
        }
    }

    /// Names the pods that have waited long enough, and removes those that were deleted more than `grace` ago; true when any was.
    pub fn expire(&mut self, now: Instant, grace: Duration) -> bool {
        for entry in self.pods.values_mut() {
            entry.unnamed.take_if(|since| now.duration_since(*since) >= OWNER_TIMEOUT);
        }
        let before = self.pods.len();
        self.pods.retain(|_, entry| entry.deleted.is_none_or(|deleted| now.duration_since(deleted) < grace));
        let owners = self.pods.values().filter_map(|entry| entry.record.owner.as_ref());
        let needed: HashSet<&str> = owners.map(|owner| owner.uid.as_str()).collect();
        self.owners.retain(|uid, _| needed.contains(uid.as_str()));
        let revisions: HashSet<Identity> = self.pods.values().map(|entry| revision_of(&entry.record)).collect();
        self.first_seen.retain(|revision, _| revisions.contains(revision));
        self.pods.len() < before
    }

    /// What is known of the pod that the kubelet calls `uid`.
    pub fn get(&self, uid: &PodUid) -> Known<'_> {
        match self.pods.get(uid) {
            None => Known::Unknown,
            Some(entry) if entry.record.excluded => Known::Excluded,
            Some(entry) if entry.unnamed.is_some() => Known::Unnamed,
            Some(entry) => Known::Named(&entry.record),
        }
    }

    /// The name of a container of the pod, whether or not the pod has a name yet.
    pub fn container(&self, uid: &PodUid, id: &crate::cgroup::ContainerId) -> Option<&str> {
        self.pods.get(uid).and_then(|entry| entry.record.container(id))
    }

    /// All pods that have series, the deleted ones of the grace time and those in the overflow too.
    pub fn named(&self) -> impl Iterator<Item = &PodRecord> {
        let is_named = |entry: &&Entry| !entry.record.excluded && entry.unnamed.is_none();
        self.pods.values().filter(is_named).map(|entry| &entry.record)
    }

    /// The pods that have series of their own; whether each is still there.
    pub fn own_series(&self) -> impl Iterator<Item = (&PodRecord, bool)> {
        let is_shown = |entry: &&Entry| !entry.record.excluded && entry.unnamed.is_none() && !entry.overflow;
        self.pods.values().filter(is_shown).map(|entry| (&entry.record, entry.deleted.is_none()))
    }

    /// The revisions of the pods that have series of their own, as identities without a pod.
    pub fn revisions(&self) -> BTreeMap<Identity, Revision<'_>> {
        let mut revisions = BTreeMap::new();
        for (pod, _) in self.own_series() {
            let revision = revision_of(pod);
            let first_seen = self.first_seen.get(&revision).copied();
            revisions.entry(revision).or_insert_with(|| Revision {
                images: pod.images.join(","),
                number: pod.owner.as_ref().and_then(|owner| self.owners.get(&owner.uid)?.revision_number.as_deref()),
                first_seen,
            });
        }
        revisions
    }

    /// How many pods had to share the overflow series so far.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }
}

/// A revision's labels are those of its pods, without the pod.
fn revision_of(pod: &PodRecord) -> Identity {
    Identity::new(Labels { pod: String::new(), ..(*pod.identity).clone() })
}

fn rename(record: &mut PodRecord, facts: &OwnerFacts) {
    if let Some((kind, name)) = &facts.workload {
        let labels = Labels { workload: name.clone(), workload_kind: kind.clone(), ..(*record.identity).clone() };
        record.identity = Identity::new(labels);
    }
}

fn overflow_identity() -> Identity {
    Identity::new(Labels { workload_kind: OVERFLOW.to_owned(), ..Labels::default() })
}

#[cfg(test)]
mod tests;
