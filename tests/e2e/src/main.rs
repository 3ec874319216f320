//! End-to-end tests: the shipped manifests and the real daemon beside a real control plane, a real Prometheus, real servers.
//!
//! One after the other, since all of them share the machine's cgroup root, and with one control plane for all.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod demo;
mod first_request;
mod increase;
mod manifests;
mod owners;
mod requirements;
mod rollout;

use std::{process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use requirements::Requirement::{self, ControlPlane as Cluster, Nginx, PodMonitorCrd, Prometheus, Root};
use testbed::{controlplane::ControlPlane, shipped};

fn main() -> ExitCode {
    testbed::run_child_if_asked();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1); // in this very thread, whose end would end the processes it started
    let needs_cluster = Requirement::ControlPlane.missing().is_none() && !arguments.list;
    let cluster = needs_cluster.then(|| Arc::new(start_cluster()));

    let mut trials = Vec::new();
    let with_cluster = |name: &str, needs: &[Requirement], test: fn(&ControlPlane)| {
        let cluster = cluster.clone();
        trial(name, &[&[Cluster], needs].concat(), move || test(cluster.as_deref().expect("it is a requirement")))
    };
    trials.push(with_cluster("deploy_base_accepted", &[], manifests::base_is_accepted_by_the_api_server));
    trials.push(with_cluster(
        "deploy_pod_monitor_accepted",
        &[PodMonitorCrd],
        manifests::pod_monitor_is_accepted_by_the_api_server,
    ));
    trials.push(with_cluster("deploy_rbac_reads_pods_only", &[], manifests::rbac_grants_reading_pods_and_nothing_else));
    trials.push(with_cluster("rollout_counts_are_exact", &[Root, Nginx, Prometheus], rollout::counts_are_exact));
    trials.push(with_cluster("owners_are_looked_up_where_allowed", &[Root], owners::are_looked_up_where_allowed));
    trials.push(trial("demo_ends_well", &[Root, Nginx], demo::ends_well));
    trials.push(trial("demo_interrupted_leaves_nothing", &[Root, Nginx], demo::interrupted_leaves_nothing));
    trials.push(trial("first_request_before_pod_is_known", &[Root, Nginx], first_request::is_counted));

    let conclusion = libtest_mimic::run(&arguments, trials);
    conclusion.exit_code()
}

fn start_cluster() -> ControlPlane {
    let cluster = ControlPlane::start().unwrap();
    shipped::apply_namespace_and_rbac(&cluster).unwrap();
    cluster
}

fn trial(name: &str, needs: &[Requirement], test: impl FnOnce() + Send + 'static) -> Trial {
    let missing: Vec<_> = needs.iter().filter_map(|need| need.missing()).collect();
    let test_name = name.to_owned();
    Trial::ignorable_test(name, move || {
        if missing.is_empty() {
            test();
            return Ok(Completion::Completed);
        }
        let reason = missing.join("; ");
        eprintln!("SKIPPED {test_name}: {reason}");
        Ok::<_, Failed>(Completion::ignored_with(reason))
    })
}
