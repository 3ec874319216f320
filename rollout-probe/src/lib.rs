//! rollout-probe's daemon.
pub mod hook;
pub mod kernel;
pub mod cgroup { #[derive(Debug,Clone,Copy)] pub struct CgroupId(pub u64); }
