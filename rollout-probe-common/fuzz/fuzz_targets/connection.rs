//! Any segments in any order on one connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| conversation::any_connection(data));
