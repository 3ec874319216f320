//! `cargo xtask test`: the README's second command and what CI runs.
//!
//! Stages run in order and all of them run even when one fails; a stage that cannot run here is skipped loudly, with its
//! reason. Ends with a table, every reason for a skip once more, and the sums as the very last line.

mod counts;
mod plan;
mod report;
mod runner;

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum as _;

use crate::host::{self, Root};
use crate::interrupt::Interrupt;

pub(crate) use plan::Stage;
use report::{Outcome, Report, Verdict};
use runner::Runner;

pub(crate) fn run(stages: &[Stage]) -> Result<ExitCode> {
    let stages = if stages.is_empty() { Stage::value_variants() } else { stages };
    let interrupt = Interrupt::watch()?;
    let root = Root::of_this_user();
    let mut report = Report::default();
    for stage in stages {
        println!("\n==== {} ====", stage.name());
        let begun = Instant::now();
        let outcome = run_stage(*stage, root, &interrupt);
        report.add(*stage, begun.elapsed(), outcome);
        if interrupt.seen().is_some() {
            break;
        }
    }
    println!("\n{report}");
    if let Some(signal) = interrupt.seen() {
        eprintln!("xtask: interrupted, the stages after this one did not run");
        return Ok(ExitCode::from(128u8.saturating_add(u8::try_from(signal).unwrap_or_default())));
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_stage(stage: Stage, root: Root, interrupt: &Interrupt) -> Outcome {
    if stage.needs_root() {
        if root == Root::No {
            return Outcome::skipped("it needs root, and `sudo -n` does not work here without a password");
        }
        if let Err(error) = host::mount_kernel_file_systems(root) {
            // The tests that need the mounts say so themselves.
            println!("{error:#}");
        }
    }
    let mut outcome = Outcome::default();
    let mut runner = Runner::new(root, interrupt, io::stdout());
    for mut command in stage.commands(root) {
        if let Err(error) = runner.run(&mut command, &mut outcome) {
            println!("{error:#}");
            outcome.fail(format!("{error:#}"));
        }
        if interrupt.seen().is_some() {
            outcome.fail("interrupted".to_owned());
            return outcome;
        }
    }
    if stage.has_tests() && outcome.verdict == Verdict::Passed && outcome.counts.total() == 0 {
        outcome.fail("not one test ran".to_owned());
    }
    outcome
}
