//! Keys and values of the maps, byte for byte: the contract between the programs and the daemon.
//!
//! The programs are the only writers of the counters, the daemon the only one that deletes them. All values are plain
//! integers with explicit padding; the assertions at the end hold the layout. Change a layout and both sides change with it.

use crate::outcome::{CodeClass, NoResponse, Origin, Phase, Protocol, Role};
use crate::wire::start::Start;

/// Most upper bounds that the duration histogram may have.
pub const DURATION_BOUNDS: usize = 15;

/// Buckets of the duration histogram, the one without a bound included. Each counts its own range only.
pub const DURATION_BUCKETS: usize = DURATION_BOUNDS + 1;

/// Upper bounds in nanoseconds of a histogram with fewer bounds than there is room for end with this, which no duration reaches.
pub const NO_BOUND_NS: u64 = u64::MAX;

/// The default upper bounds of the duration histogram's buckets in nanoseconds: 1 ms to 60 s. Up to 10 s the steps of the
/// Prometheus client libraries and OpenTelemetry's `http.server.request.duration`.
pub const DEFAULT_DURATION_BOUNDS_NS: [u64; DURATION_BOUNDS] = [
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
];

/// Entries of the tally map: four a container and cgroups that have just gone, so 1,000 containers fit four times over.
pub const TALLY_ENTRIES: u32 = 16_384;
/// Entries of the map of exact error codes.
pub const CODE_ENTRIES: u32 = 16_384;
/// Probe connections that were opened and not yet accepted.
pub const PROBE_ENTRIES: u32 = 4_096;
/// Cgroups whose sockets ask as probes.
pub const PROBER_ENTRIES: u32 = 64;
/// Resets that arrived and are not yet known to be accepted.
pub const RESET_ENTRIES: u32 = 1_024;

/// Whose counters, and what of.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct TallyKey {
    /// Cgroup v2 id of the socket.
    pub cgroup: u64,
    /// See [`Role`].
    pub role: Role,
    /// See [`Origin`].
    pub origin: Origin,
    /// See [`Protocol`]: `TCP` for the connection's own counts, else responses.
    pub protocol: Protocol,
    /// Zero.
    pub reserved: [u8; 5],
}

/// Counters of one [`TallyKey`]. All only grow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tally {
    /// Final responses by [`CodeClass`].
    pub responses: [u64; CodeClass::COUNT],
    /// Requests without a response by [`NoResponse`].
    pub no_response: [u64; NoResponse::COUNT],
    /// Accepted resets by [`Phase`].
    pub resets_received: [u64; Phase::COUNT],
    /// Sent resets by [`Phase`].
    pub resets_sent: [u64; Phase::COUNT],
    /// Connections opened.
    pub connections: u64,
    /// Request durations by bucket, see [`DURATION_BOUNDS`].
    pub duration_buckets: [u64; DURATION_BUCKETS],
    /// Sum of the request durations in nanoseconds.
    pub duration_sum_ns: u64,
}

/// `u64` slots of a [`Tally`]: a power of two, so that a masked index is always inside.
pub const TALLY_SLOTS: usize = 32;

impl Tally {
    /// Nothing counted.
    pub const ZERO: Self = Self {
        responses: [0; CodeClass::COUNT],
        no_response: [0; NoResponse::COUNT],
        resets_received: [0; Phase::COUNT],
        resets_sent: [0; Phase::COUNT],
        connections: 0,
        duration_buckets: [0; DURATION_BUCKETS],
        duration_sum_ns: 0,
    };

    /// Adds all counters of `other`.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.responses[..], &other.responses[..]),
            (&mut self.no_response[..], &other.no_response[..]),
            (&mut self.resets_received[..], &other.resets_received[..]),
            (&mut self.resets_sent[..], &other.resets_sent[..]),
            (core::slice::from_mut(&mut self.connections), core::slice::from_ref(&other.connections)),
            (&mut self.duration_buckets[..], &other.duration_buckets[..]),
            (core::slice::from_mut(&mut self.duration_sum_ns), core::slice::from_ref(&other.duration_sum_ns)),
        ];
        for (sums, values) in pairs {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value;
            }
        }
    }
}

/// Whose exact error codes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CodeKey {
    /// Cgroup v2 id of the socket.
    pub cgroup: u64,
    /// Status code, 400 to 999.
    pub status: u16,
    /// See [`Role`].
    pub role: Role,
    /// See [`Origin`].
    pub origin: Origin,
    /// See [`Protocol`].
    pub protocol: Protocol,
    /// Zero.
    pub reserved: [u8; 3],
}

/// A probe's connection as both ends see it. IPv4 addresses are in the IPv4-mapped form (RFC 4291 section 2.5.5.2).
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ProbeKey {
    /// The prober's address, network byte order.
    pub client: [u32; 4],
    /// The probed address, network byte order.
    pub server: [u32; 4],
    /// The prober's port.
    pub client_port: u16,
    /// The probed port.
    pub server_port: u16,
}

/// A reset that arrived, keyed by socket cookie: what to count if the stack accepts it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PendingReset {
    /// Cgroup v2 id of the socket.
    pub cgroup: u64,
    /// Role for the connection's count.
    pub tcp_role: Role,
    /// Role for the request's count.
    pub role: Role,
    /// See [`Origin`].
    pub origin: Origin,
    /// See [`Phase`].
    pub phase: Phase,
    /// Requests outstanding.
    pub requests: u32,
}

/// First payload bytes that came with the packet that completed the handshake. That packet is seen with the listening socket (`TCP_DEFER_ACCEPT`,
/// a lost bare ACK, SYN cookies; measured on Linux 6.18), right before the connection's own socket exists, on the same CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Handoff {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
    /// Sequence number of the first payload byte.
    pub seq: u32,
    /// Bytes of payload; 0 when there is nothing to hand over.
    pub len: u32,
    /// Sender's port.
    pub source: u16,
    /// 1 when the payload is a plain request ([`crate::wire::plain`]).
    pub is_plain: u8,
    /// 1 when the packet carries a FIN.
    pub fin: u8,
    /// Zero.
    pub reserved: [u8; 4],
    /// The first bytes; zeroes when there are fewer.
    pub start: Start,
}

const _: () = {
    assert!(size_of::<TallyKey>() == 16 && align_of::<TallyKey>() == 8);
    assert!(size_of::<Tally>() == TALLY_SLOTS * 8 && align_of::<Tally>() == 8);
    assert!(size_of::<CodeKey>() == 16);
    assert!(size_of::<ProbeKey>() == 36 && align_of::<ProbeKey>() == 4);
    assert!(size_of::<PendingReset>() == 16);
    assert!(size_of::<Handoff>() == 40);
    assert!(size_of::<crate::flow::Stream>() == 32);
    assert!(size_of::<crate::flow::Flow>() == 112);
    assert!(size_of::<crate::flow::Frames>() == 560);
};

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn every_counter_of_a_tally_is_added() {
        let mut ones = Tally::ZERO;
        ones.responses.fill(1);
        ones.no_response.fill(1);
        ones.resets_received.fill(1);
        ones.resets_sent.fill(1);
        ones.connections = 1;
        ones.duration_buckets.fill(1);
        ones.duration_sum_ns = 1;
        let mut sum = Tally::ZERO;
        sum.add(&ones);
        assert_eq!(sum, ones);
    }
}

#[cfg(feature = "user")]
mod user {
    #![expect(unsafe_code, reason = "aya asks for this promise before it copies a value to or from the kernel")]

    use super::{CodeKey, PendingReset, ProbeKey, Tally, TallyKey};

    // SAFETY: repr(C), integers only, padding explicit, so every bit pattern is a value and no byte is uninitialised.
    unsafe impl aya::Pod for TallyKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Tally {}
    // SAFETY: as above.
    unsafe impl aya::Pod for CodeKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for ProbeKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for PendingReset {}
}
