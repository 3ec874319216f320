//! What this machine is and how a command is run on it: the checkout, root and sudo, the distribution, programs, mounts.
//!
//! Reads the machine; the only thing it changes is to mount two kernel file systems at their standard places.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};

/// The checkout this binary was built from.
pub(crate) fn workspace_root() -> &'static Path {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().unwrap_or(manifest_dir)
}

/// A command that runs in the checkout.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace_root());
    command
}

/// The cargo that runs us, so that the toolchain cannot change half way.
pub(crate) fn cargo() -> Command {
    command(&env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// The command line as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let quoted = |word: &OsStr| match word.to_string_lossy() {
        word if word.contains([' ', '"']) => format!("'{word}'"),
        word => word.into_owned(),
    };
    std::iter::once(name).chain(command.get_args()).map(quoted).collect::<Vec<_>>().join(" ")
}

/// Says what it runs, runs it, and gives how it ended.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    println!("$ {}", shown(command));
    command.status().with_context(|| format!("cannot start `{}`", shown(command)))
}

/// As [`status`], and fails with the command line when the command does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// As [`run`], without a word while all is well.
pub(crate) fn run_quietly(command: &mut Command) -> Result<()> {
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().and_then(std::process::Child::wait_with_output);
    let output = output.with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed: {}: {}", shown(command), output.status, said.trim());
    }
    Ok(())
}

/// What a command prints, or `None` when it cannot be started or fails.
pub(crate) fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Where a program is. Debian keeps servers in `sbin`, which is not on the `PATH` of everybody.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places.map(|place| place.join(name)).find(|program| program.is_file())
}

/// How a command gets to be root here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// It is already.
    Already,
    /// `sudo -n` works: nobody is asked for a password in the middle of a run.
    Sudo,
    /// It cannot.
    No,
}

impl Root {
    pub(crate) fn of_this_user() -> Self {
        if is_root() {
            Self::Already
        } else if output_of(Command::new("sudo").args(["-n", "true"])).is_some() {
            Self::Sudo
        } else {
            Self::No
        }
    }
}

/// Mounts tracefs and bpffs where a fresh machine (or a container) has not: the programs attach to tracepoints by the
/// ids that tracefs names. Stays mounted, as systemd leaves them.
pub(crate) fn mount_kernel_file_systems(root: Root) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read `/proc/self/mounts`")?;
    for (kind, place) in [("tracefs", "/sys/kernel/tracing"), ("bpf", "/sys/fs/bpf")] {
        if is_mounted(&mounts, kind, place) || !Path::new(place).is_dir() {
            continue;
        }
        let arguments = ["-t", kind, kind, place];
        match root {
            Root::Already => run(command("mount").args(arguments))?,
            Root::Sudo => run(command("sudo").args(["-n", "mount"]).args(arguments))?,
            Root::No => println!("{place} has no {kind} and mounting it needs root: going on without"),
        }
    }
    Ok(())
}

fn is_mounted(mounts: &str, kind: &str, place: &str) -> bool {
    mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some(place) && fields.next() == Some(kind)
    })
}

/// Whether `/etc/os-release` describes Debian or one of its derivatives.
pub(crate) fn is_debian_like(os_release: &str) -> bool {
    os_release.lines().filter_map(|line| line.split_once('=')).any(|(key, value)| {
        let value = value.trim_matches('"');
        matches!(key, "ID" | "ID_LIKE") && value.split(' ').any(|id| id == "debian")
    })
}

#[cfg(test)]
mod tests {
    use super::{is_debian_like, is_mounted, shown};
    use std::process::Command;

    #[test]
    fn debian_and_derivatives_are_debian_like() {
        assert!(is_debian_like("PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n"), "Debian itself");
        assert!(is_debian_like("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"), "a derivative of a derivative");
        assert!(!is_debian_like("ID=fedora\nPRETTY_NAME=\"not debian\"\n"), "only ID and ID_LIKE count");
        assert!(!is_debian_like("ID=debianish\n"), "an id is compared whole");
        assert!(!is_debian_like(""), "an empty file names nothing");
    }

    #[test]
    fn mount_is_found_by_kind_and_place() {
        let mounts =
            "proc /proc proc rw 0 0\nnone /sys/kernel/tracing tracefs rw 0 0\nsysfs /sys/fs/bpf sysfs rw 0 0\n";
        assert!(is_mounted(mounts, "tracefs", "/sys/kernel/tracing"), "the source of a mount does not matter");
        assert!(!is_mounted(mounts, "bpf", "/sys/fs/bpf"), "something else mounted there is not it");
        assert!(!is_mounted(mounts, "tracefs", "/sys/kernel"), "the place is compared whole");
    }

    #[test]
    fn command_is_shown_without_its_directory() {
        assert_eq!(shown(Command::new("/opt/rust/bin/cargo").args(["fmt", "--all"])), "cargo fmt --all");
        assert_eq!(shown(Command::new("x").arg("a = \"b\"")), "x 'a = \"b\"'", "as it can be pasted");
    }
}
