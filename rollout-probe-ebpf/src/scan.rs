//! Looks for the end of an interim response's head (RFC 9110 section 15.2): the one place that reads a head byte by byte.

use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_skb_load_bytes};
use rollout_probe_common::wire::http1::WINDOW;

use crate::{bound, socket};

/// Set in the answer of [`interim_end`] when the head ended.
pub(crate) const ENDED: u32 = 1 << 31;
/// Bytes a packet: a 103 with a dozen links fits.
const BUDGET: u32 = 2048;
const CHUNK: u32 = WINDOW as u32;

/// Takes up to `len` bytes at `at` through the stream's `head_end`; answers how many it took, with [`ENDED`].
///
/// Two global functions: the verifier checks each once, on its own, and a call costs its caller one instruction. In one
/// function the loop of loops took it more than a minute (Linux 6.18). Arguments can only be the context and scalars (Linux 5.10), so
/// each looks the connection up again.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn interim_end(skb: *mut __sk_buff, at: u32, len: u32, direction: u32) -> u32 {
    let mut taken = 0;
    for _ in 0..BUDGET / CHUNK {
        let rest = len.wrapping_sub(taken);
        if rest == 0 {
            break;
        }
        let answer = interim_chunk(skb, at.wrapping_add(taken), rest, direction);
        taken = taken.wrapping_add(answer & !ENDED);
        if answer == 0 || answer & ENDED != 0 {
            return (taken & !ENDED) | (answer & ENDED);
        }
    }
    taken & !ENDED
}

/// [`interim_end`] for the first bytes, at most `CHUNK`.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn interim_chunk(skb: *mut __sk_buff, at: u32, len: u32, direction: u32) -> u32 {
    let Ok(flow) = socket::flow_of(skb) else { return 0 };
    // SAFETY: socket storage of the packet's own socket, alive while the program runs.
    let stream = unsafe { (*flow).stream(socket::direction_of(direction)) };
    let n = bound::window_len(if len > CHUNK { CHUNK } else { len });
    // The window is not in use while an interim head is skipped.
    let to = stream.window.bytes.as_mut_ptr();
    // SAFETY: at most CHUNK bytes are written to a buffer of CHUNK.
    if unsafe { bpf_skb_load_bytes(skb.cast(), at, to.cast(), n) } != 0 {
        return 0;
    }
    for i in 0..CHUNK {
        if bound::loop_index(i) >= n {
            break;
        }
        if stream.head_end.step(stream.window.bytes[i as usize]) {
            return (i + 1) | ENDED;
        }
    }
    n
}
