//! Recognises the start of an HTTP/1 message (RFC 9112) in a window of its first bytes.
//!
//! Only the start is needed: with one request outstanding no response head can come before the request and no second one
//! before the next request, so on a keep-alive connection the first bytes of each head decide everything (see
//! [`crate::flow`]). "Need more" is an answer, not an error: a head may be split at any byte.

/// Bytes of a message head that are looked at. The longest registered method (`UPDATEREDIRECTREF`) with its target's first
/// bytes fits, and so does a status line up to its code.
pub const WINDOW: usize = 32;

/// What the first bytes of a message are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Head {
    /// All bytes so far fit a head, but they do not decide it.
    More,
    /// A request line.
    Request {
        /// The method is `CONNECT`: a 2xx answer makes the connection a tunnel.
        connect: bool,
    },
    /// A status line with this code, 100 to 999.
    Response {
        /// The three digits.
        status: u16,
    },
    /// The HTTP/2 connection preface (RFC 9113 section 3.4).
    Http2,
    /// No HTTP/1 head.
    Other,
}

/// The first bytes of a message.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The bytes; only the first `filled` are of this message.
    pub bytes: [u8; WINDOW],
    /// How many there are.
    pub filled: u8,
    /// Working memory of [`Window::request`].
    mark: u8,
}

impl Window {
    /// No bytes.
    pub const EMPTY: Self = Self { bytes: [0; WINDOW], filled: 0, mark: 0 };

    /// Whether the bytes so far are those of a status line, as far as `HTTP/` goes. `HTTP` alone may still be a method.
    #[inline(always)]
    pub fn is_response(&self) -> bool {
        const NAME: [u8; 5] = *b"HTTP/";
        for at in 0..5 {
            if at >= self.filled as usize {
                return true;
            }
            if self.bytes[at] != NAME[at] {
                return false;
            }
        }
        true
    }

    /// Reads a status line's start: `HTTP/1.` DIGIT SP 3DIGIT, then a space or the line's end (a reason phrase is optional in
    /// practice, and some servers leave out even the space before it).
    #[inline(always)]
    pub fn response(&self) -> Head {
        const NAME: [u8; 7] = *b"HTTP/1.";
        for at in 0..13 {
            if at >= self.filled as usize {
                return Head::More;
            }
            let byte = self.bytes[at];
            let fits = match at {
                0..=6 => byte == NAME[at],
                8 => byte == b' ',
                9 => matches!(byte, b'1'..=b'9'),
                12 => matches!(byte, b' ' | b'\r' | b'\n'),
                _ => byte.is_ascii_digit(),
            };
            if !fits {
                return Head::Other;
            }
        }
        let digit = |at: usize| (self.bytes[at] - b'0') as u16;
        Head::Response { status: digit(9) * 100 + digit(10) * 10 + digit(11) }
    }

    /// Reads a request line's start: a token, one space, and a target in one of the forms of RFC 9112 section 3.2 (`/path`,
    /// `*`, `http://..`; any authority after `CONNECT`). The version at the line's end is not looked at: the target's form
    /// already tells a request from the text protocols that also begin with a word and a space (memcached, SMTP, Redis).
    #[inline(always)]
    pub fn request(&mut self) -> Head {
        // `http` of an absolute target must fit behind the method.
        const LONGEST: usize = WINDOW - 5;
        let mut space = 0;
        for at in 0..=LONGEST {
            if at >= self.filled as usize {
                return Head::More;
            }
            if self.bytes[at] == b' ' {
                space = at;
                break;
            }
            if !is_token(self.bytes[at]) {
                return Head::Other;
            }
        }
        if space == 0 {
            return Head::Other;
        }
        let start = self.forget(space + 1);
        self.target(start)
    }

    /// Returns its argument, by way of memory.
    ///
    /// For the verifier: it follows every method length as a path of its own, as long as the length is a known number in a
    /// register, and verifies the rest 27 times over (more than a minute on Linux 6.18). It does not track what is in
    /// a map value, so after this all paths are one.
    #[inline(always)]
    #[expect(unsafe_code, reason = "volatile, or the compiler keeps the number in its register")]
    fn forget(&mut self, index: usize) -> usize {
        let mark = &raw mut self.mark;
        // SAFETY: a field of `self`.
        unsafe {
            mark.write_volatile(index as u8);
            mark.read_volatile() as usize
        }
    }

    #[inline(always)]
    fn target(&self, start: usize) -> Head {
        const SCHEME: [u8; 4] = *b"http";
        let filled = self.filled as usize;
        if start == 8 && self.starts_with(*b"CONNECT ") {
            return Head::Request { connect: true };
        }
        if start >= filled {
            return Head::More;
        }
        match self.at(start) {
            // The method is reserved for the preface (RFC 9113 section 11.6).
            b'*' if start == 4 && self.bytes[0] == b'P' && self.bytes[1] == b'R' && self.bytes[2] == b'I' => {
                return Head::Http2;
            }
            b'/' | b'*' => return Head::Request { connect: false },
            _ => {}
        }
        for i in 0..4 {
            if start + i >= filled {
                return Head::More;
            }
            if self.at(start + i) | 0x20 != SCHEME[i] {
                return Head::Other;
            }
        }
        Head::Request { connect: false }
    }

    #[inline(always)]
    fn starts_with(&self, bytes: [u8; 8]) -> bool {
        let mut same = true;
        for at in 0..8 {
            same &= self.bytes[at] == bytes[at];
        }
        same
    }

    /// The mask changes nothing; it shows the compiler and the verifier that the index is inside.
    #[inline(always)]
    fn at(&self, index: usize) -> u8 {
        self.bytes[index & (WINDOW - 1)]
    }
}

/// `tchar` of RFC 9110 section 5.6.2.
#[inline(always)]
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// Finds the empty line that ends a head, byte by byte across any split. A bare LF ends a line too (RFC 9112 section 2.2).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(transparent)]
pub struct HeadEnd(pub u8);

impl HeadEnd {
    const IN_LINE: u8 = 0;
    const AFTER_LF: u8 = 1;
    const AFTER_LF_CR: u8 = 2;

    /// Takes one byte; true when it is the last byte of the head.
    #[inline(always)]
    pub fn step(&mut self, byte: u8) -> bool {
        let (next, end) = match (self.0, byte) {
            (Self::AFTER_LF | Self::AFTER_LF_CR, b'\n') => (Self::IN_LINE, true),
            (_, b'\n') => (Self::AFTER_LF, false),
            (Self::AFTER_LF, b'\r') => (Self::AFTER_LF_CR, false),
            _ => (Self::IN_LINE, false),
        };
        self.0 = next;
        end
    }
}

#[cfg(test)]
mod tests;
