//! Reads HTTP/1 responses (RFC 9112), whole, from anything that can be read.

use std::{
    io::{self, BufRead, ErrorKind, Read},
    time::Instant,
};

/// Why there is no response head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Missing {
    Closed,
    Reset,
    TimedOut,
}

/// A response whose head has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    /// When the status line was there.
    pub(super) at: Instant,
    /// The body came to its end.
    pub(super) complete: bool,
    /// Another request may follow on the connection.
    pub(super) keep_alive: bool,
}

/// A message head, as far as it decides about the body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    at: Instant,
    /// The empty line was there.
    complete: bool,
    length: Option<u64>,
    chunked: bool,
    close: bool,
}

/// Reads the final response to a request with this method; interim ones before it are skipped.
pub(super) fn read_response(input: &mut impl BufRead, method: &str) -> Result<Response, Missing> {
    loop {
        let head = read_head(input)?;
        if head.complete && (100..200).contains(&head.status) && head.status != 101 {
            continue;
        }
        return Ok(read_rest(input, head, method));
    }
}

/// Reads a head, which may be an interim response's.
pub(super) fn read_head(input: &mut impl BufRead) -> Result<Head, Missing> {
    let status_line = read_line(input).map_err(|error| missing(&error))?;
    let at = Instant::now();
    let status = parse_status(&status_line).ok_or(Missing::Closed)?;
    let mut head =
        Head { status, at, complete: false, length: None, chunked: false, close: status_line.contains("HTTP/1.0") };
    while let Ok(line) = read_line(input) {
        let Some((name, value)) = line.split_once(':') else {
            head.complete = line.is_empty();
            break;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length = value.parse().ok(),
            "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => head.close = value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    Ok(head)
}

/// Reads what follows a final head.
pub(super) fn read_rest(input: &mut impl BufRead, head: Head, method: &str) -> Response {
    let bodyless = method == "HEAD" || matches!(head.status, 100..200 | 204 | 304);
    let until_close = !bodyless && !head.chunked && head.length.is_none();
    let complete = head.complete
        && match (bodyless, head.chunked, head.length) {
            (true, ..) => true,
            (_, true, _) => read_chunks(input).is_ok(),
            (_, _, Some(length)) => skip(input, length).is_ok(),
            _ => io::copy(input, &mut io::sink()).is_ok(),
        };
    let keep_alive = complete && !head.close && !until_close && head.status != 101;
    Response { status: head.status, at: head.at, complete, keep_alive }
}

fn missing(error: &io::Error) -> Missing {
    match error.kind() {
        ErrorKind::UnexpectedEof => Missing::Closed,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Missing::TimedOut,
        _ => Missing::Reset,
    }
}

fn parse_status(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "))?;
    rest.get(..3)?.parse().ok()
}

/// A line without its end; an error when the input ends first.
fn read_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let line = line.strip_suffix('\n').ok_or(ErrorKind::UnexpectedEof)?;
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn skip(input: &mut impl BufRead, length: u64) -> io::Result<()> {
    let read = io::copy(&mut input.take(length), &mut io::sink())?;
    if read == length { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

fn read_chunks(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let line = read_line(input)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        if size == 0 {
            while !read_line(input)?.is_empty() {} // trailer
            return Ok(());
        }
        skip(input, size)?;
        read_line(input)?;
    }
}

#[cfg(test)]
mod tests {
    use super::{Missing, read_response};

    /// Status, complete, `keep_alive`, and the bytes left over.
    fn read<'a>(mut input: &'a str, method: &str) -> Result<(u16, bool, bool, &'a str), Missing> {
        let mut bytes = input.as_bytes();
        let response = read_response(&mut bytes, method)?;
        input = &input[input.len() - bytes.len()..];
        Ok((response.status, response.complete, response.keep_alive, input))
    }

    #[test]
    fn body_ends_where_its_framing_says() {
        let cases = [
            ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokNEXT", (200, true, true, "NEXT")),
            (
                "GET",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nok\r\n0\r\nT: v\r\n\r\nNEXT",
                (200, true, true, "NEXT"),
            ),
            ("GET", "HTTP/1.1 200 OK\r\n\r\nup to the end", (200, true, false, "")),
            ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nNEXT", (200, true, true, "NEXT")),
            ("GET", "HTTP/1.1 204 No Content\r\n\r\nNEXT", (204, true, true, "NEXT")),
            ("GET", "HTTP/1.1 500 \r\nConnection: close\r\nContent-Length: 0\r\n\r\n", (500, true, false, "")),
            ("GET", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", (200, true, false, "")),
        ];
        for (method, input, wanted) in cases {
            assert_eq!(read(input, method), Ok(wanted), "{method}: {input}");
        }
    }

    #[test]
    fn interim_responses_are_skipped() {
        let input = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(input, "POST"), Ok((201, true, true, "")));
    }

    #[test]
    fn switched_protocol_is_final_and_ends_the_connection_s_use() {
        assert_eq!(read("HTTP/1.1 101 Switching Protocols\r\n\r\n\0\0", "GET"), Ok((101, true, false, "\0\0")));
    }

    #[test]
    fn head_that_does_not_come_is_missing_and_a_cut_body_is_not() {
        assert_eq!(read("", "GET"), Err(Missing::Closed));
        assert_eq!(read("HTTP/1.1 20", "GET"), Err(Missing::Closed));
        assert_eq!(read("HTTP/1.1 100 Continue\r\n\r\n", "GET"), Err(Missing::Closed));
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "GET"), Ok((200, false, false, "")));
    }
}
