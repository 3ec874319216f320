//! A private network of named network namespaces: one for the node, with a bridge, and one for each host, joined to the bridge
//! by a veth pair. Every host has one IPv4 address (198.18.0.0/16, set aside for benchmarks) and one IPv6 address (`fd00::/64`).
//!
//! The machine's own namespace is left as it is: nothing in here can reach it, or the other way round. Removed on drop.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

const NETNS_DIR: &str = "/run/netns";
const BRIDGE: &str = "br0";

/// The network of one node.
#[derive(Debug)]
pub struct Network {
    prefix: String,
    hosts: u16,
}

/// Where a host is to be found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    pub netns: String,
    /// IPv4.
    pub ip: String,
    pub ip6: String,
}

impl Network {
    /// A node alone. The names of all namespaces begin with `prefix`.
    pub fn new(prefix: &str) -> Result<Self> {
        let network = Self { prefix: prefix.to_owned(), hosts: 1 }; // first: whatever fails below, drop cleans up
        let node = network.node_netns();
        ip("", &[format!("netns add {node}")])?;
        let mut lines = vec![format!("link add {BRIDGE} type bridge"), format!("link set {BRIDGE} up")];
        lines.extend(addresses(1, BRIDGE));
        ip(&node, &lines)?;
        Ok(network)
    }

    /// The node's own namespace, with the bridge's addresses.
    pub fn node_netns(&self) -> String {
        format!("{}-node", self.prefix)
    }

    /// A new host. Its name need not be unique.
    pub fn add_host(&mut self, name: &str) -> Result<Endpoint> {
        self.hosts += 1;
        let number = self.hosts;
        let netns = format!("{}-{number}-{name}", self.prefix);
        ip("", &[format!("netns add {netns}")])?;
        let veth = format!("veth{number}");
        ip(
            &self.node_netns(),
            &[
                format!("link add {veth} type veth peer name eth0 netns {netns}"),
                format!("link set {veth} master {BRIDGE} up"),
            ],
        )?;
        let mut lines = vec!["link set eth0 up".to_owned()];
        lines.extend(addresses(number, "eth0"));
        ip(&netns, &lines)?;
        Ok(Endpoint { netns, ip: ipv4(number), ip6: ipv6(number) })
    }

    /// Takes a host away, with whatever connections it still had.
    pub fn remove_host(&self, netns: &str) -> Result<()> {
        remove(netns)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Err(error) = remove_all(&format!("{}-", self.prefix)) {
            eprintln!("cannot remove the network {}: {error:#}", self.prefix);
        }
    }
}

/// Removes every network namespace whose name begins with this.
pub(crate) fn remove_all(prefix: &str) -> Result<()> {
    for name in names_with(Path::new(NETNS_DIR), prefix) {
        remove(&name)?;
    }
    Ok(())
}

/// What in this directory begins with `prefix`; nothing if there is no such directory.
pub(crate) fn names_with(dir: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

fn remove(netns: &str) -> Result<()> {
    ip("", &[format!("netns del {netns}")])
}

fn ipv4(number: u16) -> String {
    let [high, low] = number.to_be_bytes();
    format!("198.18.{high}.{low}")
}

fn ipv6(number: u16) -> String {
    format!("fd00::{number:x}")
}

/// Commands that give a device and the loopback device what they need. `nodad`: an address that duplicate address detection
/// still looks at cannot be used.
fn addresses(number: u16, device: &str) -> Vec<String> {
    let mut lines = vec!["link set lo up".to_owned(), format!("addr add {}/16 dev {device}", ipv4(number))];
    if Path::new("/proc/net/if_inet6").exists() {
        lines.push(format!("addr add {}/64 dev {device} nodad", ipv6(number)));
    }
    lines
}

/// Runs iproute2 commands, in a namespace unless it is empty.
fn ip(netns: &str, lines: &[String]) -> Result<()> {
    let mut command = Command::new("ip");
    if !netns.is_empty() {
        command.args(["-n", netns]);
    }
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run ip (of iproute2)")?;
    // If it does not read all, it says why below.
    let _written = child.stdin.take().context("stdin is piped")?.write_all(lines.join("\n").as_bytes());
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "ip {}: {}", lines.join("; "), String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ipv4, ipv6};

    #[test]
    fn host_number_is_in_both_addresses() {
        assert_eq!((ipv4(2), ipv6(2)), ("198.18.0.2".into(), "fd00::2".into()));
        assert_eq!((ipv4(300), ipv6(300)), ("198.18.1.44".into(), "fd00::12c".into()));
    }
}
