//! `cargo xtask bench`: what the programs in the kernel cost. Installs what that needs, builds `tests/bench`, and becomes it.
//!
//! Not a release build: what is measured is in the kernel, and the BPF object is built the same way in both.

use std::convert::Infallible;
use std::ffi::OsString;

use anyhow::Result;

use crate::host;
use crate::privileged;
use crate::setup::{self, Purpose};

/// Never returns when all is well.
pub(crate) fn run(args: &[OsString]) -> Result<Infallible> {
    setup::run(Purpose::Bench)?;
    host::run(host::cargo().args(["build", "--package", "bench"]))?;
    privileged::become_program("bench", args)
}
