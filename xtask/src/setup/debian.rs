//! System packages of the demo, the benchmarks and the tests: real servers, a real Prometheus, what makes a control plane. On Debian and
//! its derivatives they are installed by `apt-get`, without letting any package start its service.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use super::Purpose;
use crate::host;
use crate::interrupt::Interrupt;

/// A program and the Debian package that brings it. The program is looked for, not the package: where it comes from
/// does not matter.
struct Tool {
    program: &'static str,
    package: &'static str,
    needed: Needed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Needed {
    ByAll,
    ByBenchmarks,
    /// By the tests, and by a demo with a real API server.
    WithControlPlane,
    ByTests,
    /// By the tests on other kernels, beside what all tests need.
    ByVm,
}

const TOOLS: &[Tool] = &[
    Tool { program: "ip", package: "iproute2", needed: Needed::ByAll },
    Tool { program: "nginx", package: "nginx-light", needed: Needed::ByAll },
    Tool { program: "python3", package: "python3", needed: Needed::ByAll },
    Tool { program: "ps", package: "procps", needed: Needed::ByAll },
    Tool { program: "wrk", package: "wrk", needed: Needed::ByBenchmarks },
    Tool { program: "etcd", package: "etcd-server", needed: Needed::WithControlPlane },
    Tool { program: "kubectl", package: "kubernetes-client", needed: Needed::WithControlPlane },
    Tool { program: "node", package: "nodejs", needed: Needed::ByTests },
    Tool { program: "promtool", package: "prometheus", needed: Needed::ByTests },
    Tool { program: "bpftool", package: "bpftool", needed: Needed::ByTests },
    Tool { program: "curl", package: "curl", needed: Needed::ByTests },
    Tool { program: "xz", package: "xz-utils", needed: Needed::ByTests },
    Tool { program: "qemu-system-x86_64", package: "qemu-system-x86", needed: Needed::ByVm },
    Tool { program: "busybox", package: "busybox-static", needed: Needed::ByVm },
    Tool { program: "strip", package: "binutils", needed: Needed::ByVm },
];

/// By the convention of kubebuilder's envtest it names the directory of a control plane's programs.
const CONTROL_PLANE: &str = "KUBEBUILDER_ASSETS";

pub(super) fn install(purpose: Purpose) -> Result<()> {
    let control_plane = std::env::var_os(CONTROL_PLANE).is_some();
    let wanted = TOOLS.iter().filter(|tool| tool.is_wanted(purpose, control_plane));
    let missing: Vec<&Tool> = wanted.filter(|tool| host::find_program(tool.program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|tool| tool.program).collect();
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    println!("setup: not found: {}", programs.join(", "));

    let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !host::is_debian_like(&os_release) {
        println!("setup: this is not Debian: install them your way; what needs them is skipped until then");
        return Ok(());
    }
    if !host::is_root() {
        println!("setup: needs root: sudo apt-get install --no-install-recommends {}", packages.join(" "));
        println!("setup: going on without; what needs them is skipped");
        return Ok(());
    }
    apt_get_install(&packages, &missing)?;
    let still: Vec<&str> = programs.into_iter().filter(|program| host::find_program(program).is_none()).collect();
    if !still.is_empty() {
        bail!("apt-get installed the packages, yet these are not found: {}", still.join(", "));
    }
    Ok(())
}

impl Tool {
    /// The systemd unit that the package enables.
    fn service(&self) -> Option<&'static str> {
        match self.package {
            "nginx-light" => Some("nginx.service"),
            "etcd-server" => Some("etcd.service"),
            "prometheus" => Some("prometheus.service"),
            _ => None,
        }
    }

    fn is_wanted(&self, purpose: Purpose, control_plane: bool) -> bool {
        match purpose {
            Purpose::Build => false,
            Purpose::Demo => match self.needed {
                Needed::ByAll => true,
                Needed::WithControlPlane => control_plane,
                Needed::ByBenchmarks | Needed::ByTests | Needed::ByVm => false,
            },
            Purpose::Bench => matches!(self.needed, Needed::ByAll | Needed::ByBenchmarks),
            Purpose::Test => !matches!(self.needed, Needed::ByBenchmarks | Needed::ByVm),
            Purpose::Vm => matches!(self.needed, Needed::ByAll | Needed::ByTests | Needed::ByVm),
        }
    }
}

/// Or they would start at the next boot: a package enables the service that it was kept from starting.
fn disable_services(installed: &[&Tool]) {
    let services: Vec<&str> = installed.iter().filter_map(|tool| tool.service()).collect();
    if services.is_empty() || host::find_program("systemctl").is_none() {
        return;
    }
    if let Err(error) = host::run(host::command("systemctl").args(["--quiet", "disable"]).args(services)) {
        println!("setup: {error:#}; these services may start at the next boot");
    }
}

fn apt_get_install(packages: &[&str], tools: &[&Tool]) -> Result<()> {
    // Ctrl-C reaches apt-get by itself; we must live on to take the policy away.
    let interrupt = Interrupt::watch()?;
    let _no_services = NoServices::begin(Path::new("/usr/sbin/policy-rc.d"))?;
    let updated = host::status(&mut apt_get(&["update"]))?;
    // How it ended says so at once; what the signal's own thread has noted may come a moment later.
    ensure!(updated.signal().is_none(), "interrupted");
    if !updated.success() {
        // A list that cannot be fetched (some third party's, say) does not matter while the packages are found.
        println!("setup: `apt-get update` failed: {updated}; trying with the lists that are there");
    }
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    let installed = host::run(&mut apt_get(&install));
    disable_services(tools);
    ensure!(interrupt.seen().is_none(), "interrupted");
    installed
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut apt_get = host::command("apt-get");
    apt_get.args(["-q", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Use-Pty=0"]).args(arguments);
    apt_get.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    apt_get
}

/// While it lives, packages do not start the services they bring: our tests start servers of their own, and nobody who
/// tries a demo wants a web server left running. A policy that is already there is somebody's decision and stays.
struct NoServices<'a> {
    ours: Option<&'a Path>,
}

impl<'a> NoServices<'a> {
    fn begin(policy: &'a Path) -> Result<Self> {
        let write = || {
            let mut file = fs::File::create_new(policy)?;
            file.set_permissions(fs::Permissions::from_mode(0o755))?;
            std::io::Write::write_all(&mut file, b"#!/bin/sh\nexit 101\n")
        };
        match write() {
            Ok(()) => Ok(Self { ours: Some(policy) }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Self { ours: None }),
            Err(error) => Err(error).with_context(|| format!("cannot write `{}`", policy.display())),
        }
    }
}

impl Drop for NoServices<'_> {
    fn drop(&mut self) {
        if let Some(policy) = self.ours
            && let Err(error) = fs::remove_file(policy)
        {
            eprintln!("setup: cannot remove `{}`, which keeps services from starting: {error}", policy.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NoServices, Purpose, TOOLS};
    use std::fs;

    fn packages(purpose: Purpose, control_plane: bool) -> Vec<&'static str> {
        TOOLS.iter().filter(|tool| tool.is_wanted(purpose, control_plane)).map(|tool| tool.package).collect()
    }

    #[test]
    fn each_purpose_wants_no_more_than_it_needs() {
        assert!(packages(Purpose::Build, true).is_empty(), "a build needs no package");
        assert!(!packages(Purpose::Demo, false).contains(&"etcd-server"), "a demo from a pods file needs no etcd");
        assert!(packages(Purpose::Demo, true).contains(&"etcd-server"), "a demo with an API server does");
        assert!(packages(Purpose::Bench, true).contains(&"wrk"), "benchmarks load a server with it");
        assert!(!packages(Purpose::Test, true).contains(&"wrk"), "tests have a load generator of their own");
        assert!(!packages(Purpose::Test, true).contains(&"qemu-system-x86"), "only other kernels are emulated");
        let others = ["wrk", "qemu-system-x86", "busybox-static", "binutils"].len();
        assert_eq!(packages(Purpose::Test, false).len(), TOOLS.len() - others, "the tests need everything else");
        let vm = packages(Purpose::Vm, true);
        assert!(
            vm.contains(&"qemu-system-x86") && !vm.contains(&"etcd-server"),
            "other kernels need no cluster: {vm:?}"
        );
    }

    #[test]
    fn policy_is_put_in_place_and_taken_away() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let policy = directory.path().join("policy-rc.d");
        let guard = NoServices::begin(&policy).expect("a directory of ours can be written");
        assert!(fs::read_to_string(&policy).expect("it is there").contains("exit 101"), "it refuses");
        drop(guard);
        assert!(!policy.exists(), "nothing is left behind");
    }

    #[test]
    fn policy_of_somebody_else_stays_as_it_is() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let policy = directory.path().join("policy-rc.d");
        fs::write(&policy, "theirs").expect("a directory of ours can be written");
        drop(NoServices::begin(&policy).expect("an existing policy is no fault"));
        assert_eq!(fs::read_to_string(&policy).expect("it is there"), "theirs", "neither changed nor removed");
    }
}
