//! Pure: the upper bounds of the duration histogram's buckets.

use rollout_probe_common::abi::{DEFAULT_DURATION_BOUNDS_NS, DURATION_BOUNDS, NO_BOUND_NS};

/// Longest bound: a day. What takes longer is no request.
const LONGEST: f64 = 86_400.0;

/// Ascending upper bounds, at least one and at most [`DURATION_BOUNDS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Durations {
    seconds: Vec<f64>,
}

impl Default for Durations {
    fn default() -> Self {
        Self { seconds: DEFAULT_DURATION_BOUNDS_NS.iter().map(|ns| seconds(*ns)).collect() }
    }
}

impl Durations {
    /// From bounds in seconds, each as it was given. The error says what is wrong with them, in a few words.
    pub fn parse(given: &[String]) -> Result<Self, String> {
        if given.is_empty() || given.len() > DURATION_BOUNDS {
            return Err(format!("has {} bounds, not 1 to {DURATION_BOUNDS}", given.len()));
        }
        let mut bounds = Vec::with_capacity(given.len());
        for text in given {
            let bound: f64 = text.trim().parse().map_err(|_no_number| format!("has `{text}`, which is no number"))?;
            if nanoseconds(bound) == 0 || bound > LONGEST {
                return Err(format!("has `{text}`, which is not between a nanosecond and a day"));
            }
            if bounds.last().is_some_and(|last| nanoseconds(*last) >= nanoseconds(bound)) {
                return Err(format!("has `{text}` behind one that is not smaller"));
            }
            bounds.push(bound);
        }
        Ok(Self { seconds: bounds })
    }

    /// In seconds, the last one infinite: one for each bucket that may count.
    pub fn upper_bounds(&self) -> impl Iterator<Item = f64> {
        self.seconds.iter().copied().chain([f64::INFINITY])
    }

    /// In nanoseconds, as the programs want them: those that are not there are never reached.
    pub fn for_the_programs(&self) -> [u64; DURATION_BOUNDS] {
        let mut bounds = [NO_BOUND_NS; DURATION_BOUNDS];
        for (bound, seconds) in bounds.iter_mut().zip(&self.seconds) {
            *bound = nanoseconds(*seconds);
        }
        bounds
    }
}

/// Zero for what is no time at all, NaN too.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "out of range saturates, and is refused")]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// `ns` in seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 nanoseconds of sum are exact for 104 days, and then to a microsecond"
)]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use rollout_probe_common::abi::{DEFAULT_DURATION_BOUNDS_NS, NO_BOUND_NS};

    use super::Durations;

    fn parse(bounds: &str) -> Result<Durations, String> {
        Durations::parse(&bounds.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn default_is_from_a_millisecond_to_a_minute() {
        let bounds = Durations::default();
        assert_eq!(bounds.for_the_programs(), DEFAULT_DURATION_BOUNDS_NS);
        let seconds: Vec<_> = bounds.upper_bounds().collect();
        assert_eq!((seconds.len(), seconds[0], seconds[14], seconds[15]), (16, 0.001, 60.0, f64::INFINITY));
    }

    #[test]
    fn given_bounds_are_exact_to_the_nanosecond() {
        let bounds = parse("0.005, 0.3,1").expect("valid");
        assert_eq!(bounds.upper_bounds().collect::<Vec<_>>(), [0.005, 0.3, 1.0, f64::INFINITY]);
        let ns = bounds.for_the_programs();
        assert_eq!(ns[..4], [5_000_000, 300_000_000, 1_000_000_000, NO_BOUND_NS]);
    }

    #[test]
    fn wrong_bounds_are_refused_with_their_value() {
        let sixteen = (1..=16).map(|bound| bound.to_string()).collect::<Vec<_>>().join(",");
        let cases = [
            ("", "``, which is no number"),
            ("fast", "`fast`"),
            ("0", "`0`"),
            ("-1", "`-1`"),
            ("1e-10", "`1e-10`"),
            ("NaN", "`NaN`"),
            ("inf", "`inf`"),
            ("86401", "`86401`"),
            ("0.5,0.1", "`0.1` behind"),
            ("1,1", "`1` behind"),
            (&sixteen, "16 bounds"),
        ];
        for (bounds, wanted) in cases {
            let fault = parse(bounds).expect_err(bounds);
            assert!(fault.contains(wanted), "{bounds}: {fault}");
        }
    }
}
