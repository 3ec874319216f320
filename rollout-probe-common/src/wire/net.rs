//! IP and TCP header arithmetic: from the first header byte to the first payload byte.
//!
//! The IP version is the packet's own, never the socket's family: a dual-stack listener is an `AF_INET6` socket that
//! carries IPv4 packets. Lengths in IP headers are not used at all: a segmentation-offload packet over 64 KiB has an IPv4
//! total length of 0, and IPv6 then carries a hop-by-hop header in front of TCP (measured on Linux 6.18).

/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// Bytes of an IPv4 or TCP header without options.
pub const BASE: usize = 20;
/// Bytes of the fixed IPv6 header (RFC 8200 section 3).
const IPV6: u32 = 40;

/// TCP flag bits (RFC 9293 section 3.1).
pub const FIN: u8 = 0x01;
/// See [`FIN`].
pub const SYN: u8 = 0x02;
/// See [`FIN`].
pub const RST: u8 = 0x04;

/// What follows an IP header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// A TCP header, this many bytes after the start of the header just read.
    Tcp(u32),
    /// An IPv6 extension header of type `.0`, `.1` bytes after the start of the header just read.
    Extension(u8, u32),
    /// Something that is never parsed: another protocol, or a fragment after the first.
    Other,
}

/// What follows an IPv4 header (RFC 791): options are honoured by IHL.
#[inline(always)]
pub fn after_ipv4(head: &[u8; BASE]) -> Next {
    let words = head[0] & 0x0f;
    let fragment_offset = u16::from_be_bytes([head[6], head[7]]) & 0x1fff;
    if head[9] != TCP || fragment_offset != 0 || words < 5 {
        return Next::Other;
    }
    Next::Tcp(words as u32 * 4)
}

/// What follows the fixed IPv6 header, of which `head` is the first half.
#[inline(always)]
pub fn after_ipv6(head: &[u8; BASE]) -> Next {
    after_ipv6_next(head[6], IPV6)
}

/// What follows an IPv6 extension header of type `kind` whose first 8 bytes are `head` (RFC 8200 section 4).
#[inline(always)]
pub fn after_extension(kind: u8, head: &[u8; 8]) -> Next {
    const FRAGMENT: u8 = 44;
    if kind == FRAGMENT {
        // An atomic fragment (offset 0) still has its TCP header behind it.
        let offset = u16::from_be_bytes([head[2], head[3]]) >> 3;
        return if offset == 0 { after_ipv6_next(head[0], 8) } else { Next::Other };
    }
    after_ipv6_next(head[0], 8 + head[1] as u32 * 8)
}

#[inline(always)]
fn after_ipv6_next(kind: u8, length: u32) -> Next {
    match kind {
        TCP => Next::Tcp(length),
        // hop-by-hop, routing, fragment, destination options, mobility
        0 | 43 | 44 | 60 | 135 => Next::Extension(kind, length),
        _ => Next::Other,
    }
}

/// What the programs need of a TCP header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tcp {
    /// Sequence number of the first payload byte (of the SYN itself in a SYN).
    pub seq: u32,
    /// Flag bits: [`FIN`], [`SYN`], [`RST`].
    pub flags: u8,
    /// Bytes of this header with its options; at least 20 in a valid header.
    pub length: u32,
}

/// Reads a TCP header (RFC 9293 section 3.1).
#[inline(always)]
pub fn tcp(head: &[u8; BASE]) -> Tcp {
    Tcp {
        seq: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        flags: head[13],
        length: (head[12] >> 4) as u32 * 4,
    }
}

/// Source and destination port of a TCP header's first bytes.
#[inline(always)]
pub fn ports(head: &[u8; 4]) -> (u16, u16) {
    (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]))
}

#[cfg(test)]
mod tests {
    use super::{BASE, Next, Tcp, after_extension, after_ipv4, after_ipv6, ports, tcp};

    fn ipv4(first: u8, fragment: u16, protocol: u8) -> [u8; BASE] {
        let mut head = [0; BASE];
        head[0] = first;
        head[6..8].copy_from_slice(&fragment.to_be_bytes());
        head[9] = protocol;
        head
    }

    #[test]
    fn ipv4_options_move_the_tcp_header() {
        assert_eq!(after_ipv4(&ipv4(0x45, 0x4000, 6)), Next::Tcp(20));
        assert_eq!(after_ipv4(&ipv4(0x46, 0, 6)), Next::Tcp(24));
        assert_eq!(after_ipv4(&ipv4(0x4f, 0, 6)), Next::Tcp(60));
        assert_eq!(after_ipv4(&ipv4(0x44, 0, 6)), Next::Other, "IHL under 5 is no header");
    }

    #[test]
    fn ipv4_fragment_after_the_first_is_never_parsed() {
        assert_eq!(after_ipv4(&ipv4(0x45, 0x2000, 6)), Next::Tcp(20), "first fragment");
        assert_eq!(after_ipv4(&ipv4(0x45, 0x2001, 6)), Next::Other);
        assert_eq!(after_ipv4(&ipv4(0x45, 0, 17)), Next::Other, "UDP");
    }

    #[test]
    fn ipv6_extension_headers_are_walked() {
        let mut head = [0; BASE];
        head[6] = 6;
        assert_eq!(after_ipv6(&head), Next::Tcp(40));
        head[6] = 0;
        assert_eq!(after_ipv6(&head), Next::Extension(0, 40));
        // the jumbo hop-by-hop header of a packet over 64 KiB
        assert_eq!(after_extension(0, &[6, 0, 0xc2, 4, 0, 1, 0x73, 0]), Next::Tcp(8));
        assert_eq!(after_extension(60, &[6, 2, 0, 0, 0, 0, 0, 0]), Next::Tcp(24));
        assert_eq!(after_extension(44, &[6, 0, 0, 1, 0, 0, 0, 9]), Next::Tcp(8), "atomic fragment");
        assert_eq!(after_extension(44, &[6, 0, 0, 8, 0, 0, 0, 9]), Next::Other, "later fragment");
        head[6] = 58;
        assert_eq!(after_ipv6(&head), Next::Other, "ICMPv6");
    }

    #[test]
    fn tcp_header_is_read_with_options() {
        let head = [0x1f, 0x90, 0xc3, 0x50, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 1, 0x80, 0x18, 1, 1, 0, 0, 0, 0];
        assert_eq!(tcp(&head), Tcp { seq: 0xdead_beef, flags: 0x18, length: 32 });
        assert_eq!(ports(&[0x1f, 0x90, 0xc3, 0x50]), (8080, 50_000));
    }
}
