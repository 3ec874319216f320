//! `cargo xtask lint`: formatting, clippy without warnings on both targets, and the rules between modules.
//!
//! Runs all checks even when one fails, so that one run shows everything there is to mend. Changes no file.

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::{host, layers};

const BPF_CRATE: &str = "rollout-probe-ebpf";
const BPF_TARGET: &str = "bpfel-unknown-none";

pub(crate) fn run() -> Result<ExitCode> {
    let exe = env::current_exe().context("cannot tell where this program is")?;
    // <target>/bpf: where the daemon's build script builds too, so that `core` is built once.
    let bpf_target_dir = exe.ancestors().nth(2).context("not in cargo's target directory")?.join("bpf");
    let checks = [
        ("rustfmt", host::run(host::cargo().args(["fmt", "--all", "--check"]))),
        ("clippy", host::run(&mut clippy())),
        (
            "clippy for BPF",
            host::run(bpf_clippy().arg("--target-dir").arg(bpf_target_dir).args(["--", "-D", "warnings"])),
        ),
        ("layers", layers::check(host::workspace_root())),
    ];
    let mut code = ExitCode::SUCCESS;
    for (check, result) in checks {
        if let Err(error) = result {
            eprintln!("lint: {check}: {error:#}");
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn clippy() -> Command {
    let mut clippy = host::cargo();
    clippy.args(["clippy", "--workspace", "--exclude", BPF_CRATE, "--all-targets", "--", "-D", "warnings"]);
    clippy
}

/// The BPF crate only compiles for its own target, and `-Z build-std` only with the compiler's unstable features let in.
/// That variable makes many build scripts run again, hence (by the caller) a target directory of its own.
fn bpf_clippy() -> Command {
    let mut clippy = host::cargo();
    clippy
        .args(["clippy", "--package", BPF_CRATE, "--target", BPF_TARGET, "-Z", "build-std=core", "--release"])
        .env("RUSTC_BOOTSTRAP", "1")
        // The flags of the daemon's build script, or cargo builds `core` once more for others.
        .env("CARGO_ENCODED_RUSTFLAGS", bpf_flags());
    clippy
}

/// The BPF target says nothing of the machine whose registers a context describes, so it is a flag.
fn bpf_flags() -> String {
    [&format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH), "-Cdebuginfo=2", "-Clink-arg=--btf"].join("\x1f")
}
