//! Pure: from the kernel's counters, keyed by cgroup, to totals of series, keyed by pod.
//!
//! A count and its name may come in any order. Counters of a cgroup whose pod is not known yet wait under their cgroup id and
//! join the series when the name comes; what never gets a name is shown as unattributed. No count is dropped on the way:
//! everything in the kernel is in a series, unattributed, or the host's.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use rollout_probe_common::{
    abi::{CodeKey, Tally, TallyKey},
    outcome::{LostSync, Origin, Packet, Protocol, Role},
};

use crate::{
    cgroup::{CgroupId, Place},
    identity::Identity,
    index::Index,
};

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
}

impl Unattributed {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cgroup, Self::Pod, Self::Container];

    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup_unknown",
            Self::Pod => "pod_unknown",
            Self::Container => "container_unknown",
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
}

/// Who counted.
enum Owner {
    Container(Identity, String),
    Unknown(Unattributed),
    Host,
}

#[derive(Debug)]
struct Cgroup {
    place: Place,
    /// The container's name once the pod said it: a later status may not name this run any more.
    container: Option<String>,
    gone: Option<Instant>,
}

/// The counters, and who owns them.
#[derive(Debug, Default)]
pub struct Ledger {
    cgroups: HashMap<CgroupId, Cgroup>,
    counters: Counters,
    /// What was taken out of the kernel's maps with its cgroup.
    retired: Totals,
}

impl Ledger {
    /// A cgroup exists.
    pub fn cgroup_created(&mut self, id: CgroupId, place: Place) {
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
                && let Some(pod) = index.get(uid)
            {
                cgroup.container = pod.container(id).map(str::to_owned);
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
        for pod in index.iter() {
            for container in &pod.containers {
                totals.add_zeroes(&pod.identity, container);
            }
        }
        for (key, tally) in &self.counters.tallies {
            totals.add_tally(self.owner(CgroupId(key.cgroup), index), key, tally);
        }
        for (key, count) in &self.counters.codes {
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
            (None, _) => Owner::Unknown(Unattributed::Pod),
            (Some(_), None) => Owner::Unknown(Unattributed::Container),
            (Some(pod), Some(container)) => Owner::Container(pod.identity.clone(), container.to_owned()),
        }
    }

    /// Takes over the counters of cgroups that are gone for at least `grace`, and says which keys the kernel can forget.
    pub fn retire(&mut self, now: Instant, grace: Duration, index: &Index) -> (Vec<TallyKey>, Vec<CodeKey>) {
        let is_over = |cgroup: &Cgroup| cgroup.gone.is_some_and(|gone| now.duration_since(gone) >= grace);
        let over: Vec<CgroupId> =
            self.cgroups.iter().filter(|(_, cgroup)| is_over(cgroup)).map(|(id, _)| *id).collect();
        if over.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let is_of = |cgroup: u64| over.contains(&CgroupId(cgroup));
        let tallies = extract(&mut self.counters.tallies, |(key, _)| is_of(key.cgroup));
        let codes = extract(&mut self.counters.codes, |(key, _)| is_of(key.cgroup));
        for (key, tally) in &tallies {
            let owner = self.owner(CgroupId(key.cgroup), index);
            self.retired.add_tally(owner, key, tally);
        }
        for (key, count) in &codes {
            let owner = self.owner(CgroupId(key.cgroup), index);
            self.retired.add_code(owner, key, *count);
        }
        for id in over {
            self.cgroups.remove(&id);
        }
        (tallies.into_iter().map(|(key, _)| key).collect(), codes.into_iter().map(|(key, _)| key).collect())
    }

    /// Drops the retired series of pods that the index has forgotten. A pod of the same name that lives (a `StatefulSet`'s) keeps
    /// them: its counters go on.
    pub fn drop_series_without_pod(&mut self, index: &Index) {
        let named: std::collections::HashSet<Identity> = index.iter().map(|pod| pod.identity.clone()).collect();
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
