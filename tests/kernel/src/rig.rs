//! A played node with the real programs attached at its cgroup: hosts to put servers and clients on, and the comparison of
//! everything that was counted with everything that should have been.
//!
//! The programs are attached at the node's own part of the cgroup tree, so what else happens on the machine is not seen.
//! Attaching takes seconds, most of them in the verifier, so nearly all tests share one node.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::MetadataExt,
    thread,
    time::{Duration, Instant},
};

use rollout_probe::{
    cgroup::CgroupId,
    kernel::{Probe, Settings},
    ledger::Counters,
};
use rollout_probe_common::{
    abi::Tally,
    outcome::{CodeClass, LostSync, NoResponse, Phase},
};
use testbed::{
    node::{Host, PlayedNode},
    process::Place,
};

use crate::wanted::{Counts, add};

const SETTLE_TIMEOUT: Duration = Duration::from_secs(3);

/// A node, and the programs attached at it.
pub(crate) struct Rig {
    pub(crate) probe: Option<Probe>, // first: detached while its cgroup is still there
    pub(crate) node: PlayedNode,
    hosts: u32,
}

impl Rig {
    /// A node that is not counted on yet.
    pub(crate) fn new() -> Self {
        Self { probe: None, node: PlayedNode::new().unwrap(), hosts: 0 }
    }

    pub(crate) fn attach(&mut self) {
        self.attach_with(&Settings::default());
    }

    pub(crate) fn attach_with(&mut self, settings: &Settings) {
        self.probe = Some(Probe::attach(self.node.cgroup(), settings).unwrap());
    }

    fn counters(&self) -> Counters {
        self.probe.as_ref().map_or_else(Counters::default, |probe| probe.snapshot().unwrap())
    }
}

/// One test's use of a rig: it has hosts of its own, and what was counted before it began is not its concern.
pub(crate) struct Bench<'a> {
    pub(crate) rig: &'a mut Rig,
    names: BTreeMap<u64, String>,
    before: Counters,
}

impl<'a> Bench<'a> {
    pub(crate) fn on(rig: &'a mut Rig) -> Self {
        let before = rig.counters();
        Self { rig, names: BTreeMap::new(), before }
    }

    pub(crate) fn probe(&mut self) -> &mut Probe {
        self.rig.probe.as_mut().expect("it is attached")
    }

    /// A host with a cgroup as a container's, whose counts go by `name`.
    pub(crate) fn pod(&mut self, name: &str) -> Host {
        let cgroup = format!("kubepods.slice/kubepods-pod{0}.slice/cri-containerd-{0}.scope", self.unique(name));
        self.host(name, &cgroup)
    }

    /// A host for a client, whose counts go by `name`.
    pub(crate) fn client(&mut self, name: &str) -> Host {
        let cgroup = format!("system.slice/{}.service", self.unique(name));
        self.host(name, &cgroup)
    }

    /// Where the kubelet is; its counts go by `kubelet`.
    pub(crate) fn kubelet(&mut self) -> Place {
        let place = self.rig.node.kubelet_place();
        self.names.insert(cgroup_id(&place).0, "kubelet".to_owned());
        place
    }

    /// A name that no other test's host has.
    fn unique(&mut self, name: &str) -> String {
        self.rig.hosts += 1;
        format!("{name}{}", self.rig.hosts)
    }

    fn host(&mut self, name: &str, cgroup: &str) -> Host {
        let host = self.rig.node.add_host(&format!("h{}", self.rig.hosts), cgroup).unwrap();
        self.names.insert(cgroup_id(&host.place).0, name.to_owned());
        host
    }

    /// Waits until exactly this has been counted, on the whole node; panics with every difference otherwise.
    #[track_caller]
    pub(crate) fn assert_counts(&self, wanted: &Counts) {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let differences = differences(&self.counts(), wanted);
            if differences.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "the counts differ:\n{}", differences.join("\n"));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What was counted since the test began.
    fn counts(&self) -> Counts {
        let before = self.flatten(&self.before);
        let mut counts = self.flatten(&self.rig.counters());
        for (key, n) in &mut counts {
            *n -= before.get(key).copied().unwrap_or(0);
        }
        counts
    }

    fn flatten(&self, counters: &Counters) -> Counts {
        let name = |cgroup: u64| self.names.get(&cgroup).cloned().unwrap_or(format!("cgroup {cgroup}"));
        let mut counts = Counts::new();
        for (key, tally) in &counters.tallies {
            add_tally(&mut counts, [&name(key.cgroup), key.role.label(), key.origin.label()], tally);
        }
        for (key, n) in &counters.codes {
            let code = key.status.to_string();
            add(&mut counts, &[&name(key.cgroup), "codes", key.role.label(), key.origin.label(), &code], *n);
        }
        for (why, n) in LostSync::ALL.iter().zip(counters.lost_sync) {
            add(&mut counts, &["lost_sync", why.label()], n);
        }
        counts
    }
}

fn add_tally(counts: &mut Counts, [host, role, origin]: [&str; 3], tally: &Tally) {
    let mut count = |kind: &str, label: &str, n: u64| add(counts, &[host, kind, role, origin, label], n);
    for (class, n) in CodeClass::ALL.iter().zip(tally.responses) {
        count("responses", class.label(), n);
    }
    for (how, n) in NoResponse::ALL.iter().zip(tally.no_response) {
        count("no_response", how.label(), n);
    }
    for (phase, n) in Phase::ALL.iter().zip(tally.resets_received) {
        count("resets_received", phase.label(), n);
    }
    for (phase, n) in Phase::ALL.iter().zip(tally.resets_sent) {
        count("resets_sent", phase.label(), n);
    }
    count("connections", "", tally.connections);
    count("durations", "", tally.duration_buckets.iter().sum());
}

/// The id of a place's cgroup.
pub(crate) fn cgroup_id(place: &Place) -> CgroupId {
    let path = place.cgroup.as_ref().expect("all places of these tests have a cgroup");
    CgroupId(path.metadata().unwrap().ino())
}

fn differences(counted: &Counts, wanted: &Counts) -> Vec<String> {
    let keys: BTreeSet<_> = counted.keys().chain(wanted.keys()).collect();
    let count = |counts: &Counts, key: &str| counts.get(key).copied().unwrap_or(0);
    let difference = |key: &&String| {
        let (counted, wanted) = (count(counted, key), count(wanted, key));
        (counted != wanted).then(|| format!("{key}: counted {counted}, wanted {wanted}"))
    };
    keys.iter().filter_map(difference).collect()
}
