//! Pure: everything that is known of this node, behind one lock. Edges write it, the scrape reads it.

use crate::{health::Health, index::Index, ledger::Ledger};

/// One node.
#[derive(Debug, Default)]
pub struct Node {
    /// Its name, as Kubernetes has it; empty when it was not given.
    pub name: String,
    /// Its pods.
    pub index: Index,
    /// Its counters.
    pub ledger: Ledger,
    /// The daemon's own state.
    pub health: Health,
}
