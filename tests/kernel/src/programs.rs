//! The programs themselves: what they cost, that they let everything pass, and that nothing of them stays.

use std::{process::Command, time::Duration};

use rollout_probe::kernel::Cost;
use serde_json::Value;
use testbed::{
    load,
    node::{Host, PlayedNode},
    process::{Place, Process},
    server::{Kind, Options, Server},
};

use crate::rig::{Bench, Rig};

/// The verifier of kernels since 5.2 gives up at a million instructions; some are kept for kernels that need more.
const BUDGET: u32 = 900_000;

pub(crate) fn verifier_budget_is_kept(bench: &mut Bench) {
    let mut costs = bench.probe().costs();
    costs.sort_by(|a, b| a.program.cmp(&b.program));
    assert_eq!(costs.len(), 4, "{costs:?}");
    for Cost { program, verified, machine_code, .. } in costs {
        let verified = verified.expect("the kernel tells the verifier's cost since 5.16");
        println!("{program}: {verified} instructions verified, {machine_code} bytes of machine code");
        assert!(verified < BUDGET, "{program} took the verifier {verified} instructions of {BUDGET}");
    }
}

/// What is attached while a probe lives, and not afterwards; traffic passes before, meanwhile and after.
pub(crate) fn pass_everything_and_leave_nothing() {
    let mut rig = Rig::new();
    let mut bench = Bench::on(&mut rig);
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let _server = Server::start(&pod.place, Options::new(Kind::Nginx)).unwrap();
    let address = format!("{}:8080", pod.ip);
    let assert_passes = || {
        let tally = load::run(&user.place, &address, &[("/ok", 5), ("/large", 1)]).unwrap();
        assert_eq!((tally.responses[&200], tally.cut_short, tally.connections), (6, 0, 1));
        assert_datagrams_pass(&pod, &user);
    };

    assert_passes();
    assert_eq!(attached(&bench.rig.node), [""; 0]);
    bench.rig.attach();
    assert_passes();
    assert_eq!(attached(&bench.rig.node), ["cgroup_inet_egress", "cgroup_inet_ingress", "cgroup_sock_ops"]);
    bench.rig.probe = None;
    assert_eq!(attached(&bench.rig.node), [""; 0]);
    assert_passes();
}

/// A UDP datagram to the pod and its answer, which the programs have no other business with.
fn assert_datagrams_pass(pod: &Host, user: &Host) {
    const ECHO: &str = "import socket as s; u = s.socket(s.AF_INET, s.SOCK_DGRAM); u.bind(('', 9)); u.settimeout(5); \
                        d, a = u.recvfrom(9); u.sendto(d, a)";
    const ASK: &str = "import socket as s, sys; u = s.socket(s.AF_INET, s.SOCK_DGRAM); u.settimeout(.1)\n\
                       for _ in range(40):\n  u.sendto(b'hello', (sys.argv[1], 9))\n\
                       \x20 try: assert u.recvfrom(9)[0] == b'hello'; sys.exit(0)\n  except (TimeoutError, OSError): pass\n\
                       sys.exit('no answer')";
    let python = |script: &str, place: &Place, argument: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", script, argument]);
        Process::spawn_in(command, place).unwrap()
    };
    let _echo = python(ECHO, &pod.place, "");
    let mut ask = python(ASK, &user.place, &pod.ip);
    let status = ask.wait(Duration::from_secs(10)).unwrap();
    assert!(status.success(), "{}", ask.log_tail());
}

/// Attach types of all programs at the node's cgroup, as bpftool reads them from the kernel.
pub(crate) fn attached(node: &PlayedNode) -> Vec<String> {
    let shown = Command::new("bpftool").args(["--json", "cgroup", "show"]).arg(node.cgroup()).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let text = String::from_utf8(shown.stdout).unwrap();
    let programs: Vec<Value> = if text.trim().is_empty() { Vec::new() } else { serde_json::from_str(&text).unwrap() };
    let mut types: Vec<_> =
        programs.iter().map(|program| program["attach_type"].as_str().unwrap().to_owned()).collect();
    types.sort();
    types
}
