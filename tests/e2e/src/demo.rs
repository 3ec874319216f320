//! The README's demo: it ends well, and it leaves nothing behind when it is interrupted.

use std::{env, fs, os::unix::process::ExitStatusExt, path::PathBuf, process::Command, time::Duration};

use testbed::{cgroup, controlplane::ASSETS_VARIABLE, process::Process, wait};

const TIMEOUT: Duration = Duration::from_mins(1);

/// With a pods file; that the same Deployment rolls on a real control plane, another test shows.
pub(crate) fn ends_well() {
    let mut demo = start();
    let status = demo.wait(TIMEOUT).unwrap();
    let log = demo.log();
    assert!(status.success(), "{status}\n{log}");
    assert!(log.ends_with("Every count of all 4 pods equals what the users and the kubelet saw.\n"), "{log}");
    assert!(log.contains(r#"code_class="5xx"} "#), "no raw series of errors:\n{log}");
}

pub(crate) fn interrupted_leaves_nothing() {
    let mut demo = start();
    wait::until("revision 2", TIMEOUT, || demo.log().contains("rolling out revision 2")).unwrap();
    let worker = fs::read_to_string(format!("/proc/{0}/task/{0}/children", demo.id())).unwrap();
    let prefix = format!("rollout-probe-test-{}-", worker.trim());
    assert!(!left(&prefix).is_empty(), "nothing is named {prefix}*, so this would pass whatever is left");

    demo.signal(nix::libc::SIGINT);
    let status = demo.wait(TIMEOUT).unwrap();
    assert_eq!((status.code(), status.signal()), (Some(130), None), "{}", demo.log());
    assert_eq!(left(&prefix), Vec::<PathBuf>::new());
}

fn start() -> Process {
    let dirs = env::current_exe().unwrap();
    let program = dirs.ancestors().map(|dir| dir.join("demo")).find(|path| path.is_file());
    let mut command = Command::new(program.expect("no demo beside the tests: run `cargo build -p demo`"));
    command.env_remove(ASSETS_VARIABLE);
    Process::spawn(command).unwrap()
}

/// Network namespaces and cgroups whose names begin like this.
fn left(prefix: &str) -> Vec<PathBuf> {
    let dirs = [PathBuf::from("/run/netns"), cgroup::mount_point().unwrap()];
    let entries = dirs.into_iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).map(|entry| entry.path()).collect()
}
