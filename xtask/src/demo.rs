//! `cargo xtask demo`: the README's first command. Installs what the demo needs, builds it and the daemon, and becomes it.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::host::{self, Root};
use crate::setup::{self, Purpose};

/// Never returns when all is well: this process is replaced, so the demo gets every signal and gives the exit code.
pub(crate) fn run(args: &[OsString]) -> Result<Infallible> {
    setup::run(Purpose::Demo)?;
    host::run(host::cargo().args(["build", "--package", "rollout-probe", "--package", "demo"]))?;
    let demo = env::current_exe().context("cannot tell where this program is")?.with_file_name("demo");

    let mut command = if host::is_root() {
        host::mount_kernel_file_systems(Root::Already)?;
        Command::new(demo)
    } else if host::find_program("sudo").is_some() {
        println!("the demo makes network namespaces and cgroups and loads BPF programs: it runs through sudo");
        host::mount_kernel_file_systems(Root::of_this_user())?;
        let mut sudo = Command::new("sudo");
        sudo.arg("-E").arg(demo);
        sudo
    } else {
        bail!("the demo needs root (network namespaces, cgroups, BPF) and there is no sudo: run it as root");
    };
    command.args(args).current_dir(host::workspace_root());
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start `{}`", host::shown(&command)))
}
