//! Real web servers, all with the same routes: nginx, Python's `http.server` and Node's `http`.
//!
//! | route | answer |
//! | --- | --- |
//! | `/ok`, `/healthz` | 200 |
//! | `/created`, `/empty`, `/moved`, `/missing`, `/fail`, `/unavailable` | 201, 204, 301, 404, 500, 503 |
//! | `/large` | 200 with [`LARGE`] bytes of body; nginx sends a file with `sendfile` |
//! | `/drop` | closes the connection without an answer |
//! | `/api/pay`, `/api/cart` | 200; from a faulty server 500, and no answer |
//! | `/reset` (not nginx) | resets the connection |
//! | `/hints` (Node) | two interim 103, then 200 |
//! | `POST /echo` (not nginx) | 200 once the body has been read |
//!
//! That a server listens is read from the kernel's table of sockets: connecting would be a connection that tests then count.

use std::{
    collections::BTreeMap,
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::process::{Place, Process};

/// Bytes of the body of `/large`.
pub const LARGE: usize = 5_000_000;

const START_TIMEOUT: Duration = Duration::from_secs(10);
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Which program serves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    Nginx,
    Python,
    Node,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Nginx, Self::Python, Self::Node];

    /// The program's name, as it is looked for in `PATH`.
    pub fn program(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Python => "python3",
            Self::Node => "node",
        }
    }
}

/// The programs that are not installed here.
pub fn missing() -> Vec<&'static str> {
    let is_missing = |program: &&str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        // Debian has nginx in a folder that only root's PATH names.
        !std::env::split_paths(&paths).chain(["/usr/sbin".into()]).any(|dir| dir.join(program).is_file())
    };
    Kind::ALL.map(Kind::program).into_iter().filter(is_missing).collect()
}

/// On which addresses a server listens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Listen {
    /// `0.0.0.0`.
    Ipv4,
    /// `::`, which takes IPv4 too.
    DualStack,
    /// As [`Listen::DualStack`], with `TCP_DEFER_ACCEPT` (nginx only).
    Deferred,
}

/// How to run a server.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub kind: Kind,
    pub port: u16,
    pub listen: Listen,
    /// `/api/pay` and `/api/cart` fail; everything else, and so a readiness probe, is fine.
    pub faulty: bool,
    /// Processes that serve (nginx only).
    pub workers: u8,
    /// Whether each response is written to a log, from which [`Server::responses`] comes (nginx only).
    pub access_log: bool,
}

impl Options {
    /// Without fault, dual-stack, port 8080.
    pub fn new(kind: Kind) -> Self {
        Self { kind, port: 8080, listen: Listen::DualStack, faulty: false, workers: 2, access_log: true }
    }
}

/// A server that listens. Stopped on drop, with all its processes.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    process: Process,
    dir: TempDir,
}

impl Server {
    /// Starts it, and waits until it listens.
    pub fn start(place: &Place, options: Options) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let command = match options.kind {
            Kind::Nginx => nginx(&dir, options)?,
            Kind::Python => script(&dir, options, "server.py", include_str!("server/server.py"))?,
            Kind::Node => script(&dir, options, "server.js", include_str!("server/server.js"))?,
        };
        let mut server = Self { kind: options.kind, process: Process::spawn_in(command, place)?, dir };
        let deadline = Instant::now() + START_TIMEOUT;
        while !server.listens(options.port) {
            let waits = server.process.is_running() && Instant::now() < deadline;
            ensure!(
                waits,
                "{} does not listen on port {}\n{}",
                server.kind.program(),
                options.port,
                server.process.log_tail()
            );
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// How many responses of each status the server itself says to have written. nginx writes its log after the response,
    /// so a test waits for the sum that it expects.
    pub fn responses(&self) -> BTreeMap<u16, u64> {
        let log = match self.kind {
            Kind::Nginx => fs::read_to_string(self.dir.path().join("access.log")).unwrap_or_default(),
            Kind::Python | Kind::Node => self.process.log(),
        };
        tally(&log)
    }

    /// Lets it finish what it has begun, and end.
    pub fn quit(&mut self, timeout: Duration) -> Result<()> {
        self.process.signal(if self.kind == Kind::Nginx { libc::SIGQUIT } else { libc::SIGTERM });
        self.process.wait(timeout).map(drop)
    }

    /// The process itself; nginx's master.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn listens(&self, port: u16) -> bool {
        let table = |name| fs::read_to_string(format!("/proc/{}/net/{name}", self.process.id())).unwrap_or_default();
        [table("tcp"), table("tcp6")].iter().any(|table| has_listener(table, port))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // nginx's master takes its workers along only when it is asked; killed, it would leave them behind.
        if self.process.is_running() {
            self.process.signal(libc::SIGTERM);
            if let Err(error) = self.process.wait(STOP_TIMEOUT) {
                eprintln!("{error:#}");
            }
        }
    }
}

fn nginx(dir: &TempDir, options: Options) -> Result<Command> {
    let path = dir.path();
    fs::write(path.join("large"), vec![b'x'; LARGE])?;
    let port = options.port;
    let listen = match options.listen {
        Listen::Ipv4 => format!("0.0.0.0:{port}"),
        Listen::DualStack => format!("[::]:{port} ipv6only=off"),
        Listen::Deferred => format!("[::]:{port} ipv6only=off deferred"),
    };
    let (pay, cart) = if options.faulty { ("return 500", "return 444") } else { ("return 200 ok", "return 200 ok") };
    let access_log =
        if options.access_log { format!("{}/access.log status", path.display()) } else { "off".to_owned() };
    let config = include_str!("server/nginx.conf")
        .replace("@DIR@", &path.display().to_string())
        .replace("@LISTEN@", &listen)
        .replace("@WORKERS@", &options.workers.to_string())
        .replace("@ACCESS_LOG@", &access_log)
        .replace("@PAY@", pay)
        .replace("@CART@", cart);
    fs::write(path.join("nginx.conf"), config)?;
    let mut command = Command::new(Kind::Nginx.program());
    // `-e`: else it opens its compiled-in error log before it reads the configuration.
    command.args(["-e", "stderr", "-p"]).arg(path).arg("-c").arg(path.join("nginx.conf"));
    Ok(command)
}

fn script(dir: &TempDir, options: Options, name: &str, source: &str) -> Result<Command> {
    ensure!(options.listen != Listen::Deferred, "only nginx is asked for TCP_DEFER_ACCEPT");
    let path = dir.path().join(name);
    fs::write(&path, source)?;
    let host = if options.listen == Listen::Ipv4 { "0.0.0.0" } else { "::" };
    let mut command = Command::new(options.kind.program());
    command.arg(path).args([host, &options.port.to_string(), &LARGE.to_string()]);
    command.args(options.faulty.then_some("faulty"));
    Ok(command)
}

/// Responses by status in a server's log. 444 is nginx's word for none.
fn tally(log: &str) -> BTreeMap<u16, u64> {
    let mut tally = BTreeMap::new();
    let statuses = log.lines().filter_map(|line| line.strip_prefix("response ")?.parse().ok());
    for status in statuses.filter(|status| *status != 444) {
        *tally.entry(status).or_default() += 1;
    }
    tally
}

/// Whether a table as in `/proc/net/tcp` has a listening socket on this port (state `0A`, `TCP_LISTEN`).
fn has_listener(table: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|address| address.ends_with(&local)) && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{has_listener, tally};

    #[test]
    fn listener_is_found_by_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 00000000:1F90 00000000:0000 0A 00000000:00000000\n   1: 0100007F:1F91 0100007F:0050 01 0\n";
        assert!(has_listener(table, 8080));
        assert!(!has_listener(table, 8081), "a connection is no listener");
        assert!(!has_listener("", 8080));
    }

    #[test]
    fn log_is_tallied_by_status_without_nginx_s_word_for_none() {
        let log = "starting\nresponse 200\nresponse 500\nresponse 444\nresponse 200\n";
        assert_eq!(tally(log), BTreeMap::from([(200, 2), (500, 1)]));
    }
}
