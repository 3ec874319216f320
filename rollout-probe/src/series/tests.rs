mod contract;

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use k8s_openapi::api::core::v1::Pod;
use prometheus_client::{encoding::text, registry::Registry};
use rollout_probe_common::{
    abi::{CodeKey, Tally, TallyKey},
    outcome::{CodeClass, LostSync, NoResponse, Origin, Phase, Protocol, Role},
};
use serde_json::json;

use super::{NodeCollector, SERIES_PER_CONTAINER};
use crate::{
    cgroup::{CgroupId, ContainerId, Place, PodUid},
    exposition::Format,
    hook::Hooks,
    ledger::Counters,
    naming::Naming,
    node::Node,
    pod_record::PodRecord,
};

const UID: &str = "0b1f9c6e-3c5d-4a7e-9f21-8a1b2c3d4e5f";

fn pod() -> PodRecord {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "checkout-5d4f8c7b9d-x2x4z", "namespace": "shop", "uid": UID,
            "labels": {"pod-template-hash": "5d4f8c7b9d"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "checkout-5d4f8c7b9d", "uid": "x", "controller": true,
            }],
        },
        "spec": {"containers": [{"name": "app", "image": "shop/checkout:7"}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{
            "name": "app", "image": "x", "imageID": "", "ready": true, "restartCount": 0,
            "containerID": format!("containerd://{}", "a".repeat(64)),
        }]},
    }))
    .expect("a pod");
    PodRecord::from_pod(&pod, &Naming::default()).expect("it has a uid")
}

/// What the kernel would have counted for cgroup 7: two answers, one of them 503, a dropped request, and resets.
fn counters() -> Counters {
    let key = |origin, protocol| TallyKey { cgroup: 7, role: Role::SERVER, origin, protocol, reserved: [0; 5] };
    let mut http = Tally::ZERO;
    http.responses[CodeClass::SUCCESSFUL.index()] = 1;
    http.responses[CodeClass::SERVER_ERROR.index()] = 1;
    http.no_response[NoResponse::CLOSED.index()] = 1;
    http.duration_buckets[0] = 1;
    http.duration_buckets[15] = 1;
    http.duration_sum_ns = 72_000_500_000;
    let mut tcp = Tally::ZERO;
    tcp.connections = 3;
    tcp.resets_sent[Phase::OUTSTANDING.index()] = 1;
    let mut probes = Tally::ZERO;
    probes.connections = 2;
    let code = CodeKey {
        cgroup: 7,
        status: 503,
        role: Role::SERVER,
        origin: Origin::TRAFFIC,
        protocol: Protocol::HTTP1,
        reserved: [0; 3],
    };
    let mut counters = Counters {
        tallies: vec![
            (key(Origin::TRAFFIC, Protocol::HTTP1), http),
            (key(Origin::TRAFFIC, Protocol::TCP), tcp),
            (key(Origin::PROBE, Protocol::TCP), probes),
        ],
        codes: vec![(code, 1)],
        ..Counters::default()
    };
    counters.lost_sync[LostSync::MID_STREAM.index()] = 4;
    counters
}

fn metrics(format: Format) -> String {
    let mut node = Node { name: "node-a".to_owned(), ..Node::default() };
    node.index.apply(pod(), Instant::now());
    node.ledger.cgroup_created(CgroupId(7), Place::Container(PodUid::new(UID), ContainerId::new(&"a".repeat(64))));
    node.ledger.observe(counters(), &node.index);
    node.health.hooks = Hooks::required(["sock_ops"]);
    node.health.hooks.optional("tcp_receive_reset", Err("no tracefs".to_owned()));
    node.health.pods_heard = Some(Instant::now());
    format.render(encode(node))
}

fn encode(node: Node) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(NodeCollector(Arc::new(Mutex::new(node)))));
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("a string takes everything");
    out
}

/// All lines of one family, whole.
fn family(metrics: &str, name: &str) -> String {
    let is_of = |line: &&str| {
        let line = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| {
            rest.starts_with([' ', '{'])
                || rest.starts_with("_bucket{")
                || rest.starts_with("_sum{")
                || rest.starts_with("_count{")
        })
    };
    metrics.lines().filter(is_of).collect::<Vec<_>>().join("\n")
}

const IDENTITY: &str = r#"namespace="shop",pod="checkout-5d4f8c7b9d-x2x4z",container="app",workload="checkout",workload_kind="Deployment",revision="5d4f8c7b9d""#;

#[track_caller]
fn assert_family(name: &str, expected: &str) {
    let found = family(&metrics(Format::Prometheus), name);
    assert_eq!(found, expected.replace("IDENTITY", IDENTITY));
}

#[test]
fn responses_have_every_class_from_the_start() {
    assert_family(
        "rollout_probe_http_responses_total",
        "# HELP rollout_probe_http_responses_total HTTP responses by class of their status code, one per final response head at each end's socket\n\
# TYPE rollout_probe_http_responses_total counter\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"traffic\",protocol=\"http1\",code_class=\"1xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"traffic\",protocol=\"http1\",code_class=\"2xx\"} 1\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"traffic\",protocol=\"http1\",code_class=\"3xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"traffic\",protocol=\"http1\",code_class=\"4xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"traffic\",protocol=\"http1\",code_class=\"5xx\"} 1\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"probe\",protocol=\"http1\",code_class=\"1xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"probe\",protocol=\"http1\",code_class=\"2xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"probe\",protocol=\"http1\",code_class=\"3xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"probe\",protocol=\"http1\",code_class=\"4xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"server\",origin=\"probe\",protocol=\"http1\",code_class=\"5xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"client\",origin=\"traffic\",protocol=\"http1\",code_class=\"1xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"client\",origin=\"traffic\",protocol=\"http1\",code_class=\"2xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"client\",origin=\"traffic\",protocol=\"http1\",code_class=\"3xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"client\",origin=\"traffic\",protocol=\"http1\",code_class=\"4xx\"} 0\n\
rollout_probe_http_responses_total{IDENTITY,role=\"client\",origin=\"traffic\",protocol=\"http1\",code_class=\"5xx\"} 0",
    );
}

#[test]
fn error_codes_and_missing_responses_are_there() {
    assert_family(
        "rollout_probe_http_response_codes_total",
        "# HELP rollout_probe_http_response_codes_total HTTP responses with a status code of 400 or more\n\
# TYPE rollout_probe_http_response_codes_total counter\n\
rollout_probe_http_response_codes_total{IDENTITY,role=\"server\",origin=\"traffic\",protocol=\"http1\",code=\"503\"} 1",
    );
    let found = family(&metrics(Format::Prometheus), "rollout_probe_http_no_response_total");
    let expected = format!(
        "rollout_probe_http_no_response_total{{{IDENTITY},role=\"server\",origin=\"traffic\",reason=\"closed\"}} 1"
    );
    assert!(found.lines().any(|line| line == expected), "{found}");
}

#[test]
fn connections_of_both_origins_are_one_series() {
    assert_family(
        "rollout_probe_tcp_connections_total",
        "# HELP rollout_probe_tcp_connections_total TCP connections established\n\
# TYPE rollout_probe_tcp_connections_total counter\n\
rollout_probe_tcp_connections_total{IDENTITY,role=\"server\"} 5\n\
rollout_probe_tcp_connections_total{IDENTITY,role=\"client\"} 0",
    );
}

#[test]
fn durations_are_a_cumulative_histogram_in_seconds() {
    let found = family(&metrics(Format::Prometheus), "rollout_probe_http_request_duration_seconds");
    let labels = format!("{IDENTITY},role=\"server\",origin=\"traffic\"");
    for line in [
        format!("rollout_probe_http_request_duration_seconds_sum{{{labels}}} 72.0005"),
        format!("rollout_probe_http_request_duration_seconds_count{{{labels}}} 2"),
        format!("rollout_probe_http_request_duration_seconds_bucket{{le=\"0.001\",{labels}}} 1"),
        format!("rollout_probe_http_request_duration_seconds_bucket{{le=\"60.0\",{labels}}} 1"),
        format!("rollout_probe_http_request_duration_seconds_bucket{{le=\"+Inf\",{labels}}} 2"),
    ] {
        assert!(found.lines().any(|found| found == line), "no {line}\nin {found}");
    }
}

#[test]
fn pod_info_names_node_and_uid() {
    let found = family(&metrics(Format::Prometheus), "rollout_probe_pod_info");
    let expected = format!(
        "rollout_probe_pod_info{{namespace=\"shop\",pod=\"checkout-5d4f8c7b9d-x2x4z\",workload=\"checkout\",workload_kind=\"Deployment\",revision=\"5d4f8c7b9d\",node=\"node-a\",uid=\"{UID}\"}} 1"
    );
    assert!(found.lines().any(|line| line == expected), "{found}");
}

#[test]
fn state_of_pods_and_revisions_is_there() {
    let text = metrics(Format::Prometheus);
    let revision = r#"namespace="shop",workload="checkout",workload_kind="Deployment",revision="5d4f8c7b9d""#;
    let pod = revision.replace("shop\",", "shop\",pod=\"checkout-5d4f8c7b9d-x2x4z\",");
    for line in [
        format!("rollout_probe_pod_phase{{{pod},phase=\"Running\"}} 1"),
        format!("rollout_probe_pod_ready{{{pod}}} 1"),
        format!("rollout_probe_pod_restarts{{{pod}}} 0"),
        format!("rollout_probe_pod_failure{{{pod},class=\"cannot_start\"}} 0"),
        format!("rollout_probe_pod_failure{{{pod},class=\"not_ready\"}} 0"),
        format!("rollout_probe_pod_failure{{{pod},class=\"serving_errors\"}} 1"),
        format!("rollout_probe_revision_info{{{revision},images=\"shop/checkout:7\",number=\"\"}} 1"),
        format!("rollout_probe_revision_first_seen_timestamp_seconds{{{revision}}} 1767225600"),
        "rollout_probe_excluded_responses 0".to_owned(),
        "rollout_probe_overflow_pods_total 0".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "no {line}\nin {text}");
    }
}

#[test]
fn a_container_has_no_more_series_than_the_limit_counts_with() {
    let mut node = Node::default();
    node.index.apply(pod(), Instant::now());
    node.ledger.cgroup_created(CgroupId(7), Place::Container(PodUid::new(UID), ContainerId::new(&"a".repeat(64))));
    let mut all = Tally::ZERO;
    all.responses = [1; CodeClass::COUNT];
    all.duration_buckets[0] = 1;
    let sides = [(Role::SERVER, Origin::TRAFFIC), (Role::SERVER, Origin::PROBE), (Role::CLIENT, Origin::TRAFFIC)];
    let tallies = sides
        .map(|(role, origin)| (TallyKey { cgroup: 7, role, origin, protocol: Protocol::HTTP1, reserved: [0; 5] }, all));
    node.ledger.observe(Counters { tallies: tallies.to_vec(), ..Counters::default() }, &node.index);
    let text = encode(node);
    let series = text.lines().filter(|line| line.contains("container=\"app\"")).count();
    assert!((80..=SERIES_PER_CONTAINER).contains(&series), "{series} series");
}

#[test]
fn blind_spots_are_numbers() {
    let text = metrics(Format::Prometheus);
    for line in [
        "rollout_probe_lost_sync_total{reason=\"mid_stream\"} 4",
        "rollout_probe_unattributed_responses{reason=\"pod_unknown\"} 0",
        "rollout_probe_hook_state{hook=\"tcp_receive_reset\",state=\"unavailable\"} 1",
        "rollout_probe_hook_state{hook=\"sock_ops\",state=\"active\"} 1",
        "rollout_probe_map_entries{map=\"tallies\"} 3",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line}");
    }
}

#[test]
fn open_metrics_ends_with_its_mark_and_has_the_same_samples() {
    let (open, text) = (metrics(Format::OpenMetrics), metrics(Format::Prometheus));
    assert!(open.ends_with("# EOF\n"));
    let samples = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.contains("metadata_age"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(samples(&open), samples(&text));
}
