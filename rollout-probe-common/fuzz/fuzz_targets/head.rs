//! Any bytes as a request head.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| conversation::any_head(data));
