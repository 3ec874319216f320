//! The small numbers inside map keys, with the label value that each stands for.
//!
//! They are transparent integers and not enums: the kernel writes the bytes, and a value that this version does not know
//! must stay a value (labelled `unknown`), never undefined behaviour.

/// Declares a transparent integer with named values and their labels.
macro_rules! coded {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $konst:ident = $value:literal => $label:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(pub u8);

        impl $name {
            $($(#[$vdoc])* pub const $konst: Self = Self($value);)+
            /// Every named value, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$konst),+];
            /// How many named values there are; they are numbered from 0 without a hole.
            pub const COUNT: usize = Self::ALL.len();

            /// The metric label of this value; `unknown` for a number that this version does not know.
            pub const fn label(self) -> &'static str {
                match self.0 {
                    $($value => $label,)+
                    _ => "unknown",
                }
            }

            /// This value's place in a table with one entry per named value.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

coded! {
    /// Which end of the conversation the socket is. For HTTP: who sent the request. For a connection: who opened it.
    Role {
        /// Not known (yet): a connection older than the programs.
        UNKNOWN = 0 => "unknown",
        SERVER = 1 => "server",
        CLIENT = 2 => "client",
    }
}

coded! {
    /// Who asked: users and other services, or the kubelet's probes.
    Origin {
        TRAFFIC = 0 => "traffic",
        PROBE = 1 => "probe",
    }
}

coded! {
    /// What was counted under a key.
    Protocol {
        /// The connection itself: opens and resets.
        TCP = 0 => "tcp",
        HTTP1 = 1 => "http1",
    }
}

coded! {
    /// Class of a status code (RFC 9110 section 15). `OTHER` is 600 to 999, which servers do send.
    CodeClass {
        INFORMATIONAL = 0 => "1xx",
        SUCCESSFUL = 1 => "2xx",
        REDIRECTION = 2 => "3xx",
        CLIENT_ERROR = 3 => "4xx",
        SERVER_ERROR = 4 => "5xx",
        OTHER = 5 => "other",
    }
}

impl CodeClass {
    /// The class of `status`, which a parser has found to be 100 to 999.
    #[inline(always)]
    pub const fn of(status: u16) -> Self {
        match status {
            ..200 => Self::INFORMATIONAL,
            200..300 => Self::SUCCESSFUL,
            300..400 => Self::REDIRECTION,
            400..500 => Self::CLIENT_ERROR,
            500..600 => Self::SERVER_ERROR,
            _ => Self::OTHER,
        }
    }
}

coded! {
    /// How a request ended that never got a response head.
    NoResponse {
        CLOSED = 0 => "closed",
        RESET = 1 => "reset",
    }
}

coded! {
    /// What a connection was doing when it was reset.
    Phase {
        /// No request was seen on it.
        IDLE = 0 => "idle",
        /// A request had no final response head yet.
        OUTSTANDING = 1 => "outstanding",
        /// Every request had been answered.
        AFTER_RESPONSE = 2 => "after_response",
    }
}

coded! {
    /// Why a direction of a connection that is, or may be, HTTP/1 is not followed for now. Counted each time it happens.
    LostSync {
        /// The connection is older than the programs and turned out to be HTTP/1: what came before was not counted.
        MID_STREAM = 0 => "mid_stream",
        /// Bytes where a request had to start are none.
        REQUEST_HEAD = 1 => "request_head",
        /// Bytes where a response had to start are none.
        RESPONSE_HEAD = 2 => "response_head",
        /// A packet has more to read than its budget.
        BUDGET = 3 => "budget",
        /// The kernel had no memory for the socket's state.
        NO_STORAGE = 4 => "no_storage",
        /// The counter map had no room for this cgroup's counters; the response was seen and not counted.
        MAP_FULL = 5 => "map_full",
        /// A head whose content has no certain length (RFC 9112 section 6.3), or a chunk without a size.
        LENGTH = 6 => "length",
        /// Bytes of a head that came before those in front of them, and not again.
        HOLE = 7 => "hole",
        /// A request in the middle of a response whose length was not known.
        EARLY_REQUEST = 8 => "early_request",
        /// More requests outstanding than the queue has room for.
        QUEUE = 9 => "queue",
        /// The connection went on in HTTP/2 after `Upgrade: h2c`, which is not followed.
        H2C = 10 => "h2c",
    }
}

coded! {
    /// What became of a packet in the programs. Every return is one of these, so their sum is the packets seen.
    Packet {
        /// Went through the connection's state.
        FOLLOWED = 0 => "followed",
        /// No payload, FIN or RST: nothing to follow.
        BARE_ACK = 1 => "bare_ack",
        /// Belongs to a connection known not to be HTTP/1 (TLS, HTTP/2, databases, tunnels).
        OPAQUE = 2 => "opaque",
        /// Not TCP, or a fragment after the first.
        NOT_TCP = 3 => "not_tcp",
        /// No socket, or one that is not a full socket (handshake, `TIME_WAIT`).
        NO_SOCKET = 4 => "no_socket",
        /// A socket that carries no connection (listening, connecting, closed).
        NO_CONNECTION = 5 => "no_connection",
        /// The headers could not be read: cut short, or an IPv6 extension chain beyond the budget.
        UNREADABLE = 6 => "unreadable",
        /// The kernel had no memory for the socket's state.
        NO_STORAGE = 7 => "no_storage",
    }
}

#[cfg(test)]
mod tests {
    use super::{CodeClass, LostSync, Packet, Phase, Role};

    #[test]
    fn code_class_covers_every_status_a_parser_accepts() {
        let cases = [(100, "1xx"), (199, "1xx"), (200, "2xx"), (399, "3xx"), (499, "4xx"), (500, "5xx"), (599, "5xx")];
        for (status, label) in cases {
            assert_eq!(CodeClass::of(status).label(), label, "{status}");
        }
        assert_eq!(CodeClass::of(600), CodeClass::OTHER);
        assert_eq!(CodeClass::of(999), CodeClass::OTHER);
    }

    #[test]
    fn values_are_numbered_from_zero_without_a_hole() {
        for (at, value) in Packet::ALL.iter().enumerate() {
            assert_eq!(value.index(), at);
        }
        for (at, value) in LostSync::ALL.iter().enumerate() {
            assert_eq!(value.index(), at);
        }
        assert_eq!(Phase::COUNT, 3);
    }

    #[test]
    fn unknown_number_is_labelled_and_not_undefined() {
        assert_eq!(Role(77).label(), "unknown");
    }
}
