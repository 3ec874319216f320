//! The programs: entry points only. Each is one call and a constant answer that lets everything pass.
//!
//! `cgroup_skb` at the cgroup v2 root sees every packet of every socket with the right cgroup; `sock_ops` there gives each
//! new connection its start; the tracepoint tells which resets TCP accepted.

#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(internal_features, reason = "atomic_xadd is the one atomic add that every kernel's BPF has")]
#![expect(unsafe_code, reason = "helpers, contexts and map values are raw pointers; the verifier checks each use")]
#![expect(
    clippy::inline_always,
    clippy::cast_lossless,
    clippy::cast_possible_truncation,
    clippy::needless_borrows_for_generic_args,
    clippy::needless_pass_by_value,
    reason = "BPF: calls are inlined or verified one by one, registers are 64 bits wide, the stack has 512 bytes, and \
              entry points take what their macros give them"
)]

mod bound;
mod count;
mod establish;
mod follow;
mod frame;
mod maps;
mod packet;
mod plain;
mod probe;
mod socket;

use aya_ebpf::{
    EbpfContext as _,
    bindings::{BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB},
    helpers::bpf_probe_read,
    macros::{cgroup_skb, sock_ops, tracepoint},
    programs::{SkBuffContext, SockOpsContext, TracePointContext},
};
use rollout_probe_common::{flow::Direction, outcome::Role};

use crate::packet::Skb;

/// `cgroup_skb` and `sock_ops`: let it pass, change nothing.
const PASS: i32 = 1;

#[cgroup_skb]
fn ingress(ctx: SkBuffContext) -> i32 {
    count::packet(follow::packet(Skb(ctx.skb.skb), Direction::Ingress));
    PASS
}

#[cgroup_skb]
fn egress(ctx: SkBuffContext) -> i32 {
    count::packet(follow::packet(Skb(ctx.skb.skb), Direction::Egress));
    PASS
}

#[sock_ops]
fn establish(ctx: SockOpsContext) -> u32 {
    match ctx.op() {
        BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB => establish::established(&ctx, Role::SERVER),
        BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB => establish::established(&ctx, Role::CLIENT),
        _ => {}
    }
    PASS as u32
}

/// Offset of `sock_cookie` in the record of the tracepoint `tcp:tcp_receive_reset`, set at load from the event's `format` file.
#[unsafe(no_mangle)]
static RESET_COOKIE_OFFSET: u32 = 0;

#[tracepoint]
fn receive_reset(ctx: TracePointContext) -> u32 {
    // SAFETY: a static of this object, read volatile because the loader changes it.
    let offset = unsafe { (&raw const RESET_COOKIE_OFFSET).read_volatile() };
    // SAFETY: the loader took the offset from the kernel's own description of the record.
    let cookie = unsafe { bpf_probe_read(ctx.as_ptr().byte_add(offset as usize).cast::<u64>()) };
    let Ok(cookie) = cookie else { return 0 };
    // SAFETY: the entry is copied at once; only this program removes it.
    let pending = unsafe { maps::RESETS.get(&cookie) }.copied();
    if let Some(pending) = pending {
        let _gone_already = maps::RESETS.remove(&cookie);
        count::reset_received(&pending);
    }
    0
}

/// Loops for ever, so that a reachable panic is refused by the verifier instead of being undefined behaviour.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// Helpers that are GPL-only need a compatible licence.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
