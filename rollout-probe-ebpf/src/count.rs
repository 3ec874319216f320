//! The only writers of the counter maps.
//!
//! All adds are atomic: the egress program runs in process context with softirqs on, so even a per-CPU value can be
//! changed in the middle of a plain `+= 1` (by reading `__cgroup_bpf_run_filter_skb`, Linux 5.10 to 6.18).

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use aya_ebpf::bindings::BPF_NOEXIST;
use rollout_probe_common::{
    abi::{CodeKey, DEFAULT_DURATION_BOUNDS_NS, DURATION_BOUNDS, PendingReset, Tally, TallyKey},
    flow::{Flow, Outcomes},
    outcome::{CodeClass, LostSync, NoResponse, Origin, Packet, Phase, Protocol, Role},
};

use crate::{
    bound,
    maps::{CODES, LOST_SYNC, PACKETS, TALLIES},
};

/// The counters as outcomes of a connection.
pub(crate) struct Counters;

impl Outcomes for Counters {
    #[inline(always)]
    fn response(&mut self, flow: &Flow, status: u16, latency: Option<u64>) {
        let who = u32::from(flow.role.0) | u32::from(flow.origin.0) << 8 | u32::from(status) << 16;
        count_response(flow.cgroup, who, latency.unwrap_or(UNKNOWN));
    }

    #[inline(always)]
    fn no_response(&mut self, flow: &Flow, how: NoResponse, requests: u32) {
        no_response(&key_of(flow, flow.role, Protocol::HTTP1), how, requests);
    }

    #[inline(always)]
    fn lost(&mut self, why: LostSync) {
        lost(why);
    }
}

/// No latency: the request was not seen.
const UNKNOWN: u64 = u64::MAX;

/// Upper bounds of the duration histogram's buckets in nanoseconds, ascending; set at load, see [`NO_BOUND_NS`].
///
/// [`NO_BOUND_NS`]: rollout_probe_common::abi::NO_BOUND_NS
#[unsafe(no_mangle)]
static DURATION_BOUNDS_NS: [u64; DURATION_BOUNDS] = DEFAULT_DURATION_BOUNDS_NS;

/// The duration's bucket: the first one whose bound it does not exceed.
#[inline(always)]
fn bucket(latency: u64) -> usize {
    let mut bucket = 0;
    for bound in &DURATION_BOUNDS_NS {
        // SAFETY: a part of the static; read volatile because the loader changes it.
        let bound = unsafe { (&raw const *bound).read_volatile() };
        bucket += (latency > bound) as usize;
    }
    bucket
}

/// A final response of `cgroup`. `who` is the role, the origin in the second byte, and the status above.
///
/// A global function of scalars: before 6.2 the verifier keeps all constants of a program with functions apart, and here each
/// bucket and each class is one, so that all behind it would be verified once for each.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn count_response(cgroup: u64, who: u32, latency: u64) -> u32 {
    let (role, origin, status) = (Role(who as u8), Origin((who >> 8) as u8), (who >> 16) as u16);
    let key = TallyKey { cgroup, role, origin, protocol: Protocol::HTTP1, reserved: [0; 5] };
    let Some(tally) = tally(&key) else { return 0 };
    add(tally, core::mem::offset_of!(Tally, responses) / 8 + CodeClass::of(status).index(), 1);
    if latency != UNKNOWN {
        add(tally, core::mem::offset_of!(Tally, duration_buckets) / 8 + bucket(latency), 1);
        add(tally, core::mem::offset_of!(Tally, duration_sum_ns) / 8, latency);
    }
    if status >= 400 {
        code(&CodeKey { cgroup, status, role, origin, protocol: Protocol::HTTP1, reserved: [0; 3] });
    }
    1
}

#[inline(always)]
fn key_of(flow: &Flow, role: Role, protocol: Protocol) -> TallyKey {
    TallyKey { cgroup: flow.cgroup, role, origin: flow.origin, protocol, reserved: [0; 5] }
}

/// A connection opened.
#[inline(always)]
pub(crate) fn connection(flow: &Flow) {
    if let Some(tally) = tally(&key_of(flow, flow.opened, Protocol::TCP)) {
        add(tally, core::mem::offset_of!(Tally, connections) / 8, 1);
    }
}

/// A reset sent on a connection; requests outstanding on it end without a response.
#[inline(always)]
pub(crate) fn reset_sent(flow: &Flow) {
    let phase = flow.phase();
    if let Some(tally) = tally(&key_of(flow, flow.tcp_role(), Protocol::TCP)) {
        add(tally, core::mem::offset_of!(Tally, resets_sent) / 8 + phase.index(), 1);
    }
    if phase == Phase::OUTSTANDING {
        no_response(&key_of(flow, flow.role, Protocol::HTTP1), NoResponse::RESET, flow.outstanding());
    }
}

/// A reset that the stack accepted; requests outstanding on the connection end without a response.
#[inline(always)]
pub(crate) fn reset_received(reset: &PendingReset) {
    let key =
        |role, protocol| TallyKey { cgroup: reset.cgroup, role, origin: reset.origin, protocol, reserved: [0; 5] };
    if let Some(tally) = tally(&key(reset.tcp_role, Protocol::TCP)) {
        add(tally, core::mem::offset_of!(Tally, resets_received) / 8 + reset.phase.index(), 1);
    }
    if reset.phase == Phase::OUTSTANDING {
        no_response(&key(reset.role, Protocol::HTTP1), NoResponse::RESET, reset.requests);
    }
}

#[inline(always)]
fn no_response(key: &TallyKey, how: NoResponse, requests: u32) {
    if let Some(tally) = tally(key) {
        add(tally, core::mem::offset_of!(Tally, no_response) / 8 + how.index(), u64::from(requests));
    }
}

/// Why a connection is not counted any more, or a count had no room.
#[inline(always)]
pub(crate) fn lost(why: LostSync) {
    if let Some(slot) = LOST_SYNC.get_ptr_mut(why.0 as u32) {
        xadd(slot, 1);
    }
}

/// What became of a packet.
#[inline(always)]
pub(crate) fn packet(what: Packet) {
    if let Some(slot) = PACKETS.get_ptr_mut(what.0 as u32) {
        xadd(slot, 1);
    }
}

/// The counters of `key`, made when they are not there. Two CPUs may both find them missing: one insertion wins, both add.
#[inline(always)]
fn tally(key: &TallyKey) -> Option<*mut Tally> {
    static ZERO: Tally = Tally::ZERO;
    if let Some(tally) = TALLIES.get_ptr_mut(key) {
        return Some(tally);
    }
    let _exists_or_full = TALLIES.insert(key, &ZERO, BPF_NOEXIST.into());
    let tally = TALLIES.get_ptr_mut(key);
    if tally.is_none() {
        lost(LostSync::MAP_FULL);
    }
    tally
}

#[inline(always)]
fn code(key: &CodeKey) {
    static ZERO: u64 = 0;
    if let Some(slot) = CODES.get_ptr_mut(key) {
        return xadd(slot, 1);
    }
    let _exists_or_full = CODES.insert(key, &ZERO, BPF_NOEXIST.into());
    match CODES.get_ptr_mut(key) {
        Some(slot) => xadd(slot, 1),
        None => lost(LostSync::MAP_FULL),
    }
}

/// Adds to one `u64` of a tally.
#[inline(always)]
fn add(tally: *mut Tally, slot: usize, n: u64) {
    // SAFETY: the slot lies inside the tally, which is TALLY_SLOTS u64 long.
    xadd(unsafe { tally.cast::<u64>().add(bound::tally_slot(slot)) }, n);
}

#[inline(always)]
fn xadd(slot: *mut u64, n: u64) {
    // SAFETY: `slot` is an aligned u64 inside a map value.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(slot, n) };
}
