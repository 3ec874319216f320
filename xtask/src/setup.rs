//! `cargo xtask setup`: installs what a fresh machine lacks. Says what it does; when all is there it says nothing and
//! takes no time, for other verbs call it first.
//!
//! The toolchain's parts are needed to build and their absence is an error. System packages are installed on Debian and
//! its derivatives as root; elsewhere it names them, and what stays missing becomes a skipped test later.

mod debian;
mod toolchain;

use anyhow::Result;
use clap::ValueEnum;

/// What the machine is to be enough for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Purpose {
    Build,
    Demo,
    Bench,
    Test,
    Vm,
}

pub(crate) fn run(purpose: Purpose) -> Result<()> {
    toolchain::install()?;
    debian::install(purpose)
}
