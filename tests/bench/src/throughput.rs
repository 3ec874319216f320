//! Requests a second of a saturated nginx, and what each costs its CPU, with nothing, an empty pair or the programs attached.
//!
//! The worst case on purpose: a response of two bytes that nginx makes from its configuration, one worker, client and server on
//! the same machine. Rounds take each set-up in turn, and a round's number is compared with that of nothing in the same round.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use clap::Args;
use rollout_probe::kernel::{Probe, Settings};
use serde::Serialize;

use crate::{
    empty::EmptyPair,
    statistics::Spread,
    web::{Load, Web, cgroup},
};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Rounds; each takes every set-up once
    #[arg(long, default_value_t = 11)]
    rounds: u32,
    /// Seconds a round and set-up
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Connections that ask at the same time
    #[arg(long, default_value_t = 32)]
    connections: u32,
}

/// What is attached, and where.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Attached {
    Nothing,
    Empty { both_ends: bool },
    Probe { both_ends: bool },
}

const SETUPS: [(&str, Attached); 5] = [
    ("nothing", Attached::Nothing),
    ("empty pair, server's end", Attached::Empty { both_ends: false }),
    ("probe, server's end", Attached::Probe { both_ends: false }),
    ("empty pair, both ends", Attached::Empty { both_ends: true }),
    ("probe, both ends", Attached::Probe { both_ends: true }),
];

/// One run of one set-up.
#[derive(Clone, Copy, Debug)]
struct Reading {
    requests_per_second: f64,
    /// CPU of the server's cgroup.
    server_us_per_request: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Row {
    attached: &'static str,
    requests_per_second: Spread,
    /// Against nothing in the same round.
    requests_ratio: Spread,
    server_us_per_request: Spread,
    /// Against nothing in the same round.
    server_us_ratio: Spread,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Row>> {
    let web = Web::start()?;
    let mut rounds = Vec::new();
    measure(&web, options, Attached::Nothing)?; // caches and clocks come up
    for round in 0..options.rounds {
        let mut readings = Vec::new();
        for (_, attached) in SETUPS {
            readings.push(measure(&web, options, attached)?);
        }
        eprintln!("round {} of {}", round + 1, options.rounds);
        rounds.push(readings);
    }
    let rows = rows_of(&rounds);
    print(&rows);
    Ok(rows)
}

fn measure(web: &Web, options: &Options, attached: Attached) -> Result<Reading> {
    let server = cgroup(&web.pod)?;
    let place = |both_ends: bool| if both_ends { web.node.cgroup() } else { server.as_path() };
    let (_empty, _probe) = match attached {
        Attached::Nothing => (None, None),
        Attached::Empty { both_ends } => (Some(EmptyPair::attach(place(both_ends))?), None),
        Attached::Probe { both_ends } => (None, Some(Probe::attach(place(both_ends), &Settings::default())?)),
    };
    let before = cpu_us(&server)?;
    let load = Load { path: "/ok", connections: options.connections, seconds: options.seconds };
    let requests_per_second = web.ask(load)?;
    let cpu = cpu_us(&server)? - before;
    #[expect(clippy::cast_precision_loss, reason = "a few seconds in microseconds")]
    let server_us_per_request = cpu as f64 / (requests_per_second * options.seconds as f64);
    Ok(Reading { requests_per_second, server_us_per_request })
}

/// Microseconds of CPU that a cgroup has used.
fn cpu_us(cgroup: &Path) -> Result<u64> {
    let path = cgroup.join("cpu.stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse().ok());
    usage.with_context(|| format!("no usage_usec in {}", path.display()))
}

fn rows_of(rounds: &[Vec<Reading>]) -> Vec<Row> {
    let row = |(index, (attached, _)): (usize, (&'static str, Attached))| {
        let of = |value: fn(&Reading) -> f64| Spread::of(rounds.iter().map(|round| value(&round[index])));
        let ratio =
            |value: fn(&Reading) -> f64| Spread::of(rounds.iter().map(|round| value(&round[index]) / value(&round[0])));
        Row {
            attached,
            requests_per_second: of(|reading| reading.requests_per_second),
            requests_ratio: ratio(|reading| reading.requests_per_second),
            server_us_per_request: of(|reading| reading.server_us_per_request),
            server_us_ratio: ratio(|reading| reading.server_us_per_request),
        }
    };
    SETUPS.into_iter().enumerate().map(row).collect()
}

fn print(rows: &[Row]) {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    println!("{:25} {:>10} {:>22} {:>12} {:>22}", "attached", "requests/s", "", "CPU us/req.", "");
    for row in rows {
        let change = |ratio: Spread| {
            format!(
                "{:+.1} % ({:+.1} to {:+.1})",
                percent(ratio.median),
                percent(ratio.lower_quartile),
                percent(ratio.upper_quartile)
            )
        };
        println!(
            "{:25} {:>10.0} {:>22} {:>12.2} {:>22}",
            row.attached,
            row.requests_per_second.median,
            change(row.requests_ratio),
            row.server_us_per_request.median,
            change(row.server_us_ratio)
        );
    }
}
