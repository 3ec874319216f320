//! What a segment leaves behind: how far the stream has come, holes that will not be filled any more, and its end.

use super::{Direction, Flow, Outcomes, Segment, is_after, state, wait};
use crate::outcome::{LostSync, NoResponse, Role};

impl Flow {
    /// Last step of a segment.
    #[inline(always)]
    pub fn finish(&mut self, direction: Direction, segment: Segment, outcomes: &mut impl Outcomes) {
        if self.stream(direction).is_foreign(segment) {
            return;
        }
        if segment.len > 0 {
            self.stream(direction).extend_to(segment.end());
            if self.has_passed_a_hole(direction, segment) {
                self.lose(direction, LostSync::HOLE, outcomes);
            }
        }
        if segment.fin {
            let stream = self.stream(direction);
            stream.fin = segment.end();
            stream.fin_seen = 1;
        }
        self.check_end(outcomes);
    }

    /// A segment that comes before the bytes in front of it is looked at in vain: when those have come, its own are past. That is no
    /// loss as long as they are content. True when they were not.
    #[inline(always)]
    fn has_passed_a_hole(&mut self, direction: Direction, segment: Segment) -> bool {
        let stream = self.stream(direction);
        if stream.wait == wait::NOTHING {
            stream.is_early = 0;
            return false;
        }
        if is_after(segment.seq, stream.expect) && (stream.is_early == 0 || is_after(stream.early, segment.seq)) {
            stream.early = segment.seq;
            stream.is_early = 1;
        }
        if stream.is_early == 0 || is_after(stream.early, stream.expect) {
            return false;
        }
        let behind = u64::from(stream.end.wrapping_sub(stream.expect));
        if stream.skip < behind {
            return true;
        }
        stream.skip -= behind;
        stream.expect = stream.end;
        stream.is_early = 0;
        false
    }

    /// A server that ends where a response is awaited will never send one. Its end may also be older than the request: a
    /// server that closes an idle connection while the next request is on its way.
    #[inline(always)]
    fn check_end(&mut self, outcomes: &mut impl Outcomes) {
        let is_decided = self.role != Role::UNKNOWN && self.state != state::OPAQUE;
        if !is_decided || self.outstanding() == 0 {
            return;
        }
        let answers = if self.role == Role::SERVER { Direction::Egress } else { Direction::Ingress };
        let stream = self.stream(answers);
        let at = if stream.wait == wait::NOTHING { stream.end } else { stream.expect };
        if stream.fin_seen == 0 || stream.fin != at {
            return;
        }
        let requests = self.abandon();
        outcomes.no_response(self, NoResponse::CLOSED, requests);
    }
}
