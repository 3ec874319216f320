//! From a packet or a socket event to the state of its connection.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    bindings::{__sk_buff, bpf_sock},
    btf_maps::SkStorage,
    helpers::generated::{bpf_sk_fullsock, bpf_sk_storage_delete, bpf_sk_storage_get},
};
use rollout_probe_common::{
    flow::{Direction, Flow, Frames},
    outcome::Packet,
    wire::net::TCP,
};

use crate::maps::{FLOWS, FRAMES};

/// TCP states (`include/net/tcp_states.h`, UAPI as `BPF_TCP_*`).
pub(crate) const SYN_SENT: u32 = 2;
pub(crate) const SYN_RECV: u32 = 3;
const TIME_WAIT: u32 = 6;
const CLOSE: u32 = 7;
pub(crate) const LISTEN: u32 = 10;
const NEW_SYN_RECV: u32 = 12;

/// The socket of a packet, full or not: enough to look its state up.
///
/// The helpers for socket storage take any (Linux 5.10) and find nothing with one that is not full; and each call of a helper less
/// is some 40 ns.
#[inline(always)]
pub(crate) fn any(skb: *mut __sk_buff) -> Result<*mut bpf_sock, Packet> {
    // SAFETY: a read of the program's own context.
    let sk = unsafe { (*skb).__bindgen_anon_2.sk };
    if sk.is_null() { Err(Packet::NO_SOCKET) } else { Ok(sk) }
}

/// The full TCP socket of a packet: one that may get state.
#[inline(always)]
pub(crate) fn full(skb: *mut __sk_buff) -> Result<*mut bpf_sock, Packet> {
    // SAFETY: the verifier has seen the null check.
    let sk = unsafe { bpf_sk_fullsock(any(skb)?) };
    if sk.is_null() {
        return Err(Packet::NO_SOCKET);
    }
    // SAFETY: a full socket, the verifier has seen the null check. A raw socket that sends TCP-looking bytes has another protocol.
    if unsafe { (*sk).protocol } != TCP as u32 {
        return Err(Packet::NOT_TCP);
    }
    Ok(sk)
}

/// The state of a packet's connection if there is any.
#[inline(always)]
pub(crate) fn flow_of(skb: *mut __sk_buff) -> Result<*mut Flow, Packet> {
    find(any(skb)?).ok_or(Packet::NO_STORAGE)
}

/// The connection's state if there is any.
#[inline(always)]
pub(crate) fn find(sk: *mut bpf_sock) -> Option<*mut Flow> {
    storage(&raw const FLOWS, sk, ptr::null(), 0)
}

/// The connection's state, which starts as `flow` where there is none; nothing when the kernel has no memory for it.
#[inline(always)]
pub(crate) fn make(sk: *mut bpf_sock, flow: &Flow) -> Option<*mut Flow> {
    create(&raw const FLOWS, sk, flow)
}

/// The connection's framing if there is any.
#[inline(always)]
pub(crate) fn find_frames(sk: *mut bpf_sock) -> Option<*mut Frames> {
    storage(&raw const FRAMES, sk, ptr::null(), 0)
}

/// As [`make`], for its framing, which starts as zeroes.
#[inline(always)]
pub(crate) fn make_frames(sk: *mut bpf_sock) -> Option<*mut Frames> {
    create(&raw const FRAMES, sk, ptr::null())
}

/// Frees the connection's framing.
#[inline(always)]
pub(crate) fn drop_frames(sk: *mut bpf_sock) {
    let map = (&raw const FRAMES).cast_mut().cast::<c_void>();
    // SAFETY: the map is this object's own, and `sk` is a socket of the program's context.
    let _there_was_none = unsafe { bpf_sk_storage_delete(map, sk.cast()) };
}

/// `BPF_SK_STORAGE_GET_F_CREATE`.
const CREATE: u64 = 1;

/// The first of two CPUs that make a storage at the same time makes it, whole. The other one's call fails, and finds it then
/// (`bpf_local_storage_update` with `BPF_NOEXIST`, Linux 5.10 to 6.18).
#[inline(always)]
fn create<T>(map: *const SkStorage<T>, sk: *mut bpf_sock, start: *const T) -> Option<*mut T> {
    match storage(map, sk, start, CREATE) {
        None => storage(map, sk, ptr::null(), 0),
        made => made,
    }
}

#[inline(always)]
fn storage<T>(map: *const SkStorage<T>, sk: *mut bpf_sock, start: *const T, flags: u64) -> Option<*mut T> {
    let start = start.cast_mut().cast();
    // SAFETY: the map is this object's own, `sk` is a socket of the program's context, and `start` is a `T` or null.
    let value = unsafe { bpf_sk_storage_get(map.cast_mut().cast(), sk.cast(), start, flags) }.cast::<T>();
    if value.is_null() { None } else { Some(value) }
}

/// Whether a socket in this state carries a connection: others are listening, in the handshake, or closed (the per-CPU
/// control socket that sends stateless resets is closed too, and must never get state).
#[inline(always)]
pub(crate) fn is_connected(state: u32) -> bool {
    !matches!(state, SYN_SENT | SYN_RECV | TIME_WAIT | CLOSE | LISTEN | NEW_SYN_RECV)
}

/// The direction in the first bit of a global function's argument.
#[inline(always)]
pub(crate) fn direction_of(number: u32) -> Direction {
    if number & 1 == Direction::Ingress as u32 { Direction::Ingress } else { Direction::Egress }
}
