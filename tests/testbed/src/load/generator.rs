//! The child's side of [`super::Load`]: one thread for each connection, blocking sockets.

use std::{
    io::{BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    Request, Target, TargetTally,
    message::{Missing, Response, read_head, read_response, read_rest},
    when_stdin_ends,
};

const TIMEOUT: Duration = Duration::from_secs(10);
const USER_AGENT: &str = "testbed-load/1";

/// Runs load on all targets until the requests are used up or stdin ends.
pub(super) fn run(targets: &[Target]) -> Vec<TargetTally> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    when_stdin_ends(move || asked.store(true, Ordering::Relaxed));
    thread::scope(|scope| {
        let running: Vec<_> = targets.iter().map(|target| scope.spawn(|| run_target(target, &stop))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

fn run_target(target: &Target, stop: &AtomicBool) -> TargetTally {
    let schedule = schedule(&target.requests);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let connect = |_| scope.spawn(|| Connection::new(target).run(&schedule, &next, stop));
        let connections: Vec<_> = (0..target.connections).map(connect).collect();
        let mut sum = TargetTally::default();
        for connection in connections {
            // A panic there leaves this tally without its requests, which no comparison overlooks.
            sum.add(&connection.join().unwrap_or_default());
        }
        sum
    })
}

/// Indices of the requests, each as often as its count says, mixed evenly (smooth weighted round robin).
fn schedule(requests: &[Request]) -> Vec<usize> {
    let total: i64 = requests.iter().map(|request| i64::from(request.count)).sum();
    let mut credit = vec![0; requests.len()];
    let mut order = Vec::new();
    for _ in 0..total {
        for (credit, request) in credit.iter_mut().zip(requests) {
            *credit += i64::from(request.count);
        }
        let by_credit = credit.iter_mut().enumerate().rev(); // of equals the first is chosen
        let (chosen, credit) = by_credit.max_by_key(|(_, credit)| **credit).expect("the total is not 0");
        *credit -= total;
        order.push(chosen);
    }
    order
}

/// One connection at a time, opened when a request needs it.
struct Connection<'a> {
    target: &'a Target,
    stream: Option<BufReader<TcpStream>>,
    tally: TargetTally,
}

impl<'a> Connection<'a> {
    fn new(target: &'a Target) -> Self {
        Self { target, stream: None, tally: TargetTally::default() }
    }

    fn run(mut self, schedule: &[usize], next: &AtomicUsize, stop: &AtomicBool) -> TargetTally {
        while !stop.load(Ordering::Relaxed) && !schedule.is_empty() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= schedule.len() && !self.target.until_stopped {
                break;
            }
            self.send(&self.target.requests[schedule[at % schedule.len()]]);
            thread::sleep(self.target.interval);
        }
        self.tally
    }

    fn send(&mut self, request: &Request) {
        let Some(mut stream) = self.idle_stream().or_else(|| self.connect()) else {
            self.tally.connect_errors += 1;
            return thread::sleep(Duration::from_millis(20));
        };
        self.tally.sent += 1;
        let start = Instant::now();
        match ask(&mut stream, request, &self.target.address, self.target.keep_alive) {
            Ok(response) => {
                *self.tally.responses.entry(response.status).or_default() += 1;
                self.tally.cut_short += u64::from(!response.complete);
                let latency = response.at.duration_since(start).as_micros();
                self.tally.latencies_us.push(u64::try_from(latency).unwrap_or(u64::MAX));
                if response.keep_alive && self.target.keep_alive {
                    self.stream = Some(stream);
                } else {
                    wait_for_end(stream);
                }
            }
            Err(Missing::Closed) => self.tally.no_response_closed += 1,
            Err(Missing::Reset) => self.tally.no_response_reset += 1,
            Err(Missing::TimedOut) => self.tally.timed_out += 1,
        }
    }

    /// The open connection, unless the server has closed it meanwhile.
    fn idle_stream(&mut self) -> Option<BufReader<TcpStream>> {
        let stream = self.stream.take()?;
        let socket = stream.get_ref();
        socket.set_nonblocking(true).ok()?;
        let peeked = socket.peek(&mut [0]);
        socket.set_nonblocking(false).ok()?;
        matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock).then_some(stream)
    }

    fn connect(&mut self) -> Option<BufReader<TcpStream>> {
        let stream = connect(&self.target.address)?;
        self.tally.connections += 1;
        Some(stream)
    }
}

/// Opens a connection with the timeouts that every request has.
pub(super) fn connect(address: &str) -> Option<BufReader<TcpStream>> {
    let address: SocketAddr = address.parse().ok()?;
    let stream = TcpStream::connect_timeout(&address, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(BufReader::new(stream))
}

fn ask(
    stream: &mut BufReader<TcpStream>,
    request: &Request,
    host: &str,
    keep_alive: bool,
) -> Result<Response, Missing> {
    let mut bytes = head(request, host, USER_AGENT, keep_alive).into_bytes();
    let body = vec![b'x'; request.body];
    if request.expect_continue {
        // What happens to the write, the read says too.
        let _written = stream.get_mut().write_all(&bytes);
        let first = read_head(stream)?;
        if first.status != 100 {
            return Ok(read_rest(stream, first, &request.method));
        }
        bytes.clear();
    }
    bytes.extend(body);
    let written = stream.get_mut().write_all(&bytes);
    // A server may answer before it has read the body, and close: the answer counts although the write failed.
    let response = read_response(stream, &request.method)?;
    Ok(Response { keep_alive: response.keep_alive && written.is_ok(), ..response })
}

pub(super) fn head(request: &Request, host: &str, user_agent: &str, keep_alive: bool) -> String {
    let Request { method, path, body, expect_continue, .. } = request;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {user_agent}\r\n");
    if method == "POST" || *body > 0 {
        head += "Content-Length: ";
        head += &body.to_string();
        head += "\r\n";
    }
    if *expect_continue {
        head += "Expect: 100-continue\r\n";
    }
    if !keep_alive {
        head += "Connection: close\r\n";
    }
    head + "\r\n"
}

/// Lets the server close first, so that no close meets bytes on their way.
pub(super) fn wait_for_end(mut stream: BufReader<TcpStream>) {
    let mut rest = [0; 4096];
    while matches!(stream.read(&mut rest), Ok(1..)) {}
}

#[cfg(test)]
mod tests {
    use super::{super::gets, schedule};

    #[test]
    fn schedule_has_every_request_as_often_as_it_says_mixed_evenly() {
        assert_eq!(schedule(&gets(&[("/a", 4), ("/b", 2), ("/none", 0)])), [0, 1, 0, 0, 1, 0]);
        assert_eq!(schedule(&gets(&[("/large", 2), ("/fail", 2)])), [0, 1, 0, 1]);
        assert!(schedule(&gets(&[])).is_empty());
    }
}
