//! Tells the kubelet's connections from all others, without a header that anybody could send.
//!
//! The first packet of a connection from a prober's cgroup that is no bare ACK leaves a note with the connection's addresses, and
//! the other end on this node claims it with the same packet.

use rollout_probe_common::abi::ProbeKey;

use crate::maps::{PROBERS, PROBES};

/// Whether sockets of this cgroup ask as probes.
#[inline(always)]
pub(crate) fn is_prober(cgroup: u64) -> bool {
    // SAFETY: the value is a plain byte that is not read further.
    unsafe { PROBERS.get(&cgroup) }.is_some()
}

/// Leaves the note.
#[inline(always)]
pub(crate) fn announce(key: &ProbeKey) {
    let _lru_always_has_room = PROBES.insert(key, &1, 0);
}

/// Whether there is a note. It is taken away: the addresses may come back as something else.
#[inline(always)]
pub(crate) fn claim(key: &ProbeKey) -> bool {
    // SAFETY: the value is a plain byte that is not read further.
    if unsafe { PROBES.get(key) }.is_none() {
        return false;
    }
    let _gone_already = PROBES.remove(key);
    true
}
