//! Pure: from the kernel's counters, keyed by cgroup, to totals of series, keyed by pod.
//!
//! A count and its name may come in any order. Counters of a cgroup whose pod is not known yet wait under their cgroup id and
//! join the series when the name comes; what never gets a name is shown as unattributed. No count is dropped on the way:
//! everything in the kernel is in a series, unattributed, excluded, or the host's.
//!
//! Counters of a cgroup that is gone are taken out of the kernel's maps after a moment. They wait here for their name, much longer
//! than the kernel's maps could hold them: a short-lived pod's object may come late.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use rollout_probe_common::{
    abi::{CodeKey, Tally, TallyKey},
    outcome::{LostSync, Origin, Packet, Protocol, Role},
};

use crate::{
    cgroup::{CgroupId, Place},
    identity::Identity,
    index::{Index, Known},
};

/// How long counters of cgroups that are gone wait for a name. An API server may be away that long.
const NAME_GRACE: Duration = Duration::from_mins(15);
/// How many cgroups that are gone may wait at a time.
const WAITING_CGROUPS: usize = 4096;
/// After this time a cgroup that was never found in the tree is taken for one that was gone before it could be looked at.
const UNSEEN_GRACE: Duration = Duration::from_mins(2);

/// Whose series.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SeriesKey {
    /// The pod.
    pub identity: Identity,
    /// The container's name; empty for sockets of the pod's own cgroup.
    pub container: String,
    /// See [`Role`].
    pub role: Role,
    /// See [`Origin`].
    pub origin: Origin,
    /// See [`Protocol`].
    pub protocol: Protocol,
}

/// All counters at one time.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// By key, in no order.
    pub tallies: Vec<(TallyKey, Tally)>,
    /// Exact error codes by key, in no order.
    pub codes: Vec<(CodeKey, u64)>,
    /// Connections lost, by [`LostSync`].
    pub lost_sync: [u64; LostSync::COUNT],
    /// Packets by [`Packet`].
    pub packets: [u64; Packet::COUNT],
}

/// Why a count has no pod (yet).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Unattributed {
    /// The cgroup was gone before its path was read.
    Cgroup,
    /// The cgroup is a pod's, and the pod is not known.
    Pod,
    /// The pod is known, and its status does not name this container.
    Container,
    /// The pod is known, and its workload is being looked up.
    Workload,
}

impl Unattributed {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cgroup, Self::Pod, Self::Container, Self::Workload];

    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup_unknown",
            Self::Pod => "pod_unknown",
            Self::Container => "container_unknown",
            Self::Workload => "workload_unknown",
        }
    }
}

/// What everything adds up to at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Counters of each series, those of known containers also when they are zero.
    pub series: BTreeMap<SeriesKey, Tally>,
    /// Exact error codes.
    pub codes: BTreeMap<(SeriesKey, u16), u64>,
    /// Responses that have no pod, by why.
    pub unattributed: BTreeMap<Unattributed, u64>,
    /// Responses of cgroups that are no pod's.
    pub host: u64,
    /// Responses of pods that the operator wants no series of.
    pub excluded: u64,
}

/// Who counted.
enum Owner {
    Container(Identity, String),
    Unknown(Unattributed),
    Excluded,
    Host,
}

#[derive(Debug)]
struct Cgroup {
    place: Place,
    /// The container's name once the pod said it: a later status may not name this run any more.
    container: Option<String>,
    gone: Option<Instant>,
}

/// Counters by key.
#[derive(Debug, Default)]
struct Taken {
    tallies: HashMap<TallyKey, Tally>,
    codes: HashMap<CodeKey, u64>,
}

/// The counters, and who owns them.
#[derive(Debug, Default)]
pub struct Ledger {
    cgroups: HashMap<CgroupId, Cgroup>,
    counters: Counters,
    /// Cgroups that count and were never seen in the tree, since when.
    unseen: HashMap<CgroupId, Instant>,
    /// Taken out of the kernel's maps with its cgroup, not yet added up.
    waiting: Taken,
    /// Taken out, and added up.
    retired: Totals,
}

impl Ledger {
    /// A cgroup exists.
    pub fn cgroup_created(&mut self, id: CgroupId, place: Place) {
        self.unseen.remove(&id);
        self.cgroups.entry(id).or_insert(Cgroup { place, container: None, gone: None });
    }

    /// A cgroup is gone. Its sockets may still count for a moment.
    pub fn cgroup_removed(&mut self, id: CgroupId, now: Instant) {
        if let Some(cgroup) = self.cgroups.get_mut(&id) {
            cgroup.gone.get_or_insert(now);
        }
    }

    /// What the kernel has counted so far, as a whole.
    pub fn observe(&mut self, counters: Counters, index: &Index) {
        self.counters = counters;
        self.learn_containers(index);
    }

    /// Remembers container names, as long as the pod's status has them.
    pub fn learn_containers(&mut self, index: &Index) {
        for cgroup in self.cgroups.values_mut() {
            if let Place::Container(uid, id) = &cgroup.place
                && cgroup.container.is_none()
            {
                cgroup.container = index.container(uid, id).map(str::to_owned);
            }
        }
    }

    /// The last counters observed.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Adds everything up under the names that are known now.
    pub fn totals(&self, index: &Index) -> Totals {
        let mut totals = self.retired.clone();
        for pod in index.named() {
            for container in &pod.containers {
                totals.add_zeroes(&pod.identity, container);
            }
        }
        let counted = self.counters.tallies.iter().map(|(key, tally)| (key, tally));
        for (key, tally) in counted.chain(&self.waiting.tallies) {
            totals.add_tally(self.owner(CgroupId(key.cgroup), index), key, tally);
        }
        let counted = self.counters.codes.iter().map(|(key, count)| (key, count));
        for (key, count) in counted.chain(&self.waiting.codes) {
            totals.add_code(self.owner(CgroupId(key.cgroup), index), key, *count);
        }
        totals
    }

    fn owner(&self, id: CgroupId, index: &Index) -> Owner {
        let Some(cgroup) = self.cgroups.get(&id) else {
            return Owner::Unknown(Unattributed::Cgroup);
        };
        let (uid, container) = match &cgroup.place {
            Place::Host | Place::Prober => return Owner::Host,
            Place::Pod(uid) => (uid, Some("")),
            Place::Container(uid, _) => (uid, cgroup.container.as_deref()),
        };
        match (index.get(uid), container) {
            (Known::Unknown, _) => Owner::Unknown(Unattributed::Pod),
            (Known::Excluded, _) => Owner::Excluded,
            (Known::Unnamed, _) => Owner::Unknown(Unattributed::Workload),
            (Known::Named(_), None) => Owner::Unknown(Unattributed::Container),
            (Known::Named(pod), Some(container)) => Owner::Container(pod.identity.clone(), container.to_owned()),
        }
    }

    /// Takes over the counters of cgroups that are gone for at least `grace`, and says which keys the kernel can forget.
    pub fn retire(&mut self, now: Instant, grace: Duration, index: &Index) -> (Vec<TallyKey>, Vec<CodeKey>) {
        let over = self.over(now, grace);
        let is_of = |cgroup: u64| over.contains(&CgroupId(cgroup));
        let tallies = extract(&mut self.counters.tallies, |(key, _)| is_of(key.cgroup));
        let codes = extract(&mut self.counters.codes, |(key, _)| is_of(key.cgroup));
        for (key, tally) in &tallies {
            self.waiting.tallies.entry(*key).or_insert(Tally::ZERO).add(tally);
        }
        for (key, count) in &codes {
            *self.waiting.codes.entry(*key).or_default() += count;
        }
        self.settle(now, index, &over);
        (tallies.into_iter().map(|(key, _)| key).collect(), codes.into_iter().map(|(key, _)| key).collect())
    }

    /// The cgroups that will count no more, as far as one can know.
    fn over(&mut self, now: Instant, grace: Duration) -> HashSet<CgroupId> {
        let counting = self.counters.tallies.iter().map(|(key, _)| CgroupId(key.cgroup));
        let unseen: HashSet<CgroupId> = counting.filter(|id| !self.cgroups.contains_key(id)).collect();
        self.unseen.retain(|id, _| unseen.contains(id));
        for id in unseen {
            self.unseen.entry(id).or_insert(now);
        }
        let gone = self.cgroups.iter().filter_map(|(id, cgroup)| Some((id, cgroup.gone?, grace)));
        let unseen = self.unseen.iter().map(|(id, since)| (id, *since, UNSEEN_GRACE));
        let is_over = |since: Instant, grace| now.duration_since(since) >= grace;
        gone.chain(unseen).filter(|(_, since, grace)| is_over(*since, *grace)).map(|(id, ..)| *id).collect()
    }

    /// Adds up what has a name, what will get none, and what has waited for one too long.
    fn settle(&mut self, now: Instant, index: &Index, over: &HashSet<CgroupId>) {
        let since = |id: &CgroupId| self.cgroups.get(id).and_then(|cgroup| cgroup.gone);
        let may_be_named = |id: &CgroupId| {
            let waits = matches!(self.owner(*id, index), Owner::Unknown(why) if why != Unattributed::Cgroup);
            waits && since(id).is_some_and(|since| now.duration_since(since) < NAME_GRACE)
        };
        let mut waiting: Vec<CgroupId> = over.iter().filter(|id| may_be_named(id)).copied().collect();
        waiting.sort_by_key(|id| std::cmp::Reverse(since(id)));
        waiting.truncate(WAITING_CGROUPS);
        let waiting: HashSet<CgroupId> = waiting.into_iter().collect();
        let is_done = |cgroup: u64| over.contains(&CgroupId(cgroup)) && !waiting.contains(&CgroupId(cgroup));

        let tallies: Vec<_> = self.waiting.tallies.extract_if(|key, _| is_done(key.cgroup)).collect();
        let codes: Vec<_> = self.waiting.codes.extract_if(|key, _| is_done(key.cgroup)).collect();
        for (key, tally) in &tallies {
            let owner = self.owner(CgroupId(key.cgroup), index);
            self.retired.add_tally(owner, key, tally);
        }
        for (key, count) in &codes {
            let owner = self.owner(CgroupId(key.cgroup), index);
            self.retired.add_code(owner, key, *count);
        }
        self.cgroups.retain(|id, _| !is_done(id.0));
    }

    /// Drops the retired series of pods that the index has forgotten. A pod of the same name that lives (a `StatefulSet`'s) keeps
    /// them: its counters go on.
    pub fn drop_series_without_pod(&mut self, index: &Index) {
        let named: HashSet<Identity> = index.named().map(|pod| pod.identity.clone()).collect();
        self.retired.series.retain(|key, _| named.contains(&key.identity));
        self.retired.codes.retain(|(key, _), _| named.contains(&key.identity));
    }
}

impl Totals {
    /// The series that a container has from the start. Nothing probes through a pod's own client sockets.
    fn add_zeroes(&mut self, identity: &Identity, container: &str) {
        let sides = [(Role::SERVER, Origin::TRAFFIC), (Role::SERVER, Origin::PROBE), (Role::CLIENT, Origin::TRAFFIC)];
        for (role, origin) in sides {
            for protocol in [Protocol::TCP, Protocol::HTTP1] {
                let key =
                    SeriesKey { identity: identity.clone(), container: container.to_owned(), role, origin, protocol };
                self.series.entry(key).or_insert(Tally::ZERO);
            }
        }
    }

    fn add_tally(&mut self, owner: Owner, key: &TallyKey, tally: &Tally) {
        let responses: u64 = tally.responses.iter().sum();
        match owner {
            Owner::Container(identity, container) => {
                let (role, origin, protocol) = (key.role, key.origin, key.protocol);
                let key = SeriesKey { identity, container, role, origin, protocol };
                self.series.entry(key).or_insert(Tally::ZERO).add(tally);
            }
            Owner::Unknown(why) => *self.unattributed.entry(why).or_default() += responses,
            Owner::Excluded => self.excluded += responses,
            Owner::Host => self.host += responses,
        }
    }

    fn add_code(&mut self, owner: Owner, key: &CodeKey, count: u64) {
        if let Owner::Container(identity, container) = owner {
            let (role, origin, protocol) = (key.role, key.origin, key.protocol);
            let series = SeriesKey { identity, container, role, origin, protocol };
            *self.codes.entry((series, key.status)).or_default() += count;
        }
    }
}

/// Takes the elements out that `is_out` says.
fn extract<T>(from: &mut Vec<T>, is_out: impl Fn(&T) -> bool) -> Vec<T> {
    let (out, stay) = std::mem::take(from).into_iter().partition(is_out);
    *from = stay;
    out
}

#[cfg(test)]
mod tests;
