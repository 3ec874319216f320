//! The daemon as a program: what it says to bad input, and what is left attached when it ends.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use testbed::{daemon, node::PlayedNode, process::Process};

use crate::programs::attached;

const TIMEOUT: Duration = Duration::from_secs(20);
const FAILED: i32 = 1;
const USAGE: i32 = 64;

/// A pods file that is no pods file.
pub(crate) fn bad_pods_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let cases = [
        file("cut.json", r#"{"kind": "List", "items": [{"kind": "Pod", "#),
        file("tabs.yaml", "kind: List\nitems:\n\t- kind: Pod\n"),
        file("wrong.json", r#"{"kind": "Deployment", "metadata": {"name": "checkout"}}"#),
        file("empty.json", ""),
        dir.path().join("missing.json").display().to_string(),
        dir.path().display().to_string(),
    ];
    let node = PlayedNode::new().unwrap();
    for path in cases {
        assert_complains(&node, &run(&node, &path, &[]), FAILED, &[&path]);
    }
}

/// A cgroup root that is none.
pub(crate) fn bad_cgroup_roots() {
    let node = PlayedNode::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let pods = pods_file(dir.path());
    let missing = dir.path().join("missing");
    for path in [dir.path(), &missing, Path::new("/proc"), Path::new(&pods)] {
        let root = path.to_str().unwrap();
        let mut command = daemon_command();
        command.args(["--pods-file", &pods, "--cgroup-root", root, "--metrics-addr", "127.0.0.1:0"]);
        assert_complains(&node, &command, FAILED, &[root]);
    }
}

/// Root without capabilities, as in a container that was given none.
pub(crate) fn no_capabilities() {
    let node = PlayedNode::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = run(&node, &pods_file(dir.path()), &[]);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all"]).arg(daemon.get_program()).args(daemon.get_args());
    assert_complains(&node, &command, FAILED, &["BPF", "NET_ADMIN", "PERFMON"]);
}

/// All faults at once, each with its value.
pub(crate) fn bad_flags() {
    let node = PlayedNode::new().unwrap();
    let flags = ["--node-name", "Node A", "--log-format", "xml", "--probe-cgroup", "a/b", "--metrics-addr", "9478"];
    let mut command = daemon_command();
    command.args(flags).args(["--pods-file", "p", "--kubeconfig", "k"]);
    let said = complaint(&node, &command, USAGE);
    for value in ["`Node A`", "`xml`", "`a/b`", "`9478`", "`p`"] {
        assert_eq!(said.lines().filter(|line| line.contains(value)).count(), 1, "{value} in:\n{said}");
    }
    assert_eq!(said.lines().count(), 5, "a line for each fault:\n{said}");

    let mut command = daemon_command();
    command.arg("--pod-file=x");
    let said = complaint(&node, &command, USAGE);
    assert!(said.contains("--pod-file"), "{said}");
}

/// Another program has the port.
pub(crate) fn address_in_use() {
    let node = PlayedNode::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    assert_complains(&node, &run(&node, &pods_file(dir.path()), &["--metrics-addr", &address]), FAILED, &[&address]);
}

/// Whether it is asked to end or killed, the kernel keeps nothing of it.
pub(crate) fn leaves_nothing_attached() {
    let node = PlayedNode::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let pods = pods_file(dir.path());
    for (signal, code) in [(libc::SIGTERM, Some(0)), (libc::SIGKILL, None)] {
        let mut daemon = Process::spawn(run(&node, &pods, &[])).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        while attached(&node).len() < 3 {
            assert!(daemon.is_running() && Instant::now() < deadline, "not attached: {}", daemon.log_tail());
            thread::sleep(Duration::from_millis(50));
        }
        // Attached is not yet ready to be asked: a daemon that starts ends at once too.
        daemon.signal(signal);
        assert_eq!(daemon.wait(TIMEOUT).unwrap().code(), code, "{}", daemon.log_tail());
        wait_until_nothing_is_attached(&node);
    }
}

fn daemon_command() -> Command {
    let mut command = Command::new(daemon::binary().unwrap());
    command.arg("run").env_remove("NODE_NAME");
    command
}

fn run(node: &PlayedNode, pods: &str, more: &[&str]) -> Command {
    let mut command = daemon_command();
    command.args(["--pods-file", pods, "--cgroup-root"]).arg(node.cgroup());
    command.args(if more.is_empty() { &["--metrics-addr", "127.0.0.1:0"] } else { more });
    command
}

fn pods_file(dir: &Path) -> String {
    let path = dir.join("pods.json");
    fs::write(&path, r#"{"apiVersion": "v1", "kind": "List", "items": []}"#).unwrap();
    path.display().to_string()
}

/// One line that says what is wrong.
#[track_caller]
fn assert_complains(node: &PlayedNode, command: &Command, code: i32, values: &[&str]) {
    let said = complaint(node, command, code);
    assert_eq!(said.lines().count(), 1, "one clear line, but {command:?} said:\n{said}");
    for value in values {
        assert!(said.contains(value), "{command:?} does not name `{value}`: {said}");
    }
}

/// What it says when it ends with this code; nothing is left attached.
#[track_caller]
fn complaint(node: &PlayedNode, command: &Command, code: i32) -> String {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args()).env_remove("NODE_NAME");
    let mut daemon = Process::spawn(again).unwrap();
    let status = daemon.wait(TIMEOUT).unwrap();
    let said = daemon.log();
    assert_eq!(status.code(), Some(code), "{command:?} said:\n{said}");
    wait_until_nothing_is_attached(node);
    said
}

/// A link goes with the last reference to it, which the kernel may drop a moment after the process.
fn wait_until_nothing_is_attached(node: &PlayedNode) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while !attached(node).is_empty() {
        assert!(Instant::now() < deadline, "still attached: {:?}", attached(node));
        thread::sleep(Duration::from_millis(20));
    }
}
