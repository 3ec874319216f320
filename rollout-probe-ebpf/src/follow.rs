//! One packet through its connection's state.

use aya_ebpf::{
    bindings::__sk_buff,
    helpers::generated::{bpf_skb_load_bytes, bpf_tcp_sock},
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
    maps::{HANDOFF, RESETS},
    packet::{self, Bytes, Headers, Skb},
    plain, probe, socket,
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
    let headers = skb.headers()?;
    // Before anything is looked up: these are up to half of all packets, and the state has nothing to learn from them.
    if headers.len == 0 && headers.tcp.flags & (FIN | RST | SYN) == 0 {
        return Ok(Packet::BARE_ACK);
    }
    // A raw pointer, read anew after each call: the global functions below change what it points to.
    let flow = match socket::flow_of(skb.0) {
        Ok(flow) => flow,
        Err(Packet::NO_STORAGE) => older(skb, &headers, direction)?,
        Err(what) => return Err(what),
    };
    // SAFETY: socket storage of the packet's own socket, alive while the program runs.
    if unsafe { (*flow).cgroup == 0 || is_to_be_counted(&*flow, direction, headers.tcp.flags) } {
        let what = direction as u32 | u32::from(headers.tcp.flags) << 8;
        first_packet(skb.0, what);
    }
    if headers.tcp.flags & RST != 0 {
        reset(skb.0, direction as u32);
        return Ok(Packet::FOLLOWED);
    }
    let fin = headers.tcp.flags & FIN;
    // SAFETY: as above.
    if unsafe { (*flow).state } == state::OPAQUE {
        return Ok(Packet::OPAQUE);
    }
    let segment = Segment { seq: headers.tcp.seq, len: headers.len, fin: fin != 0 };
    // SAFETY: as above.
    if unsafe { (*flow).is_content(direction, segment) } {
        return Ok(Packet::FOLLOWED);
    }
    let mut bytes = Bytes { skb, start: headers.payload };
    // SAFETY: as above.
    if unsafe { (*flow).quick(direction, segment, &mut bytes, &mut Counters) } == Path::Framed {
        frame::frame(skb.0, headers.payload, segment.seq, segment.len, direction as u32);
    }
    // SAFETY: as above.
    unsafe { (*flow).finish(direction, segment, &mut Counters) };
    Ok(Packet::FOLLOWED)
}

/// A socket without state: listening or in the handshake, or a connection older than the programs.
#[inline(always)]
fn older(skb: Skb, headers: &Headers, direction: Direction) -> Result<*mut Flow, Packet> {
    let sk = socket::full(skb.0)?;
    // SAFETY: a full socket of the program's context.
    let state = unsafe { (*sk).state };
    match (state, direction) {
        (socket::LISTEN, Direction::Ingress) => hand_off(skb, headers)?,
        (socket::SYN_RECV, Direction::Ingress) => {
            overtake(skb.0, headers.at);
            return socket::flow_of(skb.0);
        }
        (socket::SYN_SENT, Direction::Egress) => {
            probe::announce(skb.0, headers.at, headers.tcp.seq.wrapping_add(1));
        }
        _ => {}
    }
    if !socket::is_connected(state) {
        return Err(Packet::NO_CONNECTION);
    }
    let Some(flow) = socket::make(sk, &Flow::join()) else {
        count::lost(LostSync::NO_STORAGE);
        return Err(Packet::NO_STORAGE);
    };
    Ok(flow)
}

/// Keeps payload that reaches the listening socket for the connection that is being set up.
#[inline(always)]
fn hand_off(skb: Skb, headers: &Headers) -> Result<(), Packet> {
    let Some(handoff) = HANDOFF.get_ptr_mut(0) else { return Ok(()) };
    // SAFETY: this CPU's slot; softirqs do not nest, and nothing else writes it.
    let handoff: &mut Handoff = unsafe { &mut *handoff };
    handoff.len = 0;
    if headers.len == 0 {
        return Ok(());
    }
    let (source, _) = skb.ports(headers.at)?;
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
    handoff.source = source;
    handoff.fin = (headers.tcp.flags & FIN != 0) as u8;
    handoff.len = headers.len;
    Ok(())
}

// Global functions from here on, each called from one place: the verifier checks such a function once, on its own, and a
// call costs its caller one instruction. All in one function they are over the limit of 1,000,000. Arguments can
// only be the context and scalars (Linux 5.10), so each looks the connection up again.

/// A packet for an accepted connection that another CPU is still setting up: that one has put the socket where packets find
/// it, and has not come to [`crate::establish`] yet. TCP will take the packet, so the state is set up here. The TCP header is at `at`.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn overtake(skb: *mut __sk_buff, at: u32) -> u32 {
    let Ok(sk) = socket::full(skb) else { return 0 };
    // SAFETY: a full socket of the program's context.
    let tcp = unsafe { bpf_tcp_sock(sk) };
    if tcp.is_null() {
        return 0;
    }
    // SAFETY: the verifier has seen the null check.
    let (rx, tx) = unsafe { ((*tcp).rcv_nxt, (*tcp).snd_nxt) };
    let Ok(key) = Skb(skb).probe_key(at) else { return 0 };
    if socket::make(sk, &Flow::open(Role::SERVER, probe::origin(&key, rx), rx, tx)).is_none() {
        count::lost(LostSync::NO_STORAGE);
    }
    1
}

/// Whether a packet that is no bare ACK is the one that counts its connection. An accepted connection is counted by the first
/// such packet inwards, a connecting one by the first outwards, so that only one of the two programs counts, whatever runs at the
/// same time. The exceptions are ends before that: a reset, and a server's FIN, after which the peer's FIN may come to a socket in
/// `TIME_WAIT`, which has no state.
#[inline(always)]
fn is_to_be_counted(flow: &Flow, direction: Direction, flags: u8) -> bool {
    if flow.counted != 0 || flow.opened == Role::UNKNOWN {
        return false;
    }
    match direction {
        Direction::Ingress => flow.opened == Role::SERVER || flags & RST != 0,
        Direction::Egress => flow.opened == Role::CLIENT || flags & (FIN | RST) != 0,
    }
}

/// Counts the connection, finds its cgroup and whether that is a prober's. `what` is the direction, and the TCP flags in the second byte.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn first_packet(skb: *mut __sk_buff, what: u32) -> u32 {
    let Ok(flow) = socket::flow_of(skb) else { return 0 };
    // SAFETY: socket storage of the packet's own socket, alive while the program runs.
    let flow = unsafe { &mut *flow };
    if flow.cgroup == 0 {
        flow.cgroup = Skb(skb).cgroup();
    }
    let direction = socket::direction_of(what);
    if !is_to_be_counted(flow, direction, (what >> 8) as u8) {
        return 0;
    }
    flow.counted = 1;
    if flow.opened == Role::CLIENT && probe::is_prober(flow.cgroup) {
        flow.origin = Origin::PROBE;
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
