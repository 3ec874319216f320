//! One packet through its connection's state.

use aya_ebpf::{
    bindings::{__sk_buff, bpf_sock},
    helpers::generated::bpf_skb_load_bytes,
};
use rollout_probe_common::{
    abi::{Handoff, PendingReset},
    flow::{Direction, Flow, Path, Segment, state},
    outcome::{LostSync, Origin, Packet, Role},
    wire::{
        net::{FIN, RST, SYN},
        start::{BYTES, Start},
    },
};

use crate::{
    bound,
    count::{self, Counters},
    frame,
    maps::{HANDOFF, PROBERS, PROBES, RESETS},
    packet::{self, Bytes, Skb},
    plain, socket,
};

/// Says what became of the packet.
#[inline(always)]
pub(crate) fn packet(skb: Skb, direction: Direction) -> Packet {
    match try_packet(skb, direction) {
        Ok(what) | Err(what) => what,
    }
}

#[inline(always)]
fn try_packet(skb: Skb, direction: Direction) -> Result<Packet, Packet> {
    let sk = socket::full(skb.0)?;
    // A raw pointer, read anew after each call: the global functions below change what it points to.
    let flow = match socket::find(sk) {
        Some(flow) => flow,
        None => older(skb, sk, direction)?,
    };
    let headers = skb.headers()?;
    // SAFETY: socket storage of the packet's own socket, alive while the program runs.
    let is_known = unsafe { (*flow).counted != 0 && (*flow).cgroup != 0 };
    if !is_known {
        let what = direction as u32 | u32::from(headers.tcp.flags & RST) << 8;
        first_packet(skb.0, headers.version, headers.tcp.ports, what);
    }
    if headers.tcp.flags & RST != 0 {
        reset(skb.0, direction as u32);
        return Ok(Packet::FOLLOWED);
    }
    let fin = headers.tcp.flags & FIN;
    if headers.len == 0 && fin == 0 {
        return Ok(Packet::BARE_ACK);
    }
    // SAFETY: as above.
    if unsafe { (*flow).state } == state::OPAQUE {
        return Ok(Packet::OPAQUE);
    }
    let segment = Segment { seq: headers.tcp.seq, len: headers.len, fin: fin != 0 };
    // SAFETY: as above.
    if !unsafe { (*flow).is_content(direction, segment) } {
        follow(skb.0, headers.payload, segment.seq, segment.len, direction as u32 | u32::from(fin) << 8);
    }
    Ok(Packet::FOLLOWED)
}

/// A socket without state: listening or in the handshake, or a connection older than the programs.
#[inline(always)]
fn older(skb: Skb, sk: *mut bpf_sock, direction: Direction) -> Result<*mut Flow, Packet> {
    // SAFETY: a full socket of the program's context.
    let state = unsafe { (*sk).state };
    if state == socket::LISTEN && direction == Direction::Ingress {
        hand_off(skb)?;
    }
    if !socket::is_connected(state) {
        return Err(Packet::NO_CONNECTION);
    }
    let Some(flow) = socket::make(sk) else {
        count::lost(LostSync::NO_STORAGE);
        return Err(Packet::NO_STORAGE);
    };
    // SAFETY: just made; zeroes are a valid Flow.
    unsafe { (*flow).join() };
    Ok(flow)
}

/// Keeps payload that reaches the listening socket for the connection that is being set up.
#[inline(always)]
fn hand_off(skb: Skb) -> Result<(), Packet> {
    let headers = skb.headers()?;
    let Some(handoff) = HANDOFF.get_ptr_mut(0) else { return Ok(()) };
    // SAFETY: this CPU's slot; softirqs do not nest, and nothing else writes it.
    let handoff: &mut Handoff = unsafe { &mut *handoff };
    handoff.len = 0;
    if headers.len == 0 {
        return Ok(());
    }
    let n = bound::length::<BYTES>(if headers.len < BYTES { headers.len } else { BYTES });
    let mut words = [0_u64; 2];
    // SAFETY: at most BYTES bytes are written to a buffer of BYTES.
    if unsafe { bpf_skb_load_bytes(skb.0.cast(), headers.payload, words.as_mut_ptr().cast(), n) } != 0 {
        return Err(Packet::UNREADABLE);
    }
    handoff.start = Start(words);
    handoff.is_plain = plain::plain(skb.0, headers.payload, headers.len) as u8;
    // Data on a SYN (TCP Fast Open): the SYN itself takes the first sequence number.
    let syn = (headers.tcp.flags & SYN != 0) as u32;
    handoff.at_ns = packet::now();
    handoff.seq = headers.tcp.seq.wrapping_add(syn);
    handoff.source = (headers.tcp.ports >> 16) as u16;
    handoff.fin = (headers.tcp.flags & FIN != 0) as u8;
    handoff.len = headers.len;
    Ok(())
}

// Global functions from here on, each called from one place: the verifier checks such a function once, on its own, and a
// call costs its caller one instruction. All in one function they are over the limit of 1,000,000. Arguments can
// only be the context and scalars (Linux 5.10), so each looks the connection up again.

/// Takes the payload at `start` through the connection's state. `what` is the direction, and [`FIN`] in the second byte.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn follow(skb: *mut __sk_buff, start: u32, seq: u32, len: u32, what: u32) -> u32 {
    if quick(skb, start, seq, len, what & 1) != 0 {
        frame::frame(skb, start, seq, len, what & 1);
    }
    let Ok(flow) = socket::flow_of(skb) else { return 0 };
    let segment = Segment { seq, len, fin: what >> 8 != 0 };
    // SAFETY: socket storage of the packet's own socket, alive while the program runs.
    unsafe { (*flow).finish(socket::direction_of(what), segment, &mut Counters) };
    1
}

/// The short way; 1 when the packet needs the long one.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn quick(skb: *mut __sk_buff, start: u32, seq: u32, len: u32, direction: u32) -> u32 {
    let Ok(flow) = socket::flow_of(skb) else { return 0 };
    let segment = Segment { seq, len, fin: false };
    let mut bytes = Bytes { skb: Skb(skb), start };
    // SAFETY: socket storage of the packet's own socket, alive while the program runs.
    let path = unsafe { (*flow).quick(socket::direction_of(direction), segment, &mut bytes, &mut Counters) };
    (path == Path::Framed) as u32
}

/// Counts the connection and finds its cgroup. An accepted connection is counted by its first packet inwards, a connecting one by
/// its first packet outwards (the handshake's last ACK), so that only one of the two programs counts, whatever runs at the same
/// time. The exception is a server that resets at once: nothing ever comes in. `what` is the direction, and [`RST`] in the second byte.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn first_packet(skb: *mut __sk_buff, version: u32, ports: u32, what: u32) -> u32 {
    let Ok(flow) = socket::flow_of(skb) else { return 0 };
    // SAFETY: socket storage of the packet's own socket, alive while the program runs.
    let flow = unsafe { &mut *flow };
    let skb = Skb(skb);
    if flow.cgroup == 0 {
        flow.cgroup = skb.cgroup();
    }
    let counts = match socket::direction_of(what) {
        Direction::Ingress => flow.opened == Role::SERVER,
        Direction::Egress => flow.opened == Role::CLIENT || what >> 8 != 0,
    };
    if flow.counted != 0 || flow.opened == Role::UNKNOWN || !counts {
        return 0;
    }
    flow.counted = 1;
    // SAFETY: the value is a plain byte that is not read further.
    if flow.opened == Role::CLIENT && unsafe { PROBERS.get(&flow.cgroup) }.is_some() {
        flow.origin = Origin::PROBE;
        if let Ok(key) = skb.probe_key(version, ports) {
            let _lru_always_has_room = PROBES.insert(&key, &1, 0);
        }
    }
    count::connection(flow);
    1
}

/// A reset that leaves is counted at once; one that arrives waits for the stack to accept it.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn reset(skb: *mut __sk_buff, direction: u32) -> u32 {
    let Ok(flow) = socket::flow_of(skb) else { return 0 };
    // SAFETY: socket storage of the packet's own socket, alive while the program runs.
    let flow = unsafe { &mut *flow };
    if flow.reset != 0 {
        return 0;
    }
    if socket::direction_of(direction) == Direction::Egress {
        flow.reset = 1;
        count::reset_sent(flow);
        flow.abandon();
        return 1;
    }
    let pending = PendingReset {
        cgroup: flow.cgroup,
        tcp_role: flow.tcp_role(),
        role: flow.role,
        origin: flow.origin,
        phase: flow.phase(),
        requests: flow.outstanding(),
    };
    let _lru_always_has_room = RESETS.insert(&Skb(skb).cookie(), &pending, 0);
    1
}
