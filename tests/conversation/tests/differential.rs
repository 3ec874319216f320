//! Random conversations against an independent reading of the two streams, its heads and chunks by httparse.

use conversation::{Conversation, Counted, End, Piece, Sender};

const CONVERSATIONS: u64 = 100_000;

/// What an independent parser finds in a stream from which all content was taken.
struct Stream<'a> {
    rest: &'a [u8],
}

impl Stream<'_> {
    /// The value of a field, lower case.
    fn field(headers: &[httparse::Header<'_>], name: &str) -> Option<String> {
        let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(found.value).to_ascii_lowercase())
    }

    /// Passes over content as the fields say; false when it goes on to the end.
    fn pass_over(&mut self, coding: Option<&str>, length: Option<&str>) -> bool {
        match (coding, length) {
            (Some(coding), _) if coding.ends_with("chunked") => self.pass_over_chunks(),
            (None, Some(length)) => self.rest = &self.rest[length.trim().parse::<usize>().expect("a length")..],
            _ => return false,
        }
        true
    }

    fn pass_over_chunks(&mut self) {
        loop {
            let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(self.rest) else {
                panic!("no chunk: {}", self.rest.escape_ascii())
            };
            self.rest = &self.rest[line..];
            if size == 0 {
                break;
            }
            self.rest = &self.rest[usize::try_from(size).expect("a size") + 2..];
        }
        let mut trailers = [httparse::EMPTY_HEADER; 4];
        let Ok(httparse::Status::Complete((length, _))) = httparse::parse_headers(self.rest, &mut trailers) else {
            panic!("no trailers: {}", self.rest.escape_ascii())
        };
        self.rest = &self.rest[length..];
    }

    /// The methods of all requests.
    fn methods(mut self) -> Vec<String> {
        let mut methods = Vec::new();
        while !self.rest.is_empty() {
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut request = httparse::Request::new(&mut headers);
            let httparse::Status::Complete(length) = request.parse(self.rest).expect("a request") else {
                panic!("half a request: {}", self.rest.escape_ascii())
            };
            methods.push(request.method.expect("a method").to_owned());
            let coding = Self::field(request.headers, "transfer-encoding");
            let content = Self::field(request.headers, "content-length");
            self.rest = &self.rest[length..];
            self.pass_over(coding.as_deref(), content.as_deref());
        }
        methods
    }

    /// The codes of all final responses to requests of these methods.
    fn statuses(mut self, methods: &[String]) -> Vec<u16> {
        let mut statuses = Vec::new();
        while !self.rest.is_empty() {
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut response = httparse::Response::new(&mut headers);
            let httparse::Status::Complete(length) = response.parse(self.rest).expect("a response") else {
                panic!("half a response: {}", self.rest.escape_ascii())
            };
            let status = response.code.expect("a code");
            let coding = Self::field(response.headers, "transfer-encoding");
            let content = Self::field(response.headers, "content-length");
            self.rest = &self.rest[length..];
            if status < 200 {
                continue;
            }
            let method = &methods[statuses.len()];
            statuses.push(status);
            let has_content = method != "HEAD" && status != 204 && status != 304;
            if has_content && !self.pass_over(coding.as_deref(), content.as_deref()) {
                break;
            }
        }
        statuses
    }
}

/// Plays it at one end; the server closes at last if the conversation is of that kind.
fn play(it: &Conversation, end: End, thorough: bool) -> Counted {
    let connection = end.connection();
    let connection = if thorough { connection.thorough() } else { connection };
    let connection = end.play(connection, &it.segments);
    let at = u32::try_from(it.answered.len()).expect("a short stream");
    let close = Piece { sender: Sender::Server, at, bytes: Vec::new(), fin: true };
    let connection = end.play(connection, if it.is_closed { std::slice::from_ref(&close) } else { &[] });
    Counted::of(connection.outcomes())
}

#[test]
fn random_conversations_are_counted_as_an_independent_parser_reads_them() {
    let mut responses = 0;
    for seed in 0..CONVERSATIONS {
        let it = Conversation::random(seed, true);
        let methods = Stream { rest: &it.asked }.methods();
        assert_eq!(methods, it.methods, "seed {seed}: the requests");
        let statuses = Stream { rest: &it.answered }.statuses(&methods);
        assert_eq!(statuses, it.statuses, "seed {seed}: the responses");
        responses += statuses.len();
        let wanted = Counted { responses: statuses, ..Counted::default() };
        for end in [End::Server, End::Client] {
            for thorough in [false, true] {
                assert_eq!(play(&it, end, thorough), wanted, "seed {seed} at the {end:?}, thorough: {thorough}");
            }
        }
    }
    println!("{CONVERSATIONS} conversations with {responses} responses, each at both ends by both ways");
}
