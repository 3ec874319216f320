//! The project's verbs. People, the README and CI run the same ones: `cargo xtask <verb>`.
//!
//! One verb a file; this file only parses the command line and dispatches. The crate depends on nothing of ours and on
//! little else, because on a fresh machine it is compiled before anything is installed.

mod bench;
mod demo;
mod host;
mod interrupt;
mod layers;
mod lint;
mod privileged;
mod setup;
mod test;
mod vm;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Set-up, checks, tests, benchmarks and the demo of rollout-probe")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Install what this machine lacks; quick and silent when all is there
    Setup {
        /// What it is to be enough for
        #[arg(long = "for", value_enum, default_value = "test")]
        purpose: setup::Purpose,
    },
    /// Play one node, roll out a broken revision, and show what it serves
    Demo {
        /// Passed on to the demo as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Measure what the programs in the kernel cost, on this machine
    Bench {
        /// Passed on: `kernel-time`, `throughput`, `--help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Formatting, clippy on both targets, and the rules between modules
    Lint,
    /// Everything, or only the stages named
    Test {
        #[arg(value_enum)]
        stages: Vec<test::Stage>,
    },
    /// The privileged tests on other kernels, in QEMU
    Vm {
        /// All of them if none is named
        #[arg(value_enum)]
        kernels: Vec<vm::Series>,
        /// Passed on to the tests: names, or flags of libtest
        #[arg(last = true)]
        filter: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Setup { purpose } => setup::run(purpose).map(|()| ExitCode::SUCCESS),
        Verb::Demo { args } => demo::run(&args).map(|never| match never {}),
        Verb::Bench { args } => bench::run(&args).map(|never| match never {}),
        Verb::Lint => lint::run(),
        Verb::Test { stages } => test::run(&stages),
        Verb::Vm { kernels, filter } => vm::run(&kernels, &filter),
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
