//! One connection's state, and the rules that move it from segment to segment.
//!
//! **What is decided here.** On a connection with at most one outstanding request, heads alternate: a request head, its
//! final response head, the next request head. So it is enough to know *at which sequence number the next head starts*
//! ([`Stream::expect`]) and to look at the few bytes there. Bodies are never read, and bytes inside them cannot be taken
//! for heads.
//!
//! **Segments may come twice, late, merged or out of order.** Programs run before TCP accepts a segment (ingress) and see
//! retransmissions (egress). A head is looked for at its sequence number and nowhere else: old copies do not cover it, and a
//! hole in front of it only means that it comes later. Nothing is guessed over.
//!
//! **When the rules do not fit** (a head is expected and the bytes are none) the connection is lost: counted by reason and
//! not followed, until a request head follows bytes of the other side, which is a message boundary again. Not followed yet:
//! pipelined requests, and bodies that go on after an early final response.
//!
//! **Who writes what.** One direction's [`Stream`] is written by that direction's program, except that a request arms the
//! wait for its response and a final response the wait for the next request. The two programs may run at the same time
//! on two CPUs, but the conversation itself orders these steps: the peer's next message is caused by the last one.

use crate::{
    outcome::{LostSync, NoResponse, Origin, Phase, Role},
    wire::http1::{Head, HeadEnd, WINDOW, Window},
};

/// Heads, and pieces of heads, looked at in one packet. Four interim responses with their final one need nine.
pub const STEPS: u32 = 12;
/// Turns of a lost connection without a request head after which it is taken for another protocol.
const MISSES: u8 = 16;

/// Which program sees the packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// Towards the socket.
    Ingress = 0,
    /// From the socket.
    Egress = 1,
}

/// What is known of the connection's protocol. See [`Flow::state`].
pub mod state {
    /// No payload byte seen yet.
    pub const UNDECIDED: u8 = 0;
    /// HTTP/1, and in step with it.
    pub const FOLLOWED: u8 = 1;
    /// Maybe HTTP/1, not in step: waits for a certain message boundary.
    pub const LOST: u8 = 2;
    /// Not HTTP/1, or not any more: never looked into again.
    pub const OPAQUE: u8 = 3;
}

/// What a direction waits for. See [`Stream::wait`].
pub mod wait {
    /// Nothing: what comes is a body.
    pub const NOTHING: u8 = 0;
    /// A message head that starts at `expect`.
    pub const HEAD: u8 = 1;
    /// The end of an interim response's head; `expect` is the next byte to look at.
    pub const INTERIM_END: u8 = 2;
}

/// One direction of a connection. Sequence numbers wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Sequence number after the last payload byte seen so far.
    pub end: u32,
    /// Sequence number of the next byte that matters.
    pub expect: u32,
    /// Sequence number after the last byte that the peer will ever send; valid when `fin_seen`.
    pub fin: u32,
    /// 1 when `end` is valid: from the handshake, or from a first segment.
    pub known: u8,
    /// 1 once a FIN was seen.
    pub fin_seen: u8,
    /// One of [`wait`].
    pub wait: u8,
    /// Where in an interim head the bytes before `expect` ended.
    pub head_end: HeadEnd,
    /// First bytes of the awaited head.
    pub window: Window,
    /// Explicit padding.
    pub reserved: [u8; 2],
}

impl Stream {
    /// Waits for a head at the next byte that was not seen yet.
    #[inline(always)]
    fn await_head(&mut self) {
        self.wait = wait::HEAD;
        self.expect = self.end;
        self.window.filled = 0;
    }

    #[inline(always)]
    fn starts_at(&mut self, seq: u32) {
        self.end = seq;
        self.known = 1;
        self.await_head();
    }

    #[inline(always)]
    fn extend_to(&mut self, end: u32) {
        if self.known == 0 || is_after(end, self.end) {
            self.end = end;
            self.known = 1;
        }
    }
}

/// One connection. Lives in the kernel's socket storage, which starts as zeroes and is freed with the socket.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Cgroup v2 id of the socket (its creator's); 0 until the first packet.
    pub cgroup: u64,
    /// `CLOCK_MONOTONIC` nanoseconds of the outstanding request's first byte; 0 when it was not seen.
    pub request_ns: u64,
    /// Bytes towards the socket.
    pub ingress: Stream,
    /// Bytes from the socket.
    pub egress: Stream,
    /// One of [`state`].
    pub state: u8,
    /// Who opened the connection: the socket was accepted (`SERVER`) or connected (`CLIENT`).
    pub opened: Role,
    /// Who asks: known from the first head.
    pub role: Role,
    /// Who the peer is.
    pub origin: Origin,
    /// 1 while a request has no final response head.
    pub outstanding: u8,
    /// 1 once a final response was seen.
    pub answered: u8,
    /// 1 when the outstanding request is a `CONNECT`.
    pub connect: u8,
    /// 1 once a reset was sent on or accepted from this connection.
    pub reset: u8,
    /// 1 once the connection itself was counted.
    pub counted: u8,
    /// 1 once the state below and above was set up (storage starts as zeroes).
    pub live: u8,
    /// In `LOST`: 1 + the direction of the last payload, 0 for none.
    pub turn: u8,
    /// In `LOST`: turns that were no request head.
    pub misses: u8,
    /// 1 while nothing of a connection that is older than the programs was understood.
    pub older: u8,
    /// Explicit padding.
    pub reserved: [u8; 3],
}

/// The payload of one TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Sequence number of the first payload byte.
    pub seq: u32,
    /// Bytes of payload.
    pub len: u32,
    /// The segment carries a FIN.
    pub fin: bool,
}

/// Access to a segment's bytes. Implemented over the socket buffer in the kernel and over slices in tests.
pub trait Payload {
    /// Reads payload bytes `[offset, offset + n)` to `window[at..at + n]`, with `n >= 1` and `at + n <= WINDOW`; false if it cannot.
    fn load(&mut self, offset: u32, window: &mut [u8; WINDOW], at: u32, n: u32) -> bool;
    /// `CLOCK_MONOTONIC` in nanoseconds.
    fn now(&mut self) -> u64;
}

/// What to do next in a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Nothing more.
    Done,
    /// Call [`Flow::step`] again.
    Again,
    /// Take payload bytes from `offset` on, at most `len`, through [`Stream::head_end`] until one ends the head, and call [`Flow::scanned`].
    Scan {
        /// Where to begin.
        offset: u32,
        /// Bytes to the segment's end.
        len: u32,
    },
}

/// Where outcomes go: the counter maps in the kernel, a list in tests.
pub trait Outcomes {
    /// A final response head. `latency` in nanoseconds from the request's first byte, when that was seen.
    fn response(&mut self, flow: &Flow, status: u16, latency: Option<u64>);
    /// A request that will never get a response head.
    fn no_response(&mut self, flow: &Flow, how: NoResponse);
    /// Counting stopped on this connection.
    fn lost(&mut self, why: LostSync);
}

impl Flow {
    /// A connection seen from its start. `rx` and `tx` are the sequence numbers of the first payload byte of each direction.
    #[inline(always)]
    pub fn open(&mut self, opened: Role, origin: Origin, rx: u32, tx: u32) {
        self.live = 1;
        self.opened = opened;
        self.origin = origin;
        self.ingress.starts_at(rx);
        self.egress.starts_at(tx);
    }

    /// A connection older than the programs. Whether it is HTTP/1 at all is not known yet, so nothing is lost yet.
    #[inline(always)]
    pub fn join(&mut self) {
        self.live = 1;
        // It was opened before counting began, so it is not a new connection.
        self.counted = 1;
        self.older = 1;
        self.state = state::LOST;
    }

    /// What the connection is doing, for a reset.
    #[inline(always)]
    pub fn phase(&self) -> Phase {
        if self.outstanding != 0 {
            Phase::OUTSTANDING
        } else if self.answered != 0 {
            Phase::AFTER_RESPONSE
        } else {
            Phase::IDLE
        }
    }

    /// The connection's role for counts of the connection itself: who opened it, else who asked.
    #[inline(always)]
    pub fn tcp_role(&self) -> Role {
        if self.opened == Role::UNKNOWN { self.role } else { self.opened }
    }

    /// One direction.
    #[inline(always)]
    pub fn stream(&mut self, direction: Direction) -> &mut Stream {
        match direction {
            Direction::Ingress => &mut self.ingress,
            Direction::Egress => &mut self.egress,
        }
    }

    #[inline(always)]
    fn other(&mut self, direction: Direction) -> &mut Stream {
        match direction {
            Direction::Ingress => &mut self.egress,
            Direction::Egress => &mut self.ingress,
        }
    }

    /// Whether `direction` carries the requests. Meaningful once the role is known.
    #[inline(always)]
    fn carries_requests(&self, direction: Direction) -> bool {
        (self.role == Role::SERVER) == (direction == Direction::Ingress)
    }

    #[inline(always)]
    fn lose(&mut self, why: LostSync, outcomes: &mut impl Outcomes) {
        self.state = state::LOST;
        self.outstanding = 0;
        self.request_ns = 0;
        self.turn = 0;
        self.misses = 0;
        outcomes.lost(why);
    }

    /// The short way for most packets of most bodies: true when the segment is one and that is all there is to know.
    #[inline(always)]
    pub fn is_body(&mut self, direction: Direction, segment: Segment) -> bool {
        let is_followed = self.state == state::FOLLOWED;
        let stream = self.stream(direction);
        if !is_followed || stream.wait != wait::NOTHING || segment.fin {
            return false;
        }
        stream.extend_to(segment.seq.wrapping_add(segment.len));
        true
    }

    /// Last step of a segment: what came is behind us, and a FIN may end the wait for a response.
    #[inline(always)]
    pub fn finish(&mut self, direction: Direction, segment: Segment, outcomes: &mut impl Outcomes) {
        let stream = self.stream(direction);
        let end = segment.seq.wrapping_add(segment.len);
        if segment.len > 0 {
            stream.extend_to(end);
        }
        if segment.fin {
            stream.fin = end;
            stream.fin_seen = 1;
        }
        self.check_end(outcomes);
    }

    /// A packet had more heads than its budget.
    #[inline(always)]
    pub fn exhausted(&mut self, outcomes: &mut impl Outcomes) {
        self.lose(LostSync::HEAD_BUDGET, outcomes);
    }

    /// Looks at the next bytes that matter, if this segment has them.
    ///
    /// A segment is taken by `step` until it answers [`Step::Done`] (at most [`STEPS`] times, then [`Flow::exhausted`]), and
    /// then by [`Flow::finish`]. The kernel side makes the loop itself, because there each step is a function of its own.
    #[inline(always)]
    pub fn step(
        &mut self,
        direction: Direction,
        segment: Segment,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) -> Step {
        if self.state > state::FOLLOWED {
            if self.state == state::LOST && segment.len > 0 {
                self.resume(direction, segment, payload, outcomes);
            }
            return Step::Done;
        }
        let stream = self.stream(direction);
        let at = match stream.wait {
            wait::HEAD => stream.expect.wrapping_add(u32::from(stream.window.filled)),
            wait::INTERIM_END => stream.expect,
            _ => return Step::Done,
        };
        // Before this segment's first byte (then it comes later) or behind its last: both are a large offset.
        let offset = at.wrapping_sub(segment.seq);
        if offset >= segment.len {
            return Step::Done;
        }
        let rest = segment.len - offset;
        if stream.wait == wait::INTERIM_END {
            return Step::Scan { offset, len: rest };
        }
        let filled = u32::from(stream.window.filled);
        if filled >= WINDOW as u32 {
            return Step::Done;
        }
        let room = WINDOW as u32 - filled;
        let n = if rest < room { rest } else { room };
        if !payload.load(offset, &mut stream.window.bytes, filled, n) {
            return Step::Done;
        }
        stream.window.filled = (filled + n) as u8;
        if self.head(direction, filled == 0, payload, outcomes) { Step::Again } else { Step::Done }
    }

    /// The answer to [`Step::Scan`]: `taken` bytes of `len` went through [`Stream::head_end`], and the last one ended the head or did not.
    #[inline(always)]
    pub fn scanned(
        &mut self,
        direction: Direction,
        len: u32,
        taken: u32,
        ended: bool,
        outcomes: &mut impl Outcomes,
    ) -> Step {
        let stream = self.stream(direction);
        stream.expect = stream.expect.wrapping_add(taken);
        if ended {
            stream.wait = wait::HEAD;
            stream.window.filled = 0;
            return Step::Again;
        }
        if taken < len {
            self.lose(LostSync::HEAD_BUDGET, outcomes);
        }
        Step::Done
    }

    /// Takes the window of `direction` as the start of a message, of which the first byte `is_new` or was there before.
    /// True when there may be more in the segment.
    #[inline(always)]
    fn head(
        &mut self,
        direction: Direction,
        is_new: bool,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) -> bool {
        let undecided = self.state == state::UNDECIDED;
        let asks = self.carries_requests(direction);
        let stream = self.stream(direction);
        // Empty lines before a start line are skipped (RFC 9112 section 2.2), a byte a step.
        if matches!(stream.window.bytes[0], b'\r' | b'\n') {
            stream.expect = stream.expect.wrapping_add(1);
            stream.window.filled = 0;
            return true;
        }
        let len = u32::from(stream.window.filled);
        // The first message on a connection decides who is who.
        let is_response = if undecided { stream.window.is_response() } else { !asks };
        let head = if is_response { stream.window.response() } else { stream.window.request() };
        if is_new && (undecided || asks) {
            self.request_ns = payload.now();
        }
        match head {
            Head::More if len < WINDOW as u32 => false,
            Head::Request { connect } => {
                self.request(direction, connect);
                false
            }
            Head::Response { status } => self.response(direction, status, payload, outcomes),
            Head::Http2 => self.set_opaque(),
            // The first bytes of a connection are simply another protocol.
            Head::More | Head::Other if undecided => self.set_opaque(),
            Head::More | Head::Other => {
                self.lose(if asks { LostSync::REQUEST_HEAD } else { LostSync::RESPONSE_HEAD }, outcomes);
                false
            }
        }
    }

    #[inline(always)]
    fn set_opaque(&mut self) -> bool {
        self.state = state::OPAQUE;
        false
    }

    #[inline(always)]
    fn request(&mut self, direction: Direction, connect: bool) {
        self.state = state::FOLLOWED;
        self.role = if direction == Direction::Ingress { Role::SERVER } else { Role::CLIENT };
        self.outstanding = 1;
        self.connect = connect as u8;
        self.stream(direction).wait = wait::NOTHING;
        self.other(direction).await_head();
    }

    /// A status line; true when its final response may be in the same segment.
    #[inline(always)]
    fn response(
        &mut self,
        direction: Direction,
        status: u16,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) -> bool {
        const SWITCHING_PROTOCOLS: u16 = 101;
        const STATUS_END: u32 = 12;
        if self.state == state::UNDECIDED {
            // Its request was not seen, so it has no latency.
            self.state = state::FOLLOWED;
            self.role = if direction == Direction::Egress { Role::SERVER } else { Role::CLIENT };
            self.request_ns = 0;
        }
        if status < 200 && status != SWITCHING_PROTOCOLS {
            let stream = self.stream(direction);
            stream.wait = wait::INTERIM_END;
            stream.expect = stream.expect.wrapping_add(STATUS_END);
            stream.head_end = HeadEnd(0);
            return true;
        }
        let latency = if self.request_ns == 0 { None } else { Some(payload.now().wrapping_sub(self.request_ns)) };
        outcomes.response(self, status, latency);
        self.outstanding = 0;
        self.answered = 1;
        self.request_ns = 0;
        self.stream(direction).wait = wait::NOTHING;
        if status == SWITCHING_PROTOCOLS || (self.connect != 0 && status < 300) {
            return self.set_opaque();
        }
        self.other(direction).await_head();
        false
    }

    /// A lost connection is in step again when a request head follows bytes of the other side.
    #[inline(always)]
    fn resume(
        &mut self,
        direction: Direction,
        segment: Segment,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) {
        let (this, other) = match direction {
            Direction::Ingress => (1, 2),
            Direction::Egress => (2, 1),
        };
        let last = self.turn;
        let asks = self.role == Role::UNKNOWN || self.carries_requests(direction);
        let stream = self.stream(direction);
        if stream.known != 0 && is_after(stream.end, segment.seq) {
            return;
        }
        self.turn = this;
        if last != other || !asks {
            return;
        }
        let stream = self.stream(direction);
        let n = if segment.len < WINDOW as u32 { segment.len } else { WINDOW as u32 };
        if payload.load(0, &mut stream.window.bytes, 0, n) {
            stream.window.filled = n as u8;
        } else {
            stream.window.filled = 0;
        }
        if let Head::Request { connect } = stream.window.request() {
            if self.older != 0 {
                // What came before on it was not counted.
                outcomes.lost(LostSync::MID_STREAM);
                self.older = 0;
            }
            self.request_ns = payload.now();
            self.request(direction, connect);
            return;
        }
        self.misses += 1;
        if self.misses >= MISSES {
            self.state = state::OPAQUE;
        }
    }

    /// A stream that ends where a response head is awaited will never have one. The end may also be older than the request: a
    /// server that closes an idle connection while the next request is on its way.
    #[inline(always)]
    fn check_end(&mut self, outcomes: &mut impl Outcomes) {
        if self.state != state::FOLLOWED || self.outstanding == 0 {
            return;
        }
        let stream = if self.role == Role::SERVER { &mut self.egress } else { &mut self.ingress };
        let at = match stream.wait {
            wait::HEAD => stream.expect.wrapping_add(u32::from(stream.window.filled)),
            _ => stream.expect,
        };
        if stream.fin_seen == 0 || stream.fin != at {
            return;
        }
        stream.wait = wait::NOTHING;
        outcomes.no_response(self, NoResponse::CLOSED);
        self.outstanding = 0;
    }
}

/// Whether sequence number `a` lies after `b`.
#[inline(always)]
const fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

#[cfg(test)]
mod tests;
