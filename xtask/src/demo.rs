//! `cargo xtask demo`: the README's first command. Installs what the demo needs, builds it and the daemon, and becomes it.

use std::convert::Infallible;
use std::ffi::OsString;

use anyhow::Result;

use crate::host;
use crate::privileged;
use crate::setup::{self, Purpose};

/// Never returns when all is well.
pub(crate) fn run(args: &[OsString]) -> Result<Infallible> {
    setup::run(Purpose::Demo)?;
    host::run(host::cargo().args(["build", "--package", "rollout-probe", "--package", "demo"]))?;
    privileged::become_program("demo", args)
}
