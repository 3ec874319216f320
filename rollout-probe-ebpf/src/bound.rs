//! Bounds that hold anyway, in a form that every verifier sees.
//!
//! LLVM proves them from the code around and drops a plain mask; kernels before 6.8 then learn nothing from the comparison of
//! two registers ("R1 unbounded memory access", "R4 invalid zero-sized read"). So the value takes a way through memory
//! that the compiler must not look through.

use rollout_probe_common::abi::TALLY_SLOTS;

/// `n`, which is 1 to `LIMIT`, a power of two.
#[inline(always)]
pub(crate) fn length<const LIMIT: u32>(n: u32) -> u32 {
    const { assert!(LIMIT.is_power_of_two()) };
    (opaque(n).wrapping_sub(1) & (LIMIT - 1)) + 1
}

/// `slot`, which is below `TALLY_SLOTS`.
#[inline(always)]
pub(crate) fn tally_slot(slot: usize) -> usize {
    opaque(slot) & (TALLY_SLOTS - 1)
}

#[inline(always)]
fn opaque<T: Copy>(value: T) -> T {
    // SAFETY: a live local.
    unsafe { (&raw const value).read_volatile() }
}
