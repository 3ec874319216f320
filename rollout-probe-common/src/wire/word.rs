//! A short word taken byte by byte and compared with a known one: method names, field names, list members.
//!
//! A shift register of the last 16 bytes with a count and the first byte: exact for every word of up to 17 bytes, and neither
//! a table nor a loop, which would multiply the verifier's work.

/// The word so far. Letters of fields are folded to lower case by the caller where case does not matter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Word {
    high: u64,
    low: u64,
    /// Bytes taken, at most 255.
    pub count: u8,
    first: u8,
    /// Explicit padding.
    reserved: [u8; 6],
}

impl Word {
    /// No bytes.
    pub const EMPTY: Self = Self { high: 0, low: 0, count: 0, first: 0, reserved: [0; 6] };

    /// The word `text`, of at most 17 bytes.
    pub const fn of(text: &[u8]) -> Self {
        assert!(text.len() <= 17, "longer words are not told apart");
        let mut word = Self::EMPTY;
        let mut at = 0;
        while at < text.len() {
            word.push(text[at]);
            at += 1;
        }
        word
    }

    /// Forgets all bytes: the next one is the first.
    #[inline(always)]
    pub const fn clear(&mut self) {
        self.count = 0;
    }

    /// Takes a byte.
    #[inline(always)]
    pub const fn push(&mut self, byte: u8) {
        if self.count == 0 {
            self.first = byte;
            self.high = 0;
            self.low = 0;
        }
        self.high = self.high << 8 | self.low >> 56;
        self.low = self.low << 8 | byte as u64;
        self.count = self.count.saturating_add(1);
    }

    /// Makes the word equal to none, whatever comes.
    #[inline(always)]
    pub const fn spoil(&mut self) {
        self.count = u8::MAX;
    }

    /// Whether this is `other`, which has at least one byte.
    #[inline(always)]
    pub const fn is(&self, other: &Self) -> bool {
        // One comparison, because each is a fork in the verifier's way.
        let differs = (self.low ^ other.low) | (self.high ^ other.high);
        differs | (self.count ^ other.count) as u64 | (self.first ^ other.first) as u64 == 0
    }
}

/// What a byte can be; of upper-case letters also the bit that folds them. A table, because each comparison is a fork.
static CLASS: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let it = byte as u8;
        let is_mark = matches!(it, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~');
        let token = (it.is_ascii_alphanumeric() || is_mark) as u8 * TOKEN;
        let number = (it.is_ascii_digit() as u8 * DIGIT) | (it.is_ascii_hexdigit() as u8 * HEX);
        classes[byte] = token | number | (it.is_ascii_uppercase() as u8 * UPPER);
        byte += 1;
    }
    classes
};
/// `tchar` of RFC 9110 section 5.6.2.
const TOKEN: u8 = 1;
const DIGIT: u8 = 2;
const HEX: u8 = 4;
const UPPER: u8 = 0x20;

/// Whether a token may have this byte.
#[inline(always)]
pub fn is_token(byte: u8) -> bool {
    CLASS[byte as usize] & TOKEN != 0
}

/// Whether this is a decimal digit.
#[inline(always)]
pub fn is_digit(byte: u8) -> bool {
    CLASS[byte as usize] & DIGIT != 0
}

/// The value of a hexadecimal digit.
#[inline(always)]
pub fn hex(byte: u8) -> Option<u8> {
    const LETTER: u8 = 0x40;
    if CLASS[byte as usize] & HEX == 0 {
        return None;
    }
    // Letters are one to six behind a multiple of 16, to which nine are added.
    Some((byte & 15) + ((byte & LETTER) >> 6) * 9)
}

/// `byte` with an upper-case letter folded to lower case.
#[inline(always)]
pub fn lower(byte: u8) -> u8 {
    byte | CLASS[byte as usize] & UPPER
}

#[cfg(test)]
mod tests {
    use super::{Word, hex, is_digit, is_token, lower};

    #[test]
    fn word_is_itself_and_no_other() {
        const NAME: &[u8] = b"transfer-encoding";
        let wanted = Word::of(NAME);
        assert!(Word::of(b"transfer-encoding").is(&wanted));
        for at in 0..NAME.len() {
            let mut changed = [0; 17];
            changed.copy_from_slice(NAME);
            changed[at] ^= 1;
            assert!(!Word::of(&changed).is(&wanted), "another byte at {at}");
            assert!(!Word::of(&NAME[at + 1..]).is(&wanted), "without the first {} bytes", at + 1);
            assert!(!Word::of(&NAME[..at]).is(&wanted), "the first {at} bytes");
        }
    }

    #[test]
    fn long_word_is_no_known_one() {
        let mut word = Word::EMPTY;
        for _ in 0..300 {
            word.push(b'a');
        }
        assert_eq!(word.count, 255, "the count stays where it is");
        assert!(!word.is(&Word::of(b"aaaaaaaaaaaaaaaaa")));
    }

    #[test]
    fn bytes_are_what_they_are() {
        for byte in 0..=255_u8 {
            let is_mark = b"!#$%&'*+-.^_`|~".contains(&byte);
            assert_eq!(is_token(byte), byte.is_ascii_alphanumeric() || is_mark, "{byte}");
            assert_eq!(is_digit(byte), byte.is_ascii_digit(), "{byte}");
            assert_eq!(hex(byte).map(u32::from), char::from(byte).to_digit(16), "{byte}");
            assert_eq!(lower(byte), byte.to_ascii_lowercase(), "{byte}");
        }
    }

    #[test]
    fn only_letters_are_folded() {
        assert_eq!(b"AZaz-\r@[".map(lower), *b"azaz-\r@[");
    }
}
