//! The long way of a packet: its messages byte by byte, for what the short way cannot tell.
//!
//! Global functions: the verifier checks each once, on its own, and a call costs its caller one instruction. As loops of
//! loops in one function they are beyond its limit. Arguments can only be the context and scalars (Linux 5.10), so each
//! looks the connection up again; all state is in map values, which the verifier does not track, so that all paths through a
//! byte are one path when the next byte comes.

use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_skb_load_bytes};
use rollout_probe_common::{
    flow::{CHUNK, Direction, Flow, Frames, Next, Segment, state, wait},
    outcome::{LostSync, Packet},
    wire::framing::Event,
};

use crate::{
    bound,
    count::Counters,
    packet::{self, Bytes, Skb},
    socket,
};

/// Loads of a packet's bytes: `OUTER` times `INNER`, so that neither loop is long. A head takes one, and one more for each `CHUNK`
/// of its bytes; content takes none. So 256 KiB of nothing but heads fit.
const INNER: u32 = 64;
const OUTER: u32 = 64;

/// Takes the payload at `start`, which is `len` bytes from `seq` on.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn frame(skb: *mut __sk_buff, start: u32, seq: u32, len: u32, direction: u32) -> u32 {
    let Ok(sk) = socket::any(skb) else { return 0 };
    let Some(flow) = socket::find(sk) else { return 0 };
    let direction = socket::direction_of(direction);
    let Some(frames) = socket::make_frames(sk) else {
        // SAFETY: socket storage of the packet's own socket, alive while the program runs.
        unsafe { (*flow).lose(direction, LostSync::NO_STORAGE, &mut Counters) };
        return 0;
    };
    // SAFETY: as above, for both.
    unsafe { (*frames).enter(&mut *flow, direction, packet::now()) };
    let mut budget = OUTER;
    while frame_run(skb, start, seq, len, direction as u32) != 0 && budget > 0 {
        budget -= 1;
    }
    if budget == 0 {
        // SAFETY: as above.
        unsafe { (*flow).lose(direction, LostSync::BUDGET, &mut Counters) };
        return 0;
    }
    // SAFETY: as above.
    let is_opaque = unsafe {
        (*frames).leave(&mut *flow, direction);
        (*flow).state == state::OPAQUE
    };
    if is_opaque {
        socket::drop_frames(sk);
    }
    1
}

/// Up to `INNER` loads; 0 when nothing more is to be looked at.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn frame_run(skb: *mut __sk_buff, start: u32, seq: u32, len: u32, direction: u32) -> u32 {
    for _ in 0..INNER {
        if frame_chunk(skb, start, seq, len, direction) == 0 {
            return 0;
        }
    }
    1
}

/// One load and its bytes; 0 when nothing more is to be looked at.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn frame_chunk(skb: *mut __sk_buff, start: u32, seq: u32, len: u32, direction: u32) -> u32 {
    let Ok((flow, frames)) = both(skb) else { return 0 };
    let direction = socket::direction_of(direction);
    let segment = Segment { seq, len, fin: false };
    let mut bytes = Bytes { skb: Skb(skb), start };
    // SAFETY: socket storages of the packet's own socket, alive while the program runs.
    let next = unsafe { (*frames).next(&mut *flow, direction, segment, &mut bytes, &mut Counters) };
    let (offset, len) = match next {
        Next::Done => return 0,
        Next::Again => return 1,
        Next::Take { offset, len } => (offset, len),
    };
    let n = bound::length::<{ CHUNK as u32 }>(len);
    // SAFETY: as above; at most CHUNK bytes are written to a buffer of CHUNK.
    let failed = unsafe {
        let to = (&raw mut (*frames).track(direction).chunk).cast();
        bpf_skb_load_bytes(skb.cast(), start.wrapping_add(offset), to, n)
    };
    if failed != 0 {
        return 0;
    }
    let taken = take(skb, flow, frames, direction, n);
    // SAFETY: as above.
    unsafe { (*frames).taken(&mut *flow, direction, taken) };
    1
}

/// Takes the `n` bytes of the chunk; how many were taken or skipped.
#[inline(always)]
fn take(skb: *mut __sk_buff, flow: *mut Flow, frames: *mut Frames, direction: Direction, n: u32) -> u32 {
    // SAFETY: a field of the packet's own socket's storage, alive while the program runs.
    let index = unsafe { &raw mut (*frames).track(direction).index };
    // SAFETY: as above. All reads and writes of it are volatile: see `Track::index`.
    unsafe { index.write_volatile(0) };
    for _ in 0..CHUNK {
        // SAFETY: as above.
        let at = unsafe { index.read_volatile() };
        if at >= n {
            break;
        }
        // SAFETY: as above; the index is read again for the mask, which LLVM would drop if it knew the number.
        let event = unsafe {
            let byte = (*frames).track(direction).chunk[index.read_volatile() as usize & (CHUNK - 1)];
            (*frames).take(&mut *flow, direction, byte)
        };
        if event != Event::None {
            frame_event(skb, direction as u32, event as u32);
        }
        // SAFETY: as above.
        let stream = unsafe { (*flow).stream(direction) };
        let mut after = at + 1;
        if event != Event::Head && stream.wait == wait::FRAMED && stream.skip != 0 {
            let rest = u64::from(n.wrapping_sub(after));
            let here = if stream.skip > rest { rest } else { stream.skip };
            stream.skip -= here;
            after = after.wrapping_add(here as u32);
        }
        // SAFETY: as above.
        unsafe { index.write_volatile(after) };
        if event == Event::Head || stream.wait != wait::FRAMED {
            break;
        }
    }
    // SAFETY: as above.
    unsafe { index.read_volatile() }
}

/// Does what a byte has decided. `event` is an [`Event`].
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn frame_event(skb: *mut __sk_buff, direction: u32, event: u32) -> u32 {
    let Ok((flow, frames)) = both(skb) else { return 0 };
    let event = Event::from_number(event);
    // SAFETY: socket storages of the packet's own socket, alive while the program runs.
    unsafe { (*frames).event(&mut *flow, socket::direction_of(direction), event, &mut Counters) };
    1
}

#[inline(always)]
fn both(skb: *mut __sk_buff) -> Result<(*mut Flow, *mut Frames), Packet> {
    let sk = socket::any(skb)?;
    match (socket::find(sk), socket::find_frames(sk)) {
        (Some(flow), Some(frames)) => Ok((flow, frames)),
        _ => Err(Packet::NO_STORAGE),
    }
}
