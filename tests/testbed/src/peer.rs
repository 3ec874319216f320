//! Scripted ends of TCP connections, byte for byte: for what no real server or client does on demand.
//!
//! Each end runs in a process of its own in its place, as load does, and plays one list of steps for each connection, one
//! connection after the other. A step that does not go as written ends the process with an error, which [`Peer::wait`] gives.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt, socket,
    sockopt::{Linger, ReuseAddr},
};
use serde::{Deserialize, Serialize};

use crate::process::{Place, spawn_placed};

/// First argument of the processes that are started here.
pub(crate) const CHILD: &str = "testbed-peer";

const TIMEOUT: Duration = Duration::from_secs(5);
const LISTENING: &str = "listening";
const MET: &str = "met";

/// One step of one end. Writes go out at once, each as a segment of its own.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Step {
    Send(Vec<u8>),
    /// Exactly this many bytes.
    Receive(usize),
    /// The other end finishes sending; it has sent nothing more.
    ReceiveEnd,
    /// The other end resets the connection.
    ReceiveReset,
    /// Sends a FIN and goes on receiving.
    FinishSending,
    /// Closes with a reset (`SO_LINGER` 0); the last step.
    Reset,
    Pause(Duration),
    /// These steps, this many times.
    Repeat(u32, Vec<Step>),
    /// Waits for [`Peer::meet`] and [`Peer::go_on`].
    Meet,
}

/// Sends these bytes.
pub fn send(bytes: impl AsRef<[u8]>) -> Step {
    Step::Send(bytes.as_ref().to_vec())
}

/// Receives as many bytes as these are.
pub fn receive(bytes: impl AsRef<[u8]>) -> Step {
    Step::Receive(bytes.as_ref().len())
}

/// Sends the bytes in two segments, the first `at` bytes long, a moment apart.
pub fn send_split(bytes: impl AsRef<[u8]>, at: usize) -> Vec<Step> {
    let (first, second) = bytes.as_ref().split_at(at);
    vec![send(first), Step::Pause(Duration::from_millis(2)), send(second)]
}

#[derive(Debug, Deserialize, Serialize)]
struct Spec {
    listens: bool,
    address: SocketAddr,
    local: Option<SocketAddr>,
    connections: Vec<Vec<Step>>,
}

/// A running end. Killed on drop.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Listens, and plays these steps with each connection that it accepts.
    pub fn listen(place: &Place, address: &str, connections: &[Vec<Step>]) -> Result<Self> {
        let mut peer = Self::start(place, true, address, None, connections)?;
        peer.expect(LISTENING)?;
        Ok(peer)
    }

    /// Connects for each list of steps.
    pub fn connect(place: &Place, address: &str, connections: &[Vec<Step>]) -> Result<Self> {
        Self::start(place, false, address, None, connections)
    }

    /// Connects from this local address and port.
    pub fn connect_from(place: &Place, local: &str, address: &str, connections: &[Vec<Step>]) -> Result<Self> {
        Self::start(place, false, address, Some(local.parse()?), connections)
    }

    fn start(
        place: &Place,
        listens: bool,
        address: &str,
        local: Option<SocketAddr>,
        connections: &[Vec<Step>],
    ) -> Result<Self> {
        let address = address.parse().with_context(|| format!("address `{address}`"))?;
        let spec = Spec { listens, address, local, connections: connections.to_vec() };
        let mut command = Command::new("/proc/self/exe");
        command.arg(CHILD).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn_placed(&mut command, place)?;
        let output = BufReader::new(child.stdout.take().context("stdout is piped")?);
        let mut peer = Self { child, output };
        // A line, not an argument: bodies may be longer than an argument can be.
        peer.write_line(&serde_json::to_string(&spec)?)?;
        Ok(peer)
    }

    /// Waits until it has come to a [`Step::Meet`].
    pub fn meet(&mut self) -> Result<()> {
        self.expect(MET)
    }

    /// Lets it go on from a [`Step::Meet`].
    pub fn go_on(&mut self) -> Result<()> {
        self.write_line("")
    }

    /// Waits until all steps are done; an error when one did not go as written.
    pub fn wait(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        let status = self.child.wait()?; // its timeouts are its own
        let mut error = String::new();
        self.child.stderr.take().context("stderr is piped")?.read_to_string(&mut error)?;
        ensure!(status.success(), "a scripted peer failed: {}", error.trim());
        Ok(())
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            self.finish()?; // says why
        }
        ensure!(line.trim() == wanted, "a scripted peer said `{}` and not `{wanted}`", line.trim());
        Ok(())
    }

    fn write_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("stdin is piped")?;
        writeln!(stdin, "{line}")?;
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The child's side.
pub(crate) fn child() -> Result<()> {
    let spec: Spec = serde_json::from_str(&read_line()?)?;
    let listener = if spec.listens { Some(listener(spec.address)?) } else { None };
    for (number, steps) in spec.connections.iter().enumerate() {
        let stream = match &listener {
            Some(listener) => listener.accept().context("cannot accept")?.0,
            None => {
                connected(spec.local, spec.address).with_context(|| format!("cannot connect to {}", spec.address))?
            }
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let side = if spec.listens { "accepted" } else { "own" };
        play(stream, steps).with_context(|| format!("{side} connection {number}"))?;
    }
    Ok(())
}

fn listener(address: SocketAddr) -> Result<TcpListener> {
    let socket = stream_socket(address)?;
    setsockopt(&socket, ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&socket, Backlog::new(64)?)?;
    println!("{LISTENING}");
    Ok(socket.into())
}

fn connected(local: Option<SocketAddr>, address: SocketAddr) -> Result<TcpStream> {
    let socket = stream_socket(address)?;
    if let Some(local) = local {
        setsockopt(&socket, ReuseAddr, &true)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(local)).with_context(|| format!("cannot bind {local}"))?;
    }
    connect(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(socket.into())
}

fn stream_socket(address: SocketAddr) -> Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    Ok(socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?)
}

fn play(mut stream: TcpStream, steps: &[Step]) -> Result<()> {
    for (number, step) in steps.iter().enumerate() {
        take(&mut stream, step).with_context(|| format!("step {number}"))?;
    }
    Ok(())
}

fn take(stream: &mut TcpStream, step: &Step) -> Result<()> {
    match step {
        Step::Send(bytes) => stream.write_all(bytes).context("send")?,
        Step::Receive(length) => {
            stream.read_exact(&mut vec![0; *length]).with_context(|| format!("receive {length} bytes"))?;
        }
        Step::ReceiveEnd => {
            let mut more = Vec::new();
            stream.read_to_end(&mut more).context("receive the end")?;
            ensure!(more.is_empty(), "instead of the end came {:?}", String::from_utf8_lossy(&more));
        }
        Step::ReceiveReset => {
            let read = stream.read(&mut [0]);
            let is_reset = matches!(&read, Err(error) if error.kind() == ErrorKind::ConnectionReset);
            ensure!(is_reset, "instead of a reset came {read:?}");
        }
        Step::FinishSending => stream.shutdown(Shutdown::Write)?,
        Step::Reset => setsockopt(stream, Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?,
        Step::Pause(duration) => thread::sleep(*duration),
        Step::Repeat(times, steps) => {
            for number in 0..*times {
                steps.iter().try_for_each(|step| take(stream, step)).with_context(|| format!("time {number}"))?;
            }
        }
        Step::Meet => {
            println!("{MET}");
            read_line()?;
        }
    }
    Ok(())
}

fn read_line() -> Result<String> {
    let mut line = String::new();
    ensure!(std::io::stdin().lock().read_line(&mut line)? > 0, "the parent is gone");
    Ok(line)
}
