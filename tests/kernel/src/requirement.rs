//! What a test needs of the machine. A test whose needs are not met is reported as ignored, with the reason: never as passed.

use std::{fs, path::Path};

use testbed::{
    daemon,
    server::{self, Kind},
};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Requirement {
    Root,
    Cgroup2,
    Ipv6,
    Server(Kind),
    Bpftool,
    /// The built program.
    Daemon,
}

impl Requirement {
    /// Why it is not met here, if so.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Self::Root => (!nix::unistd::geteuid().is_root()).then(|| "it needs root".to_owned()),
            Self::Cgroup2 => (!has_cgroup2()).then(|| "cgroup v2 is not mounted".to_owned()),
            Self::Ipv6 => (!Path::new("/proc/net/if_inet6").exists()).then(|| "the kernel has no IPv6".to_owned()),
            Self::Server(kind) => not_installed(kind.program(), server::missing().contains(&kind.program())),
            Self::Daemon => daemon::binary().err().map(|error| format!("{error:#}")),
            Self::Bpftool => {
                let dirs = ["/usr/sbin", "/usr/bin", "/sbin", "/usr/local/sbin"];
                not_installed("bpftool", !dirs.iter().any(|dir| Path::new(dir).join("bpftool").is_file()))
            }
        }
    }
}

fn not_installed(program: &str, missing: bool) -> Option<String> {
    missing.then(|| format!("{program} is not installed"))
}

fn has_cgroup2() -> bool {
    fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| mounts.contains(" - cgroup2 "))
}
