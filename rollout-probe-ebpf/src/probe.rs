//! Tells the kubelet's connections from all others, without a header that anybody could send.
//!
//! The SYN of a connection from a prober's cgroup leaves a note: the connection's addresses and its first sequence number. The
//! other end on this node finds it when it accepts. The note stays, because a server may accept long after the SYN
//! (`TCP_DEFER_ACCEPT`) and a SYN may come twice; the sequence number tells it from a later connection with the same addresses.

use aya_ebpf::bindings::__sk_buff;
use rollout_probe_common::{abi::ProbeKey, outcome::Origin};

use crate::{
    maps::{PROBERS, PROBES},
    packet::Skb,
};

/// Whether sockets of this cgroup ask as probes.
#[inline(always)]
pub(crate) fn is_prober(cgroup: u64) -> bool {
    // SAFETY: the value is a plain byte that is not read further.
    unsafe { PROBERS.get(&cgroup) }.is_some()
}

/// Leaves the note, if the SYN is a prober's. The TCP header is at `at`, `first` is the sequence number of the first byte of payload.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn announce(skb: *mut __sk_buff, at: u32, first: u32) -> u32 {
    let skb = Skb(skb);
    if !is_prober(skb.cgroup()) {
        return 0;
    }
    let Ok(key) = skb.probe_key(at) else { return 0 };
    let _lru_always_has_room = PROBES.insert(&key, &first, 0);
    1
}

/// Who opened the connection whose first byte of payload from the client has the sequence number `first`.
#[inline(always)]
pub(crate) fn origin(key: &ProbeKey, first: u32) -> Origin {
    // SAFETY: a plain integer, read at once.
    match unsafe { PROBES.get(key) } {
        Some(&announced) if announced == first => Origin::PROBE,
        _ => Origin::TRAFFIC,
    }
}
