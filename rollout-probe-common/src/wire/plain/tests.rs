extern crate std;

use std::{format, string::String, vec::Vec};

use super::{CHUNK, Found, Scan, WORDS, bytes_equal};
use crate::wire::framing::{Event, Framing, kind};

fn is_plain(bytes: &[u8]) -> bool {
    let mut scan = Scan::default();
    for offset in (0..bytes.len()).step_by(CHUNK) {
        let mut chunk = [0; WORDS * 8];
        let n = (bytes.len() - offset).min(chunk.len());
        chunk[..n].copy_from_slice(&bytes[offset..offset + n]);
        let words =
            core::array::from_fn(|at| u64::from_ne_bytes(chunk[at * 8..at * 8 + 8].try_into().expect("a word")));
        match scan.chunk(&words) {
            Found::Nothing => {}
            Found::End(end) => return offset + end as usize == bytes.len(),
            Found::Odd => return false,
        }
    }
    false
}

/// Whether the framing says that these bytes are one request without content that asks for no other protocol.
fn is_framed_plain(bytes: &[u8]) -> bool {
    let mut framing = Framing::START;
    framing.expect(kind::REQUEST);
    let mut skip = 0;
    let mut heads = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        match framing.step(*byte, &mut skip) {
            Event::Head => heads.push(at + 1),
            Event::NoLength | Event::NoStartLine | Event::Http2 => return false,
            _ => {}
        }
        if skip != 0 {
            return false;
        }
    }
    heads == [bytes.len()] && framing.is_between() && !framing.may_switch()
}

#[test]
fn byte_is_found_wherever_it_is_and_nowhere_else() {
    for place in 0..8 {
        for other in [0, 1, 9, 0x0b, 0x8a, 0xff] {
            let mut bytes = [other; 8];
            bytes[place] = b'\n';
            assert_eq!(bytes_equal(u64::from_le_bytes(bytes), b'\n'), 0x80 << (place * 8), "{bytes:?}");
        }
    }
}

#[test]
fn requests_that_clients_send_are_plain() {
    let heads = [
        "GET / HTTP/1.1\r\nHost: 10.0.0.1:8080\r\n\r\n", // wrk
        "GET /ok HTTP/1.1\r\nHost: 10.0.0.1\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nCookie: a=b\r\nCache-Control: no-cache\r\nTE: trailers\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\ntraceparent: 00-0af7-b7ad-01\r\nUpgrade-Insecure-Requests: 1\r\n\r\n",
        "GET / HTTP/1.0\n\n",
        "DELETE /x HTTP/1.1\r\nHost: aaaaaaa\n\r\n",
    ];
    for head in heads {
        assert!(is_plain(head.as_bytes()), "{head:?}");
    }
    let long = format!("GET / HTTP/1.1\r\n{}\r\n", "Cookie: abcdefghijklmnopq\r\n".repeat(40));
    assert!(is_plain(long.as_bytes()), "over several chunks");
}

#[test]
fn whatever_has_or_may_have_more_is_not_plain() {
    let heads = [
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nx",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\ncontent-length:5\r\n\r\n",
        "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\r\n content-length: 5\r\n\r\n",
    ];
    for head in heads {
        assert!(!is_plain(head.as_bytes()), "{head:?}");
    }
}

/// Heads of random lines, good and odd: plain is never said of one that the framing does not find so.
#[test]
fn plain_is_only_what_the_framing_finds_plain() {
    const LINES: [&str; 22] = [
        "Host: a\r\n",
        "A: b\r\n",
        ":\r\n",
        "\r\n",
        "\n",
        "\r",
        "\r\r\n",
        " folded\r\n",
        "\tfolded\n",
        "X-Y: z\n",
        "Content-Length: 3\r\n",
        "content-LENGTH:0\r\n",
        "Content-Length : 3\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Upgrade: x\r\n",
        "upgrade:\r\n",
        "Upgrade : x\r\n",
        "Connection: upgrade\r\n",
        "abc",
        "GET / HTTP/1.1\r\n\r\n",
        "Expect: 100-continue\r\n",
        "Cookie: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
    ];
    let mut state = 1_u64;
    let mut below = move |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut plain = 0;
    for _ in 0..200_000 {
        let mut head = String::from("GET / HTTP/1.1\r\n");
        for _ in 0..below(8) {
            head.push_str(LINES[below(LINES.len())]);
        }
        if below(2) == 0 {
            head.push_str("\r\n");
        }
        if is_plain(head.as_bytes()) {
            assert!(is_framed_plain(head.as_bytes()), "{head:?}");
            plain += 1;
        }
    }
    assert!(plain > 5000, "{plain}");
}
