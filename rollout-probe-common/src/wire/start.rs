//! The start lines that make up nearly all traffic, told by two words. Whatever is not recognised here goes through
//! [`super::framing`], which knows all of them; a test compares the two.

use super::word::is_token;

/// Bytes that are looked at.
pub const BYTES: u32 = 16;

/// The first bytes of a message, as they lie in memory.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Start(pub [u64; 2]);

impl Start {
    /// Whether this is a request by one of the common methods for a path: `Some(true)` for `HEAD`.
    #[inline(always)]
    pub fn request(self) -> Option<bool> {
        let word = u64::from_le(self.0[0]);
        let begins = |text: &[u8; 8], length: u32| (word ^ u64::from_le_bytes(*text)) << (64 - 8 * length) == 0;
        let has_method = begins(b"GET /   ", 5)
            || begins(b"POST /  ", 6)
            || begins(b"PUT /   ", 5)
            || begins(b"PATCH / ", 7)
            || begins(b"DELETE /", 8);
        if has_method {
            return Some(false);
        }
        if begins(b"HEAD /  ", 6) { Some(true) } else { None }
    }

    /// The code, 100 to 999, of a complete status line.
    #[inline(always)]
    pub fn response(self) -> Option<u16> {
        // The minor version is any digit.
        const NAME: u64 = u64::from_le_bytes(*b"HTTP/1.\0");
        let name = u64::from_le(self.0[0]);
        let code = u64::from_le(self.0[1]);
        let minor = (name >> 56) as u8;
        let (space, end) = (code as u8, (code >> 32) as u8);
        if name << 8 != NAME << 8 || !minor.is_ascii_digit() || space != b' ' || !matches!(end, b' ' | b'\r' | b'\n') {
            return None;
        }
        let digit = |shift: u32| (code >> shift) as u8;
        let (hundreds, tens, ones) = (digit(8), digit(16), digit(24));
        if !matches!(hundreds, b'1'..=b'9') || !tens.is_ascii_digit() || !ones.is_ascii_digit() {
            return None;
        }
        let value = |byte: u8| u16::from(byte - b'0');
        Some(value(hundreds) * 100 + value(tens) * 10 + value(ones))
    }

    /// Whether any HTTP/1 message, or a `PROXY` header, may begin with this byte.
    #[inline(always)]
    pub fn may_be_http(self) -> bool {
        let first = u64::from_le(self.0[0]) as u8;
        is_token(first) || first == b'\r' || first == b'\n'
    }

    /// Whether this is the start of a request line, with any method that leaves room for its target.
    #[inline(always)]
    pub fn is_request_line(self) -> bool {
        const SCHEME: u32 = u32::from_be_bytes(*b"http");
        // Of the target: its first bytes, and how many there are.
        let (mut target, mut length) = (0, 0);
        for at in 0..BYTES {
            let word = u64::from_le(self.0[(at / 8) as usize]);
            let byte = (word >> (at % 8 * 8)) as u8;
            if length > 0 {
                target = target << 8 | u32::from(byte);
                let is_scheme = length == 4 && target | 0x2020_2020 == SCHEME;
                if is_scheme || (length == 1 && matches!(byte, b'/' | b'*')) {
                    return true;
                }
                length += 1;
            } else if byte == b' ' && at > 0 {
                length = 1;
            } else if !is_token(byte) {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests;
