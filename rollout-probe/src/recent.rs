//! Pure: who served errors to users lately. A counter says how many ever; this says whether it still goes on.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use rollout_probe_common::outcome::{CodeClass, Origin, Role};

use crate::{identity::Identity, ledger::Totals};

/// How long an error makes its pod one that serves errors.
pub const WINDOW: Duration = Duration::from_mins(5);

#[derive(Debug)]
struct Seen {
    errors: u64,
    last: Option<Instant>,
}

/// When each pod last served an error: a 5xx, or no response at all.
#[derive(Debug, Default)]
pub struct RecentErrors(HashMap<Identity, Seen>);

impl RecentErrors {
    /// Compares with the totals of before.
    pub fn update(&mut self, totals: &Totals, now: Instant) {
        let mut errors: HashMap<&Identity, u64> = HashMap::new();
        let to_users = |role, origin| role == Role::SERVER && origin == Origin::TRAFFIC;
        for (key, tally) in totals.series.iter().filter(|(key, _)| to_users(key.role, key.origin)) {
            let failed = tally.responses[CodeClass::SERVER_ERROR.index()] + tally.no_response.iter().sum::<u64>();
            *errors.entry(&key.identity).or_default() += failed;
        }
        let known: HashSet<&Identity> = errors.keys().copied().collect();
        self.0.retain(|identity, _| known.contains(identity));
        for (identity, errors) in errors {
            let seen = self.0.entry(identity.clone()).or_insert(Seen { errors: 0, last: None });
            if errors > seen.errors {
                seen.last = Some(now);
            }
            seen.errors = errors;
        }
    }

    /// Whether it has served an error within [`WINDOW`].
    pub fn serves_errors(&self, identity: &Identity, now: Instant) -> bool {
        let last = self.0.get(identity).and_then(|seen| seen.last);
        last.is_some_and(|last| now.duration_since(last) < WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rollout_probe_common::{
        abi::Tally,
        outcome::{CodeClass, NoResponse, Origin, Protocol, Role},
    };

    use super::{RecentErrors, WINDOW};
    use crate::{
        identity::{Identity, Labels},
        ledger::{SeriesKey, Totals},
    };

    fn totals(role: Role, origin: Origin, tally: Tally) -> (Identity, Totals) {
        let identity = Identity::new(Labels::default());
        let key =
            SeriesKey { identity: identity.clone(), container: String::new(), role, origin, protocol: Protocol::HTTP1 };
        (identity, Totals { series: [(key, tally)].into(), ..Totals::default() })
    }

    #[test]
    fn an_error_counts_for_the_window() {
        let (mut recent, start) = (RecentErrors::default(), Instant::now());
        let mut tally = Tally::ZERO;
        tally.no_response[NoResponse::RESET.index()] = 1;
        let (identity, totals) = totals(Role::SERVER, Origin::TRAFFIC, tally);
        recent.update(&totals, start);
        recent.update(&totals, start + WINDOW / 2);
        assert!(recent.serves_errors(&identity, start + WINDOW / 2));
        assert!(!recent.serves_errors(&identity, start + WINDOW), "it is over");
    }

    #[test]
    fn what_users_do_not_see_is_no_error() {
        let mut tally = Tally::ZERO;
        tally.responses[CodeClass::SERVER_ERROR.index()] = 1;
        for (role, origin) in [(Role::CLIENT, Origin::TRAFFIC), (Role::SERVER, Origin::PROBE)] {
            let (mut recent, now) = (RecentErrors::default(), Instant::now());
            let (identity, totals) = totals(role, origin, tally);
            recent.update(&totals, now);
            assert!(!recent.serves_errors(&identity, now));
        }
    }
}
