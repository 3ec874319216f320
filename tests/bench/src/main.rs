//! What the programs in the kernel cost, beside programs that do nothing: nanoseconds a packet ([`kernel_time`]) and requests a
//! second of a saturated server ([`throughput`]).
//!
//! Other work on the machine changes every number, so each comparison is between things that run at the same time or in turn, and
//! only medians of many rounds are shown. Results go to `target/bench/` as JSON too.

mod empty;
mod kernel_time;
mod statistics;
mod throughput;
mod web;

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use serde::Serialize;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", about = "What the programs in the kernel cost")]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Nanoseconds that each program takes a packet, by kind of packet, with an empty program beside it
    KernelTime(kernel_time::Options),
    /// Requests a second of a saturated nginx: with nothing, with an empty pair and with the programs attached
    Throughput(throughput::Options),
}

fn main() -> ExitCode {
    testbed::run_child_if_asked();
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "it makes network namespaces and cgroups and loads BPF programs: run it as root"
    );
    match &cli.what {
        What::KernelTime(options) => write("kernel-time", &kernel_time::run(options)?),
        What::Throughput(options) => write("throughput", &throughput::run(options)?),
    }
}

/// Keeps the result for programs to read.
fn write(name: &str, result: &impl Serialize) -> Result<()> {
    let path = Path::new("target/bench").join(name).with_extension("json");
    fs::create_dir_all("target/bench").context("cannot make target/bench")?;
    fs::write(&path, serde_json::to_string_pretty(result)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("\nin {}", path.display());
    Ok(())
}
