//! The short ways: content that nobody looks at, plain requests, and responses with one request outstanding. They make up
//! nearly all packets, and none of them needs more than the connection's own few words.

use super::{Direction, Flow, Outcomes, Payload, Request, Segment, is_after, state, wait};
use crate::{
    outcome::{LostSync, Role},
    wire::start::{BYTES, Start},
};

/// Turns without a request after which a connection of which nothing was understood is taken for another protocol.
const MISSES: u8 = 16;

/// How a segment is to be taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Path {
    /// It was, but for [`Flow::finish`].
    Done,
    /// Through [`super::Frames`].
    Framed,
}

impl Flow {
    /// The way of most packets of most bodies: true when the segment is content and that is all there is to know.
    #[inline(always)]
    pub fn is_content(&mut self, direction: Direction, segment: Segment) -> bool {
        if self.state != state::FOLLOWED || segment.fin {
            return false;
        }
        let is_idle = self.outstanding() == 0;
        let end = segment.end();
        let stream = self.stream(direction);
        if stream.is_foreign(segment) {
            return true;
        }
        match stream.wait {
            wait::NOTHING => {
                if !is_idle {
                    return false;
                }
            }
            wait::FRAMED => {
                // Up to the content's last byte but one: its end is a step of the framing.
                let ahead = end.wrapping_sub(stream.expect);
                if !is_after(end, stream.expect) || u64::from(ahead) >= stream.skip {
                    return false;
                }
                stream.skip -= u64::from(ahead);
                stream.expect = end;
            }
            _ => return false,
        }
        stream.extend_to(end);
        true
    }

    /// Takes a segment if that can be done shortly. Either way [`Flow::finish`] comes last.
    #[inline(always)]
    pub fn quick(
        &mut self,
        direction: Direction,
        segment: Segment,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) -> Path {
        if segment.len == 0 || self.state == state::OPAQUE || self.stream(direction).is_foreign(segment) {
            return Path::Done;
        }
        if self.state == state::LOST && !self.is_in_step(direction, segment, payload, outcomes) {
            return Path::Done;
        }
        if self.stream(direction).wait == wait::FRAMED {
            return Path::Framed;
        }
        if self.stream(direction).wait == wait::NOTHING && !self.await_response(direction, outcomes) {
            return Path::Done;
        }
        // Before this segment's first byte (then it comes later) or behind its last: both are a large offset.
        let offset = self.stream(direction).expect.wrapping_sub(segment.seq);
        if offset >= segment.len {
            return Path::Done;
        }
        let rest = segment.len - offset;
        if self.thorough != 0 || rest < BYTES {
            return Path::Framed;
        }
        match payload.start(offset) {
            Some(start) => self.message(direction, start, offset, rest, payload, outcomes),
            None => Path::Done,
        }
    }

    /// A message starts at `offset`, and `rest` bytes of the segment are from there on.
    #[inline(always)]
    fn message(
        &mut self,
        direction: Direction,
        start: Start,
        offset: u32,
        rest: u32,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) -> Path {
        let undecided = self.state == state::UNDECIDED;
        let asks = self.asks(direction);
        if (undecided || asks)
            && let Some(is_head) = start.request()
        {
            if self.outstanding() != 0 || !payload.is_plain(offset, rest) {
                return Path::Framed;
            }
            if undecided {
                self.set_asking(direction);
            }
            self.ask_first(direction, Request::new(payload.now(), is_head, false));
            let stream = self.stream(direction);
            stream.expect = stream.expect.wrapping_add(rest);
            return Path::Done;
        }
        if (undecided || !asks)
            && let Some(status) = start.response()
        {
            return self.response(direction, undecided, status, payload, outcomes);
        }
        if undecided && !start.may_be_http() {
            self.state = state::OPAQUE;
            return Path::Done;
        }
        Path::Framed
    }

    /// A status line, with one request outstanding at most. Its fields matter when it is not the final one, and when the protocol may change.
    #[inline(always)]
    fn response(
        &mut self,
        direction: Direction,
        undecided: bool,
        status: u16,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) -> Path {
        let request = Request(if self.outstanding() == 0 { 0 } else { self.first });
        if status < 200 || request.is_connect() {
            return Path::Framed;
        }
        if undecided {
            self.set_answering(direction);
        }
        self.answer(request, status, payload.now(), outcomes);
        self.stream(direction).wait = wait::NOTHING;
        Path::Done
    }

    /// In a direction that waits for nothing: a response starts where the server's bytes ended when its request came.
    /// False when there is none to wait for.
    #[inline(always)]
    fn await_response(&mut self, direction: Direction, outcomes: &mut impl Outcomes) -> bool {
        if self.outstanding() == 0 || self.asks(direction) {
            return false;
        }
        let boundary = self.boundary;
        let stream = self.stream(direction);
        if stream.known != 0 && stream.end != boundary {
            // The request came in the middle of the response before it, of which the length is not known.
            self.lose(direction, LostSync::EARLY_REQUEST, outcomes);
            return false;
        }
        stream.await_head(boundary);
        true
    }

    /// While requests are lost: whether this segment is certain all the same, because it is the responses' or because a request
    /// starts it that follows bytes of the other side with nothing outstanding. What follows shows whether that was right: a request
    /// is framed exactly, so bytes that are none lose the connection again before anything was counted.
    #[inline(always)]
    fn is_in_step(
        &mut self,
        direction: Direction,
        segment: Segment,
        payload: &mut impl Payload,
        outcomes: &mut impl Outcomes,
    ) -> bool {
        let (this, other) = match direction {
            Direction::Ingress => (1, 2),
            Direction::Egress => (2, 1),
        };
        let stream = self.stream(direction);
        let is_old = stream.known != 0 && is_after(stream.end, segment.seq);
        let is_response = self.role != Role::UNKNOWN && !self.asks(direction);
        let last = self.turn;
        if !is_old {
            self.turn = this;
        }
        if is_old || is_response {
            return is_response;
        }
        if last != other || self.outstanding() != 0 {
            return false;
        }
        let is_request = segment.len >= BYTES && payload.start(0).is_some_and(Start::is_request_line);
        if is_request {
            if self.older != 0 {
                // What came before on it was not counted.
                outcomes.lost(LostSync::MID_STREAM);
                self.older = 0;
            }
            self.set_asking(direction);
            self.stream(direction).await_head(segment.seq);
            return true;
        }
        self.misses += 1;
        if self.role == Role::UNKNOWN && self.misses >= MISSES {
            self.state = state::OPAQUE;
        }
        false
    }
}
