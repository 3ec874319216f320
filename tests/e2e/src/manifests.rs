//! What `deploy/` ships, judged by a real API server: every manifest is accepted, and the RBAC grants what it says and no more.

use std::{fs, path::PathBuf};

use testbed::{controlplane::ControlPlane, shipped::manifest};

const SERVICE_ACCOUNT: &str = "system:serviceaccount:rollout-probe:rollout-probe";

/// The folder with prometheus-operator's CRDs, which this repository does not copy.
pub(crate) const CRDS_VARIABLE: &str = "ROLLOUT_PROBE_CRDS";
const PODMONITOR_CRD: &str = "prometheus-operator-podmonitors.yaml";

pub(crate) fn base_is_accepted_by_the_api_server(cluster: &ControlPlane) {
    assert_dry_run_accepts_all(cluster, "base");
    assert_dry_run_accepts_all(cluster, "owners");

    let base = cluster.kubectl(&["kustomize", &manifest("base")]).unwrap();
    let broken = base.replace("maxUnavailable: 10%", "maxUnavailable: ten");
    assert_ne!(base, broken, "the text to break is gone from the DaemonSet");
    let refused = cluster.kubectl_with_input(&["apply", "--dry-run=server", "-f", "-"], &broken);
    let error =
        format!("{:#}", refused.expect_err("the API server accepts a broken DaemonSet, so the dry run proves nothing"));
    assert!(error.contains("maxUnavailable"), "refused for another reason: {error}");
}

pub(crate) fn pod_monitor_is_accepted_by_the_api_server(cluster: &ControlPlane) {
    let crd = fs::read_to_string(crd_path().expect("checked before this test was started")).unwrap();
    // Some builds of kube-apiserver v1.20 read an empty default as null, and refuse it. It decides nothing here.
    let crd: String = crd.lines().filter(|line| line.trim() != "default: \"\"").flat_map(|line| [line, "\n"]).collect();
    cluster.kubectl_with_input(&["create", "-f", "-"], &crd).unwrap();
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
    assert_dry_run_accepts_all(cluster, "prometheus-operator");
}

pub(crate) fn rbac_grants_reading_pods_and_nothing_else(cluster: &ControlPlane) {
    let can = |verb: &str, resource: &str| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let mut command = cluster.kubectl_command();
        command.args(["auth", "can-i", verb, resource, "--subresource", subresource]);
        command.args(["--all-namespaces", "--as", SERVICE_ACCOUNT]);
        let answer = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(["yes", "no"].contains(&answer.trim()), "can-i {verb} {resource} answered {answer:?}");
        answer.trim() == "yes"
    };
    for verb in ["get", "list", "watch"] {
        assert!(can(verb, "pods"), "the daemon cannot {verb} pods");
    }
    for verb in ["create", "update", "patch", "delete", "deletecollection"] {
        assert!(!can(verb, "pods"), "the daemon may {verb} pods");
    }
    for resource in
        ["pods/log", "pods/exec", "pods/status", "secrets", "configmaps", "nodes", "services", "deployments.apps"]
    {
        assert!(!can("get", resource) && !can("update", resource), "the daemon may get or update {resource}");
    }

    // The same without a list of guesses: all that it has beyond an account that nobody bound to anything.
    let rules = |account: &str| cluster.kubectl(&["auth", "can-i", "--list", "--as", account]).unwrap();
    let (ours, unbound) = (rules(SERVICE_ACCOUNT), rules("system:serviceaccount:rollout-probe:unbound"));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let unbound: Vec<_> = unbound.lines().map(words).collect();
    let granted: Vec<_> = ours.lines().map(words).filter(|line| !unbound.contains(line)).collect();
    assert_eq!(granted, ["pods [] [] [get list watch]"]);
}

/// Where the `PodMonitor`'s CRD is; why it is not found otherwise.
pub(crate) fn crd_path() -> Result<PathBuf, String> {
    let dir = std::env::var_os(CRDS_VARIABLE).ok_or(format!("{CRDS_VARIABLE} is not set"))?;
    let path = PathBuf::from(dir).join(PODMONITOR_CRD);
    if path.is_file() { Ok(path) } else { Err(format!("{} does not exist", path.display())) }
}

/// `kubectl apply` stops at no error by itself: the number of accepted objects is compared with those that are shipped.
fn assert_dry_run_accepts_all(cluster: &ControlPlane, kustomization: &str) {
    let rendered = cluster.kubectl(&["kustomize", &manifest(kustomization)]).unwrap();
    let shipped = rendered.lines().filter(|line| line.starts_with("kind: ")).count();
    let accepted = cluster.kubectl(&["apply", "--dry-run=server", "-k", &manifest(kustomization)]).unwrap();
    let lines = accepted.lines().filter(|line| line.ends_with("(server dry run)")).count();
    assert!(shipped > 0 && lines == shipped, "{shipped} objects in {kustomization}, accepted:\n{accepted}");
}
