//! Any bytes as a connection or as a head: the entry of the fuzzers, and of the test that changes good input at random.

use rollout_probe_common::wire::framing::{Event, Framing, kind};

use crate::{Connection, Direction, Outcome, RX, TX, is_plain};

/// Plays what these bytes say, segment by segment, and checks what must hold for any input.
///
/// The first byte says what kind of connection it is. Each segment is a byte for its direction and place, a byte for its
/// length, and its payload.
///
/// # Panics
///
/// When something does not hold.
pub fn any_connection(data: &[u8]) {
    let Some((kind, mut rest)) = data.split_first() else { return };
    let mut it = match kind % 3 {
        0 => Connection::server(),
        1 => Connection::client(),
        _ => Connection::older(),
    };
    if kind & 4 != 0 {
        it = it.thorough();
    }
    let mut ends = [RX, TX];
    let mut bytes = 0;
    while let [how, length, payload @ ..] = rest {
        let direction = if how & 1 == 0 { Direction::Ingress } else { Direction::Egress };
        let length = (usize::from(*length) << (how >> 5)).min(payload.len());
        let end = &mut ends[direction as usize];
        let distance = u32::from(how >> 4 & 15);
        let seq = match how >> 2 & 3 {
            0 | 1 => *end,
            2 => end.wrapping_sub(distance),
            _ => end.wrapping_add(distance),
        };
        it.at(direction, seq, &payload[..length], how & 2 != 0);
        let after = seq.wrapping_add(u32::try_from(length).expect("a short segment"));
        if after.wrapping_sub(*end) < 1 << 30 {
            *end = after;
        }
        bytes += length;
        rest = &payload[length..];
        check(&it, bytes);
    }
}

/// Whatever came: counts are no more than the bytes can carry.
fn check(it: &Connection, bytes: usize) {
    const SHORTEST: usize = "HTTP/1.1 200\n".len();
    let mut responses = 0;
    let mut missed = 0;
    for outcome in it.outcomes() {
        match outcome {
            Outcome::Response(status, _) => {
                assert!((100..=999).contains(status), "{status}");
                responses += 1;
            }
            Outcome::NoResponse(_, requests) => missed += *requests,
            Outcome::Lost(_) => {}
        }
    }
    assert!(responses * SHORTEST <= bytes, "{responses} responses in {bytes} bytes");
    assert!(missed + it.flow.outstanding() <= it.flow.asked, "a request is missed once");
    assert!(it.flow.outstanding() <= 32, "the queue's room");
}

/// Whether a request is plain is what the framing says too, and no byte makes it fail.
///
/// # Panics
///
/// When the two differ on the side of guessing.
pub fn any_head(data: &[u8]) {
    let mut framing = Framing::START;
    framing.expect(kind::REQUEST);
    let (mut skip, mut end) = (0, None);
    for (at, byte) in data.iter().enumerate() {
        let event = framing.step(*byte, &mut skip);
        if event == Event::Head && end.is_none() {
            end = Some((at + 1, skip == 0 && framing.is_between() && !framing.may_switch()));
        }
        if matches!(event, Event::NoLength | Event::NoStartLine | Event::Http2) {
            break;
        }
    }
    let is_request = data.starts_with(b"GET /");
    if is_request && is_plain(data) {
        assert_eq!(end, Some((data.len(), true)), "{}", data.escape_ascii());
    }
}
