extern crate std;

use std::vec::Vec;

use super::{Event, Framing, kind};

/// What the bytes decide, content passed over, and how many of them were needed for the last of it.
fn events_as(kind: u8, bytes: &[u8]) -> (Vec<Event>, Framing) {
    let mut framing = Framing::START;
    framing.expect(kind);
    let mut events = Vec::new();
    let mut skip = 0;
    for byte in bytes {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        match framing.step(*byte, &mut skip) {
            Event::None => {}
            event => events.push(event),
        }
    }
    (events, framing)
}

/// The first decision about these bytes.
fn first(bytes: &[u8]) -> Option<Event> {
    events_as(kind::ANY, bytes).0.first().copied()
}

#[test]
fn status_is_read_in_every_shape_that_servers_send() {
    let cases: [(&[u8], u16); 9] = [
        (b"HTTP/1.1 200 OK\r\n", 200),
        (b"HTTP/1.0 404 Not Found\r\n", 404),
        (b"HTTP/1.1 500 \r\n", 500),
        (b"HTTP/1.1 500\r\n", 500),
        (b"HTTP/1.1 500\n", 500),
        (b"HTTP/1.1 200 500 Internal Server Error\r\n", 200),
        (b"HTTP/1.1 200  \r\n", 200),
        (b"HTTP/1.1 999 \r\n", 999),
        (b"HTTP/1.9 100 x\r\n", 100),
    ];
    for (bytes, status) in cases {
        for kind in [kind::ANY, kind::RESPONSE] {
            let (events, framing) = events_as(kind, bytes);
            assert_eq!((&events[..], framing.status()), (&[Event::Status][..], status), "{}", bytes.escape_ascii());
        }
    }
}

#[test]
fn anything_else_is_no_response() {
    let cases: [&[u8]; 9] = [
        b"http/1.1 200 ok\r\n", // the name is case-sensitive, RFC 9112 section 2.3
        b"HTTP/1.1  500 x\r\n", // two spaces
        b"HTTP/1.1 099 x\r\n",  // codes start at 100, RFC 9110 section 15
        b"HTTP/1.1 20 \r\n",
        b"HTTP/1.1 6004963\r\n",
        b"HTTP/1.x 200 OK\r\n",
        b"HTTP/2.0 200 OK\r\n",
        b"HTTP/1.12 200 OK\r\n",
        b"GET / HTTP/1.1\r\n",
    ];
    for bytes in cases {
        assert_eq!(events_as(kind::RESPONSE, bytes).0[0], Event::NoStartLine, "{}", bytes.escape_ascii());
    }
}

#[test]
fn request_is_a_token_a_space_and_a_target() {
    let cases: [&[u8]; 10] = [
        b"GET / HTTP/1.1\r\n",
        b"POST /x HTTP/1.0\r\n",
        b"PROPFIND /dav HTTP/1.1\r\n",
        b"UPDATEREDIRECTREF /dav HTTP/1.1\r\n",
        b"M-SEARCH * HTTP/1.1\r\n",
        b"my.method!~ /x HTTP/1.1\r\n",
        b"GET http://example.com/ HTTP/1.1\r\n",
        b"GET HTTPS://example.com/ HTTP/1.1\r\n",
        b"HTTP /x HTTP/1.1\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\n",
    ];
    for bytes in cases {
        for kind in [kind::ANY, kind::REQUEST] {
            assert_eq!(events_as(kind, bytes).0, [Event::Request], "{}", bytes.escape_ascii());
        }
    }
}

#[test]
fn method_is_known_where_it_matters() {
    let method = |bytes: &[u8]| {
        let framing = events_as(kind::REQUEST, bytes).1;
        (framing.is_head(), framing.is_connect())
    };
    assert_eq!(method(b"HEAD / HTTP/1.1\r\n"), (true, false));
    assert_eq!(method(b"CONNECT e:1 HTTP/1.1\r\n"), (false, true));
    for other in
        [&b"HEADS / HTTP/1.1\r\n"[..], b"head / HTTP/1.1\r\n", b"CONNECTION / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n"]
    {
        assert_eq!(method(other), (false, false), "{}", other.escape_ascii());
    }
}

#[test]
fn other_protocols_are_no_http() {
    let cases: [&[u8]; 12] = [
        b"*1\r\n$4\r\nPING\r\n",                     // Redis
        b"get key\r\n",                              // memcached
        b"set hello 0 0 5\r\n",                      // memcached, `h` like `http`
        b"EHLO mail.example\r\n",                    // SMTP
        b"GET key\r\n",                              // Redis inline
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", // TLS ClientHello
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"J\x00\x00\x00\x0a8.0.36\x00", // MySQL greeting
        b" GET / HTTP/1.1\r\n",
        b"G@T / HTTP/1.1\r\n",
        b"AVERYLONGWORDWITHOUTANYSPACEATALL / HTTP/1.1\r\n",
        b"\r\n\r\n\0\r\nQUIT\r\x21",
    ];
    for bytes in cases {
        assert_eq!(first(bytes), Some(Event::NoStartLine), "{}", bytes.escape_ascii());
    }
    assert_eq!(first(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(Event::Http2));
}

#[test]
fn proxy_header_comes_before_the_first_message_only() {
    let line = b"PROXY TCP4 192.0.2.1 192.0.2.2 51234 80\r\nGET / HTTP/1.1\r\n\r\n";
    assert_eq!(events_as(kind::ANY, line).0, [Event::Request, Event::Head]);
    assert_eq!(events_as(kind::REQUEST, line).0[0], Event::NoStartLine);
    let endless = [&b"PROXY "[..], &[b'x'; 200]].concat();
    assert_eq!(first(&endless), Some(Event::NoStartLine), "a longer line is none");
}

/// Bytes of content that follow this head; none to the end of the connection.
fn content_of(kind: u8, head: &[u8]) -> Option<u64> {
    let mut framing = Framing::START;
    framing.expect(kind);
    let mut skip = 0;
    let mut last = Event::None;
    for byte in head {
        assert_eq!(skip, 0, "content before the head's end");
        last = framing.step(*byte, &mut skip);
        assert!(!matches!(last, Event::NoLength | Event::NoStartLine), "{}", head.escape_ascii());
    }
    assert_eq!(last, Event::Head, "{}", head.escape_ascii());
    if skip == u64::MAX { None } else { Some(skip) }
}

#[test]
fn head_ends_at_the_first_empty_line_however_lines_end() {
    let cases: [(&[u8], usize); 6] = [
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP", 25),
        (b"HTTP/1.1 103 x\r\nLink: <a>\r\n\r\n", 29),
        (b"HTTP/1.1 100 x\n\nHTTP", 16),
        (b"HTTP/1.1 100 x\r\nA: b\n\r\nX", 23),
        (b"HTTP/1.1 100 x\r\n\r\r\n\n", 20), // a stray CR is part of a line
        (b"HTTP/1.1 100 x\r\nA: \r\r\n\r\n", 24),
    ];
    for (bytes, length) in cases {
        let mut framing = Framing::START;
        framing.expect(kind::RESPONSE);
        let found = bytes.iter().position(|byte| framing.step(*byte, &mut 0) == Event::Head).map(|at| at + 1);
        assert_eq!(found, Some(length), "{}", bytes.escape_ascii());
    }
}

#[test]
fn length_is_what_the_fields_say() {
    let cases: [(&[u8], Option<u64>); 9] = [
        (b"", None),
        (b"Content-Length: 5\r\n", Some(5)),
        (b"CONTENT-LENGTH:\t 5 \t\r\n", Some(5)),
        (b"Content-Length: 5, 5\r\ncontent-length: 05\r\n", Some(5)),
        (b"Content-Length: 4611686018427387904\r\n", Some(1 << 62)),
        (b"Content-Length:\r\n 5\r\n", Some(5)),
        (b"X-Content-Length: 5\r\n", None),
        (b"Transfer-Encoding: gzip\r\nContent-Length: 5\r\n", None), // the coding wins
        (b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n", Some(5)),
    ];
    for (fields, length) in cases {
        let response = [b"HTTP/1.1 200 OK\r\n", fields, b"\r\n"].concat();
        assert_eq!(content_of(kind::RESPONSE, &response), length, "{}", response.escape_ascii());
        if fields.starts_with(b"Transfer-Encoding: gzip") {
            continue;
        }
        let request = [b"POST / HTTP/1.1\r\n", fields, b"\r\n"].concat();
        assert_eq!(content_of(kind::REQUEST, &request), Some(length.unwrap_or(0)), "{}", request.escape_ascii());
    }
}

#[test]
fn length_that_is_not_certain_is_none() {
    let cases: [&[u8]; 11] = [
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: \r\n",
        b"Content-Length: 5,\r\n",
        b"Content-Length: -5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length: 5 5\r\n",
        b"Content-Length: 4\r\n 2\r\n",
        b"Content-Length: 46116860184273879040\r\n",
        b"Content-Length : 5\r\n",
        b"Transfer-Encoding : chunked\r\n",
    ];
    for fields in cases {
        for (kind, line) in [(kind::RESPONSE, &b"HTTP/1.1 200 OK\r\n"[..]), (kind::REQUEST, b"POST / HTTP/1.1\r\n")] {
            let head = [line, fields, b"\r\n"].concat();
            assert_eq!(events_as(kind, &head).0.get(1), Some(&Event::NoLength), "{}", head.escape_ascii());
        }
    }
    let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n";
    assert_eq!(events_as(kind::REQUEST, head).0[1], Event::NoLength, "of a request the last coding is chunked");
}

#[test]
fn chunks_are_passed_over_to_the_end_of_the_trailers() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n";
    let good: [&[u8]; 5] = [
        b"0\r\n\r\n",
        b"5;ext=1\r\nhello\r\n00000A\r\n0123456789\r\n0\r\n\r\n",
        b"1F; a=\"b;c\"\r\n0\r\n\r\nHTTP/1.1 500 x\r\n\r\n4567890a\r\n0\r\nX-T: 1\r\n folded\r\nContent-Length: 9, x\r\n\r\n",
        b"3 \nabc\n0\n\n",
        b"3\r\nabc\n0\n\r\n",
    ];
    for chunks in good {
        let bytes = [HEAD, chunks, b"HTTP/1.1 404 x\r\n"].concat();
        let (events, framing) = events_as(kind::RESPONSE, &bytes);
        assert_eq!(events, [Event::Status, Event::Head, Event::Status], "{}", chunks.escape_ascii());
        assert_eq!(framing.status(), 404);
    }
    let bad: [&[u8]; 6] = [b"\r\n", b"x\r\n", b"-1\r\n", b"3\r\nabcd", b"3\r\nabc\rx", b"ffffffffffffffff\r\n"];
    for chunks in bad {
        let events = events_as(kind::RESPONSE, &[HEAD, chunks].concat()).0;
        assert_eq!(events.last(), Some(&Event::NoLength), "{}", chunks.escape_ascii());
    }
}

#[test]
fn fields_that_change_what_follows_are_seen() {
    let head = |fields: &[u8]| events_as(kind::REQUEST, &[b"GET / HTTP/1.1\r\n", fields, b"\r\n"].concat()).1;
    assert!(head(b"Upgrade: websocket\r\n").may_switch());
    assert!(!head(b"Upgrade: websocket\r\n").is_h2c());
    assert!(head(b"upgrade: TLS/1.2, H2C\r\n").is_h2c());
    assert!(!head(b"Upgrade: \r\nX: h2c\r\n").may_switch(), "an empty list asks for nothing");
    assert!(head(b"Expect: 100-Continue\r\n").is_expecting());
    assert!(!head(b"Expect: 100-continued\r\n").is_expecting());
    let answer = events_as(kind::RESPONSE, b"HTTP/1.1 200 OK\r\nUpgrade: h2c\r\n\r\n").1;
    assert!(!answer.may_switch(), "a response asks for nothing");
}
