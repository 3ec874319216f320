//! Pure parsers: no slices, no allocation, constant bounds, so that the verifier takes them.

pub mod framing;
pub mod net;
pub mod plain;
pub mod start;
pub mod word;
