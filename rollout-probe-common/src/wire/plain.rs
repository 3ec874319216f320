//! Tells in a few instructions a word whether a request is plain: one complete head and nothing else.
//!
//! A plain request has no content and is followed by nothing, so where the next request starts is certain, and reading its
//! fields one by one ([`super::framing`]) would tell no more. Plain is: the first empty line ends at the segment's end, and no line
//! begins like a field that frames content or asks for another protocol, or like a folded one. Anything odd is not
//! plain: this module may only err on that side, and a test compares it with the framing of the same bytes.

/// Words that [`Scan::chunk`] looks at: bytes in the order of memory.
pub const WORDS: usize = 16;
/// Bytes of a chunk. The eight behind it are looked at again with the next one.
pub const CHUNK: usize = (WORDS - 1) * 8;

/// Each byte of a word.
const EACH: u64 = 0x0101_0101_0101_0101;
const TOP: u64 = EACH * 0x80;

/// What a chunk has told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// No empty line and nothing odd: go on with the next chunk.
    Nothing,
    /// The head ends before this offset in the chunk.
    End(u32),
    /// Something that only the framing can judge.
    Odd,
}

/// What is carried from one chunk to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    /// The top bit of the chunk's first byte, if a line starts there.
    pub starts: u64,
}

impl Scan {
    /// Takes the next [`CHUNK`] bytes of a request head. Bytes behind the segment's end are zero.
    #[inline(always)]
    pub fn chunk(&mut self, words: &[u64; WORDS]) -> Found {
        for at in 0..WORDS - 1 {
            let word = u64::from_le(words[at]);
            let feeds = bytes_equal(word, b'\n');
            let starts = feeds << 8 | self.starts;
            self.starts = feeds >> 56;
            if starts != 0 {
                let found = line(starts, word, u64::from_le(words[at + 1]), at as u32 * 8);
                if found != Found::Nothing {
                    return found;
                }
            }
        }
        Found::Nothing
    }
}

/// Looks at the first line that starts in `word`, at byte offset `at` of the chunk. `starts` has the top bit of each byte where one does.
#[inline(always)]
fn line(starts: u64, word: u64, next: u64, at: u32) -> Found {
    let first = starts & starts.wrapping_neg();
    // How many whole bytes are below the first start: without a look-up table, which a count of zeroes would become.
    let place = (((first >> 7).wrapping_sub(1)) & EACH).wrapping_mul(EACH) >> 56;
    let bytes = word >> (place * 8) | (next << 1) << (63 - place * 8);
    let end = at + place as u32;
    match bytes as u8 {
        b'\n' => return Found::End(end + 1),
        b'\r' if bytes as u16 == 0x0a0d => return Found::End(end + 2),
        b'\r' | b' ' | b'\t' => return Found::Odd,
        _ => {}
    }
    // A second start in the same word is that of a field shorter than any known one.
    if is_judged(bytes) || starts != first { Found::Odd } else { Found::Nothing }
}

/// Whether a line that begins with these bytes may frame content or ask for another protocol. All eight are folded to lower case,
/// which at worst takes a nameless field for one of these.
#[inline(always)]
const fn is_judged(bytes: u64) -> bool {
    const FOLD: u64 = EACH * 0x20;
    const CONTENT: u64 = u64::from_le_bytes(*b"content-");
    const TRANSFER: u64 = u64::from_le_bytes(*b"transfer");
    const UPGRADE: u64 = u64::from_le_bytes(*b"upgrade:");
    let folded = bytes | FOLD;
    folded == CONTENT || folded == TRANSFER || folded == UPGRADE
}

/// The top bit of every byte of `word` that is `byte`. Exact for each byte: nothing carries from one to the next.
#[inline(always)]
const fn bytes_equal(word: u64, byte: u8) -> u64 {
    let differs = word ^ (EACH * byte as u64);
    !(((differs & !TOP).wrapping_add(!TOP)) | differs) & TOP
}

#[cfg(test)]
mod tests;
