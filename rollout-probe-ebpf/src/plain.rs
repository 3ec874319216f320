//! Reads a request head a word at a time, to see whether it is all there is in its segment.

use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_skb_load_bytes};
use rollout_probe_common::wire::plain::{CHUNK, Found, Scan, WORDS};

use crate::bound;

/// Chunks a packet: heads longer than 7.5 KiB are framed byte by byte.
const BUDGET: u32 = 64;
const BYTES: u32 = WORDS as u32 * 8;

/// Answers of [`plain_chunk`] beside the offset of the head's end.
const ODD: u32 = 1 << 31;
const LINE_STARTS: u32 = 1 << 30;

/// 1 when the `len` bytes at `from` are a plain request.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn plain(skb: *mut __sk_buff, from: u32, len: u32) -> u32 {
    let mut at = 0;
    let mut starts = 0;
    for _ in 0..BUDGET {
        let rest = len.wrapping_sub(at);
        if rest == 0 || rest > len {
            return 0;
        }
        let found = plain_chunk(skb, from.wrapping_add(at), rest, starts);
        if found & ODD != 0 {
            return 0;
        }
        let end = found & !LINE_STARTS;
        if end != 0 {
            return (end == rest) as u32;
        }
        starts = found;
        at = at.wrapping_add(CHUNK as u32);
    }
    0
}

/// One chunk of the `rest` bytes at `from`; `starts` is what the chunk before answered.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn plain_chunk(skb: *mut __sk_buff, from: u32, rest: u32, starts: u32) -> u32 {
    const TOP: u64 = 0x80;
    let mut words = [0_u64; WORDS];
    let n = bound::length::<BYTES>(if rest > BYTES { BYTES } else { rest });
    // SAFETY: at most BYTES bytes are written to a buffer of BYTES.
    if unsafe { bpf_skb_load_bytes(skb.cast(), from, words.as_mut_ptr().cast(), n) } != 0 {
        return ODD;
    }
    let mut scan = Scan { starts: if starts & LINE_STARTS != 0 { TOP } else { 0 } };
    match scan.chunk(&words) {
        Found::Nothing if scan.starts != 0 => LINE_STARTS,
        Found::Nothing => 0,
        Found::End(end) => end,
        Found::Odd => ODD,
    }
}
