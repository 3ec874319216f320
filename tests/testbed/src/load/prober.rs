//! Probes as a kubelet makes them for `httpGet`: a new connection each time, its User-Agent, `Connection: close`.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::Child,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{
    Request, end,
    generator::{connect, head, wait_for_end},
    message::read_response,
    spawn, when_stdin_ends,
};
use crate::process::Place;

const USER_AGENT: &str = "kube-probe/1.33";
const REFUSED: &str = "refused";
const NO_RESPONSE: &str = "no response";

/// What became of the probes of one pod.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProbeTally {
    /// Responses by status code.
    pub responses: BTreeMap<u16, u64>,
    /// Probes without a response: not connected, or no answer.
    pub failed: u64,
}

/// Probes one pod until it is finished; on drop it ends at once.
#[derive(Debug)]
pub struct Prober {
    child: Child,
    results: Receiver<String>,
    tally: ProbeTally,
    ready: bool,
}

#[derive(Debug, Deserialize, Serialize)]
struct Spec {
    address: String,
    path: String,
    period: Duration,
}

impl Prober {
    /// Starts to probe `address` every `period`, at once for the first time.
    pub fn start(place: &Place, address: &str, path: &str, period: Duration) -> Result<Self> {
        let spec = Spec { address: address.to_owned(), path: path.to_owned(), period };
        let mut child = spawn(place, "prober", &serde_json::to_string(&spec)?)?;
        let lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
        let (sender, results) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Self { child, results, tally: ProbeTally::default(), ready: false })
    }

    /// Whether the last probe succeeded: a status from 200 to 399, as for a kubelet.
    pub fn ready(&mut self) -> bool {
        while let Ok(result) = self.results.try_recv() {
            self.take(&result);
        }
        self.ready
    }

    /// Lets a probe in flight finish, and makes no more.
    pub fn finish(mut self) -> Result<ProbeTally> {
        drop(self.child.stdin.take());
        while let Ok(result) = self.results.recv() {
            self.take(&result);
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "the prober ended with {status}");
        Ok(std::mem::take(&mut self.tally))
    }

    fn take(&mut self, result: &str) {
        if let Ok(status) = result.parse::<u16>() {
            *self.tally.responses.entry(status).or_default() += 1;
            self.ready = (200..400).contains(&status);
        } else {
            self.tally.failed += 1;
            self.ready = false;
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// The child's side: a line for each probe.
pub(super) fn child(spec: &serde_json::Value) -> Result<()> {
    let spec = Spec::deserialize(spec)?;
    let (sender, stop) = mpsc::channel::<()>();
    when_stdin_ends(move || drop(sender));
    loop {
        let next = Instant::now() + spec.period;
        println!("{}", probe(&spec));
        match stop.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
    }
}

fn probe(spec: &Spec) -> String {
    let Some(mut stream) = connect(&spec.address) else { return REFUSED.to_owned() };
    let request = head(&Request::get(&spec.path, 1), &spec.address, USER_AGENT, false);
    if stream.get_mut().write_all(request.as_bytes()).is_err() {
        return NO_RESPONSE.to_owned();
    }
    match read_response(&mut stream, "GET") {
        Ok(response) => {
            wait_for_end(stream);
            response.status.to_string()
        }
        Err(_) => NO_RESPONSE.to_owned(),
    }
}
