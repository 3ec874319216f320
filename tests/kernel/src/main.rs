//! Privileged tests: the programs that ship, attached to a played node, real servers and clients, exact counts.
//!
//! A test whose needs are not met here is reported as ignored, with a line `SKIPPED name: reason`; it never passes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod bodies;
mod connections;
mod daemon;
mod endings;
mod framing;
mod heads;
mod pods;
mod probes;
mod programs;
mod requirement;
mod rig;
mod servers;
mod wanted;

use std::{
    process::ExitCode,
    sync::{Mutex, MutexGuard, PoisonError},
};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use requirement::Requirement::{self, Bpftool, Cgroup2, Daemon, Ipv6, Root, Server};
use rig::{Bench, Rig};
use testbed::server::Kind;

const NGINX: Requirement = Server(Kind::Nginx);
const PYTHON: Requirement = Server(Kind::Python);
const NODE: Requirement = Server(Kind::Node);

/// The node that tests share. Made by the first that uses it; `main` drops it, for a static is never dropped by itself.
static RIG: Mutex<Option<Rig>> = Mutex::new(None);

fn main() -> ExitCode {
    testbed::run_child_if_asked();
    let mut arguments = Arguments::from_args();
    // One after the other, and in this very thread, whose end would end the processes it started.
    arguments.test_threads = Some(1);
    let conclusion = libtest_mimic::run(&arguments, trials());
    drop(rig().take());
    conclusion.exit_code()
}

fn rig() -> MutexGuard<'static, Option<Rig>> {
    RIG.lock().unwrap_or_else(PoisonError::into_inner) // a failed test leaves nothing half done in it
}

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in Kind::ALL {
        let name = kind.program();
        let mut test = |what: &str, more: &[Requirement], test: fn(&mut Bench, Kind)| {
            let needs = [&[Server(kind)], more].concat();
            trials.push(shared(&format!("{name}_{what}"), &needs, move |bench| test(bench, kind)));
        };
        test("keep_alive", &[], servers::keep_alive);
        test("connection_per_request", &[], servers::connection_per_request);
        test("ipv6", &[Ipv6], servers::ipv6);
        test("ipv4_to_dual_stack", &[Ipv6], servers::ipv4_to_dual_stack);
        test("closed_without_response", &[], endings::closed_without_response);
        if kind != Kind::Nginx {
            test("reset_without_response", &[], endings::reset_without_response);
            test("request_bodies", &[], bodies::request_bodies);
        }
    }
    let mut test = |name: &str, needs: &[Requirement], test: fn(&mut Bench)| trials.push(shared(name, needs, test));
    test("ten_thousand_requests_over_four_pods", &[NGINX, PYTHON, NODE], pods::ten_thousand_requests);
    test("sendfile_then_errors", &[NGINX], bodies::sendfile_then_errors);
    test("response_body_like_a_response", &[], bodies::response_body_like_a_response);
    test("request_body_like_a_request", &[], bodies::request_body_like_a_request);
    test("heads_split_at_every_byte", &[], heads::split_at_every_byte);
    test("heads_byte_by_byte", &[], heads::byte_by_byte);
    test("interim_responses", &[], heads::interim_responses);
    test("early_hints", &[NODE], heads::early_hints);
    test("expectation_failed", &[], heads::expectation_failed);
    test("switched_protocol", &[], heads::switched_protocol);
    test("vectors_on_sockets", &[Ipv6], framing::vectors_on_sockets);
    test("latencies_of_pipelined_requests", &[], framing::latencies_of_pipelined_requests);
    test("many_messages_in_large_segments", &[], framing::many_messages_in_large_segments);
    test("more_requests_than_the_queue_holds", &[], framing::more_requests_than_the_queue_holds);
    test("resets_by_phase", &[], endings::resets_by_phase);
    test("reset_by_server_before_any_request", &[], endings::reset_by_server_before_any_request);
    test("closed_with_request_unread", &[], endings::closed_with_request_unread);
    test("client_gives_up", &[], endings::client_gives_up);
    test("deferred_accept", &[NGINX, Ipv6], connections::deferred_accept);
    test("twenty_thousand_short_connections", &[NGINX], connections::twenty_thousand_short);
    test("other_protocols", &[], connections::other_protocols);
    test("probes_are_told_from_traffic", &[NGINX, Ipv6], probes::are_told_from_traffic);
    test("probes_port_used_again_is_traffic", &[], probes::port_used_again_is_traffic);
    test("probes_that_only_connect", &[NGINX, Ipv6], probes::that_only_connect);
    test("probes_closed_at_once", &[], probes::closed_at_once);
    test("programs_verifier_budget", &[], programs::verifier_budget_is_kept);
    let mut test = |name: &str, test: fn()| trials.push(trial(name, &[Daemon, Bpftool], test));
    test("daemon_bad_pods_files", daemon::bad_pods_files);
    test("daemon_bad_cgroup_roots", daemon::bad_cgroup_roots);
    test("daemon_no_capabilities", daemon::no_capabilities);
    test("daemon_bad_flags", daemon::bad_flags);
    test("daemon_address_in_use", daemon::address_in_use);
    test("daemon_leaves_nothing_attached", daemon::leaves_nothing_attached);
    trials.push(trial("connections_older_than_the_programs", &[], connections::older_than_the_programs));
    trials.push(trial("durations_in_buckets_as_asked_for", &[], framing::durations_in_buckets_as_asked_for));
    let needs = [NGINX, PYTHON, Bpftool];
    trials.push(trial(
        "programs_pass_everything_and_leave_nothing",
        &needs,
        programs::pass_everything_and_leave_nothing,
    ));
    trials
}

/// A test on the shared node, with the programs attached.
fn shared(name: &str, needs: &[Requirement], test: impl FnOnce(&mut Bench) + Send + 'static) -> Trial {
    trial(name, needs, move || {
        let mut rig = rig();
        let rig = rig.get_or_insert_with(|| {
            let mut rig = Rig::new();
            rig.attach();
            rig
        });
        test(&mut Bench::on(rig));
    })
}

/// A test that needs this, root and cgroup v2.
fn trial(name: &str, needs: &[Requirement], test: impl FnOnce() + Send + 'static) -> Trial {
    let needs = [&[Root, Cgroup2], needs].concat();
    let test_name = name.to_owned();
    Trial::ignorable_test(name, move || {
        let missing: Vec<_> = needs.iter().filter_map(|need| need.missing()).collect();
        if missing.is_empty() {
            test();
            return Ok(Completion::Completed);
        }
        let reason = missing.join("; ");
        eprintln!("SKIPPED {test_name}: {reason}");
        Ok::<_, Failed>(Completion::ignored_with(reason))
    })
}
