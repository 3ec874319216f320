//! The only reads of packet bytes.
//!
//! Everything is read with `bpf_skb_load_bytes`: for every TCP payload the linear part of the buffer ends at the TCP header
//! (measured on Linux 6.18), so direct access would silently see no payload at all.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::__sk_buff,
    helpers::generated::{bpf_get_socket_cookie, bpf_ktime_get_ns, bpf_skb_cgroup_id, bpf_skb_load_bytes},
};
use rollout_probe_common::{
    abi::ProbeKey,
    flow::Payload,
    outcome::Packet,
    wire::{
        net::{self, BASE, Next, Tcp},
        start::{BYTES, Start},
    },
};

use crate::plain;

/// IPv6 extension headers walked; a real packet has one or two.
const EXTENSIONS: u32 = 4;

/// A packet, seen from its IP header.
#[derive(Clone, Copy)]
pub(crate) struct Skb(pub(crate) *mut __sk_buff);

/// Where things are in a TCP packet.
pub(crate) struct Headers {
    pub(crate) version: u32,
    pub(crate) tcp: Tcp,
    /// Offset of the payload's first byte.
    pub(crate) payload: u32,
    /// Bytes of payload.
    pub(crate) len: u32,
}

impl Skb {
    #[inline(always)]
    fn load<const N: usize>(self, offset: u32) -> Result<[u8; N], Packet> {
        let mut bytes = [0; N];
        // SAFETY: the context is the program's own, and the helper writes N bytes to a buffer of N.
        let failed = unsafe { bpf_skb_load_bytes(self.0.cast(), offset, bytes.as_mut_ptr().cast(), N as u32) };
        if failed == 0 { Ok(bytes) } else { Err(Packet::UNREADABLE) }
    }

    /// Reads the headers; the error says why there is no TCP segment to follow.
    #[inline(always)]
    pub(crate) fn headers(self) -> Result<Headers, Packet> {
        let head: [u8; BASE] = self.load(0)?;
        let version = u32::from(head[0] >> 4);
        let at = match version {
            4 => self.after(net::after_ipv4(&head), 0)?,
            6 => self.after(net::after_ipv6(&head), 0)?,
            _ => return Err(Packet::NOT_TCP),
        };
        let tcp = net::tcp(&self.load(at)?);
        let payload = at + tcp.length;
        // SAFETY: a read of the program's own context.
        let end = unsafe { (*self.0).len };
        if payload > end || tcp.length < BASE as u32 {
            return Err(Packet::UNREADABLE);
        }
        Ok(Headers { version, tcp, payload, len: end - payload })
    }

    #[inline(always)]
    fn after(self, mut next: Next, mut at: u32) -> Result<u32, Packet> {
        for _ in 0..=EXTENSIONS {
            match next {
                Next::Tcp(length) => return Ok(at + length),
                Next::Extension(kind, length) => {
                    at += length;
                    next = net::after_extension(kind, &self.load(at)?);
                }
                Next::Other => return Err(Packet::NOT_TCP),
            }
        }
        Err(Packet::UNREADABLE)
    }

    /// The connection as its client opened it; this packet is from the client. `ports` as in [`Tcp`].
    #[inline(always)]
    pub(crate) fn probe_key(self, version: u32, ports: u32) -> Result<ProbeKey, Packet> {
        let (client, server) = if version == 4 {
            let addresses: [u8; 8] = self.load(12)?;
            (mapped(word(&addresses, 0)), mapped(word(&addresses, 4)))
        } else {
            let addresses: [u8; 32] = self.load(8)?;
            (quad(&addresses, 0), quad(&addresses, 16))
        };
        Ok(ProbeKey { client, server, client_port: (ports >> 16) as u16, server_port: ports as u16 })
    }

    /// Cgroup v2 id of the packet's socket.
    #[inline(always)]
    pub(crate) fn cgroup(self) -> u64 {
        // SAFETY: the context is the program's own.
        unsafe { bpf_skb_cgroup_id(self.0) }
    }

    /// Cookie of the packet's socket.
    #[inline(always)]
    pub(crate) fn cookie(self) -> u64 {
        // SAFETY: the context is the program's own.
        unsafe { bpf_get_socket_cookie(self.0.cast::<c_void>()) }
    }
}

/// An IPv4 address in the IPv4-mapped IPv6 form, network byte order.
#[inline(always)]
pub(crate) fn mapped(address: u32) -> [u32; 4] {
    [0, 0, 0x0000_ffff_u32.to_be(), address]
}

#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
fn quad(bytes: &[u8; 32], at: usize) -> [u32; 4] {
    [word(bytes, at), word(bytes, at + 4), word(bytes, at + 8), word(bytes, at + 12)]
}

/// The payload of one packet.
pub(crate) struct Bytes {
    pub(crate) skb: Skb,
    pub(crate) start: u32,
}

impl Payload for Bytes {
    #[inline(always)]
    fn start(&mut self, offset: u32) -> Option<Start> {
        let mut words = [0_u64; 2];
        let from = self.start.wrapping_add(offset);
        // SAFETY: BYTES bytes are written to a buffer of BYTES.
        let failed = unsafe { bpf_skb_load_bytes(self.skb.0.cast(), from, words.as_mut_ptr().cast(), BYTES) };
        if failed == 0 { Some(Start(words)) } else { None }
    }

    #[inline(always)]
    fn is_plain(&mut self, offset: u32, len: u32) -> bool {
        plain::plain(self.skb.0, self.start.wrapping_add(offset), len) != 0
    }

    #[inline(always)]
    fn now(&mut self) -> u64 {
        now()
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: takes no arguments.
    unsafe { bpf_ktime_get_ns() }
}
