//! Every map, and why it is what it is. Names are the contract with the daemon (`rollout-probe/src/kernel`).

use aya_ebpf::{
    btf_maps::SkStorage,
    macros::{btf_map, map},
    maps::{HashMap, LruHashMap, PerCpuArray},
};
use rollout_probe_common::{
    abi::{
        CODE_ENTRIES, CodeKey, Handoff, PROBE_ENTRIES, PROBER_ENTRIES, PendingReset, ProbeKey, RESET_ENTRIES,
        TALLY_ENTRIES, Tally, TallyKey,
    },
    flow::{Flow, Frames},
    outcome::{LostSync, Packet},
};

/// State of each connection: with its socket, so it needs no size, no eviction and no key, and goes when the socket goes.
#[btf_map]
pub(crate) static FLOWS: SkStorage<Flow> = SkStorage::new();

/// What message framing needs, of connections that need it: most never do.
#[btf_map]
pub(crate) static FRAMES: SkStorage<Frames> = SkStorage::new();

/// The counters. A shared hash with atomic adds: one entry a key whatever the number of CPUs. Preallocated, because a
/// tracepoint program writes to it too (kernels before 6.1 warn about anything else there).
#[map]
pub(crate) static TALLIES: HashMap<TallyKey, Tally> = HashMap::with_max_entries(TALLY_ENTRIES, 0);

/// Exact codes of error responses.
#[map]
pub(crate) static CODES: HashMap<CodeKey, u64> = HashMap::with_max_entries(CODE_ENTRIES, 0);

/// Cgroups whose sockets ask as probes (the kubelet's). Written by the daemon.
#[map]
pub(crate) static PROBERS: HashMap<u64, u8> = HashMap::with_max_entries(PROBER_ENTRIES, 0);

/// Connections that probers open, with the sequence number of their first byte. LRU: nobody takes them out.
#[map]
pub(crate) static PROBES: LruHashMap<ProbeKey, u32> = LruHashMap::with_max_entries(PROBE_ENTRIES, 0);

/// Resets on their way through the stack, by socket cookie. LRU: those that TCP does not accept are never claimed.
#[map]
pub(crate) static RESETS: LruHashMap<u64, PendingReset> = LruHashMap::with_max_entries(RESET_ENTRIES, 0);

/// From the listening socket's packet to the new connection's set-up: both run in one softirq on one CPU.
#[map]
pub(crate) static HANDOFF: PerCpuArray<Handoff> = PerCpuArray::with_max_entries(1, 0);

/// Connections lost, by reason.
#[map]
pub(crate) static LOST_SYNC: PerCpuArray<u64> = PerCpuArray::with_max_entries(LostSync::COUNT as u32, 0);

/// What became of each packet.
#[map]
pub(crate) static PACKETS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Packet::COUNT as u32, 0);
