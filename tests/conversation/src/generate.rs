//! Random valid HTTP/1 conversations, with what is in them known because they were made so.

use crate::{Piece, Random, Sender};

/// A conversation between one client and one server.
#[derive(Debug)]
pub struct Conversation {
    /// In the order of time.
    pub segments: Vec<Piece>,
    /// What each request's method is.
    pub methods: Vec<&'static str>,
    /// The codes of the final responses.
    pub statuses: Vec<u16>,
    /// All that the client sends.
    pub asked: Vec<u8>,
    /// All that the server sends.
    pub answered: Vec<u8>,
    /// The parts of `answered` that belong to each request.
    pub responses: Vec<Vec<u8>>,
    /// Whether the last response is as long as the connection.
    pub is_closed: bool,
}

/// Texts that look like what is looked for.
const LOOKALIKES: [&[u8]; 8] = [
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    b"GET /admin HTTP/1.1\r\nHost: a\r\n\r\n",
    b"0\r\n\r\n",
    b"\r\n\r\n",
    b"\n",
    b"5\r\nhello\r\n",
    b"Content-Length: 7\r\n",
    b"\x00\xff\x80abc",
];
const METHODS: [&str; 12] =
    ["GET", "GET", "GET", "POST", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "M-SEARCH"];
const FIELDS: [&str; 14] = [
    "Host: a",
    "Accept: */*",
    "User-Agent: curl/8.5.0",
    "Cookie: a=b; c=d",
    "X: ",
    "Connection: keep-alive",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "Content-Type: text/plain",
    "Content-Lengths: 9",
    "X-Transfer-Encoding: chunked",
    "TE: trailers",
    "Upgrade-Insecure-Requests: 1",
    "Date: Tue, 15 Nov 1994 08:12:31 GMT",
    "Link: </style.css>; rel=preload; as=style",
];

/// One message: where its content begins.
struct Message {
    bytes: Vec<u8>,
    head: usize,
}

impl Conversation {
    /// The conversation of `seed`. `both`: some messages have a length beside a transfer coding, which RFC 9112 section 6.3 allows
    /// to be answered by closing the connection.
    #[must_use]
    pub fn random(seed: u64, both: bool) -> Self {
        let random = &mut Random::new(seed);
        let exchanges = 1 + random.below(5);
        let is_pipelined = exchanges > 1 && random.once_in(3);
        let is_closed = random.once_in(6);
        let mut it = Self {
            segments: Vec::new(),
            methods: Vec::new(),
            statuses: Vec::new(),
            asked: Vec::new(),
            answered: Vec::new(),
            responses: Vec::new(),
            is_closed,
        };
        let mut messages = Vec::new();
        for number in 0..exchanges {
            let method = *random.pick(&METHODS);
            let status = if random.once_in(5) { *random.pick(&[204, 304]) } else { status(random) };
            let to_close = is_closed && number + 1 == exchanges;
            let response = response(random, method, status, to_close, both);
            it.methods.push(method);
            it.statuses.push(status);
            it.responses.push(response.bytes.clone());
            messages.push((request(random, method, both), response));
        }
        if is_pipelined {
            it.interleave(random, &messages);
        } else {
            for (request, response) in &messages {
                it.take_turns(random, request, response);
            }
        }
        it
    }

    /// Request, then response; or the response before the request's content is through.
    fn take_turns(&mut self, random: &mut Random, request: &Message, response: &Message) {
        let before = if random.once_in(4) {
            request.head + random.below(request.bytes.len() - request.head + 1)
        } else {
            request.bytes.len()
        };
        self.send(random, Sender::Client, &request.bytes[..before]);
        self.send(random, Sender::Server, &response.bytes);
        self.send(random, Sender::Client, &request.bytes[before..]);
    }

    /// Two requests first, so that it is known from the start; then both sides as they like, each response behind its request's head.
    fn interleave(&mut self, random: &mut Random, messages: &[(Message, Message)]) {
        let mut heads = Vec::new();
        let mut asked = Vec::new();
        let mut answered = Vec::new();
        let mut starts = Vec::new();
        for (request, response) in messages {
            heads.push(asked.len() + request.head);
            starts.push(answered.len());
            asked.extend(&request.bytes);
            answered.extend(&response.bytes);
        }
        let (mut sent, mut replied) = (heads[1], 0);
        self.send(random, Sender::Client, &asked[..sent]);
        while sent < asked.len() || replied < answered.len() {
            // The responses whose requests are there.
            let allowed = starts.iter().zip(&heads).filter(|(_, head)| **head <= sent).count();
            let limit = starts.get(allowed).copied().unwrap_or(answered.len());
            if sent < asked.len() && (random.once_in(2) || replied == limit) {
                let n = 1 + random.below(asked.len() - sent);
                self.send(random, Sender::Client, &asked[sent..sent + n]);
                sent += n;
            } else if replied < limit {
                let n = 1 + random.below(limit - replied);
                self.send(random, Sender::Server, &answered[replied..replied + n]);
                replied += n;
            }
        }
    }

    /// Sends bytes in a few segments, sometimes with copies of earlier ones.
    fn send(&mut self, random: &mut Random, sender: Sender, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = if random.once_in(3) { 1 + random.below(rest.len()) } else { rest.len() };
            let stream = if sender == Sender::Client { &mut self.asked } else { &mut self.answered };
            // Some of what was sent before comes again, in front of what is new.
            let again = if random.once_in(8) { random.below(stream.len().min(200) + 1) } else { 0 };
            let at = stream.len() - again;
            stream.extend(&rest[..n]);
            let segment = stream[at..].to_vec();
            let at = u32::try_from(at).expect("a short stream");
            self.segments.push(Piece { sender, at, bytes: segment, fin: false });
            if random.once_in(8) {
                let copy = random.pick(&self.segments).clone();
                self.segments.push(copy);
            }
            rest = &rest[n..];
        }
    }
}

fn status(random: &mut Random) -> u16 {
    let class = 200 + 100 * u16::try_from(random.below(4)).expect("a digit");
    let status = class + u16::try_from(random.below(100)).expect("two digits");
    if matches!(status, 204 | 304) { 200 } else { status }
}

fn fields(random: &mut Random, head: &mut Vec<u8>) {
    for _ in 0..random.below(6) {
        head.extend(random.pick(&FIELDS).bytes());
        head.extend(b"\r\n");
    }
    if random.once_in(40) {
        head.extend(format!("Cookie: {}\r\n", "0123456789abcdef".repeat(random.below(120))).bytes());
    }
}

fn content(random: &mut Random) -> Vec<u8> {
    let mut content = Vec::new();
    for _ in 0..random.below(5) {
        content.extend(*random.pick(&LOOKALIKES));
    }
    if random.once_in(4) {
        content.extend(vec![b'x'; random.below(2000)]);
    }
    content
}

/// The field that announces this content, in one of the forms it may have, and the content in that form.
fn framed(random: &mut Random, content: &[u8], both: bool) -> (String, Vec<u8>) {
    if random.once_in(2) {
        let name = *random.pick(&["Content-Length", "content-length", "CONTENT-LENGTH"]);
        let space = *random.pick(&["", " ", "\t ", "  "]);
        return (format!("{name}:{space}{}{space}\r\n", content.len()), content.to_vec());
    }
    let field = *random.pick(&[
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding:chunked \r\n",
        "TRANSFER-ENCODING: Chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
    ]);
    // The coding wins (RFC 9112 section 6.3).
    let length = if both && random.once_in(6) { "Content-Length: 3\r\n" } else { "" };
    let mut chunks = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let n = 1 + random.below(rest.len());
        let size = match random.below(3) {
            0 => format!("{n:x}"),
            1 => format!("{n:06X}"),
            _ => format!("{n:x};name=value"),
        };
        chunks.extend(size.bytes());
        chunks.extend(b"\r\n");
        chunks.extend(&rest[..n]);
        chunks.extend(b"\r\n");
        rest = &rest[n..];
    }
    chunks.extend(b"0\r\n");
    if random.once_in(3) {
        chunks.extend(b"X-Trailer: HTTP/1.1 500 x\r\n");
    }
    chunks.extend(b"\r\n");
    (if random.once_in(2) { [field, length].concat() } else { [length, field].concat() }, chunks)
}

fn request(random: &mut Random, method: &str, both: bool) -> Message {
    let target = *random.pick(&["/", "/path?query=HTTP/1.1", "http://example.com/x"]);
    let mut head = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    fields(random, &mut head);
    let has_content = if matches!(method, "POST" | "PUT" | "PATCH") { !random.once_in(8) } else { random.once_in(6) };
    let mut bytes = Vec::new();
    if has_content {
        let content = content(random);
        let (field, framed) = framed(random, &content, both);
        head.extend(field.bytes());
        bytes = framed;
    }
    fields(random, &mut head);
    head.extend(b"\r\n");
    let length = head.len();
    Message { bytes: [head, bytes].concat(), head: length }
}

fn response(random: &mut Random, method: &str, status: u16, to_close: bool, both: bool) -> Message {
    let mut bytes = Vec::new();
    for _ in 0..if random.once_in(5) { 1 + random.below(3) } else { 0 } {
        let interim = *random.pick(&["100 Continue", "102 Processing", "103 Early Hints"]);
        bytes.extend(format!("HTTP/1.1 {interim}\r\n").bytes());
        fields(random, &mut bytes);
        bytes.extend(b"\r\n");
    }
    let head = bytes.len();
    let reason = *random.pick(&["OK", "", "Not Found", "500 Internal Server Error"]);
    bytes.extend(format!("HTTP/1.1 {status} {reason}\r\n").bytes());
    fields(random, &mut bytes);
    let content = content(random);
    let has_content = method != "HEAD" && !matches!(status, 204 | 304);
    if to_close {
        bytes.extend(b"\r\n");
        if has_content {
            bytes.extend(content);
        }
        return Message { bytes, head };
    }
    let (field, framed) = framed(random, &content, both);
    if has_content {
        bytes.extend(field.bytes());
        bytes.extend(b"\r\n");
        bytes.extend(framed);
    } else {
        // What the response to another method would have.
        if status != 204 && random.once_in(2) {
            bytes.extend(field.bytes());
        }
        bytes.extend(b"\r\n");
    }
    Message { bytes, head }
}
