//! Pure parsers over a fixed window of bytes: no slices, no allocation, constant bounds, so that the verifier takes them.

pub mod http1;
pub mod net;
