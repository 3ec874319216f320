//! Pure: how the daemon itself is doing, for `/readyz` and its own metrics.

use std::{collections::BTreeMap, time::Instant};

use crate::hook::Hooks;

/// What could fail in reading the pods, by the stage that failed: a bounded set of label values.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum WatchError {
    /// The first list.
    List,
    /// The start of a watch.
    Start,
    /// A watch that was running.
    Watch,
    /// The pods file.
    File,
}

impl WatchError {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::List, Self::Start, Self::Watch, Self::File];

    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Start => "start",
            Self::Watch => "watch",
            Self::File => "file",
        }
    }
}

/// The daemon's own state.
#[derive(Debug, Default)]
pub struct Health {
    /// Where the programs are attached.
    pub hooks: Hooks,
    /// Faults in reading the pods.
    pub watch_errors: BTreeMap<WatchError, u64>,
    /// When something was last heard from where the pods come from.
    pub pods_heard: Option<Instant>,
    /// The pods were listed once in full.
    pub pods_listed: bool,
    /// The cgroup tree was walked once.
    pub cgroups_walked: bool,
    /// Snapshots of the kernel's maps that failed.
    pub snapshot_errors: u64,
}

impl Health {
    /// Programs attached, cgroups walked, pods listed.
    pub fn is_ready(&self) -> bool {
        self.pods_listed && self.cgroups_walked
    }
}
