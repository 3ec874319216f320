//! The command line: flags, logging, runtime, exit codes.

use std::process::ExitCode;

use clap::{Parser as _, error::ErrorKind};
use rollout_probe::{
    app,
    config::{Cli, Command, Config},
    telemetry,
};

/// Wrong flags or environment (`EX_USAGE` of sysexits.h).
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let Command::Run(args) = cli.command;
    let config = match Config::check(args) {
        Ok(config) => config,
        Err(faults) => {
            for fault in faults {
                complain(&fault);
            }
            return ExitCode::from(USAGE);
        }
    };
    telemetry::init(config.log_format);
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Two threads: one for the scrape's rendering to run beside the watch.
fn run(config: Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(app::run(config));
    // A scrape that still renders must not hold up the end.
    runtime.shutdown_background();
    result
}

/// What clap says: help and version are no faults.
fn refuse(error: &clap::Error) -> ExitCode {
    let is_fault = !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if error.print().is_err() || is_fault { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

fn complain(text: &str) {
    eprintln!("rollout-probe: {text}");
}
