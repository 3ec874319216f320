//! Where HTTP/1 messages begin and end (RFC 9112): one byte a step, across any split.
//!
//! **Owns** the grammar of a start line as far as it decides something, the fields that frame a message (`Content-Length`,
//! `Transfer-Encoding`), those that change what follows it (`Upgrade`, `Expect`), chunks with their extensions and
//! trailers, and a `PROXY` header in front of everything. Content is never taken: the step before it says how many bytes to
//! pass over.
//!
//! **Promises** that every line may be split anywhere, that a line may end with a bare LF (section 2.2), that an unfolded
//! and a folded field mean the same (section 5.2), and that a message whose length is ambiguous is an error, never a
//! guess (section 6.3).
//!
//! **Leaves out** whatever frames nothing: the version, the reason phrase, the syntax of other fields. Whether a response has
//! content at all depends on its request, so the caller says so ([`Framing::without_content`]).
//!
//! Lives in a map value, and takes one byte at a time without a slice or a table: that is what keeps all paths through
//! a byte one path for the verifier.

use super::word::{Word, hex, is_digit, is_token, lower};

/// What a byte has decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Event {
    /// Nothing yet.
    None = 0,
    /// A request line, up to the form of its target: see [`Framing::is_head`] and [`Framing::is_connect`].
    Request,
    /// A status line, up to its code: [`Framing::status`].
    Status,
    /// A head is complete; what follows is content (perhaps none), then the next message.
    Head,
    /// The HTTP/2 connection preface (RFC 9113 section 3.4).
    Http2,
    /// No HTTP/1 start line.
    NoStartLine,
    /// A head or a chunk whose length cannot be told.
    NoLength,
}

impl Event {
    /// The event with this number: between functions of the kernel's programs only numbers go.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Request,
            2 => Self::Status,
            3 => Self::Head,
            4 => Self::Http2,
            5 => Self::NoStartLine,
            6 => Self::NoLength,
            _ => Self::None,
        }
    }
}

/// Which start lines may come.
pub mod kind {
    /// Any: the first message on a connection.
    pub const ANY: u8 = 0;
    /// Request lines.
    pub const REQUEST: u8 = 1;
    /// Status lines.
    pub const RESPONSE: u8 = 2;
}

/// What the next byte belongs to.
mod state {
    /// Before a start line; line ends are skipped here (RFC 9112 section 2.2).
    pub(super) const START: u8 = 0;
    pub(super) const METHOD: u8 = 1;
    pub(super) const TARGET: u8 = 2;
    pub(super) const SCHEME: u8 = 3;
    pub(super) const STATUS_LINE: u8 = 4;
    /// The rest of the start line.
    pub(super) const START_REST: u8 = 5;
    /// The start of a field line, or of the empty line.
    pub(super) const LINE: u8 = 6;
    pub(super) const LINE_CR: u8 = 7;
    pub(super) const NAME: u8 = 8;
    /// White space between a field's name and its colon.
    pub(super) const NAME_SPACE: u8 = 9;
    pub(super) const VALUE: u8 = 10;
    /// The rest of a line that frames nothing.
    pub(super) const IGNORED: u8 = 11;
    pub(super) const CHUNK_SIZE: u8 = 12;
    /// Chunk extensions (section 7.1.1).
    pub(super) const CHUNK_REST: u8 = 13;
    /// The line end behind a chunk's data.
    pub(super) const CHUNK_END: u8 = 14;
    pub(super) const CHUNK_END_LF: u8 = 15;
    /// All bytes are content until the connection ends.
    pub(super) const TO_CLOSE: u8 = 16;
    /// A `PROXY` line (version 1 of the PROXY protocol).
    pub(super) const PROXY_LINE: u8 = 17;
    /// The binary header of version 2, behind its first NUL.
    pub(super) const PROXY_BINARY: u8 = 18;
}

/// Fields that matter. See [`Framing::field`].
mod field {
    pub(super) const OTHER: u8 = 0;
    pub(super) const LENGTH: u8 = 1;
    pub(super) const ENCODING: u8 = 2;
    pub(super) const UPGRADE: u8 = 3;
    pub(super) const EXPECT: u8 = 4;
}

/// Bits of [`Framing::found`]: what the head has said.
mod found {
    pub(super) const LENGTH: u16 = 1;
    pub(super) const ENCODING: u16 = 2;
    /// The last transfer coding is chunked.
    pub(super) const CHUNKED: u16 = 4;
    pub(super) const UPGRADE: u16 = 8;
    pub(super) const H2C: u16 = 16;
    pub(super) const EXPECT: u16 = 32;
    pub(super) const HEAD: u16 = 64;
    pub(super) const CONNECT: u16 = 128;
    /// No content follows, whatever the fields say.
    pub(super) const WITHOUT_CONTENT: u16 = 256;
    /// The fields are those of a trailer section.
    pub(super) const TRAILER: u16 = 512;
}

/// Longest method.
const METHOD_MAX: u8 = 27;
/// Longest `PROXY` line without its line end (PROXY protocol version 1).
const PROXY_LINE_MAX: u8 = 105;
/// Contents beyond this are no length.
const LENGTH_MAX: u64 = 1 << 62;
/// More than any connection carries.
const ENDLESS: u64 = u64::MAX;

/// The state of one direction between two bytes. All zeroes is the start of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    /// The word being read: a method, a field's name, a member of its value.
    word: Word,
    /// The number being read: a length or a chunk's size.
    number: u64,
    /// The length that the head gave.
    length: u64,
    /// Code of the status line.
    status: u16,
    /// Bits of [`found`].
    found: u16,
    /// One of [`state`].
    state: u8,
    /// One of [`kind`].
    kind: u8,
    /// One of [`field`].
    field: u8,
    /// 1 after white space inside a member of a field's value.
    gap: u8,
    /// Digits of the number; place in a status line; place in the signature of a binary `PROXY` header.
    place: u8,
    /// Explicit padding.
    reserved: [u8; 7],
}

impl Framing {
    /// The start of a connection.
    pub const START: Self = Self {
        word: Word::EMPTY,
        number: 0,
        length: 0,
        status: 0,
        found: 0,
        state: state::START,
        kind: kind::ANY,
        field: field::OTHER,
        gap: 0,
        place: 0,
        reserved: [0; 7],
    };

    /// Says which start lines are to come: one of [`kind`].
    #[inline(always)]
    pub fn expect(&mut self, kind: u8) {
        self.kind = kind;
    }

    /// Between two messages, with nothing of the next one taken.
    #[inline(always)]
    pub fn is_between(&self) -> bool {
        self.state == state::START && self.place == 0
    }

    /// The next byte may be the first one of a start line.
    #[inline(always)]
    pub fn is_at_start(&self) -> bool {
        self.state == state::START
    }

    /// Forgets what was before: a message starts with the next byte.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.found = 0;
        self.restart();
    }

    #[inline(always)]
    fn restart(&mut self) {
        self.state = state::START;
        self.place = 0;
    }

    /// The status line's code.
    #[inline(always)]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The request's method is `HEAD`.
    #[inline(always)]
    pub fn is_head(&self) -> bool {
        self.found & found::HEAD != 0
    }

    /// The request's method is `CONNECT`.
    #[inline(always)]
    pub fn is_connect(&self) -> bool {
        self.found & found::CONNECT != 0
    }

    /// The message is a request for another protocol: its response decides in which protocol the bytes behind it are.
    #[inline(always)]
    pub fn may_switch(&self) -> bool {
        self.status == 0 && self.found & (found::CONNECT | found::UPGRADE) != 0
    }

    /// The other protocol is HTTP/2 (RFC 7540 section 3.2).
    #[inline(always)]
    pub fn is_h2c(&self) -> bool {
        self.found & found::H2C != 0
    }

    /// The request's content waits for a 100 (RFC 9110 section 10.1.1).
    #[inline(always)]
    pub fn is_expecting(&self) -> bool {
        self.found & found::EXPECT != 0
    }

    /// What follows this response's head is the next response: it is interim, answers a `HEAD`, or is a 204 or 304.
    #[inline(always)]
    pub fn without_content(&mut self) {
        self.found |= found::WITHOUT_CONTENT;
    }

    /// Takes one byte. After it, `skip` bytes are content: pass over them before the next step.
    #[inline(always)]
    pub fn step(&mut self, byte: u8, skip: &mut u64) -> Event {
        match self.state {
            state::START => self.start(byte),
            state::METHOD => self.method(byte),
            state::TARGET => self.target(byte),
            state::SCHEME => self.scheme(byte),
            state::STATUS_LINE => self.status_line(byte),
            state::START_REST | state::IGNORED => {
                if byte == b'\n' {
                    self.state = state::LINE;
                }
                Event::None
            }
            state::LINE => self.line(byte, skip),
            state::LINE_CR => self.line_cr(byte, skip),
            state::NAME => self.name(byte),
            state::NAME_SPACE => self.name_space(byte),
            state::VALUE => self.value(byte),
            state::PROXY_LINE => self.proxy_line(byte),
            state::PROXY_BINARY => self.proxy_binary(byte, skip),
            state::TO_CLOSE => {
                *skip = ENDLESS;
                Event::None
            }
            _ => self.chunk(byte, skip),
        }
    }

    #[inline(always)]
    fn start(&mut self, byte: u8) -> Event {
        if self.kind == kind::ANY && byte == proxy_signature(self.place) {
            self.place += 1;
            if byte == 0 {
                self.state = state::PROXY_BINARY;
            }
            return Event::None;
        }
        self.place = 0;
        if byte == b'\r' || byte == b'\n' {
            return Event::None;
        }
        self.word.clear();
        self.found = 0;
        self.status = 0;
        self.field = field::OTHER;
        self.state = state::METHOD;
        if self.kind == kind::RESPONSE {
            self.state = state::STATUS_LINE;
            return self.status_line(byte);
        }
        self.method(byte)
    }

    #[inline(always)]
    fn method(&mut self, byte: u8) -> Event {
        const HTTP: Word = Word::of(b"HTTP");
        const HEAD: Word = Word::of(b"HEAD");
        const CONNECT: Word = Word::of(b"CONNECT");
        const PROXY: Word = Word::of(b"PROXY");
        if byte == b' ' {
            self.state = state::TARGET;
            if self.word.count == 0 {
                return Event::NoStartLine;
            }
            if self.word.is(&HEAD) {
                self.found |= found::HEAD;
            } else if self.word.is(&CONNECT) {
                self.found |= found::CONNECT;
                self.state = state::START_REST;
                return Event::Request;
            } else if self.kind == kind::ANY && self.word.is(&PROXY) {
                self.state = state::PROXY_LINE;
            }
            return Event::None;
        }
        if byte == b'/' && self.kind == kind::ANY && self.word.is(&HTTP) {
            self.state = state::STATUS_LINE;
            self.place = 5;
            return Event::None;
        }
        if !is_token(byte) || self.word.count >= METHOD_MAX {
            return Event::NoStartLine;
        }
        self.word.push(byte);
        Event::None
    }

    /// The first byte of the target (RFC 9112 section 3.2).
    #[inline(always)]
    fn target(&mut self, byte: u8) -> Event {
        const PRI: Word = Word::of(b"PRI");
        match byte {
            b'*' if self.word.is(&PRI) => Event::Http2,
            b'*' | b'/' => {
                self.state = state::START_REST;
                Event::Request
            }
            _ => {
                self.state = state::SCHEME;
                self.word.clear();
                self.scheme(byte)
            }
        }
    }

    #[inline(always)]
    fn scheme(&mut self, byte: u8) -> Event {
        let wanted = match self.word.count {
            0 => b'h',
            1 | 2 => b't',
            _ => b'p',
        };
        if byte | 0x20 != wanted {
            return Event::NoStartLine;
        }
        self.word.push(byte);
        if self.word.count < 4 {
            return Event::None;
        }
        self.state = state::START_REST;
        Event::Request
    }

    /// `HTTP/1.` DIGIT SP 3DIGIT and the byte behind them.
    #[inline(always)]
    fn status_line(&mut self, byte: u8) -> Event {
        const NAME: u64 = u64::from_le_bytes(*b"HTTP/1.\0");
        let place = self.place;
        self.place = place.wrapping_add(1);
        let fits = match place {
            ..7 => byte == (NAME >> (place * 8)) as u8,
            7 => is_digit(byte),
            8 => byte == b' ',
            9..12 => {
                self.status = self.status.wrapping_mul(10).wrapping_add(u16::from(byte & 15));
                is_digit(byte) && self.status != 0
            }
            _ => {
                self.place = 0;
                self.state = if byte == b'\n' { state::LINE } else { state::START_REST };
                return if matches!(byte, b' ' | b'\r' | b'\n') { Event::Status } else { Event::NoStartLine };
            }
        };
        if fits { Event::None } else { Event::NoStartLine }
    }

    /// The first byte of a line behind the start line.
    #[inline(always)]
    fn line(&mut self, byte: u8, skip: &mut u64) -> Event {
        if byte == b' ' || byte == b'\t' {
            // A folded line goes on with the field before it.
            self.state = if self.field == field::OTHER { state::IGNORED } else { state::VALUE };
            return Event::None;
        }
        if !self.end_field() {
            return Event::NoLength;
        }
        if byte == b'\r' {
            self.state = state::LINE_CR;
            return Event::None;
        }
        if byte == b'\n' {
            return self.end(skip);
        }
        self.word.clear();
        self.state = if self.found & found::TRAILER != 0 { state::IGNORED } else { state::NAME };
        if self.state == state::NAME { self.name(byte) } else { Event::None }
    }

    #[inline(always)]
    fn line_cr(&mut self, byte: u8, skip: &mut u64) -> Event {
        if byte == b'\n' {
            return self.end(skip);
        }
        // A line that begins with a stray CR is some field that nobody knows.
        self.state = state::IGNORED;
        Event::None
    }

    #[inline(always)]
    fn name(&mut self, byte: u8) -> Event {
        match byte {
            b':' => {
                self.begin_field();
                self.state = if self.field == field::OTHER { state::IGNORED } else { state::VALUE };
            }
            b'\n' => self.state = state::LINE,
            b' ' | b'\t' => self.state = state::NAME_SPACE,
            _ => self.word.push(lower(byte)),
        }
        Event::None
    }

    /// White space before the colon: some parsers take the field, others do not (RFC 9112 section 5.1).
    #[inline(always)]
    fn name_space(&mut self, byte: u8) -> Event {
        match byte {
            b' ' | b'\t' => {}
            b'\n' => self.state = state::LINE,
            b':' => {
                self.begin_field();
                if matches!(self.field, field::LENGTH | field::ENCODING) {
                    return Event::NoLength;
                }
                self.field = field::OTHER;
                self.state = state::IGNORED;
            }
            _ => self.state = state::IGNORED,
        }
        Event::None
    }

    #[inline(always)]
    fn begin_field(&mut self) {
        const LENGTH: Word = Word::of(b"content-length");
        const ENCODING: Word = Word::of(b"transfer-encoding");
        const UPGRADE: Word = Word::of(b"upgrade");
        const EXPECT: Word = Word::of(b"expect");
        self.field = if self.word.is(&LENGTH) {
            field::LENGTH
        } else if self.word.is(&ENCODING) {
            field::ENCODING
        } else if self.word.is(&UPGRADE) {
            field::UPGRADE
        } else if self.word.is(&EXPECT) {
            field::EXPECT
        } else {
            field::OTHER
        };
        self.begin_member();
    }

    #[inline(always)]
    fn begin_member(&mut self) {
        self.word.clear();
        self.number = 0;
        self.place = 0;
        self.gap = 0;
    }

    #[inline(always)]
    fn value(&mut self, byte: u8) -> Event {
        match byte {
            b'\n' => {
                // Whether the field ends here is known with the next byte.
                self.gap = 1;
                self.state = state::LINE;
                Event::None
            }
            b' ' | b'\t' | b'\r' => {
                self.gap = 1;
                Event::None
            }
            b',' => {
                let is_good = self.end_member();
                self.begin_member();
                if is_good { Event::None } else { Event::NoLength }
            }
            _ => self.member(byte),
        }
    }

    #[inline(always)]
    fn member(&mut self, byte: u8) -> Event {
        let begun = self.place != 0;
        let split = self.gap != 0 && begun;
        self.gap = 0;
        if self.field == field::LENGTH {
            if !is_digit(byte) || split || self.number > LENGTH_MAX / 10 {
                return Event::NoLength;
            }
            self.number = self.number * 10 + u64::from(byte - b'0');
        } else {
            self.word.push(lower(byte));
            if split {
                self.word.spoil();
            }
        }
        self.place = 1;
        Event::None
    }

    /// Takes in a complete member of a list; false when it makes the length ambiguous.
    #[inline(always)]
    fn end_member(&mut self) -> bool {
        const CHUNKED: Word = Word::of(b"chunked");
        const IDENTITY: Word = Word::of(b"identity");
        const H2C: Word = Word::of(b"h2c");
        const CONTINUE: Word = Word::of(b"100-continue");
        let is_empty = self.place == 0;
        match self.field {
            field::LENGTH => {
                let differs = self.found & found::LENGTH != 0 && self.length != self.number;
                if is_empty || differs {
                    return false;
                }
                self.length = self.number;
                self.found |= found::LENGTH;
            }
            // `identity` was "no coding" (RFC 2616 section 3.6) and still means nothing.
            field::ENCODING if !is_empty && !self.word.is(&IDENTITY) => {
                self.found = (self.found & !found::CHUNKED) | found::ENCODING;
                if self.word.is(&CHUNKED) {
                    self.found |= found::CHUNKED;
                }
            }
            field::UPGRADE if !is_empty => {
                self.found |= found::UPGRADE;
                if self.word.is(&H2C) {
                    self.found |= found::H2C;
                }
            }
            field::EXPECT if self.word.is(&CONTINUE) => self.found |= found::EXPECT,
            _ => {}
        }
        true
    }

    #[inline(always)]
    fn end_field(&mut self) -> bool {
        let is_good = self.field == field::OTHER || self.end_member();
        self.field = field::OTHER;
        is_good
    }

    /// The empty line: of a head, or of a trailer section.
    #[inline(always)]
    fn end(&mut self, skip: &mut u64) -> Event {
        self.restart();
        if self.found & found::TRAILER != 0 {
            return Event::None;
        }
        if self.found & found::WITHOUT_CONTENT != 0 {
            return Event::Head;
        }
        let is_response = self.status != 0;
        if self.found & found::CHUNKED != 0 {
            self.begin_chunk();
        } else if self.found & found::ENCODING != 0 && !is_response {
            return Event::NoLength;
        } else if self.found & found::LENGTH != 0 && self.found & found::ENCODING == 0 {
            *skip = self.length;
        } else if is_response {
            self.state = state::TO_CLOSE;
            *skip = ENDLESS;
        }
        Event::Head
    }

    #[inline(always)]
    fn begin_chunk(&mut self) {
        self.state = state::CHUNK_SIZE;
        self.number = 0;
        self.place = 0;
    }

    #[inline(always)]
    fn chunk(&mut self, byte: u8, skip: &mut u64) -> Event {
        if self.state == state::CHUNK_SIZE {
            if let Some(digit) = hex(byte) {
                return self.digit(digit);
            }
            if self.place == 0 || !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';') {
                return Event::NoLength;
            }
            self.state = state::CHUNK_REST;
        }
        match (self.state, byte) {
            (state::CHUNK_REST, b'\n') => self.begin_data(skip),
            (state::CHUNK_REST, _) => Event::None,
            (state::CHUNK_END, b'\r') => {
                self.state = state::CHUNK_END_LF;
                Event::None
            }
            (state::CHUNK_END | state::CHUNK_END_LF, b'\n') => {
                self.begin_chunk();
                Event::None
            }
            _ => Event::NoLength,
        }
    }

    #[inline(always)]
    fn digit(&mut self, digit: u8) -> Event {
        if self.number > LENGTH_MAX / 16 {
            return Event::NoLength;
        }
        self.number = self.number << 4 | u64::from(digit);
        self.place = 1;
        Event::None
    }

    #[inline(always)]
    fn begin_data(&mut self, skip: &mut u64) -> Event {
        if self.number == 0 {
            self.found |= found::TRAILER;
            self.field = field::OTHER;
            self.state = state::LINE;
        } else {
            *skip = self.number;
            self.state = state::CHUNK_END;
        }
        Event::None
    }

    #[inline(always)]
    fn proxy_line(&mut self, byte: u8) -> Event {
        if byte == b'\n' {
            self.restart();
        } else if self.word.count >= PROXY_LINE_MAX {
            return Event::NoStartLine;
        }
        self.word.push(byte);
        Event::None
    }

    /// The signature's rest, version and command, family, and the length of what follows (PROXY protocol section 2.2).
    #[inline(always)]
    fn proxy_binary(&mut self, byte: u8, skip: &mut u64) -> Event {
        let fits = match self.place {
            ..12 => byte == proxy_signature(self.place),
            12 => byte >> 4 == 2,
            _ => true,
        };
        if !fits {
            return Event::NoStartLine;
        }
        match self.place {
            14 => self.number = u64::from(byte) << 8,
            15 => {
                *skip = self.number | u64::from(byte);
                self.restart();
                return Event::None;
            }
            _ => {}
        }
        self.place += 1;
        Event::None
    }
}

/// The binary `PROXY` header's first twelve bytes; they begin with what would otherwise be empty lines.
#[inline(always)]
const fn proxy_signature(place: u8) -> u8 {
    match place {
        0 | 2 | 5 => b'\r',
        1 | 3 | 6 | 11 => b'\n',
        4 => 0,
        7 => b'Q',
        8 => b'U',
        9 => b'I',
        10 => b'T',
        _ => 0xff,
    }
}

#[cfg(test)]
mod tests;
