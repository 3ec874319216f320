//! Bounds that hold anyway, in a form that every verifier sees.
//!
//! LLVM proves them from the code around and drops a plain mask; kernels before 6.8 then learn nothing from the comparison of
//! two registers ("R1 unbounded memory access", "R4 invalid zero-sized read"). So the value takes a way through memory
//! that the compiler must not look through.

use rollout_probe_common::{abi::TALLY_SLOTS, wire::http1::WINDOW};

/// `n`, which is 1 to `WINDOW`.
#[inline(always)]
pub(crate) fn window_len(n: u32) -> u32 {
    (opaque(n).wrapping_sub(1) & (WINDOW as u32 - 1)) + 1
}

/// `index`, which is below `WINDOW`.
#[inline(always)]
pub(crate) fn window_index(index: u32) -> usize {
    opaque(index) as usize & (WINDOW - 1)
}

/// `slot`, which is below `TALLY_SLOTS`.
#[inline(always)]
pub(crate) fn tally_slot(slot: usize) -> usize {
    opaque(slot) & (TALLY_SLOTS - 1)
}

/// A loop's counter, for the comparison with the number of bytes that are there. Without this LLVM folds both bounds into one
/// unknown number and counts down to zero, and the verifier walks that loop up to its limit of 1,000,000 instructions.
#[inline(always)]
pub(crate) fn loop_index(i: u32) -> u32 {
    opaque(i)
}

#[inline(always)]
fn opaque<T: Copy>(value: T) -> T {
    // SAFETY: a live local.
    unsafe { (&raw const value).read_volatile() }
}
