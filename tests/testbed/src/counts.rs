//! Counts of one pod in one comparable form: what the load generator and the kubelet saw, and what the daemon exports.
//!
//! Both become a map from a readable key, such as `responses server traffic 5xx`, to a count, without zeros. Whole maps are
//! compared, so a series that nobody expected is a difference too.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};

use crate::{
    daemon::{Daemon, Sample},
    load::{ProbeTally, TargetTally},
};

/// Key to count, without zeros.
pub type Counts = BTreeMap<String, u64>;

/// The counts of many pods, by revision and pod name.
pub type PodCounts = BTreeMap<(String, String), Counts>;

const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The families that count what this project is about, and the labels that tell their series of one pod apart.
const FAMILIES: [(&str, &str, &[&str]); 5] = [
    ("rollout_probe_http_responses_total", "responses", &["role", "origin", "code_class"]),
    ("rollout_probe_http_response_codes_total", "codes", &["role", "origin", "code"]),
    ("rollout_probe_http_no_response_total", "no_response", &["role", "origin", "reason"]),
    ("rollout_probe_tcp_resets_received_total", "resets_received", &["role", "phase"]),
    ("rollout_probe_tcp_resets_sent_total", "resets_sent", &["role", "phase"]),
];

/// What the daemon exports.
pub fn exported(samples: &[Sample]) -> Result<PodCounts> {
    let mut pods = PodCounts::new();
    for sample in samples {
        let Some((_, key, labels)) = FAMILIES.iter().find(|(name, ..)| *name == sample.name) else { continue };
        let label = |name: &str| sample.labels.get(name).cloned().unwrap_or_default();
        let counts = pods.entry((label("revision"), label("pod"))).or_default();
        let values: Vec<_> = labels.iter().map(|name| label(name)).collect();
        add(counts, &format!("{key} {}", values.join(" ")), whole(sample.value)?);
    }
    Ok(pods)
}

/// What a server should be said to have done, from what its clients saw.
pub fn expected(traffic: &TargetTally, probes: Option<&ProbeTally>) -> Counts {
    let mut counts = Counts::new();
    for (&code, &responses) in &traffic.responses {
        add_responses(&mut counts, "traffic", code, responses);
    }
    add(&mut counts, "no_response server traffic closed", traffic.no_response_closed);
    add(&mut counts, "no_response server traffic reset", traffic.no_response_reset);
    for (&code, &responses) in probes.iter().flat_map(|probes| &probes.responses) {
        add_responses(&mut counts, "probe", code, responses);
    }
    counts
}

/// Waits until the daemon exports exactly these counts, no pod more or less; an error with every difference otherwise.
pub fn wait_for(daemon: &Daemon, wanted: &PodCounts) -> Result<()> {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let differences = differences(&exported(&daemon.scrape()?)?, wanted);
        if differences.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("after {SETTLE_TIMEOUT:?} the counts differ:\n{}", differences.join("\n"));
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn differences(exported: &PodCounts, wanted: &PodCounts) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |pod: &(String, String), key: &str, exported: Option<u64>, wanted: Option<u64>| {
        if exported != wanted {
            let (revision, name) = pod;
            differences
                .push(format!("revision {revision}, pod {name}, {key}: exported {exported:?}, clients saw {wanted:?}"));
        }
    };
    let pods: BTreeSet<_> = exported.keys().chain(wanted.keys()).collect();
    for pod in pods {
        let (ours, theirs) = (exported.get(pod), wanted.get(pod));
        compare(
            pod,
            "number of kinds",
            ours.map(|counts| counts.len() as u64),
            theirs.map(|counts| counts.len() as u64),
        );
        let keys: BTreeSet<_> = ours.iter().chain(&theirs).flat_map(|counts| counts.keys()).collect();
        for key in keys {
            let count = |counts: Option<&Counts>| counts.and_then(|counts| counts.get(key)).copied();
            compare(pod, key, count(ours), count(theirs));
        }
    }
    differences
}

fn add_responses(counts: &mut Counts, origin: &str, code: u16, responses: u64) {
    add(counts, &format!("responses server {origin} {}xx", code / 100), responses);
    if code >= 400 {
        add(counts, &format!("codes server {origin} {code}"), responses);
    }
}

fn add(counts: &mut Counts, key: &str, count: u64) {
    if count > 0 {
        *counts.entry(key.to_owned()).or_default() += count;
    }
}

/// A counter's value; anything but a whole number is a fault of its own.
pub fn whole(value: f64) -> Result<u64> {
    ensure!(value >= 0.0 && value.fract() == 0.0 && value < 1e15, "not a count: {value}");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked in the line above")]
    let count = value as u64;
    Ok(count)
}
