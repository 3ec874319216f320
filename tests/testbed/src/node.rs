//! One played node: a network of its own, its part of the cgroup tree, and pods as a kubelet and a container runtime make them.
//!
//! Owns where things are, and removes all of it on drop, with whatever still runs there. What runs belongs to the caller.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{
    cgroup::{self, CgroupTree, Driver, KUBELET, container_path},
    network::{Endpoint, Network},
    process::Place,
    server::{Kind, Options, Server},
    supervisor,
};

/// How long a server may take to finish what it has begun.
const QUIT_TIMEOUT: Duration = Duration::from_secs(10);

static NODES: AtomicU32 = AtomicU32::new(0);

/// A node without pods, its kubelet's cgroup and the bridge that joins all its hosts.
#[derive(Debug)]
pub struct PlayedNode {
    cgroups: CgroupTree, // first: with it ends what runs in the network
    network: Network,
    driver: Driver,
}

/// A machine or a pod on the node's network.
#[derive(Clone, Debug)]
pub struct Host {
    pub place: Place,
    /// IPv4.
    pub ip: String,
    pub ip6: String,
}

/// A pod with one container, in which nginx serves.
#[derive(Debug)]
pub struct NginxPod {
    pub host: Host,
    /// The container's, without the runtime's name before it.
    pub id: String,
    pub server: Server,
}

impl PlayedNode {
    /// With cgroups as the systemd driver names them, which most clusters use.
    pub fn new() -> Result<Self> {
        Self::with_driver(Driver::Systemd)
    }

    /// With cgroups as this driver names them.
    pub fn with_driver(driver: Driver) -> Result<Self> {
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}", supervisor::prefix(process::id()));
        let cgroups = CgroupTree::new(&name)?;
        cgroups.create(KUBELET)?;
        Ok(Self { cgroups, network: Network::new(&name)?, driver })
    }

    /// The root of the node's part of the cgroup tree.
    pub fn cgroup(&self) -> &Path {
        self.cgroups.root()
    }

    /// Where the kubelet runs: its probes come from there.
    pub fn kubelet_place(&self) -> Place {
        Place { netns: Some(self.network.node_netns()), cgroup: Some(self.cgroup().join(KUBELET)) }
    }

    /// A client of the pods, which is no pod itself.
    pub fn client(&mut self, name: &str) -> Result<Host> {
        self.add_host(name, format!("system.slice/{name}.service"))
    }

    /// A host whose processes are in this cgroup, named from the node's root.
    pub fn add_host(&mut self, name: &str, cgroup: impl AsRef<Path>) -> Result<Host> {
        let cgroup = self.cgroups.create(cgroup)?;
        let Endpoint { netns, ip, ip6 } = self.network.add_host(name)?;
        Ok(Host { place: Place { netns: Some(netns), cgroup: Some(cgroup) }, ip, ip6 })
    }

    /// A pod with this uid whose nginx listens. A faulty one fails on some routes, not on the one that probes ask for.
    pub fn run_nginx(&mut self, uid: &str, faulty: bool, port: u16) -> Result<NginxPod> {
        let id = container_id(uid);
        let host = self.add_host("pod", container_path(self.driver, uid, &id))?;
        let server = Server::start(&host.place, Options { port, faulty, ..Options::new(Kind::Nginx) })?;
        Ok(NginxPod { host, id, server })
    }

    /// Ends a pod as a kubelet does: its server finishes what it has begun, then its network and its cgroup go.
    pub fn remove_pod(&mut self, pod: NginxPod) -> Result<()> {
        let NginxPod { host, id: _, mut server } = pod;
        server.quit(QUIT_TIMEOUT)?;
        drop(server);
        self.remove_host(&host)
    }

    fn remove_host(&mut self, host: &Host) -> Result<()> {
        if let Some(netns) = &host.place.netns {
            self.network.remove_host(netns)?;
        }
        let container = host.place.cgroup.as_deref().context("every host of a node has a cgroup")?;
        cgroup::remove(&pod_cgroup(container))
    }
}

/// The cgroup of a pod, that above its container's.
fn pod_cgroup(container: &Path) -> PathBuf {
    container.parent().unwrap_or(container).to_path_buf()
}

/// 64 hex digits, as a runtime gives; another pod has others.
fn container_id(uid: &str) -> String {
    let part = |number: u8| {
        let mut hasher = DefaultHasher::new();
        (uid, number).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    };
    (0..4).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::container_id;

    #[test]
    fn container_id_is_64_hex_digits_of_its_pod_alone() {
        let id = container_id("7b1f0c52-6a3e");
        assert!(id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert_ne!(id, container_id("7b1f0c52-6a3f"));
    }
}
