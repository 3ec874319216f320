//! Medians and how far apart the values are: what is left of numbers that were taken on a busy machine.

use serde::Serialize;

/// The middle of some values, and the quarter marks below and above it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) lower_quartile: f64,
    pub(crate) upper_quartile: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let [lower_quartile, median, upper_quartile] = [1, 2, 3].map(|quarter| at(&values, quarter));
        Self { median, lower_quartile, upper_quartile }
    }
}

/// The value with this many quarters of all below it, between two neighbours where it falls between them.
fn at(sorted: &[f64], quarters: usize) -> f64 {
    let place = (sorted.len() - 1) * quarters;
    let (index, rest) = (place / 4, place % 4);
    let below = sorted[index];
    let above = sorted[(index + 1).min(sorted.len() - 1)];
    below + (above - below) * [0.0, 0.25, 0.5, 0.75][rest]
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn quartiles_of_odd_even_and_single_counts_of_values() {
        let spread = |lower_quartile, median, upper_quartile| Spread { median, lower_quartile, upper_quartile };
        assert_eq!(Spread::of([5.0, 1.0, 4.0, 2.0, 3.0]), spread(2.0, 3.0, 4.0));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), spread(1.75, 2.5, 3.25));
        assert_eq!(Spread::of([7.0]), spread(7.0, 7.0, 7.0));
    }
}
