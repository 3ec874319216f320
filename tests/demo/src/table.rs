//! What is printed in the end: the daemon's numbers by revision, beside those of the users and the kubelet. Pure.

use std::{fmt::Write, time::Duration};

use anyhow::Result;
use testbed::{
    counts::whole,
    daemon::{Sample, sum},
    kubelet::PodRecord,
    load::TargetTally,
};

use crate::{cluster::Rollout, traffic::Seen};

const RESPONSES: &str = "rollout_probe_http_responses_total";
const NO_RESPONSE: &str = "rollout_probe_http_no_response_total";
const DURATION_BUCKET: &str = "rollout_probe_http_request_duration_seconds_bucket";
/// The families whose series are shown as they are.
const RAW: [&str; 3] = [RESPONSES, "rollout_probe_http_response_codes_total", NO_RESPONSE];

/// One revision, as one side saw it.
#[derive(Debug, Default)]
struct Row {
    pods: u64,
    requests: u64,
    server_errors: u64,
    no_response: u64,
    resets: u64,
    median: String,
    p99: String,
    probes_ok: u64,
}

/// The table: two rows for each revision, which should differ in the latencies alone.
pub(crate) fn of(samples: &[Sample], pods: &[PodRecord], seen: &Seen, rollouts: [&Rollout; 2]) -> Result<String> {
    let mut text = format!(
        "{:<12} {:<18} {:>4} {:>9} {:>6} {:>12} {:>7} {:>7} {:>8} {:>8} {:>10}\n",
        "revision",
        "counted by",
        "pods",
        "requests",
        "5xx",
        "no response",
        "resets",
        "errors",
        "p50",
        "p99",
        "probes ok"
    );
    for rollout in rollouts {
        write_row(&mut text, &rollout.revision, "rollout-probe", &exported(samples, &rollout.revision)?);
        write_row(&mut text, "", "users and kubelet", &clients(pods, seen, &rollout.revision));
    }
    Ok(text)
}

/// The series of one revision that are not 0, as the daemon serves them.
pub(crate) fn raw(exposition: &str, revision: &str) -> String {
    let label = format!("revision=\"{revision}\"");
    let is_shown = |line: &&str| {
        let family = line.split('{').next().unwrap_or_default();
        RAW.contains(&family) && line.contains(&label) && !line.ends_with(" 0")
    };
    exposition.lines().filter(is_shown).flat_map(|line| [line, "\n"]).collect()
}

/// What happened, in words.
pub(crate) fn verdict(samples: &[Sample], pods: &[PodRecord], [first, second]: [&Rollout; 2]) -> Result<String> {
    let (old, new) = (exported(samples, &first.revision)?, exported(samples, &second.revision)?);
    Ok(format!(
        "Kubernetes:    {}.\n\
         rollout-probe: revision {} answered {} of {} requests with 5xx and left {} without any response ({} errors);\n\
         \u{20}              of the {} to revision {} before it {} failed.\n\
         Every count of all {} pods equals what the users and the kubelet saw.",
        second.verdict.trim_end_matches('.'),
        second.revision,
        new.server_errors,
        new.requests,
        new.no_response,
        new.error_ratio(),
        old.requests,
        first.revision,
        old.server_errors + old.no_response,
        pods.len(),
    ))
}

impl Row {
    fn error_ratio(&self) -> String {
        if self.requests == 0 {
            return "-".to_owned();
        }
        let per_mille = (self.server_errors + self.no_response) * 1000 / self.requests;
        format!("{}.{} %", per_mille / 10, per_mille % 10)
    }
}

fn write_row(text: &mut String, revision: &str, side: &str, row: &Row) {
    let Row { pods, requests, server_errors, no_response, resets, median, p99, probes_ok } = row;
    let errors = row.error_ratio();
    let written = writeln!(
        text,
        "{revision:<12} {side:<18} {pods:>4} {requests:>9} {server_errors:>6} {no_response:>12} {resets:>7} {errors:>7} {median:>8} {p99:>8} {probes_ok:>10}"
    );
    debug_assert!(written.is_ok(), "a String takes everything");
}

/// From the daemon's series: what the pods of a revision did as servers.
fn exported(samples: &[Sample], revision: &str) -> Result<Row> {
    let of_revision = [("revision", revision), ("role", "server")];
    let count = |name: &str, labels: &[(&str, &str)]| whole(sum(samples, name, &[&of_revision, labels].concat()));
    let no_response = count(NO_RESPONSE, &[("origin", "traffic")])?;
    Ok(Row {
        pods: whole(sum(samples, "rollout_probe_pod_info", &[("revision", revision)]))?,
        requests: count(RESPONSES, &[("origin", "traffic")])? + no_response,
        server_errors: count(RESPONSES, &[("origin", "traffic"), ("code_class", "5xx")])?,
        no_response,
        resets: count("rollout_probe_tcp_resets_received_total", &[])?
            + count("rollout_probe_tcp_resets_sent_total", &[])?,
        median: bucket(samples, revision, 0.5),
        p99: bucket(samples, revision, 0.99),
        probes_ok: count(RESPONSES, &[("origin", "probe"), ("code_class", "2xx")])?,
    })
}

/// From the load generator and the probes.
fn clients(pods: &[PodRecord], seen: &Seen, revision: &str) -> Row {
    let mut all = TargetTally::default();
    let mut row = Row::default();
    for pod in pods.iter().filter(|pod| pod.revision == revision) {
        row.pods += 1;
        let probes = pod.probes.iter().flat_map(|probes| &probes.responses);
        row.probes_ok += probes.filter(|(code, _)| (200..300).contains(*code)).map(|(_, count)| count).sum::<u64>();
        if let Some(tally) = seen.get(&pod.uid) {
            all.add(tally);
        }
    }
    let latency = |percent| all.percentile(percent).map_or_else(|| "-".to_owned(), milliseconds);
    row.requests = all.outcomes();
    row.server_errors = all.responses.range(500..600).map(|(_, count)| count).sum();
    row.no_response = all.no_response_closed + all.no_response_reset;
    row.resets = all.no_response_reset;
    (row.median, row.p99) = (latency(50), latency(99));
    row
}

/// The upper bound of the bucket that holds this share of the durations: what a histogram can say for sure.
fn bucket(samples: &[Sample], revision: &str, share: f64) -> String {
    let labels = [("revision", revision), ("role", "server"), ("origin", "traffic")];
    let mut bounds: Vec<(f64, &str)> = samples
        .iter()
        .filter(|sample| sample.name == DURATION_BUCKET)
        .filter_map(|sample| Some((sample.label("le").parse().ok()?, sample.label("le"))))
        .collect();
    bounds.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let up_to = |bound: &str| sum(samples, DURATION_BUCKET, &[&labels[..], &[("le", bound)]].concat());
    let Some(total) = bounds.last().map(|(_, bound)| up_to(bound)).filter(|total| *total > 0.0) else {
        return "-".to_owned();
    };
    let reached = bounds.iter().find(|(_, bound)| up_to(bound) >= share * total);
    match reached {
        Some((bound, _)) if bound.is_finite() => format!("<={}", milliseconds(Duration::from_secs_f64(*bound))),
        _ => "no bound".to_owned(), // slower than the last bucket
    }
}

fn milliseconds(duration: Duration) -> String {
    let text = format!("{:.1}", duration.as_secs_f64() * 1000.0);
    format!("{}ms", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use testbed::daemon::parse;

    use super::{bucket, exported, raw};

    const EXPOSITION: &str = r#"
rollout_probe_pod_info{revision="b",pod="b-1"} 1
rollout_probe_http_responses_total{revision="a",role="server",origin="traffic",code_class="5xx"} 9
rollout_probe_http_responses_total{revision="b",role="server",origin="traffic",code_class="2xx"} 6
rollout_probe_http_responses_total{revision="b",role="server",origin="traffic",code_class="5xx"} 2
rollout_probe_http_responses_total{revision="b",role="client",origin="traffic",code_class="5xx"} 5
rollout_probe_http_responses_total{revision="b",role="server",origin="probe",code_class="2xx"} 3
rollout_probe_http_responses_total{revision="b",role="server",origin="probe",code_class="4xx"} 0
rollout_probe_http_no_response_total{revision="b",role="server",origin="traffic",reason="closed"} 1
rollout_probe_http_request_duration_seconds_bucket{revision="b",role="server",origin="traffic",le="0.001"} 7
rollout_probe_http_request_duration_seconds_bucket{revision="b",role="server",origin="traffic",le="0.005"} 8
rollout_probe_http_request_duration_seconds_bucket{revision="b",role="server",origin="traffic",le="+Inf"} 8
"#;

    #[test]
    fn a_row_is_what_the_pods_of_its_revision_served_to_users() {
        let samples = parse(EXPOSITION).expect("valid");
        let row = exported(&samples, "b").expect("whole numbers");
        assert_eq!((row.pods, row.requests, row.server_errors, row.no_response, row.probes_ok), (1, 9, 2, 1, 3));
        assert_eq!(row.error_ratio(), "33.3 %");
    }

    #[test]
    fn percentiles_are_the_bounds_of_their_buckets() {
        let samples = parse(EXPOSITION).expect("valid");
        assert_eq!([0.5, 0.99].map(|share| bucket(&samples, "b", share)), ["<=1ms", "<=5ms"]);
        assert_eq!(bucket(&samples, "a", 0.5), "-");
    }

    #[test]
    fn raw_series_are_those_of_the_revision_without_zeros() {
        let shown = raw(EXPOSITION, "b");
        assert_eq!(shown.lines().count(), 5);
        assert!(shown.lines().all(|line| line.contains("revision=\"b\"") && !line.ends_with(" 0")), "{shown}");
    }
}
