//! The main job, end to end: a Deployment is rolled from a good image to a faulty one by the real controllers, Kubernetes
//! calls it a success, and the daemon's counts per pod and revision equal, to the last one, what the clients saw. A real
//! Prometheus scrapes throughout and answers the query of the README.

use std::{collections::BTreeMap, time::Duration};

use testbed::{
    controlplane::ControlPlane,
    daemon::Daemon,
    kubelet::{Kubelet, PodRecord},
    load::TargetTally,
    node::PlayedNode,
    prometheus::Prometheus,
};

use crate::{
    counts::{self, PodCounts, expected},
    increase, traffic,
};

const NODE: &str = "played-node";
const NAMESPACE: &str = "shop";
const REPLICAS: usize = 2;

/// By pod name, what the load generator saw.
type Traffic = BTreeMap<String, TargetTally>;

pub(crate) fn counts_are_exact(cluster: &ControlPlane) {
    let mut node = PlayedNode::new().unwrap();
    let user = node.client("user").unwrap();
    let kubelet = Kubelet::start(cluster, NODE, node).unwrap();
    let kubeconfig = cluster.service_account_kubeconfig("rollout-probe", "rollout-probe").unwrap();
    let daemon = Daemon::start(&["--node-name", NODE, "--kubeconfig", kubeconfig.to_str().unwrap()]).unwrap();
    let prometheus = Prometheus::start(daemon.address(), Duration::from_secs(1)).unwrap();
    let mut seen = Traffic::new();

    cluster.kubectl(&["create", "namespace", NAMESPACE]).unwrap();
    cluster.kubectl_with_input(&["apply", "-f", "-"], &deployment("nginx-ok:1")).unwrap();
    assert_rolled_out(cluster);
    let first = serve_traffic("nginx-ok:1", cluster, &kubelet, &user, &prometheus, &mut seen);

    cluster.kubectl(&["--namespace", NAMESPACE, "set", "image", "deployment/checkout", "web=nginx-faulty:2"]).unwrap();
    assert_rolled_out(cluster); // although the new revision serves errors: its readiness probe does not exercise them
    let second = serve_traffic("nginx-faulty:2", cluster, &kubelet, &user, &prometheus, &mut seen);
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
    let revision = revision_of(cluster, image);
    let pods = kubelet.ready_pods(&revision).unwrap();
    assert_eq!(pods.len(), REPLICAS, "Ready pods of revision {revision}: {pods:?}");
    increase::wait_for_zeros(prometheus, &revision, REPLICAS);

    let mut failures = 0;
    for (pod, tally) in pods.iter().zip(traffic::send(user, &pods)) {
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
    counts::wait_for(daemon, &wanted);
}

fn assert_nothing_missed(daemon: &Daemon) {
    let samples = daemon.scrape().unwrap();
    for family in ["rollout_probe_unattributed_responses", "rollout_probe_lost_sync_total"] {
        let series: Vec<_> = samples.iter().filter(|sample| sample.name == family).collect();
        assert!(!series.is_empty() && series.iter().all(|sample| sample.value == 0.0), "{family}: {series:?}");
    }
}

fn assert_rolled_out(cluster: &ControlPlane) {
    let status = ["--namespace", NAMESPACE, "rollout", "status", "deployment/checkout", "--timeout=60s"];
    let said = cluster.kubectl(&status).unwrap_or_else(|error| panic!("{error:#}\n{}", describe(cluster)));
    assert!(said.contains("successfully rolled out"), "kubectl rollout status said: {said}");
}

fn describe(cluster: &ControlPlane) -> String {
    cluster.kubectl(&["--namespace", NAMESPACE, "describe", "deployments,replicasets,pods"]).unwrap_or_default()
}

/// The `pod-template-hash` of the `ReplicaSet` with this image.
fn revision_of(cluster: &ControlPlane, image: &str) -> String {
    let template =
        "{range .items[*]}{.spec.template.spec.containers[0].image} {.metadata.labels.pod-template-hash}{'\\n'}{end}";
    let jsonpath = format!("--output=jsonpath={template}");
    let listed = cluster.kubectl(&["--namespace", NAMESPACE, "get", "replicasets", &jsonpath]).unwrap();
    let hash = listed.lines().find_map(|line| line.strip_prefix(image)?.strip_prefix(' '));
    hash.unwrap_or_else(|| panic!("no ReplicaSet with image {image} in:\n{listed}")).to_owned()
}

fn deployment(image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: checkout, namespace: {NAMESPACE}}}
spec:
  replicas: {REPLICAS}
  selector: {{matchLabels: {{app: checkout}}}}
  template:
    metadata: {{labels: {{app: checkout}}}}
    spec:
      containers:
      - name: web
        image: {image}
        ports: [{{containerPort: 8080}}]
        readinessProbe: {{httpGet: {{path: /healthz, port: 8080}}, periodSeconds: 1}}
"
    )
}
