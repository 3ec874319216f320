//! A node with an nginx and a wrk that asks it, each on a CPU of its own where there are two.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use testbed::{
    node::{Host, PlayedNode},
    process::Process,
    server::{Kind, Options, Server},
};

/// What wrk may take beyond its time.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) struct Web {
    _server: Server, // first: ended while its place is still there
    pub(crate) pod: Host,
    pub(crate) user: Host,
    pub(crate) node: PlayedNode,
}

/// How wrk asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) path: &'static str,
    pub(crate) connections: u32,
    pub(crate) seconds: u64,
}

impl Web {
    /// One worker, no access log.
    pub(crate) fn start() -> Result<Self> {
        let mut node = PlayedNode::new()?;
        let pod = node.add_host("pod", "kubepods.slice/kubepods-podbench.slice/cri-containerd-bench.scope")?;
        let user = node.client("user")?;
        let options = Options { workers: 1, access_log: false, ..Options::new(Kind::Nginx) };
        let server = Server::start(&pod.place, options)?;
        Ok(Self { _server: server, pod, user, node })
    }

    /// Requests a second.
    pub(crate) fn ask(&self, load: Load) -> Result<f64> {
        let Load { path, connections, seconds } = load;
        let mut wrk = Command::new("wrk");
        wrk.args(["--threads", "1", "--connections", &connections.to_string()]);
        wrk.args(["--duration", &seconds.to_string(), &format!("http://{}:8080{path}", self.pod.ip)]);
        let mut wrk = Process::spawn_in(wrk, &self.user.place)?;
        let status = wrk.wait(Duration::from_secs(seconds) + GRACE)?;
        let log = wrk.log();
        ensure!(status.success() && !log.contains("Socket errors"), "wrk: {status}\n{log}");
        let rate = log.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
        rate.with_context(|| format!("wrk names no rate:\n{log}"))
    }
}

/// The cgroup of a host.
pub(crate) fn cgroup(host: &Host) -> Result<PathBuf> {
    host.place.cgroup.clone().context("every host of a node has a cgroup")
}
