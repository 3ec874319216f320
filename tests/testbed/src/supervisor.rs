//! Cleans up after the program that uses the testbed, however that ends: by itself, by a panic, by Ctrl-C or SIGTERM, killed.
//!
//! The program is started a second time and does its work there. The first one waits, then kills what is left of its
//! descendants and removes what they made: files (all in a temporary directory of its own), network namespaces and cgroups
//! (by their names). So nothing else in the testbed has to think of signals.

use std::{
    env, fs,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus},
};

use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    sys::{
        prctl::set_child_subreaper,
        signal::{Signal, kill},
        wait::wait,
    },
    unistd::{Pid, getpid, getppid},
};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{
    cgroup, network,
    process::{Place, spawn_placed},
};

/// Exit code of a program that was interrupted, as shells have it.
const INTERRUPTED: i32 = 130;
/// Holds the supervisor's process id.
const VARIABLE: &str = "ROLLOUT_PROBE_TEST_SUPERVISOR";

/// The beginning of all names that the process with this id gives to network namespaces and cgroups.
pub(crate) fn prefix(process_id: u32) -> String {
    format!("rollout-probe-test-{process_id}-")
}

/// Nothing in the second process, at once; in the first one the exit code to give, when all is over.
pub(crate) fn supervise() -> Result<Option<i32>> {
    if env::var(VARIABLE).is_ok_and(|id| id == getppid().to_string()) {
        return Ok(None);
    }
    let dir = tempfile::Builder::new().prefix("rollout-probe-test-").tempdir()?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD])?;
    set_child_subreaper(true)?; // what descendants leave behind becomes our child
    let mut command = Command::new("/proc/self/exe");
    let mut arguments = env::args_os();
    command.arg0(arguments.next().unwrap_or_default()).args(arguments);
    command.env(VARIABLE, getpid().to_string()).env("TMPDIR", dir.path());
    let child = spawn_placed(&mut command, &Place::default())?;
    let prefix = prefix(child.id());

    let code = wait_for(child, &mut signals)?;
    kill_children()?;
    network::remove_all(&prefix)?;
    if cgroup::mount_point().is_ok() {
        cgroup::remove_all(&prefix)?;
    }
    dir.close().context("cannot remove the temporary directory")?;
    Ok(Some(code))
}

/// The exit code to give.
fn wait_for(mut child: Child, signals: &mut Signals) -> Result<i32> {
    for signal in signals.forever() {
        if signal != SIGCHLD {
            child.kill()?;
            child.wait()?;
            eprintln!("interrupted: cleaning up");
            return Ok(INTERRUPTED);
        }
        if let Some(status) = child.try_wait()? {
            return Ok(code(status));
        }
    }
    Ok(code(child.wait()?)) // never: the signals have no end
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Until there are no more: the children of those that are killed become ours.
fn kill_children() -> Result<()> {
    loop {
        for child in children() {
            // Fails only when it has ended already.
            let _killed = kill(child, Signal::SIGKILL);
        }
        match wait() {
            Err(Errno::ECHILD) => return Ok(()),
            other => other?,
        };
    }
}

fn children() -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent(*id) == Some(getpid())).map(Pid::from_raw).collect()
}

fn parent(id: i32) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().map(Pid::from_raw)
}
