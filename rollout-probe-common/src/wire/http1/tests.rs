extern crate std;

use super::{Head, HeadEnd, WINDOW, Window};

fn window(bytes: &[u8]) -> Window {
    let mut window = Window::EMPTY;
    // What lies behind the message's bytes must never matter.
    window.bytes = [b'9'; WINDOW];
    let n = bytes.len().min(WINDOW);
    window.bytes[..n].copy_from_slice(&bytes[..n]);
    window.filled = n as u8;
    window
}

fn request(bytes: &[u8]) -> Head {
    window(bytes).request()
}

fn response(bytes: &[u8]) -> Head {
    window(bytes).response()
}

const REQUEST: Head = Head::Request { connect: false };

#[test]
fn response_status_is_read_in_every_shape_that_servers_send() {
    let cases: [(&[u8], u16); 9] = [
        (b"HTTP/1.1 200 OK\r\n", 200),
        (b"HTTP/1.0 404 Not Found\r\n", 404),
        (b"HTTP/1.1 500 \r\n", 500),
        (b"HTTP/1.1 500\r\n", 500),
        (b"HTTP/1.1 500\n", 500),
        (b"HTTP/1.1 200 500 Internal Server Error\r\n", 200),
        (b"HTTP/1.1 200  \r\n", 200),
        (b"HTTP/1.1 999 \r\n", 999),
        (b"HTTP/1.1 600 x\r\n", 600),
    ];
    for (bytes, status) in cases {
        assert_eq!(response(bytes), Head::Response { status }, "{}", bytes.escape_ascii());
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
        assert_eq!(response(bytes), Head::Other, "{}", bytes.escape_ascii());
    }
}

#[test]
fn request_is_a_token_a_space_and_a_target() {
    let cases: [&[u8]; 10] = [
        b"GET / HTTP/1.1\r\n",
        b"POST /x HTTP/1.0\r\n",
        b"TRACE /x HTTP/1.1\r\n",
        b"PROPFIND /dav HTTP/1.1\r\n",
        b"UPDATEREDIRECTREF /dav HTTP/1.1\r\n",
        b"M-SEARCH * HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.1\r\n",
        b"my.method!~ /x HTTP/1.1\r\n",
        b"GET http://example.com/ HTTP/1.1\r\n",
        b"GET HTTPS://example.com/ HTTP/1.1\r\n",
    ];
    for bytes in cases {
        assert_eq!(request(bytes), REQUEST, "{}", bytes.escape_ascii());
    }
    assert_eq!(request(b"CONNECT example.com:443 HTTP/1.1\r\n"), Head::Request { connect: true });
    assert_eq!(request(b"CONNECTION / HTTP/1.1\r\n"), REQUEST);
}

#[test]
fn other_protocols_are_no_requests() {
    let cases: [&[u8]; 12] = [
        b"*1\r\n$4\r\nPING\r\n",                     // Redis
        b"get key\r\n",                              // memcached
        b"set hello 0 0 5\r\n",                      // memcached, `h` like `http`
        b"EHLO mail.example\r\n",                    // SMTP
        b"GET key\r\n",                              // Redis inline
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", // TLS ClientHello
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"J\x00\x00\x00\x0a8.0.36\x00", // MySQL greeting
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        b" GET / HTTP/1.1\r\n",
        b"G@T / HTTP/1.1\r\n",
        b"AVERYLONGWORDWITHOUTANYSPACEATALL / HTTP/1.1\r\n",
    ];
    for bytes in cases {
        assert_eq!(request(bytes), Head::Other, "{}", bytes.escape_ascii());
    }
    assert_eq!(request(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Head::Http2);
}

#[test]
fn every_shorter_piece_of_a_head_needs_more_and_decides_nothing() {
    let heads: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\n",
        b"UPDATEREDIRECTREF http://e HTTP/1.1\r\n",
        b"CONNECT e:1 HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n",
        b"HTTP/1.1 500 x\r\n",
        b"HTTP/1.1 200\r\n",
        b"HTTP /x HTTP/1.1\r\n",
    ];
    for head in heads {
        let read = |bytes: &[u8]| {
            let mut window = window(bytes);
            if window.is_response() { window.response() } else { window.request() }
        };
        let whole = read(head);
        let decided = (1..=head.len()).find(|n| read(&head[..*n]) != Head::More).expect("the whole decides");
        for n in decided..=head.len() {
            assert_eq!(read(&head[..n]), whole, "{}", head[..n].escape_ascii());
        }
    }
}

#[test]
fn head_ends_at_the_first_empty_line_however_lines_end() {
    let cases: [(&[u8], usize); 6] = [
        (b"100 Continue\r\n\r\nHTTP", 16),
        (b"103 x\r\nLink: <a>\r\n\r\n", 20),
        (b"100 x\n\nHTTP", 7),
        (b"100 x\r\nA: b\n\r\nX", 14),
        (b"100 x\r\n\r\r\n\n", 11), // a stray CR is part of a line
        (b"100 x\r\nA: \r\r\n\r\n", 15),
    ];
    for (bytes, length) in cases {
        let mut end = HeadEnd::default();
        let found = bytes.iter().position(|byte| end.step(*byte)).map(|at| at + 1);
        assert_eq!(found, Some(length), "{}", bytes.escape_ascii());
    }
}
