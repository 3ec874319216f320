//! What should have been counted, in one flat form: from a readable key, such as `shop responses server traffic 5xx`, to a
//! count, without zeros. Whole maps are compared, so that a count which nobody expected is a difference too.

use std::collections::BTreeMap;

use rollout_probe_common::outcome::CodeClass;
use testbed::load::{ProbeTally, TargetTally};

/// Key to count, without zeros.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Adds to a count.
pub(crate) fn add(counts: &mut Counts, key: &[&str], n: u64) {
    if n > 0 {
        *counts.entry(key.join(" ").trim_end().to_owned()).or_default() += n;
    }
}

/// The two ends of some conversations, by the names of their hosts.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) server: &'a str,
    pub(crate) client: &'a str,
    pub(crate) origin: &'a str,
}

/// The hosts that most tests have.
pub(crate) const USER_TO_SHOP: Ends<'static> = Ends { server: "shop", client: "user", origin: "traffic" };

impl<'a> Ends<'a> {
    pub(crate) fn new(client: &'a str, server: &'a str) -> Self {
        Self { server, client, origin: "traffic" }
    }

    /// Counts that both ends have.
    fn both(self, counts: &mut Counts, kind: &str, label: &str, n: u64) {
        add(counts, &[self.server, kind, "server", self.origin, label], n);
        add(counts, &[self.client, kind, "client", self.origin, label], n);
    }

    /// Connections that the client opened.
    pub(crate) fn connections(self, counts: &mut Counts, n: u64) {
        self.both(counts, "connections", "", n);
    }

    /// Final responses, their requests seen.
    pub(crate) fn responses(self, counts: &mut Counts, code: u16, n: u64) {
        self.both(counts, "responses", CodeClass::of(code).label(), n);
        self.both(counts, "durations", "", n);
        if code >= 400 {
            self.both(counts, "codes", &code.to_string(), n);
        }
    }

    /// Requests that got none.
    pub(crate) fn no_response(self, counts: &mut Counts, how: &str, n: u64) {
        self.both(counts, "no_response", how, n);
    }

    /// Resets that the server sent.
    pub(crate) fn server_resets(self, counts: &mut Counts, phase: &str, n: u64) {
        add(counts, &[self.server, "resets_sent", "server", self.origin, phase], n);
        add(counts, &[self.client, "resets_received", "client", self.origin, phase], n);
    }

    /// Resets that the client sent.
    pub(crate) fn client_resets(self, counts: &mut Counts, phase: &str, n: u64) {
        add(counts, &[self.client, "resets_sent", "client", self.origin, phase], n);
        add(counts, &[self.server, "resets_received", "server", self.origin, phase], n);
    }

    /// What a load generator saw. A request that is reset is reset by these servers.
    pub(crate) fn load(self, counts: &mut Counts, tally: &TargetTally) {
        let failed = (tally.timed_out, tally.cut_short, tally.connect_errors);
        assert_eq!(failed, (0, 0, 0), "timed out, cut short, not connected: the traffic is not what the test wants");
        self.connections(counts, tally.connections);
        for (&code, &n) in &tally.responses {
            self.responses(counts, code, n);
        }
        self.no_response(counts, "closed", tally.no_response_closed);
        self.no_response(counts, "reset", tally.no_response_reset);
        self.server_resets(counts, "outstanding", tally.no_response_reset);
    }

    /// What a prober saw: each probe has a connection of its own.
    pub(crate) fn probes(self, counts: &mut Counts, tally: &ProbeTally) {
        assert_eq!(tally.failed, 0, "failed probes: the traffic is not what the test wants");
        self.connections(counts, tally.responses.values().sum());
        for (&code, &n) in &tally.responses {
            self.responses(counts, code, n);
        }
    }
}
