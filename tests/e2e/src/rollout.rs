//! The main job, end to end: a Deployment is rolled from a good image to a faulty one by the real controllers, Kubernetes
//! calls it a success, and the daemon's counts per pod and revision equal, to the last one, what the clients saw. A real
//! Prometheus scrapes throughout and answers the query of the README.

use std::{collections::BTreeMap, time::Duration};

use testbed::{
    checkout::{self, FAULTY_IMAGE, GOOD_IMAGE, REPLICAS},
    controlplane::ControlPlane,
    counts::{self, PodCounts, expected},
    daemon::Daemon,
    kubelet::{Kubelet, PodRecord},
    load::{self, TargetTally},
    node::PlayedNode,
    prometheus::Prometheus,
    shipped,
};

use crate::increase;

const NODE: &str = "played-node";

/// What users ask of every pod. `/fail` and `/missing` fail in both revisions, the routes of the API only in the faulty one.
const MIX: [(&str, u32); 5] = [("/ok", 270), ("/missing", 20), ("/fail", 10), ("/api/pay", 150), ("/api/cart", 50)];

/// By pod name, what the load generator saw.
type Traffic = BTreeMap<String, TargetTally>;

pub(crate) fn counts_are_exact(cluster: &ControlPlane) {
    let mut node = PlayedNode::new().unwrap();
    let user = node.client("user").unwrap();
    let kubelet = Kubelet::start(cluster, NODE, node, ()).unwrap();
    let kubeconfig = cluster.service_account_kubeconfig(shipped::NAMESPACE, shipped::SERVICE_ACCOUNT).unwrap();
    let daemon = Daemon::start(&["--node-name", NODE, "--kubeconfig", kubeconfig.to_str().unwrap()]).unwrap();
    let prometheus = Prometheus::start(daemon.address(), Duration::from_secs(1)).unwrap();
    let mut seen = Traffic::new();

    checkout::apply(cluster, GOOD_IMAGE).unwrap();
    assert_rolled_out(cluster);
    let first = serve_traffic(GOOD_IMAGE, cluster, &kubelet, &user, &prometheus, &mut seen);

    checkout::apply(cluster, FAULTY_IMAGE).unwrap();
    assert_rolled_out(cluster); // although the new revision serves errors: its readiness probe does not exercise them
    let second = serve_traffic(FAULTY_IMAGE, cluster, &kubelet, &user, &prometheus, &mut seen);
    assert_ne!(first, second);

    kubelet.stop_probes().unwrap();
    let pods = kubelet.pods().unwrap();
    assert_eq!(pods.len(), 2 * REPLICAS, "pods that ever ran: {pods:?}");
    assert_counts(&daemon, &pods, &seen);
    assert_nothing_missed(&daemon);
    testbed::prometheus::promtool_check_metrics(&daemon.scrape_prometheus_text().unwrap()).unwrap();
}

/// Sends the users' traffic to the Ready pods of the revision that runs this image, and asks Prometheus how many of the
/// answers were 5xx. Returns the revision.
fn serve_traffic(
    image: &str,
    cluster: &ControlPlane,
    kubelet: &Kubelet,
    user: &testbed::node::Host,
    prometheus: &Prometheus,
    seen: &mut Traffic,
) -> String {
    let revision = checkout::revision(cluster, image).unwrap();
    let pods = kubelet.ready_pods(&revision).unwrap();
    assert_eq!(pods.len(), REPLICAS, "Ready pods of revision {revision}: {pods:?}");
    increase::wait_for_zeros(prometheus, &revision, REPLICAS);

    let mut failures = 0;
    for pod in &pods {
        let tally = load::run(&user.place, &format!("{}:{}", pod.ip, checkout::PORT), &MIX).unwrap();
        failures += tally.responses.iter().filter(|(code, _)| **code >= 500).map(|(_, count)| count).sum::<u64>();
        seen.insert(pod.name.clone(), tally);
    }
    assert!(failures > 0, "the traffic to {image} met no 5xx: nothing to find");
    increase::assert_matches(prometheus, &revision, failures);
    revision
}

/// All pods, all counts: nothing missing, nothing more.
fn assert_counts(daemon: &Daemon, pods: &[PodRecord], seen: &Traffic) {
    let mut wanted = PodCounts::new();
    for pod in pods {
        let counts = expected(&seen[&pod.name], pod.probes.as_ref());
        assert!(counts.contains_key("responses server probe 2xx"), "pod {} became Ready without a probe", pod.name);
        wanted.insert((pod.revision.clone(), pod.name.clone()), counts);
    }
    counts::wait_for(daemon, &wanted).unwrap();
}

fn assert_nothing_missed(daemon: &Daemon) {
    let samples = daemon.scrape().unwrap();
    for family in ["rollout_probe_unattributed_responses", "rollout_probe_lost_sync_total"] {
        let series: Vec<_> = samples.iter().filter(|sample| sample.name == family).collect();
        assert!(!series.is_empty() && series.iter().all(|sample| sample.value == 0.0), "{family}: {series:?}");
    }
}

fn assert_rolled_out(cluster: &ControlPlane) {
    let said = checkout::rollout_status(cluster).unwrap();
    assert!(said.contains("successfully rolled out"), "kubectl rollout status said: {said}");
}
