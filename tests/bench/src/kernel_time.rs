//! Nanoseconds a run of each program by kind of packet, from the kernel's own clock around every run (`bpf_stats`).
//!
//! At each end the programs and an empty pair are attached to the same cgroup: both see the same packets in the same moment,
//! and the clock reads and the dispatch are in both numbers. A kind is a conversation in which the packets of one direction are all
//! (or all but one in fifty) of that kind.

use std::{thread, time::Duration};

use anyhow::{Context, Result};
use aya::sys::Stats;
use clap::Args;
use rollout_probe::kernel::{Probe, Settings};
use serde::Serialize;
use testbed::{
    node::Host,
    peer::{Peer, Step, receive, send},
};

use crate::{
    empty::EmptyPair,
    statistics::Spread,
    web::{Load, Web, cgroup},
};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Rounds; each measures every kind once
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// Seconds a round and conversation
    #[arg(long, default_value_t = 1)]
    seconds: u64,
}

/// How often a program ran and how long in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Runs {
    pub(crate) ns: u64,
    pub(crate) count: u64,
}

/// What one kind of packet cost in all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    end: &'static str,
    program: &'static str,
    packets: &'static str,
    runs: u64,
    /// Nanoseconds a run.
    ns: Spread,
    /// The same of an empty program that saw the same packets.
    empty_ns: Spread,
    /// Rounds' differences of the two.
    beyond_empty_ns: Spread,
}

/// Which packets a conversation is made of: server's ingress and egress, client's ingress and egress.
struct Conversation {
    name: &'static str,
    packets: [[&'static str; 2]; 2],
    hold: fn(&Web, u64) -> Result<()>,
}

const CONVERSATIONS: [Conversation; 3] = [
    Conversation {
        name: "keep-alive",
        packets: [["request head", "response head"], ["response head", "request head"]],
        hold: |web, seconds| web.ask(Load { path: "/ok", connections: 8, seconds }).map(drop),
    },
    Conversation {
        name: "large bodies",
        packets: [["bare ACK", "body segment"], ["body segment", "bare ACK"]],
        hold: |web, seconds| web.ask(Load { path: "/large", connections: 2, seconds }).map(drop),
    },
    Conversation {
        name: "another protocol",
        packets: [["opaque", "opaque"], ["opaque", "opaque"]],
        hold: |web, _| opaque(&web.pod, &web.user),
    },
];

const PROGRAMS: [&str; 2] = ["ingress", "egress"];

/// The programs and the empty pair at one end.
struct End {
    name: &'static str,
    probe: Probe,
    empty: EmptyPair,
}

/// By program (ingress and egress), ours and the empty one's.
type Reading = [[Runs; 2]; 2];

pub(crate) fn run(options: &Options) -> Result<Vec<Row>> {
    let web = Web::start()?;
    let ends = [End::attach("server", &web.pod)?, End::attach("client", &web.user)?];
    let _counting = aya::sys::enable_stats(Stats::RunTime).context("cannot turn bpf_stats on")?;
    let mut rows = Vec::new();
    for conversation in &CONVERSATIONS {
        (conversation.hold)(&web, 1)?;
        let mut rounds: Vec<[Reading; 2]> = Vec::new();
        for _ in 0..options.rounds {
            let before = read(&ends)?;
            (conversation.hold)(&web, options.seconds)?;
            rounds.push(difference(read(&ends)?, before));
        }
        rows.extend(rows_of(conversation, &ends, &rounds));
        eprintln!("{}: {} rounds", conversation.name, rounds.len());
    }
    print(&rows);
    Ok(rows)
}

impl End {
    fn attach(name: &'static str, host: &Host) -> Result<Self> {
        let cgroup = cgroup(host)?;
        Ok(Self { name, probe: Probe::attach(&cgroup, &Settings::default())?, empty: EmptyPair::attach(&cgroup)? })
    }

    fn read(&self) -> Result<Reading> {
        let costs = self.probe.costs();
        let ours = |name: &str| {
            let cost = costs.iter().find(|cost| cost.program == name);
            let cost = cost.with_context(|| format!("the kernel says nothing of the program {name}"))?;
            let ns = u64::try_from(cost.run_time.as_nanos()).context("a run time beyond 500 years")?;
            anyhow::Ok(Runs { ns, count: cost.runs })
        };
        let empty = self.empty.runs()?;
        Ok([[ours(PROGRAMS[0])?, empty[0]], [ours(PROGRAMS[1])?, empty[1]]])
    }
}

fn read(ends: &[End; 2]) -> Result<[Reading; 2]> {
    Ok([ends[0].read()?, ends[1].read()?])
}

fn difference(after: [Reading; 2], before: [Reading; 2]) -> [Reading; 2] {
    let mut rest = after;
    let runs = rest.as_flattened_mut().as_flattened_mut();
    for (runs, before) in runs.iter_mut().zip(before.as_flattened().as_flattened()) {
        runs.ns -= before.ns;
        runs.count -= before.count;
    }
    rest
}

fn rows_of(conversation: &Conversation, ends: &[End; 2], rounds: &[[Reading; 2]]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (end, (name, packets)) in ends.iter().map(|end| end.name).zip(conversation.packets).enumerate() {
        for (program, packets) in packets.into_iter().enumerate() {
            let of = |which: usize| rounds.iter().map(move |round| per_run(round[end][program][which]));
            rows.push(Row {
                end: name,
                program: PROGRAMS[program],
                packets,
                runs: rounds.iter().map(|round| round[end][program][0].count).sum(),
                ns: Spread::of(of(0)),
                empty_ns: Spread::of(of(1)),
                beyond_empty_ns: Spread::of(of(0).zip(of(1)).map(|(ours, empty)| ours - empty)),
            });
        }
    }
    rows
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52, and it is a mean")]
fn per_run(runs: Runs) -> f64 {
    runs.ns as f64 / runs.count.max(1) as f64
}

fn print(rows: &[Row]) {
    println!(
        "{:7} {:8} {:14} {:>9} {:>8} {:>8} {:>13}  quartiles",
        "end", "program", "packets", "runs", "ns/run", "empty", "beyond empty"
    );
    for Row { end, program, packets, runs, ns, empty_ns, beyond_empty_ns } in rows {
        println!(
            "{end:7} {program:8} {packets:14} {runs:>9} {:>8.1} {:>8.1} {:>13.1}  {:.1} to {:.1}",
            ns.median,
            empty_ns.median,
            beyond_empty_ns.median,
            beyond_empty_ns.lower_quartile,
            beyond_empty_ns.upper_quartile
        );
    }
}

/// Two conversations at once that no HTTP parser takes for HTTP, each a question of 64 bytes and an answer after the other.
fn opaque(pod: &Host, user: &Host) -> Result<()> {
    const EXCHANGES: u32 = 20_000;
    const PORTS: [u16; 2] = [7001, 7002];
    let message = [0x16; 64];
    let repeat = |steps: [Step; 2]| vec![vec![Step::Repeat(EXCHANGES, steps.to_vec())]];
    let mut peers = Vec::new();
    for port in PORTS {
        peers.push(Peer::listen(&pod.place, &format!("0.0.0.0:{port}"), &repeat([receive(message), send(message)]))?);
    }
    for port in PORTS {
        let address = format!("{}:{port}", pod.ip);
        peers.push(Peer::connect(&user.place, &address, &repeat([send(message), receive(message)]))?);
    }
    peers.into_iter().try_for_each(Peer::wait)?;
    thread::sleep(Duration::from_millis(10)); // the last packets of what has just closed
    Ok(())
}
