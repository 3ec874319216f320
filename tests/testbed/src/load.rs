//! The exact load generator, and probes as a kubelet makes them.
//!
//! A socket belongs to the cgroup of the process that makes it, so load runs in a process of its own: this very executable,
//! started again in the client's place (see [`crate::run_child_if_asked`]). It gets its targets as JSON, and answers with a
//! tally as JSON when it is done or its stdin closes.
//!
//! The promise: the fate of every request is known, `sent == outcomes()`. A connection that the server closed while it was
//! idle is noticed before the next request is written to it, never afterwards.

mod generator;
mod message;
mod prober;

use std::{
    collections::BTreeMap,
    io::Read,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

pub use self::prober::{ProbeTally, Prober};
use crate::process::{Place, spawn_placed};

/// First argument of the processes that are started here.
pub(crate) const CHILD: &str = "testbed-load";

/// One server, and what to ask it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Target {
    address: String,
    requests: Vec<Request>,
    connections: u32,
    keep_alive: bool,
    until_stopped: bool,
    /// Of each connection, from one request to the next.
    interval: Duration,
}

impl Target {
    /// Every request as often as its count says, mixed evenly, over one keep-alive connection.
    pub fn new(address: impl Into<String>, requests: impl Into<Vec<Request>>) -> Self {
        Self {
            address: address.into(),
            requests: requests.into(),
            connections: 1,
            keep_alive: true,
            until_stopped: false,
            interval: Duration::ZERO,
        }
    }

    /// Requests are shared among this many connections at a time.
    #[must_use]
    pub fn connections(self, connections: u32) -> Self {
        Self { connections, ..self }
    }

    /// A new connection for each request, which says `Connection: close`.
    #[must_use]
    pub fn connection_per_request(self) -> Self {
        Self { keep_alive: false, ..self }
    }

    /// Begins anew with the requests until [`Load::stop`].
    #[must_use]
    pub fn until_stopped(self) -> Self {
        Self { until_stopped: true, ..self }
    }

    /// Each connection waits this long between two requests.
    #[must_use]
    pub fn interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }
}

/// A request, and how often to send it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Request {
    method: String,
    path: String,
    count: u32,
    body: usize,
    expect_continue: bool,
}

impl Request {
    /// A request with any method and no body.
    pub fn new(method: &str, path: &str, count: u32) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), count, body: 0, expect_continue: false }
    }

    /// GET.
    pub fn get(path: &str, count: u32) -> Self {
        Self::new("GET", path, count)
    }

    /// POST with this many bytes of body.
    pub fn post(path: &str, body: usize, count: u32) -> Self {
        Self { body, ..Self::new("POST", path, count) }
    }

    /// Sends `Expect: 100-continue`, and the body only after an interim 100.
    #[must_use]
    pub fn expect_continue(self) -> Self {
        Self { expect_continue: true, ..self }
    }
}

/// GET requests from pairs of path and count.
pub fn gets(mix: &[(&str, u32)]) -> Vec<Request> {
    mix.iter().map(|&(path, count)| Request::get(path, count)).collect()
}

/// What became of the requests to one target.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct TargetTally {
    /// Requests that were written, or begun to be.
    pub sent: u64,
    /// Final responses by status code: counted once the head is there.
    pub responses: BTreeMap<u16, u64>,
    /// Requests whose connection ended without a response head.
    pub no_response_closed: u64,
    /// Requests whose connection was reset without a response head.
    pub no_response_reset: u64,
    /// Requests without an answer after ten seconds.
    pub timed_out: u64,
    /// Responses whose body was cut short; among `responses`.
    pub cut_short: u64,
    /// Connections that could not be opened; their request was not sent.
    pub connect_errors: u64,
    /// Connections opened.
    pub connections: u64,
    /// Microseconds from each request to its response head, ascending.
    pub latencies_us: Vec<u64>,
}

impl TargetTally {
    /// Requests whose fate is known: always all that were sent.
    pub fn outcomes(&self) -> u64 {
        self.responses.values().sum::<u64>() + self.no_response_closed + self.no_response_reset + self.timed_out
    }

    /// The latency that `percent` of the responses did not exceed.
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let last = self.latencies_us.len().checked_sub(1)?;
        self.latencies_us.get(last * percent.min(100) / 100).copied().map(Duration::from_micros)
    }

    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        for (&code, &count) in &other.responses {
            *self.responses.entry(code).or_default() += count;
        }
        self.no_response_closed += other.no_response_closed;
        self.no_response_reset += other.no_response_reset;
        self.timed_out += other.timed_out;
        self.cut_short += other.cut_short;
        self.connect_errors += other.connect_errors;
        self.connections += other.connections;
        self.latencies_us.extend(&other.latencies_us);
        self.latencies_us.sort_unstable();
    }
}

/// Load in the background. Dropped, it is killed in the middle of whatever it does.
#[derive(Debug)]
pub struct Load {
    child: Child,
}

impl Load {
    /// Starts load on all targets at once.
    pub fn start(place: &Place, targets: &[Target]) -> Result<Self> {
        Ok(Self { child: spawn(place, "load", &serde_json::to_string(targets)?)? })
    }

    /// Waits until all requests are done. A tally for each target, in their order.
    pub fn wait(mut self) -> Result<Vec<TargetTally>> {
        self.tallies()
    }

    /// Lets the requests in flight finish, and closes all connections.
    pub fn stop(mut self) -> Result<Vec<TargetTally>> {
        drop(self.child.stdin.take());
        self.tallies()
    }

    fn tallies(&mut self) -> Result<Vec<TargetTally>> {
        let mut answer = String::new();
        self.child.stdout.take().context("stdout is taken once")?.read_to_string(&mut answer)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the load generator ended with {status}");
        let tallies: Vec<TargetTally> =
            serde_json::from_str(&answer).with_context(|| format!("no tally: `{answer}`"))?;
        for tally in &tallies {
            ensure!(tally.sent == tally.outcomes(), "the load generator lost track of a request: {tally:?}");
        }
        Ok(tallies)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Sends each path as often as it says over one keep-alive connection.
pub fn run(place: &Place, address: &str, mix: &[(&str, u32)]) -> Result<TargetTally> {
    run_target(place, Target::new(address, gets(mix)))
}

/// Runs load on one target to its end.
pub fn run_target(place: &Place, target: Target) -> Result<TargetTally> {
    Load::start(place, &[target])?.wait()?.pop().context("one target has one tally")
}

fn spawn(place: &Place, mode: &str, spec: &str) -> Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args([CHILD, mode, spec]).stdin(Stdio::piped()).stdout(Stdio::piped());
    spawn_placed(&mut command, place)
}

fn end(child: &mut Child) {
    // Both fail only when it has ended already.
    drop(child.kill());
    drop(child.wait());
}

/// The child's side: does what the arguments after [`CHILD`] say.
pub(crate) fn child(mode: &str, spec: &str) -> Result<()> {
    match mode {
        "load" => {
            let tallies = generator::run(&serde_json::from_str::<Vec<Target>>(spec)?);
            println!("{}", serde_json::to_string(&tallies)?);
            Ok(())
        }
        "prober" => prober::child(&serde_json::from_str(spec)?),
        other => anyhow::bail!("unknown mode `{other}`"),
    }
}

/// Calls `then` once stdin has ended: the parent asks to finish, or is gone.
fn when_stdin_ends(then: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        let mut stdin = std::io::stdin();
        let mut rest = [0; 64];
        while matches!(stdin.read(&mut rest), Ok(1..)) {}
        then();
    });
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::TargetTally;

    #[test]
    fn tallies_add_up() {
        let mut sum = TargetTally { sent: 2, latencies_us: vec![1, 9], ..TargetTally::default() };
        sum.responses.insert(200, 2);
        let mut other =
            TargetTally { sent: 3, no_response_reset: 1, latencies_us: vec![5, 7], ..TargetTally::default() };
        other.responses.extend([(200, 1), (500, 1)]);
        sum.add(&other);
        assert_eq!((sum.sent, sum.outcomes()), (5, 5));
        assert_eq!(sum.responses, BTreeMap::from([(200, 3), (500, 1)]));
        assert_eq!(sum.latencies_us, [1, 5, 7, 9]);
    }

    #[test]
    fn percentile_of_nothing_is_none() {
        assert_eq!(TargetTally::default().percentile(50), None);
        let tally = TargetTally { latencies_us: (1..=101).collect(), ..TargetTally::default() };
        assert_eq!(tally.percentile(50), Some(Duration::from_micros(51)));
        assert_eq!(tally.percentile(100), Some(Duration::from_micros(101)));
    }
}
