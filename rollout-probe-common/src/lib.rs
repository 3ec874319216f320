//! What the kernel side and the daemon share.
//!
//! - [`abi`]: keys and values of the maps, byte for byte. Programs write them, the daemon reads them; both are built from
//!   this file, so a change here is a change of both.
//! - [`outcome`]: the small numbers inside those keys and their label values.
//! - [`wire`]: pure parsers of IP, TCP and HTTP/1 heads over a fixed window of bytes.
//! - [`flow`]: one connection's state and the rules that move it from segment to segment.
//!
//! Nothing here does IO, allocates or panics: the very same code is compiled into the BPF object and tested on the host.

#![no_std]
#![expect(
    clippy::inline_always,
    clippy::cast_possible_truncation,
    clippy::cast_lossless,
    reason = "BPF: everything is inlined, registers are 64 bits wide, and an index that is a constant needs no check"
)]

pub mod abi;
pub mod flow;
pub mod outcome;
pub mod wire;
