//! The real daemon as a child process, and what it exports.

mod exposition;

use std::{
    env,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

pub use self::exposition::{Sample, parse, sum};
use crate::{controlplane::free_port, process::Process};

/// Names the daemon's binary, where it is not beside the program that runs.
pub const BINARY_VARIABLE: &str = "ROLLOUT_PROBE_BIN";

const NAME: &str = "rollout-probe";
/// Most of it is the verifier's, which has been slow on virtual machines.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// A daemon that is ready. Killed on drop, and then what it attached is gone too.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    address: SocketAddr,
}

/// The daemon's binary, or where it should have been.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = env::var_os(BINARY_VARIABLE) {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "{BINARY_VARIABLE}=`{}` is no file", path.display());
        return Ok(path);
    }
    let program = env::current_exe()?;
    let dirs = program.ancestors().skip(1).take(2); // the binaries' folder, or `deps` in it for a test
    let mut candidates = dirs.map(|dir| dir.join(NAME));
    let found = candidates.find(|path| path.is_file());
    found.with_context(|| {
        format!("no {NAME} beside `{}`: run `cargo build -p {NAME}`, or set {BINARY_VARIABLE}", program.display())
    })
}

impl Daemon {
    /// Runs it with these flags on a loopback port, and returns when it says that it is ready.
    pub fn start(flags: &[&str]) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let mut command = Command::new(binary()?);
        command.args(["run", "--metrics-addr", &address.to_string(), "--log-format", "text"]).args(flags);
        command.env_remove("NODE_NAME"); // what counts is what `flags` say
        let mut daemon = Self { process: Process::spawn(command)?, address };
        daemon.wait_until_ready()?;
        Ok(daemon)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = self.get("/readyz", "*/*") {
            if !self.process.is_running() || Instant::now() > deadline {
                let log = self.process.log_tail();
                return Err(error.context(format!("the daemon was not ready within {START_TIMEOUT:?}\n{log}")));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All samples of `/metrics`.
    pub fn scrape(&self) -> Result<Vec<Sample>> {
        parse(&self.scrape_prometheus_text()?)
    }

    /// `/metrics` as it is without content negotiation.
    pub fn scrape_prometheus_text(&self) -> Result<String> {
        self.get("/metrics", "text/plain;version=0.0.4")
    }

    /// `/metrics` as Prometheus asks for it.
    pub fn scrape_openmetrics(&self) -> Result<String> {
        self.get("/metrics", "application/openmetrics-text;version=1.0.0")
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) -> Result<ExitStatus> {
        self.process.signal(libc::SIGTERM);
        self.process.wait(STOP_TIMEOUT)
    }

    fn get(&self, path: &str, accept: &str) -> Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, REQUEST_TIMEOUT)?;
        stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        // HTTP/1.0: the answer comes unchunked and ends with the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\nAccept: {accept}\r\n\r\n", self.address)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
        ensure!(head.split(' ').nth(1) == Some("200"), "{path} answered: {head}\n{body}");
        Ok(body.to_owned())
    }
}
