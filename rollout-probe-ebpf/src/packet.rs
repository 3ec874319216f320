//! The only reads of packet bytes.
//!
//! Headers are read in place, which costs nearly nothing: TCP has them in the linear part of the buffer in both directions. What
//! is not there, or not where most packets have it, is read with `bpf_skb_load_bytes`. So is every payload: the linear part
//! ends at the TCP header (measured on Linux 6.18, loopback and veth), and a read in place would silently see none.

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
    /// Offset of the TCP header.
    pub(crate) at: u32,
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
        // SAFETY: reads of the program's own context.
        let (start, end, len) = unsafe { ((*self.0).data, (*self.0).data_end, (*self.0).len) };
        let (start, end) = (start as usize as *const u8, end as usize as *const u8);
        let at = match plain_offset(start, end) {
            Some(at) => at,
            None => odd_offset(self)?,
        };
        let tcp = start.wrapping_add(at);
        if tcp.wrapping_add(BASE) > end {
            return Err(Packet::UNREADABLE);
        }
        // SAFETY: so many bytes are there, as the verifier has seen.
        let tcp = net::tcp(unsafe { &*tcp.cast::<[u8; BASE]>() });
        let payload = at as u32 + tcp.length;
        if payload > len || tcp.length < BASE as u32 {
            return Err(Packet::UNREADABLE);
        }
        Ok(Headers { at: at as u32, tcp, payload, len: len - payload })
    }

    #[inline(always)]
    fn tcp_offset(self) -> Result<u32, Packet> {
        let head: [u8; BASE] = self.load(0)?;
        match head[0] >> 4 {
            4 => self.after(net::after_ipv4(&head), 0),
            6 => self.after(net::after_ipv6(&head), 0),
            _ => Err(Packet::NOT_TCP),
        }
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

    /// The connection as its client opened it; this packet is from the client, and its TCP header is at `at`.
    #[inline(always)]
    pub(crate) fn probe_key(self, at: u32) -> Result<ProbeKey, Packet> {
        let [version]: [u8; 1] = self.load(0)?;
        let (client, server) = if version >> 4 == 4 {
            let addresses: [u8; 8] = self.load(12)?;
            (mapped(word(&addresses, 0)), mapped(word(&addresses, 4)))
        } else {
            let addresses: [u8; 32] = self.load(8)?;
            (quad(&addresses, 0), quad(&addresses, 16))
        };
        let (client_port, server_port) = self.ports(at)?;
        Ok(ProbeKey { client, server, client_port, server_port })
    }

    /// Source and destination port of the TCP header at `at`.
    #[inline(always)]
    pub(crate) fn ports(self, at: u32) -> Result<(u16, u16), Packet> {
        Ok(net::ports(&self.load(at)?))
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

/// Offset of the TCP header of nearly every packet: behind an IP header without options or extensions.
#[inline(always)]
fn plain_offset(start: *const u8, end: *const u8) -> Option<usize> {
    const IPV4: usize = BASE;
    const IPV6: usize = 40;
    if start.wrapping_add(BASE) > end {
        return None;
    }
    // SAFETY: so many bytes are there, as the verifier has seen.
    let head = unsafe { &*start.cast::<[u8; BASE]>() };
    if head[0] == 0x45 && net::after_ipv4(head) == Next::Tcp(IPV4 as u32) {
        Some(IPV4)
    } else if head[0] >> 4 == 6 && head[6] == net::TCP {
        Some(IPV6)
    } else {
        None
    }
}

/// Offset of any other TCP header.
#[inline(always)]
fn odd_offset(skb: Skb) -> Result<usize, Packet> {
    /// Headers are not longer; a mask, because that tells the verifier so.
    const FURTHEST: u32 = 0xfff;
    let found = find_tcp(skb.0);
    if found & NOT_FOUND == 0 { Ok((found & FURTHEST) as usize) } else { Err(Packet(found as u8)) }
}

/// In the answer of [`find_tcp`]: the lowest byte is a [`Packet`].
const NOT_FOUND: u32 = 1 << 31;

/// Walks the IP headers, wherever they are. A function of its own, because code that is not run need not be in the CPU's caches.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn find_tcp(skb: *mut __sk_buff) -> u32 {
    match Skb(skb).tcp_offset() {
        Ok(at) => at,
        Err(why) => u32::from(why.0) | NOT_FOUND,
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
