//! What came out of the stages, and how it is told: a table, the skips, the sums.

use std::fmt;
use std::time::Duration;

use super::Stage;
use super::counts::Counts;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    #[default]
    Passed,
    Failed(String),
    Skipped(String),
}

#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) counts: Counts,
    /// `name: reason` of each skipped test.
    pub(super) skips: Vec<String>,
}

impl Outcome {
    /// A stage that cannot run here. It counts as one skip, so that the sums cannot look complete.
    pub(super) fn skipped(reason: &str) -> Self {
        println!("SKIPPED: {reason}");
        let counts = Counts { skipped: 1, ..Counts::default() };
        Self { verdict: Verdict::Skipped(reason.to_owned()), counts, skips: Vec::new() }
    }

    /// The first reason stays: what fails after it may well be its consequence.
    pub(super) fn fail(&mut self, reason: String) {
        if self.verdict == Verdict::Passed {
            self.verdict = Verdict::Failed(reason);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<(Stage, Duration, Outcome)>,
}

impl Report {
    /// A stage that failed although no test of it did (it does not compile, it crashed) counts as one failure.
    pub(super) fn add(&mut self, stage: Stage, took: Duration, mut outcome: Outcome) {
        if outcome.counts.failed > 0 {
            outcome.fail("tests failed".to_owned());
        }
        if matches!(outcome.verdict, Verdict::Failed(_)) {
            outcome.counts.failed = outcome.counts.failed.max(1);
        }
        self.rows.push((stage, took, outcome));
    }

    pub(super) fn is_good(&self) -> bool {
        self.sums().failed == 0
    }

    fn sums(&self) -> Counts {
        let mut sums = Counts::default();
        for (_, _, outcome) in &self.rows {
            sums += outcome.counts;
        }
        sums
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<8}{:>8}  {:<8}{:>7}{:>7}{:>8}", "stage", "seconds", "result", "passed", "failed", "skipped")?;
        for (stage, took, Outcome { verdict, counts, .. }) in &self.rows {
            let (result, reason) = match verdict {
                Verdict::Passed => ("ok", ""),
                Verdict::Failed(reason) => ("FAILED", reason.as_str()),
                Verdict::Skipped(_) => ("SKIPPED", ""), // listed below
            };
            let row = format!("{:<8}{:>8.1}  {result:<8}", stage.name(), took.as_secs_f64());
            let numbers = format!("{:>7}{:>7}{:>8}", counts.passed, counts.failed, counts.skipped);
            writeln!(f, "{}", format!("{row}{numbers}  {reason}").trim_end())?;
        }
        let seconds: f64 = self.rows.iter().map(|(_, took, _)| took.as_secs_f64()).sum();
        writeln!(f, "{:<8}{seconds:>8.1}\n", "total")?;
        for (stage, _, outcome) in &self.rows {
            if let Verdict::Skipped(reason) = &outcome.verdict {
                writeln!(f, "SKIPPED {}: {reason}", stage.name())?;
            }
            for skip in &outcome.skips {
                writeln!(f, "SKIPPED {}::{skip}", stage.name())?;
            }
        }
        let Counts { passed, failed, skipped } = self.sums();
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::super::counts::Counts;
    use super::{Outcome, Report, Stage};
    use std::time::Duration;

    fn outcome(passed: u64, failed: u64, skipped: u64) -> Outcome {
        Outcome { counts: Counts { passed, failed, skipped }, ..Outcome::default() }
    }

    #[test]
    fn report_tells_stages_skips_and_sums() {
        let mut report = Report::default();
        report.add(Stage::Setup, Duration::from_millis(40), Outcome::default());
        let mut unit = outcome(40, 0, 1);
        unit.skips.push("x::y: no node".to_owned());
        report.add(Stage::Unit, Duration::from_millis(2_340), unit);
        report.add(Stage::Kernel, Duration::from_mins(2), outcome(5, 2, 0));
        report.add(Stage::E2e, Duration::ZERO, Outcome::skipped("it needs root"));
        let expected = "\
stage    seconds  result   passed failed skipped
setup        0.0  ok            0      0       0
unit         2.3  ok           40      0       1
kernel     120.0  FAILED        5      2       0  tests failed
e2e          0.0  SKIPPED       0      0       1
total      122.4

SKIPPED unit::x::y: no node
SKIPPED e2e: it needs root
45 passed, 2 failed, 2 skipped";
        assert_eq!(report.to_string(), expected);
        assert!(!report.is_good(), "two tests failed");
    }

    #[test]
    fn stage_that_fails_without_counts_is_one_failure() {
        let mut report = Report::default();
        let mut lint = Outcome::default();
        lint.fail("`cargo fmt` failed".to_owned());
        lint.fail("a consequence".to_owned());
        report.add(Stage::Lint, Duration::ZERO, lint);
        let text = report.to_string();
        assert!(
            text.contains("`cargo fmt` failed") && !text.contains("consequence"),
            "the first reason is told: {text}"
        );
        assert!(text.ends_with("0 passed, 1 failed, 0 skipped"), "{text}");
        assert!(!report.is_good(), "the sums must not hide it");
    }

    #[test]
    fn skipped_stage_alone_is_no_failure() {
        let mut report = Report::default();
        report.add(Stage::E2e, Duration::ZERO, Outcome::skipped("it needs root"));
        assert!(report.is_good(), "a skip is told, not failed");
    }
}
