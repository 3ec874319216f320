#![no_std]

// Empty on purpose: the daemon's build script builds the binary of this crate for the BPF target, and a library target lets
// cargo track it as a build dependency.
