//! Pods are named by their owner's owner where the API lets the daemon read owners, and by their owner where it does not.

use std::{
    thread,
    time::{Duration, Instant},
};

use testbed::{
    controlplane::ControlPlane,
    daemon::Daemon,
    shipped::{self, manifest},
    wait,
};

const NAMESPACE: &str = "owners";
const NODE: &str = "owners-node";
/// An account beside the shipped one, so that what that may do stays as it is.
const ACCOUNT: &str = "reads-owners";
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn are_looked_up_where_allowed(cluster: &ControlPlane) {
    cluster.kubectl(&["create", "namespace", NAMESPACE]).unwrap();
    make_pods(cluster);
    allow(cluster);
    let found = |account| names(cluster, account);
    assert_eq!(found(ACCOUNT), ["CronJob backup ", "Deployment web 7"]);
    assert_eq!(found(shipped::SERVICE_ACCOUNT), ["Deployment web ", "Job backup-29384560 "]);
}

/// Two pods bound to a node that nobody plays: one of a `CronJob`'s Job, made by hand as no controller of theirs runs here, and one that a
/// `ReplicaSet` adopts.
fn make_pods(cluster: &ControlPlane) {
    let top = create(
        cluster,
        &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: backup, namespace: {NAMESPACE}}}\n"),
    );
    let job = create(
        cluster,
        &format!(
            "apiVersion: batch/v1
kind: Job
metadata:
  name: backup-29384560
  namespace: {NAMESPACE}
  ownerReferences: [{{apiVersion: v1, kind: CronJob, name: backup, uid: {top}, controller: true}}]
spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: app, image: backup}}]}}}}}}
"
        ),
    );
    let by_job = format!("{{apiVersion: batch/v1, kind: Job, name: backup-29384560, uid: {job}, controller: true}}");
    make_pod(cluster, "backup-29384560-x7k2p", "app: backup", &by_job);
    make_pod(cluster, "web-5d4f-q9w8e", "app: web, pod-template-hash: 5d4f", "");
    create(
        cluster,
        &format!(
            "apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: web-5d4f, namespace: {NAMESPACE}, annotations: {{deployment.kubernetes.io/revision: '7'}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: web}}}}
  template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: app, image: web}}]}}}}
"
        ),
    );
    let adopted = [
        "get",
        "pod",
        "web-5d4f-q9w8e",
        "--namespace",
        NAMESPACE,
        "--output=jsonpath={.metadata.ownerReferences[*].kind}",
    ];
    let is_adopted = || cluster.kubectl(&adopted).unwrap().trim() == "ReplicaSet";
    wait::until("the ReplicaSet to adopt its pod", TIMEOUT, is_adopted).unwrap();
}

fn make_pod(cluster: &ControlPlane, name: &str, labels: &str, owner: &str) {
    create(
        cluster,
        &format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {NAMESPACE}, labels: {{{labels}}}, ownerReferences: [{owner}]}}
spec: {{nodeName: {NODE}, containers: [{{name: app, image: app}}]}}
"
        ),
    );
}

/// Returns the uid.
fn create(cluster: &ControlPlane, object: &str) -> String {
    let uid = cluster.kubectl_with_input(&["create", "--output=jsonpath={.metadata.uid}", "-f", "-"], object).unwrap();
    uid.trim().to_owned()
}

/// The two shipped roles, for the account of this test.
fn allow(cluster: &ControlPlane) {
    cluster.kubectl(&["create", "serviceaccount", ACCOUNT, "--namespace", shipped::NAMESPACE]).unwrap();
    cluster.kubectl(&["apply", "-f", &manifest("owners/rbac.yaml")]).unwrap();
    cluster.kubectl(&["delete", "clusterrolebinding", "rollout-probe-owners"]).unwrap();
    let account = format!("--serviceaccount={}:{ACCOUNT}", shipped::NAMESPACE);
    for role in ["rollout-probe", "rollout-probe-owners"] {
        let (name, role) = (format!("{ACCOUNT}-{role}"), format!("--clusterrole={role}"));
        cluster.kubectl(&["create", "clusterrolebinding", &name, &role, &account]).unwrap();
    }
}

/// Kind, name and revision number of the workloads, as a daemon with this account exports them once it has asked for all.
fn names(cluster: &ControlPlane, account: &str) -> Vec<String> {
    let kubeconfig = cluster.service_account_kubeconfig(shipped::NAMESPACE, account).unwrap();
    let daemon = Daemon::start(&["--node-name", NODE, "--kubeconfig", kubeconfig.to_str().unwrap()]).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let samples = daemon.scrape().unwrap();
        let infos = samples.iter().filter(|sample| sample.name == "rollout_probe_revision_info");
        let name = |sample: &testbed::daemon::Sample| {
            format!("{} {} {}", sample.label("workload_kind"), sample.label("workload"), sample.label("number"))
        };
        let mut names: Vec<_> = infos.map(name).collect();
        names.sort();
        let asked = account != ACCOUNT || names.iter().any(|name| name.ends_with('7'));
        if names.len() == 2 && asked {
            return names;
        }
        assert!(Instant::now() < deadline, "after {TIMEOUT:?}: {names:?}\n{}", daemon.log());
        thread::sleep(Duration::from_millis(100));
    }
}
