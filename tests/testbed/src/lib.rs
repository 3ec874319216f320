//! A played Kubernetes node, for the tests and the demo: real kernel, real sockets, real servers, no cluster.
//!
//! - [`node`] ties together what a node has: a [`network`], a [`cgroup`] tree, processes in their places ([`process`]).
//! - [`server`] are real web servers, [`load`] the exact load generator and probes, [`peer`] scripted ends of connections.
//! - [`daemon`] runs the real `rollout-probe` and reads its metrics; [`pods`] writes its pods file.
//! - [`counts`] compares what the daemon exports with what the clients saw.
//! - [`controlplane`] is a real API server with its controllers, [`kubelet`] plays the kubelet for it, [`prometheus`] is real.
//! - [`checkout`] is the Deployment that is rolled there, [`shipped`] what `deploy/` holds.
//!
//! [`wait`] is for whatever takes its time.
//!
//! A program that uses this calls [`run_child_if_asked`] first, and needs root for most of it. It starts itself again for
//! load, for probes and for its own supervision.

use std::env;

pub mod cgroup;
pub mod checkout;
pub mod controlplane;
pub mod counts;
pub mod daemon;
pub mod kubelet;
pub mod load;
pub mod network;
pub mod node;
pub mod peer;
pub mod pods;
pub mod process;
pub mod prometheus;
pub mod server;
pub mod shipped;
mod supervisor;
pub mod wait;

/// To be called first in `main`. Returns in the process that is to do the program's work; does not return in those that serve it:
/// children that make traffic, and the supervisor that cleans up when all is over.
pub fn run_child_if_asked() {
    let arguments: Vec<String> = env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let arguments: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let code = match arguments[..] {
        [load::CHILD, mode, spec] => load::child(mode, spec).map(|()| Some(0)),
        [peer::CHILD] => peer::child().map(|()| Some(0)),
        _ => supervisor::supervise(),
    };
    let code = code.unwrap_or_else(|error| {
        eprintln!("{error:#}");
        Some(1)
    });
    if let Some(code) = code {
        #[expect(
            clippy::disallowed_methods,
            reason = "this process has done all it is there for, and its caller's `main` is not meant for it"
        )]
        std::process::exit(code);
    }
}
