//! The README's demo: a rollout that Kubernetes calls successful, whose users see errors, and what rollout-probe says of it.
//!
//! Plays one node of a cluster ([`cluster`]) on this machine: real kernel, real web servers in network namespaces and cgroups
//! as a kubelet makes them, kubelet-like probes, users' traffic ([`traffic`]), the real daemon. It ends with one table by
//! revision ([`table`]), and with exit code 1 when a single count of the daemon differs from what the clients saw themselves.

mod cluster;
mod table;
mod traffic;

use std::{
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use cluster::{Cluster, Rollout};
use testbed::{
    checkout::{FAULTY_IMAGE, GOOD_IMAGE, NAME, NAMESPACE, REPLICAS},
    counts::{self, PodCounts},
    daemon::{Daemon, Sample, parse, sum},
    node::PlayedNode,
    server,
};
use traffic::Traffic;

/// How long users ask each revision once its rollout is over.
const SERVING: Duration = Duration::from_secs(8);

fn main() -> ExitCode {
    testbed::run_child_if_asked();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("it makes network namespaces and cgroups and loads BPF programs: run it as root");
    }
    if server::missing().contains(&"nginx") {
        bail!("nginx is not installed: `cargo xtask demo` installs what it needs");
    }
    let begun = Instant::now();
    let say = |text: &str| println!("[{:>4.1} s] {text}", begun.elapsed().as_secs_f64());

    let mut node = PlayedNode::new()?;
    let traffic = Traffic::new(node.client("users")?);
    let mut cluster = cluster::start(node, &traffic, &say)?;
    let flags = cluster.daemon_flags()?;
    let daemon = Daemon::start(&flags.iter().map(String::as_str).collect::<Vec<_>>())?;
    say("rollout-probe runs: its programs are attached at the root of the cgroup tree");

    say(&format!(
        "rolling out deployment {NAMESPACE}/{NAME}, revision 1, {REPLICAS} pods; users ask every pod that is Ready"
    ));
    let first = roll(cluster.as_mut(), GOOD_IMAGE, &say)?;
    thread::sleep(SERVING);
    say("rolling out revision 2: the readiness probe passes; /api/pay answers 500, /api/cart closes the connection");
    let second = roll(cluster.as_mut(), FAULTY_IMAGE, &say)?;
    thread::sleep(SERVING);

    say("traffic and probes end; comparing every count of every pod");
    let seen = traffic.stop()?;
    let pods = cluster.stop_probes()?;
    let mut wanted = PodCounts::new();
    for pod in &pods {
        let tally = seen.get(&pod.uid).with_context(|| format!("pod {} never got traffic", pod.name))?;
        wanted.insert((pod.revision.clone(), pod.name.clone()), counts::expected(tally, pod.probes.as_ref()));
    }
    let compared = counts::wait_for(&daemon, &wanted);

    let exposition = daemon.scrape_prometheus_text()?;
    let samples = parse(&exposition)?;
    print!("\n{}", table::of(&samples, &pods, &seen, [&first, &second])?);
    print!(
        "\nRaw series of revision {}, without zeros:\n\n{}",
        second.revision,
        table::raw(&exposition, &second.revision)
    );
    compared?;
    check_nothing_missed(&samples)?;
    println!("\n{}", table::verdict(&samples, &pods, [&first, &second])?);
    Ok(())
}

fn roll(cluster: &mut dyn Cluster, image: &str, say: &dyn Fn(&str)) -> Result<Rollout> {
    let rollout = cluster.roll(image)?;
    say(&rollout.verdict);
    Ok(rollout)
}

/// Counts that the daemon itself calls incomplete would make the table's agreement worthless.
fn check_nothing_missed(samples: &[Sample]) -> Result<()> {
    for family in ["rollout_probe_lost_sync_total", "rollout_probe_unattributed_responses"] {
        let missed = sum(samples, family, &[]);
        if missed > 0.0 {
            bail!("{family} is {missed}, not 0");
        }
    }
    Ok(())
}
