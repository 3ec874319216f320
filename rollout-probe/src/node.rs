//! Pure: everything that is known of this node, behind one lock. Edges write it, the scrape reads it.

use std::time::Instant;

use crate::{
    durations::Durations,
    health::Health,
    index::Index,
    ledger::{Ledger, Totals},
    recent::RecentErrors,
};

/// One node.
#[derive(Debug, Default)]
pub struct Node {
    /// Its name, as Kubernetes has it; empty when it was not given.
    pub name: String,
    /// Its pods.
    pub index: Index,
    /// Its counters.
    pub ledger: Ledger,
    /// Which pods served errors lately.
    pub recent: RecentErrors,
    /// Whether pods have series of their own, or only their revisions.
    pub aggregated: bool,
    /// Buckets of the duration histogram.
    pub durations: Durations,
    /// The daemon's own state.
    pub health: Health,
}

impl Node {
    /// Adds everything up under the names that are known now.
    pub fn totals(&mut self, now: Instant) -> Totals {
        let totals = self.ledger.totals(&self.index);
        self.recent.update(&totals, now);
        totals
    }
}
