extern crate std;

use std::{vec, vec::Vec};

use super::Start;
use crate::wire::framing::{Event, Framing, kind};

fn start(bytes: &[u8; 16]) -> Start {
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Start([word(0), word(8)])
}

/// What the framing says of the same bytes.
fn framed(bytes: &[u8; 16]) -> (Option<Event>, Framing) {
    let mut framing = Framing::START;
    framing.expect(kind::ANY);
    let event = bytes.iter().map(|byte| framing.step(*byte, &mut 0)).find(|event| *event != Event::None);
    (event, framing)
}

/// Start lines and their neighbours: every byte of each changed to some others.
fn samples() -> Vec<[u8; 16]> {
    let lines: [&[u8; 16]; 16] = [
        b"GET / HTTP/1.1\r\n",
        b"POST /path/ HTTP",
        b"HEAD / HTTP/1.1\r",
        b"PUT / HTTP/1.1\r\n",
        b"PATCH /x HTTP/1.",
        b"DELETE / HTTP/1.",
        b"OPTIONS * HTTP/1",
        b"PROPFIND /x HTTP",
        b"GET http://e/ HT",
        b"GET HTTPS://e/ H",
        b"HTTP/1.1 200 OK\r",
        b"HTTP/1.0 404\r\nCo",
        b"HTTP/1.1 999\nCon",
        b"PRI * HTTP/2.0\r\n",
        b"\r\nGET / HTTP/1.1",
        b"CONNECT e:443 HT",
    ];
    let mut samples = vec![];
    for line in lines {
        samples.push(*line);
        for at in 0..16 {
            for byte in [0, b' ', b'/', b'0', b'9', b'A', b'H', b'h', b'\r', b'\n', 0x7f, 0xff] {
                let mut changed = *line;
                changed[at] = byte;
                samples.push(changed);
            }
        }
    }
    samples
}

#[test]
fn what_is_recognised_is_what_the_framing_says() {
    let mut recognised = 0;
    for bytes in samples() {
        let (event, framing) = framed(&bytes);
        if let Some(is_head) = start(&bytes).request() {
            assert_eq!((event, framing.is_head()), (Some(Event::Request), is_head), "{}", bytes.escape_ascii());
            recognised += 1;
        }
        let status = (event == Some(Event::Status)).then(|| framing.status());
        assert_eq!(start(&bytes).response(), status, "{}", bytes.escape_ascii());
    }
    assert!(recognised > 200, "{recognised}");
}

#[test]
fn request_line_is_seen_where_the_framing_sees_one() {
    for bytes in samples() {
        let (event, framing) = framed(&bytes);
        if framing.is_connect() {
            continue; // its target has any form
        }
        // The HTTP/2 preface has the form of one too.
        let is_line = matches!(event, Some(Event::Http2 | Event::Request)) && !matches!(bytes[0], b'\r' | b'\n');
        assert_eq!(start(&bytes).is_request_line(), is_line, "{}", bytes.escape_ascii());
    }
}

#[test]
fn only_bytes_that_no_message_begins_with_are_refused_at_once() {
    for bytes in samples() {
        if !start(&bytes).may_be_http() {
            assert_eq!(framed(&bytes).0, Some(Event::NoStartLine), "{}", bytes.escape_ascii());
        }
    }
    assert!(!start(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcde").may_be_http(), "TLS");
}
