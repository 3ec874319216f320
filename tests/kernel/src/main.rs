//! Privileged tests: the programs that ship, attached to a played node, real servers and clients, exact counts.
//!
//! A test whose needs are not met here is reported as ignored, with a line `SKIPPED name: reason`; it never passes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod bench;
mod requirement;
mod servers;
mod wanted;

use std::{
    process::ExitCode,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bench::{Bench, Rig};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use requirement::Requirement::{self, Cgroup2, Ipv6, Root, Server};
use testbed::server::Kind;

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
    }
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
