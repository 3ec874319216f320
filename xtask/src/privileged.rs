//! Programs of the workspace that play a node on this machine and so need root.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::host::{self, Root};

/// Never returns when all is well: this process is replaced, so the program gets every signal and gives the exit code.
pub(crate) fn become_program(name: &str, args: &[OsString]) -> Result<Infallible> {
    let program = env::current_exe().context("cannot tell where this program is")?.with_file_name(name);
    let mut command = if host::is_root() {
        host::mount_kernel_file_systems(Root::Already)?;
        Command::new(program)
    } else if host::find_program("sudo").is_some() {
        println!("`{name}` makes network namespaces and cgroups and loads BPF programs: it runs through sudo");
        host::mount_kernel_file_systems(Root::of_this_user())?;
        let mut sudo = Command::new("sudo");
        sudo.arg("-E").arg(program);
        sudo
    } else {
        bail!("`{name}` needs root (network namespaces, cgroups, BPF) and there is no sudo: run it as root");
    };
    command.args(args).current_dir(host::workspace_root());
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start `{}`", host::shown(&command)))
}
