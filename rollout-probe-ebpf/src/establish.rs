//! A connection is established: its state starts with the sequence numbers of the handshake.

use aya_ebpf::{
    bindings::{bpf_sock, bpf_sock_ops},
    programs::SockOpsContext,
};
use rollout_probe_common::{
    abi::{Handoff, ProbeKey},
    flow::{Direction, Flow, Path, Payload, Segment},
    outcome::{LostSync, Origin, Role},
    wire::start::Start,
};

use crate::{
    count::{self, Counters},
    maps::HANDOFF,
    packet::{mapped, now},
    probe, socket,
};

/// `AF_INET`.
const INET: u32 = 2;
/// A handoff is claimed in the same softirq; anything older is another connection's.
const HANDOFF_NS: u64 = 1_000_000;

/// Sets the state up. `opened` is the socket's side.
#[inline(always)]
pub(crate) fn established(ctx: &SockOpsContext, opened: Role) {
    // SAFETY: reads of the program's own context.
    let (sk, rx, tx) = unsafe {
        let ops: *mut bpf_sock_ops = ctx.ops;
        let sk: *mut bpf_sock = (*ops).__bindgen_anon_2.sk;
        (sk, (*ops).rcv_nxt, (*ops).snd_nxt)
    };
    if sk.is_null() {
        return;
    }
    // A client's own origin comes with its first packet, which knows its cgroup.
    let origin = if opened == Role::SERVER { origin(ctx, rx) } else { Origin::TRAFFIC };
    let Some(flow) = socket::make(sk, &Flow::open(opened, origin, rx, tx)) else {
        return count::lost(LostSync::NO_STORAGE);
    };
    if opened == Role::SERVER {
        // SAFETY: socket storage of this event's socket, alive while the program runs.
        let flow = unsafe { &mut *flow };
        claim_handoff(ctx, flow, rx);
    }
}

/// Whether a prober of this node opened this connection, in which `first` is the first byte from the client.
#[inline(always)]
fn origin(ctx: &SockOpsContext, first: u32) -> Origin {
    // All fields are read, volatile, before the choice: else the compiler makes the choice first, of an address, and reads
    // through that ("dereference of modified ctx ptr disallowed").
    macro_rules! field {
        ($($field:tt)+) => {
            // SAFETY: a read of the program's own context.
            unsafe { (&raw const (*ctx.ops).$($field)+).read_volatile() }
        };
    }
    macro_rules! address {
        ($field:ident) => {
            [field!($field[0]), field!($field[1]), field!($field[2]), field!($field[3])]
        };
    }
    let inet = (mapped(field!(remote_ip4)), mapped(field!(local_ip4)));
    let inet6 = (address!(remote_ip6), address!(local_ip6));
    let (client, server) = if ctx.family() == INET { inet } else { inet6 };
    let key = ProbeKey { client, server, client_port: remote_port(ctx), server_port: ctx.local_port() as u16 };
    probe::origin(&key, first)
}

/// The remote port is in network byte order, the local one in the host's (`struct bpf_sock_ops` in `linux/bpf.h`).
#[inline(always)]
fn remote_port(ctx: &SockOpsContext) -> u16 {
    u32::from_be(ctx.remote_port()) as u16
}

/// Takes the payload that came with the handshake's last packet, if this CPU has just seen it on the listening socket.
#[inline(always)]
fn claim_handoff(ctx: &SockOpsContext, flow: &mut Flow, rx: u32) {
    let Some(handoff) = HANDOFF.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's slot, see `hand_off`.
    let handoff = unsafe { &mut *handoff };
    let len = handoff.len;
    handoff.len = 0;
    if len == 0
        || handoff.seq != rx
        || handoff.source != remote_port(ctx)
        || now().wrapping_sub(handoff.at_ns) > HANDOFF_NS
    {
        return;
    }
    let segment = Segment { seq: rx, len, fin: handoff.fin != 0 };
    let mut kept = Kept { handoff };
    if flow.quick(Direction::Ingress, segment, &mut kept, &mut Counters) == Path::Framed {
        flow.ask_unframed(Direction::Ingress, handoff.start, handoff.at_ns);
    }
    flow.finish(Direction::Ingress, segment, &mut Counters);
}

/// What is left of a payload that is gone.
struct Kept<'a> {
    handoff: &'a Handoff,
}

impl Payload for Kept<'_> {
    #[inline(always)]
    fn start(&mut self, offset: u32) -> Option<Start> {
        if offset == 0 { Some(self.handoff.start) } else { None }
    }

    #[inline(always)]
    fn is_plain(&mut self, _offset: u32, _len: u32) -> bool {
        self.handoff.is_plain != 0
    }

    #[inline(always)]
    fn now(&mut self) -> u64 {
        self.handoff.at_ns
    }
}
