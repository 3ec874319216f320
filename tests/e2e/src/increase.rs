//! `increase()` as a real Prometheus computes it, beside the number that is certain.
//!
//! `increase` scales the difference between the first and the last sample of the window up to the window's edges. Two things
//! make its result certain within a few percent here. Traffic begins only after Prometheus has stored a 0 of every series, so
//! each begins at 0 in the window, and a counter is never extrapolated below 0: nothing is added at the front, and no first
//! increment is lost. At the end at most 1.1 scrape intervals are added, and the result grows in proportion. With raw samples
//! that span `s` seconds at an average distance of `d`, a true increase of `n` gives at least `n` and at most `n (1 + 1.1 d/s)`.

use std::time::{Duration, SystemTime};

use testbed::{
    counts::whole,
    prometheus::{Prometheus, RawSample},
    wait,
};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Waits until Prometheus has this many series of 5xx of the revision, all of them 0. This is the promise of the exporter that
/// `increase` depends on: the series are there before the first error.
pub(crate) fn wait_for_zeros(prometheus: &Prometheus, revision: &str, series: usize) {
    wait::until(&format!("{series} series at 0 for revision {revision}"), TIMEOUT, || {
        let stored = prometheus.query(&selector(revision), SystemTime::now()).unwrap();
        assert!(stored.iter().all(|(_, value)| *value == 0.0), "5xx before any traffic: {stored:?}");
        stored.len() == series
    })
    .unwrap();
}

/// Waits until the last scrape shows all of the failures, and compares the query of the README with them.
pub(crate) fn assert_matches(prometheus: &Prometheus, revision: &str, failures: u64) {
    wait::until(&format!("{failures} failures of revision {revision} in Prometheus"), TIMEOUT, || {
        let stored = prometheus.query(&selector(revision), SystemTime::now()).unwrap();
        stored.iter().map(|(_, value)| whole(*value).unwrap()).sum::<u64>() >= failures
    })
    .unwrap();
    let now = SystemTime::now();
    let raw = prometheus.query_range_selector(&format!("{}[1m]", selector(revision)), now).unwrap();
    let (mut least, mut most) = (0.0, 0.0);
    for (labels, samples) in &raw {
        let (count, upper_bound) = certain_increase(samples);
        assert_eq!(whole(samples[0].1).unwrap(), 0, "the window must begin before the traffic: {labels:?}");
        least += count;
        most += upper_bound;
    }
    assert_eq!(whole(least).unwrap(), failures, "what Prometheus stored, against what the clients saw");

    // As in the README, and narrowed to servers: no pod here asks another one, so both say the same.
    for role in ["", ",role=\"server\""] {
        let failed = format!("rollout_probe_http_responses_total{{code_class=\"5xx\",origin=\"traffic\"{role}}}");
        let query = format!("sum by (revision) (increase({failed}[1m]))");
        let answer = prometheus.query(&query, now).unwrap();
        let ours = answer.iter().find(|(labels, _)| labels.get("revision").is_some_and(|label| label == revision));
        let (_, increase) = ours.unwrap_or_else(|| panic!("no revision {revision} in {answer:?}"));
        let rounding = 1e-6;
        assert!(
            (least - rounding..=most + rounding).contains(increase),
            "{query} says {increase} for revision {revision}, which must lie between {least} and {most}",
        );
    }
}

/// The true increase of one series within the window, and the most that `increase` may make of it.
fn certain_increase(samples: &[RawSample]) -> (f64, f64) {
    let ((first_time, first), (last_time, last)) = (samples[0], samples[samples.len() - 1]);
    let intervals = f64::from(u32::try_from(samples.len() - 1).unwrap());
    assert!(intervals > 0.0, "one sample has no increase: {samples:?}");
    let (span, distance) = (last_time - first_time, (last_time - first_time) / intervals);
    (last - first, (last - first) * (1.0 + 1.1 * distance / span))
}

fn selector(revision: &str) -> String {
    format!(
        "rollout_probe_http_responses_total{{code_class=\"5xx\",origin=\"traffic\",role=\"server\",revision=\"{revision}\"}}"
    )
}
