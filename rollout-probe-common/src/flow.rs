//! One connection's state, and the rules that move it from segment to segment.
//!
//! **Requests are framed exactly.** Where the next request starts is known from the one before: a plain one (see
//! [`crate::wire::plain`]) ends with its head, any other goes through [`crate::wire::framing`], which passes over its content. So a
//! body, a pipelined request, and a body that goes on after an early response are told apart before any response comes.
//!
//! **Responses are framed only where it matters.** With one request outstanding no response can come before the request and
//! no second one before the next request: it is enough to know *where the next response starts* and to look at its status line
//! (`quick`). Its content is not followed: the next response starts behind whatever the server had sent when the next
//! request came. With several requests outstanding each response is framed too (`framed`), and from then on all of that connection.
//!
//! **Segments may come twice, late, merged or out of order.** Programs run before TCP accepts a segment (ingress) and see
//! retransmissions (egress). Bytes are looked at once, at their sequence number and nowhere else. Content may have holes; a head
//! or a chunk's size may not, and is never guessed over.
//!
//! **When the rules do not fit** one direction is lost, counted by reason. Responses are found again at the next request,
//! requests at the next one that follows bytes of the other side with nothing outstanding.
//!
//! **Who writes what.** One direction's [`Stream`] is written by that direction's program. Requests are put into a queue by
//! the one and taken out by the other, each with a counter of its own. The two programs may run at the same time on two CPUs,
//! but a response is caused by its request, so the queue's entry is there before it is asked for.

mod ending;
mod framed;
mod quick;

use crate::{
    outcome::{LostSync, NoResponse, Origin, Phase, Role},
    wire::start::Start,
};

pub use framed::{CHUNK, Frames, Next, QUEUE, Track};
pub use quick::Path;

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
    /// Maybe HTTP/1, and requests are not in step: waits for a certain message boundary.
    pub const LOST: u8 = 2;
    /// Not HTTP/1, or not any more: never looked into again.
    pub const OPAQUE: u8 = 3;
}

/// What a direction waits for. See [`Stream::wait`].
pub mod wait {
    /// Nothing: what comes is content, or cannot be judged, until a request says otherwise.
    pub const NOTHING: u8 = 0;
    /// A message that starts at `expect`.
    pub const HEAD: u8 = 1;
    /// More of a message: `expect` is the next byte that its framing takes, after `skip` bytes of content.
    pub const FRAMED: u8 = 2;
}

/// One direction of a connection. Sequence numbers wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Bytes of content from `expect` on that are passed over.
    pub skip: u64,
    /// Sequence number after the last payload byte seen so far.
    pub end: u32,
    /// Sequence number of the next byte that matters.
    pub expect: u32,
    /// Sequence number after the last byte that the peer will ever send; valid when `fin_seen`.
    pub fin: u32,
    /// Where the first segment starts that came before the bytes in front of it; valid when `is_early`.
    pub early: u32,
    /// 1 when `end` is valid: from the handshake, or from a first segment.
    pub known: u8,
    /// 1 once a FIN was seen.
    pub fin_seen: u8,
    /// One of [`wait`].
    pub wait: u8,
    /// 1 while there is a hole in front of bytes that were seen.
    pub is_early: u8,
    /// Explicit padding.
    pub reserved: [u8; 4],
}

/// Furthest that a segment can be ahead: the largest receive window (RFC 7323 section 2.3). Anything else is not of this stream.
const FURTHEST: u32 = 1 << 30;

impl Stream {
    /// No byte seen, and nothing known.
    const START: Self = Self {
        skip: 0,
        end: 0,
        expect: 0,
        fin: 0,
        early: 0,
        known: 0,
        fin_seen: 0,
        wait: 0,
        is_early: 0,
        reserved: [0; 4],
    };

    #[inline(always)]
    fn await_head(&mut self, seq: u32) {
        self.wait = wait::HEAD;
        self.expect = seq;
        self.skip = 0;
        self.is_early = 0;
    }

    #[inline(always)]
    fn starts_at(&mut self, seq: u32) {
        self.end = seq;
        self.known = 1;
        self.await_head(seq);
    }

    #[inline(always)]
    fn extend_to(&mut self, end: u32) {
        if self.known == 0 || is_after(end, self.end) {
            self.end = end;
            self.known = 1;
        }
    }

    /// Whether the segment lies outside of any window: TCP will drop it.
    #[inline(always)]
    fn is_foreign(&self, segment: Segment) -> bool {
        self.known != 0 && is_after(segment.seq, self.end.wrapping_add(FURTHEST))
    }
}

/// One connection. Lives in the kernel's socket storage, which is freed with the socket.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Cgroup v2 id of the socket (its creator's); 0 until the first packet.
    pub cgroup: u64,
    /// The request that came with none outstanding, see [`Request`]; later ones are in [`Frames`].
    pub first: u64,
    /// By [`Direction`]. An array, because a choice between two fields is two paths for the verifier.
    pub streams: [Stream; 2],
    /// Requests seen. Written by the requests' program.
    pub asked: u32,
    /// Requests of those that have their final response head, or will never have one. Written by the responses' program.
    pub answered: u32,
    /// Value of `asked` at which `first` was put in.
    pub first_at: u32,
    /// Where the server's bytes ended when `first` came: there its response starts, if nothing else is known.
    pub boundary: u32,
    /// Value of `asked` of the last request that got a 100.
    pub continued: u32,
    /// One of [`state`].
    pub state: u8,
    /// Who opened the connection: the socket was accepted (`SERVER`) or connected (`CLIENT`).
    pub opened: Role,
    /// Who asks: known from the first head.
    pub role: Role,
    /// Who the peer is.
    pub origin: Origin,
    /// 1 once a final response was seen.
    pub responded: u8,
    /// 1 when every message is framed, because requests were pipelined.
    pub thorough: u8,
    /// 1 once a reset was sent on or accepted from this connection.
    pub reset: u8,
    /// 1 once the connection itself was counted.
    pub counted: u8,
    /// In `LOST`: 1 + the direction of the last payload, 0 for none.
    pub turn: u8,
    /// In `LOST`: turns that were no request head.
    pub misses: u8,
    /// 1 while nothing of a connection that is older than the programs was understood.
    pub older: u8,
    /// Explicit padding.
    pub reserved: u8,
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

impl Segment {
    #[inline(always)]
    fn end(self) -> u32 {
        self.seq.wrapping_add(self.len)
    }
}

/// Access to a segment's bytes. Implemented over the socket buffer in the kernel and over slices in tests.
pub trait Payload {
    /// The first bytes from `offset` on, of which there are at least [`crate::wire::start::BYTES`]; nothing if they cannot be read.
    fn start(&mut self, offset: u32) -> Option<Start>;
    /// Whether the bytes from `offset` to the segment's end, `len` of them, are a plain request ([`crate::wire::plain`]).
    fn is_plain(&mut self, offset: u32, len: u32) -> bool;
    /// `CLOCK_MONOTONIC` in nanoseconds.
    fn now(&mut self) -> u64;
}

/// Where outcomes go: the counter maps in the kernel, a list in tests.
pub trait Outcomes {
    /// A final response head. `latency` in nanoseconds from the request's first byte, when that was seen.
    fn response(&mut self, flow: &Flow, status: u16, latency: Option<u64>);
    /// `requests` whose connection ended without a final response head.
    fn no_response(&mut self, flow: &Flow, how: NoResponse, requests: u32);
    /// A direction of the connection is not followed any more.
    fn lost(&mut self, why: LostSync);
}

/// An outstanding request, as it is kept: when it came and what matters of its method. Zero is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request(pub u64);

impl Request {
    const HEAD: u64 = 1;
    const CONNECT: u64 = 2;
    const BITS: u32 = 2;

    /// A request that came at `ns`.
    #[inline(always)]
    pub const fn new(ns: u64, is_head: bool, is_connect: bool) -> Self {
        let method = (is_head as u64 * Self::HEAD) | (is_connect as u64 * Self::CONNECT);
        Self((ns << Self::BITS) | method)
    }

    #[inline(always)]
    const fn is_head(self) -> bool {
        self.0 & Self::HEAD != 0
    }

    #[inline(always)]
    const fn is_connect(self) -> bool {
        self.0 & Self::CONNECT != 0
    }

    /// Nanoseconds from the request to `now`.
    #[inline(always)]
    const fn latency(self, now: u64) -> Option<u64> {
        let ns = self.0 >> Self::BITS;
        if ns == 0 { None } else { Some(now.wrapping_sub(ns)) }
    }
}

impl Flow {
    /// Nothing seen.
    const START: Self = Self {
        cgroup: 0,
        first: 0,
        streams: [Stream::START; 2],
        asked: 0,
        answered: 0,
        first_at: 0,
        boundary: 0,
        continued: 0,
        state: state::UNDECIDED,
        opened: Role::UNKNOWN,
        role: Role::UNKNOWN,
        origin: Origin::TRAFFIC,
        responded: 0,
        thorough: 0,
        reset: 0,
        counted: 0,
        turn: 0,
        misses: 0,
        older: 0,
        reserved: 0,
    };

    /// A connection seen from its start. `rx` and `tx` are the sequence numbers of the first payload byte of each direction.
    #[inline(always)]
    pub fn open(opened: Role, origin: Origin, rx: u32, tx: u32) -> Self {
        let mut flow = Self { opened, origin, ..Self::START };
        flow.stream(Direction::Ingress).starts_at(rx);
        flow.stream(Direction::Egress).starts_at(tx);
        flow
    }

    /// A connection older than the programs. Whether it is HTTP/1 at all is not known yet, so nothing is lost yet. It was opened
    /// before counting began, so it is not a new connection.
    #[inline(always)]
    pub fn join() -> Self {
        Self { counted: 1, older: 1, state: state::LOST, ..Self::START }
    }

    /// Requests without a final response head.
    #[inline(always)]
    pub fn outstanding(&self) -> u32 {
        self.asked.wrapping_sub(self.answered)
    }

    /// What the connection is doing, for a reset.
    #[inline(always)]
    pub fn phase(&self) -> Phase {
        if self.outstanding() != 0 {
            Phase::OUTSTANDING
        } else if self.responded != 0 {
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
        &mut self.streams[direction as usize & 1]
    }

    #[inline(always)]
    fn other(&mut self, direction: Direction) -> &mut Stream {
        &mut self.streams[(direction as usize ^ 1) & 1]
    }

    /// Whether `direction` carries the requests, by a role that is known.
    #[inline(always)]
    fn asks(&self, direction: Direction) -> bool {
        (self.role == Role::SERVER) == (direction == Direction::Ingress)
    }

    /// A request came in `direction`: from now on it is known who asks.
    #[inline(always)]
    fn set_asking(&mut self, direction: Direction) {
        self.state = state::FOLLOWED;
        self.role = if direction == Direction::Ingress { Role::SERVER } else { Role::CLIENT };
    }

    /// A response came in `direction`, the first message of all.
    #[inline(always)]
    fn set_answering(&mut self, direction: Direction) {
        self.state = state::FOLLOWED;
        self.role = if direction == Direction::Egress { Role::SERVER } else { Role::CLIENT };
    }

    /// Puts in a request with none outstanding.
    #[inline(always)]
    fn ask_first(&mut self, direction: Direction, request: Request) {
        self.first = request.0;
        self.first_at = self.asked;
        self.boundary = self.other(direction).end;
        self.asked = self.asked.wrapping_add(1);
    }

    /// Takes out a request that now has its final response head.
    #[inline(always)]
    fn answer(&mut self, request: Request, status: u16, now: u64, outcomes: &mut impl Outcomes) {
        outcomes.response(self, status, request.latency(now));
        if self.outstanding() != 0 {
            self.answered = self.answered.wrapping_add(1);
        }
        self.responded = 1;
    }

    /// All outstanding requests end without a response; how many those are.
    #[inline(always)]
    pub fn abandon(&mut self) -> u32 {
        let requests = self.outstanding();
        self.answered = self.asked;
        requests
    }

    /// A first request of which only `start` is left, which came at `ns`: where it ends is not known, so requests are out of step,
    /// and every response is framed for what may be behind it.
    #[inline(always)]
    pub fn ask_unframed(&mut self, direction: Direction, start: Start, ns: u64) {
        if start.is_request_line() {
            self.set_asking(direction);
            self.ask_first(direction, Request::new(ns, start.request() == Some(true), false));
            self.thorough = 1;
        }
        self.state = state::LOST;
        self.stream(direction).wait = wait::NOTHING;
    }

    /// Stops to follow one direction. Requests that are outstanding still get their responses when it is the requests that are
    /// lost; else nothing is known of them any more.
    #[inline(always)]
    pub fn lose(&mut self, direction: Direction, why: LostSync, outcomes: &mut impl Outcomes) {
        self.stream(direction).wait = wait::NOTHING;
        if self.role == Role::UNKNOWN || self.asks(direction) {
            self.state = state::LOST;
            self.turn = 0;
            self.misses = 0;
        } else {
            self.abandon();
        }
        outcomes.lost(why);
    }
}

/// Whether sequence number `a` lies after `b`.
#[inline(always)]
const fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
