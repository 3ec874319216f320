//! Pure: the metric families. Every name, help text and label of `/metrics` is in this file.
//!
//! Families are written from the state at the time of the scrape, so nothing has to be registered for a pod or taken back when
//! it goes. `docs/metrics.md` says what each family means to a user.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Unit,
};
use rollout_probe_common::{
    abi::{CODE_ENTRIES, TALLY_ENTRIES, Tally},
    outcome::{CodeClass, LostSync, NoResponse, Packet, Phase, Protocol, Role},
};

use crate::{
    durations::{Durations, seconds},
    health::WatchError,
    identity::Identity,
    ledger::{SeriesKey, Totals, Unattributed},
    node::Node,
    pod_status::Failure,
};

/// The most series that one container has, exact codes and the pod's own left out: three sides of HTTP with five classes, `other`,
/// two reasons and a histogram of 18 lines, and three sides of TCP with seven.
pub const SERIES_PER_CONTAINER: usize = 100;

/// A label's name and value.
type Label<'a> = (&'a str, &'a str);

/// Writes all families of a node.
#[derive(Debug)]
pub struct NodeCollector(pub Arc<Mutex<Node>>);

impl Collector for NodeCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut node = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut families = Families(encoder);
        let now = Instant::now();
        let totals = node.totals(now);
        families.http(&totals)?;
        families.durations(&totals, &node.durations)?;
        families.tcp(&totals)?;
        if !node.aggregated {
            families.pods(&node, now)?;
        }
        families.revisions(&node)?;
        families.own(&node, &totals)
    }
}

struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn http(&mut self, totals: &Totals) -> fmt::Result {
        let mut family = self.counter(
            "rollout_probe_http_responses",
            "HTTP responses by class of their status code, one per final response head at each end's socket",
        )?;
        for (key, tally) in http(totals) {
            for class in CodeClass::ALL {
                let count = tally.responses[class.index()];
                // The five classes of RFC 9110 are there from the start, so that a ratio has its terms before the first error.
                if *class != CodeClass::OTHER || count > 0 {
                    let labels = [origin(key), ("protocol", key.protocol.label()), ("code_class", class.label())];
                    family.count(key, &labels, count)?;
                }
            }
        }
        let mut family =
            self.counter("rollout_probe_http_response_codes", "HTTP responses with a status code of 400 or more")?;
        for ((key, status), count) in &totals.codes {
            let code = status.to_string();
            family.count(key, &[origin(key), ("protocol", key.protocol.label()), ("code", &code)], *count)?;
        }
        let mut family = self.counter(
            "rollout_probe_http_no_response",
            "HTTP requests whose connection ended before any response head",
        )?;
        for (key, tally) in http(totals) {
            for reason in NoResponse::ALL {
                family.count(key, &[origin(key), ("reason", reason.label())], tally.no_response[reason.index()])?;
            }
        }
        Ok(())
    }

    fn durations(&mut self, totals: &Totals, durations: &Durations) -> fmt::Result {
        let mut family = self.seconds(
            "rollout_probe_http_request_duration",
            "Time from the first byte of a request head to the first byte of its final response head",
            MetricType::Histogram,
        )?;
        for (key, tally) in http(totals) {
            let count: u64 = tally.duration_buckets.iter().sum();
            if count > 0 {
                let sum = seconds(tally.duration_sum_ns);
                let labels = identity(key, &[origin(key)]);
                family.0.encode_family(&&labels[..])?.encode_histogram::<NoLabelSet>(
                    sum,
                    count,
                    &buckets(durations, tally),
                    None,
                )?;
            }
        }
        Ok(())
    }

    fn tcp(&mut self, totals: &Totals) -> fmt::Result {
        let tcp = tcp_by_role(totals);
        let mut family = self.counter("rollout_probe_tcp_resets_received", "TCP resets accepted on a connection")?;
        for (key, tally) in &tcp {
            for phase in Phase::ALL {
                family.count(key, &[("phase", phase.label())], tally.resets_received[phase.index()])?;
            }
        }
        let mut family = self.counter("rollout_probe_tcp_resets_sent", "TCP resets sent on a connection")?;
        for (key, tally) in &tcp {
            for phase in Phase::ALL {
                family.count(key, &[("phase", phase.label())], tally.resets_sent[phase.index()])?;
            }
        }
        let mut family = self.counter("rollout_probe_tcp_connections", "TCP connections established")?;
        for (key, tally) in tcp.iter().filter(|(key, _)| key.role != Role::UNKNOWN) {
            family.count(key, &[], tally.connections)?;
        }
        Ok(())
    }

    /// How the pods of the node are doing, those deleted lately left out but for their names.
    fn pods(&mut self, node: &Node, now: Instant) -> fmt::Result {
        let mut family =
            self.gauge("rollout_probe_pod_info", "A pod of this node, with its workload and revision; always 1")?;
        for (pod, _) in node.index.own_series() {
            let labels = [("node", node.name.as_str()), ("uid", &pod.object_uid)];
            family.gauge(&pod_labels(&pod.identity, &labels), 1)?;
        }
        let live = || node.index.own_series().filter(|(_, is_live)| *is_live).map(|(pod, _)| pod);
        let mut family = self.gauge("rollout_probe_pod_phase", "The phase that a pod is in; 1 for that one")?;
        for pod in live().filter(|pod| !pod.status.phase.is_empty()) {
            family.gauge(&pod_labels(&pod.identity, &[("phase", &pod.status.phase)]), 1)?;
        }
        let mut family = self.gauge("rollout_probe_pod_ready", "Whether a pod is Ready, as its probes say")?;
        for pod in live() {
            family.gauge(&pod_labels(&pod.identity, &[]), u64::from(pod.status.ready))?;
        }
        let mut family =
            self.gauge("rollout_probe_pod_restarts", "Restarts of a pod's containers, as its status says")?;
        for pod in live() {
            family.gauge(&pod_labels(&pod.identity, &[]), pod.status.restarts)?;
        }
        let mut family = self.gauge(
            "rollout_probe_pod_failure",
            "What is wrong with a pod: it cannot start, is not Ready, or is Ready and served errors within five minutes",
        )?;
        for pod in live() {
            let failure = pod.status.failure(node.recent.serves_errors(&pod.identity, now));
            for class in Failure::ALL {
                let labels = pod_labels(&pod.identity, &[("class", class.label())]);
                family.gauge(&labels, u64::from(failure == Some(class)))?;
            }
        }
        Ok(())
    }

    fn revisions(&mut self, node: &Node) -> fmt::Result {
        let revisions = node.index.revisions();
        let mut family = self.gauge(
            "rollout_probe_revision_info",
            "A revision with pods on this node, with its images, and its number where the API says it; always 1",
        )?;
        for (identity, revision) in &revisions {
            let number = revision.number.unwrap_or_default();
            family.gauge(&pod_labels(identity, &[("images", &revision.images), ("number", number)]), 1)?;
        }
        let mut family = self.seconds(
            "rollout_probe_revision_first_seen_timestamp",
            "When the first pod of a revision began on this node, in seconds since 1970",
            MetricType::Gauge,
        )?;
        for (identity, revision) in &revisions {
            let Some(first_seen) = revision.first_seen else { continue };
            family.0.encode_family(&&pod_labels(identity, &[])[..])?.encode_gauge(&first_seen)?;
        }
        Ok(())
    }

    /// What the probe says of itself: what it could not see or name is a number too.
    fn own(&mut self, node: &Node, totals: &Totals) -> fmt::Result {
        let counters = node.ledger.counters();
        let mut family =
            self.counter("rollout_probe_lost_sync", "Connections, or counts, that could not be followed")?;
        for reason in LostSync::ALL {
            family.plain_count(&[("reason", reason.label())], counters.lost_sync[reason.index()])?;
        }
        let mut family =
            self.counter("rollout_probe_packets", "Packets that the programs saw, by what became of them")?;
        for outcome in Packet::ALL {
            family.plain_count(&[("outcome", outcome.label())], counters.packets[outcome.index()])?;
        }
        let mut family = self.gauge(
            "rollout_probe_unattributed_responses",
            "HTTP responses counted in pods that have no name yet; they join their pod's series when it comes",
        )?;
        for reason in Unattributed::ALL {
            let count = totals.unattributed.get(&reason).copied().unwrap_or(0);
            family.gauge(&[("reason", reason.label())], count)?;
        }
        let mut family =
            self.gauge("rollout_probe_host_responses", "HTTP responses counted in processes that are in no pod")?;
        family.gauge(&[], totals.host)?;
        let mut family =
            self.gauge("rollout_probe_excluded_responses", "HTTP responses counted in pods that the flags exclude")?;
        family.gauge(&[], totals.excluded)?;
        let mut family = self.counter(
            "rollout_probe_overflow_pods",
            "Pods that came when there were too many series, and share those with workload_kind=\"overflow\"",
        )?;
        family.plain_count(&[], node.index.overflowed())?;
        let mut family = self.gauge("rollout_probe_map_entries", "Entries in a map of the kernel side")?;
        for (map, entries) in [("tallies", counters.tallies.len()), ("codes", counters.codes.len())] {
            family.gauge(&[("map", map)], entries as u64)?;
        }
        let mut family =
            self.gauge("rollout_probe_map_capacity", "Entries that a map of the kernel side has room for")?;
        for (map, entries) in [("tallies", TALLY_ENTRIES), ("codes", CODE_ENTRIES)] {
            family.gauge(&[("map", map)], u64::from(entries))?;
        }
        self.health(node)
    }

    fn health(&mut self, node: &Node) -> fmt::Result {
        let health = &node.health;
        let mut family = self.gauge(
            "rollout_probe_hook_state",
            "State of each place where the programs are attached; 1 for the one it is in",
        )?;
        for hook in health.hooks.iter() {
            for (state, is_it) in [("active", hook.unavailable.is_none()), ("unavailable", hook.unavailable.is_some())]
            {
                family.gauge(&[("hook", hook.name), ("state", state)], u64::from(is_it))?;
            }
        }
        let mut family = self.counter("rollout_probe_watch_errors", "Faults in reading the pods, by stage")?;
        for stage in WatchError::ALL {
            family.plain_count(&[("stage", stage.label())], health.watch_errors.get(&stage).copied().unwrap_or(0))?;
        }
        let mut family = self.counter("rollout_probe_snapshot_errors", "Readings of the kernel's maps that failed")?;
        family.plain_count(&[], health.snapshot_errors)?;
        if let Some(heard) = health.pods_heard {
            let mut family = self.seconds(
                "rollout_probe_metadata_age",
                "Time since something was heard from where the pods come from",
                MetricType::Gauge,
            )?;
            family.0.encode_gauge(&Instant::now().duration_since(heard).as_secs_f64())?;
        }
        let mut family = self.gauge("rollout_probe_build_info", "The version that runs; always 1")?;
        family.gauge(&[("version", env!("CARGO_PKG_VERSION"))], 1)
    }

    fn counter(&mut self, name: &'static str, help: &str) -> Result<Family<'_>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Counter).map(Family)
    }

    fn gauge(&mut self, name: &'static str, help: &str) -> Result<Family<'_>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge).map(Family)
    }

    fn seconds(&mut self, name: &'static str, help: &str, kind: MetricType) -> Result<Family<'_>, fmt::Error> {
        self.0.encode_descriptor(name, help, Some(&Unit::Seconds), kind).map(Family)
    }
}

struct Family<'a>(MetricEncoder<'a>);

impl Family<'_> {
    /// A counter of a container's series.
    fn count(&mut self, key: &SeriesKey, labels: &[Label<'_>], value: u64) -> fmt::Result {
        self.plain_count(&identity(key, labels), value)
    }

    fn plain_count(&mut self, labels: &[Label<'_>], value: u64) -> fmt::Result {
        self.0.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn gauge(&mut self, labels: &[Label<'_>], value: u64) -> fmt::Result {
        self.0.encode_family(&labels)?.encode_gauge(&value)
    }
}

/// The identity labels and the role, then the family's own.
fn identity<'a>(key: &'a SeriesKey, labels: &[Label<'a>]) -> Vec<Label<'a>> {
    let mut all = pod_labels(&key.identity, &[("role", key.role.label())]);
    all.insert(if key.identity.pod.is_empty() { 1 } else { 2 }, ("container", &key.container)); // beside the pod
    all.extend_from_slice(labels);
    all
}

/// The identity labels of a pod or of a revision, then the family's own. An empty label is the same as none to Prometheus.
fn pod_labels<'a>(identity: &'a Identity, labels: &[Label<'a>]) -> Vec<Label<'a>> {
    let mut all = Vec::with_capacity(11);
    all.extend([
        ("namespace", identity.namespace.as_str()),
        ("pod", &identity.pod),
        ("workload", &identity.workload),
        ("workload_kind", &identity.workload_kind),
        ("revision", &identity.revision),
    ]);
    all.retain(|(name, value)| *name != "pod" || !value.is_empty());
    all.extend_from_slice(labels);
    all
}

fn origin(key: &SeriesKey) -> Label<'static> {
    ("origin", key.origin.label())
}

fn http(totals: &Totals) -> impl Iterator<Item = (&SeriesKey, &Tally)> {
    totals.series.iter().filter(|(key, _)| key.protocol != Protocol::TCP)
}

/// Connections have no origin label: both origins add up under the first one's key.
fn tcp_by_role(totals: &Totals) -> Vec<(SeriesKey, Tally)> {
    let mut sums: Vec<(SeriesKey, Tally)> = Vec::new();
    for (key, tally) in totals.series.iter().filter(|(key, _)| key.protocol == Protocol::TCP) {
        match sums.last_mut() {
            // Sorted by identity, container and role before origin, so what belongs together is next to each other.
            Some((last, sum))
                if last.identity == key.identity && last.container == key.container && last.role == key.role =>
            {
                sum.add(tally);
            }
            _ => sums.push((key.clone(), *tally)),
        }
    }
    sums
}

/// Upper bounds in seconds with the counts of their own ranges, which is what the encoder wants.
fn buckets(durations: &Durations, tally: &Tally) -> Vec<(f64, u64)> {
    durations.upper_bounds().zip(tally.duration_buckets).collect()
}

#[cfg(test)]
mod tests;
