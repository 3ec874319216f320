//! The long way: messages byte by byte, for what [`super::quick`] cannot tell. Its state is larger, and made only for
//! connections that need it.
//!
//! A segment is taken so: [`Frames::enter`], then until [`Frames::next`] answers [`Next::Done`] up to [`CHUNK`] bytes through
//! [`Frames::take`], each event to [`Frames::event`], and [`Frames::taken`]; at last [`Frames::leave`]. After [`Event::Head`] it is
//! `next` again that knows what follows. The kernel side makes these loops itself, because there each turn is a function of its own.

use super::{Direction, Flow, Outcomes, Payload, Request, Segment, is_after, state, wait};
use crate::{
    outcome::LostSync,
    wire::{
        framing::{Event, Framing, kind},
        start::{BYTES, Start},
    },
};

/// Most bytes that are loaded at once.
pub const CHUNK: usize = 64;
/// Requests that may be outstanding on one connection.
pub const QUEUE: usize = 32;

/// What the long way keeps of one direction.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Track {
    /// Between which bytes.
    pub framing: Framing,
    /// Length of content that waits for [`Track::expecting`].
    content: u64,
    /// When this packet came.
    now: u64,
    /// When the first byte of the message came.
    begun: u64,
    /// Bytes of the packet under way. In the map, because kernels before 5.12 read no stack at an offset that they do not know.
    pub chunk: [u8; CHUNK],
    /// Index in `chunk`; in memory, because in a register each of its values is a path of its own for the verifier.
    pub index: u32,
    /// 1 when the request's content begins only if the server wants it (RFC 9110 section 10.1.1).
    expecting: u8,
    /// 1 when bytes came behind a request for another protocol, before its response.
    overtaken: u8,
    /// Explicit padding.
    reserved: [u8; 2],
}

/// What the long way keeps of a connection. Lives in a socket storage of its own; all zeroes is the start.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// By [`Direction`].
    tracks: [Track; 2],
    /// Outstanding requests but [`Flow::first`], by their number modulo [`QUEUE`].
    queue: [u64; QUEUE],
}

/// What to do next in a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Nothing more.
    Done,
    /// Ask again.
    Again,
    /// Take payload bytes `[offset, offset + len)`.
    Take {
        /// Where to begin.
        offset: u32,
        /// 1 to [`CHUNK`].
        len: u32,
    },
}

impl Frames {
    /// Nothing seen.
    pub const START: Self = {
        let track = Track {
            framing: Framing::START,
            content: 0,
            now: 0,
            begun: 0,
            chunk: [0; CHUNK],
            index: 0,
            expecting: 0,
            overtaken: 0,
            reserved: [0; 2],
        };
        Self { tracks: [track; 2], queue: [0; QUEUE] }
    };

    /// One direction.
    #[inline(always)]
    pub fn track(&mut self, direction: Direction) -> &mut Track {
        &mut self.tracks[direction as usize & 1]
    }

    /// A packet of `direction` came at `now`.
    #[inline(always)]
    pub fn enter(&mut self, flow: &mut Flow, direction: Direction, now: u64) {
        let kind = match (flow.state, flow.asks(direction)) {
            (state::UNDECIDED, _) => kind::ANY,
            (_, true) => kind::REQUEST,
            (_, false) => kind::RESPONSE,
        };
        let track = self.track(direction);
        track.now = now;
        track.framing.expect(kind);
        let stream = flow.stream(direction);
        if stream.wait == wait::HEAD {
            stream.wait = wait::FRAMED;
            stream.skip = 0;
            track.framing.begin();
            track.expecting = 0;
            track.overtaken = 0;
        }
    }

    /// Where in the segment the framing goes on, content passed over.
    #[inline(always)]
    pub fn next(
        &mut self,
        flow: &mut Flow,
        direction: Direction,
        segment: Segment,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) -> Next {
        let end = segment.end();
        let stream = flow.stream(direction);
        if stream.wait != wait::FRAMED || !is_after(end, stream.expect) {
            return Next::Done;
        }
        let ahead = end.wrapping_sub(stream.expect);
        if stream.skip >= u64::from(ahead) {
            stream.skip -= u64::from(ahead);
            stream.expect = end;
            return Next::Done;
        }
        let offset = stream.expect.wrapping_add(stream.skip as u32).wrapping_sub(segment.seq);
        if offset >= segment.len {
            // In a hole before this segment.
            return Next::Done;
        }
        stream.expect = stream.expect.wrapping_add(stream.skip as u32);
        stream.skip = 0;
        let rest = segment.len - offset;
        let track = self.track(direction);
        if track.expecting != 0 && !track.decide_content(flow, direction, offset, rest, payload, outcomes) {
            return Next::Done;
        }
        if flow.stream(direction).skip != 0 {
            return Next::Again;
        }
        if track.framing.may_switch() && !track.may_go_on(flow, direction, end, outcomes) {
            return Next::Done;
        }
        Next::Take { offset, len: if rest > CHUNK as u32 { CHUNK as u32 } else { rest } }
    }

    /// Takes one byte; the bytes to skip after it are in the direction's [`super::Stream::skip`].
    #[inline(always)]
    pub fn take(&mut self, flow: &mut Flow, direction: Direction, byte: u8) -> Event {
        let track = self.track(direction);
        let was_before = track.framing.is_at_start();
        let event = track.framing.step(byte, &mut flow.stream(direction).skip);
        if was_before {
            track.begun = track.now;
        }
        event
    }

    /// `bytes` of the segment went through [`Frames::take`], or were skipped between.
    #[inline(always)]
    pub fn taken(&mut self, flow: &mut Flow, direction: Direction, bytes: u32) {
        let stream = flow.stream(direction);
        stream.expect = stream.expect.wrapping_add(bytes);
    }

    /// The segment is through: at a boundary the next message may go the short way.
    #[inline(always)]
    pub fn leave(&mut self, flow: &mut Flow, direction: Direction) {
        let track = self.track(direction);
        let is_between = track.framing.is_between() && !track.framing.may_switch() && track.expecting == 0;
        let stream = flow.stream(direction);
        if stream.wait == wait::FRAMED && stream.skip == 0 && is_between {
            stream.wait = wait::HEAD;
        }
    }

    /// Does what a byte has decided.
    #[inline(always)]
    pub fn event(&mut self, flow: &mut Flow, direction: Direction, event: Event, outcomes: &mut impl Outcomes) {
        let undecided = flow.state == state::UNDECIDED;
        let asks = flow.asks(direction);
        match event {
            Event::None => {}
            Event::Request if undecided || asks => self.request(flow, direction, outcomes),
            Event::Status if undecided || !asks => self.status(flow, direction, outcomes),
            Event::Head if asks => self.track(direction).end_of_request_head(flow.stream(direction)),
            Event::Head => self.end_of_response_head(flow, direction, outcomes),
            Event::Http2 => flow.state = state::OPAQUE,
            // The first bytes of a connection are simply another protocol.
            Event::NoStartLine if undecided => flow.state = state::OPAQUE,
            Event::NoStartLine | Event::Request | Event::Status => {
                let why = if asks { LostSync::REQUEST_HEAD } else { LostSync::RESPONSE_HEAD };
                flow.lose(direction, why, outcomes);
            }
            Event::NoLength => flow.lose(direction, LostSync::LENGTH, outcomes),
        }
        if flow.state == state::OPAQUE {
            flow.stream(direction).wait = wait::NOTHING;
        }
    }

    #[inline(always)]
    fn request(&mut self, flow: &mut Flow, direction: Direction, outcomes: &mut impl Outcomes) {
        if flow.state == state::UNDECIDED {
            flow.set_asking(direction);
        }
        let track = self.track(direction);
        track.framing.expect(kind::REQUEST);
        let request = Request::new(track.begun, track.framing.is_head(), track.framing.is_connect());
        let outstanding = flow.outstanding();
        if outstanding == 0 {
            flow.ask_first(direction, request);
            return;
        }
        flow.thorough = 1;
        if outstanding >= QUEUE as u32 {
            flow.lose(direction, LostSync::QUEUE, outcomes);
            return;
        }
        self.queue[flow.asked as usize & (QUEUE - 1)] = request.0;
        flow.asked = flow.asked.wrapping_add(1);
    }

    /// The request that the next response answers; zero when it is not known.
    #[inline(always)]
    fn front(&self, flow: &Flow) -> Request {
        if flow.outstanding() == 0 {
            return Request(0);
        }
        if flow.answered == flow.first_at {
            return Request(flow.first);
        }
        Request(self.queue[flow.answered as usize & (QUEUE - 1)])
    }

    #[inline(always)]
    fn status(&mut self, flow: &mut Flow, direction: Direction, outcomes: &mut impl Outcomes) {
        const CONTINUE: u16 = 100;
        const NO_CONTENT: u16 = 204;
        const NOT_MODIFIED: u16 = 304;
        if flow.state == state::UNDECIDED {
            flow.set_answering(direction);
        }
        let request = self.front(flow);
        let track = self.track(direction);
        track.framing.expect(kind::RESPONSE);
        let status = track.framing.status();
        if status < 200 {
            track.framing.without_content();
            if status == CONTINUE {
                flow.continued = flow.answered.wrapping_add(1);
            }
            return;
        }
        flow.answer(request, status, track.begun, outcomes);
        if request.is_connect() && status < 300 {
            flow.state = state::OPAQUE;
            return;
        }
        if request.is_head() || status == NO_CONTENT || status == NOT_MODIFIED {
            track.framing.without_content();
        }
        if flow.thorough == 0 {
            flow.stream(direction).wait = wait::NOTHING;
        }
    }

    /// A 101 is counted here, because its fields say whether it is the response.
    #[inline(always)]
    fn end_of_response_head(&mut self, flow: &mut Flow, direction: Direction, outcomes: &mut impl Outcomes) {
        const SWITCHING_PROTOCOLS: u16 = 101;
        let request = self.front(flow);
        let track = self.track(direction);
        if track.framing.status() != SWITCHING_PROTOCOLS {
            return;
        }
        if track.framing.is_h2c() {
            // The response proper comes in HTTP/2.
            flow.abandon();
            outcomes.lost(LostSync::H2C);
        } else {
            flow.answer(request, SWITCHING_PROTOCOLS, track.begun, outcomes);
        }
        flow.state = state::OPAQUE;
    }
}

impl Track {
    /// A request's content may have to wait for the server's word.
    #[inline(always)]
    fn end_of_request_head(&mut self, stream: &mut super::Stream) {
        let has_content = stream.skip != 0 || !self.framing.is_between();
        if self.framing.is_expecting() && has_content {
            self.expecting = 1;
            self.content = stream.skip;
            stream.skip = 0;
        }
    }

    /// The first bytes behind the head of a request that expects a 100. If the response came instead, the client may leave out the
    /// content: then, and only then, the bytes themselves say what they are. False when that cannot be told.
    #[inline(always)]
    fn decide_content(
        &mut self,
        flow: &mut Flow,
        direction: Direction,
        offset: u32,
        rest: u32,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) -> bool {
        self.expecting = 0;
        if flow.outstanding() == 0 && flow.continued != flow.asked {
            if rest < BYTES {
                flow.lose(direction, LostSync::REQUEST_HEAD, outcomes);
                return false;
            }
            if payload.start(offset).is_some_and(Start::is_request_line) {
                self.framing.begin();
                return true;
            }
        }
        flow.stream(direction).skip = self.content;
        true
    }

    /// Bytes behind a request for another protocol: they are HTTP/1 only once the request was refused.
    #[inline(always)]
    fn may_go_on(&mut self, flow: &mut Flow, direction: Direction, end: u32, outcomes: &mut impl Outcomes) -> bool {
        if !self.framing.is_between() {
            return true;
        }
        if flow.outstanding() != 0 {
            self.overtaken = 1;
            flow.stream(direction).expect = end;
            return false;
        }
        if self.overtaken != 0 {
            flow.lose(direction, LostSync::REQUEST_HEAD, outcomes);
            return false;
        }
        self.framing.begin();
        true
    }
}
