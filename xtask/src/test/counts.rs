//! What a test binary says at its end: the `test result:` line of libtest, which libtest-mimic prints too, and our own
//! `SKIPPED name: reason` lines.

use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
}

impl Counts {
    /// From `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
    /// `None` for any other line, and for one that lacks a number: a half-read line must not pass for a result.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (_, numbers) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
        let number = |word: &str| {
            let mut parts = numbers.split(';').filter_map(|part| part.trim().split_once(' '));
            parts.find(|(_, name)| *name == word)?.0.parse::<u64>().ok()
        };
        Some(Self { passed: number("passed")?, failed: number("failed")?, skipped: number("ignored")? })
    }

    pub(super) fn total(self) -> u64 {
        self.passed + self.failed + self.skipped
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// From `SKIPPED name: reason`, whatever stands before it on the line (a progress line without an end, say).
pub(super) fn parse_skip(line: &str) -> Option<&str> {
    let (before, skip) = line.split_once("SKIPPED ")?;
    let (name, reason) = skip.split_once(": ")?;
    let starts_a_word = before.chars().last().is_none_or(char::is_whitespace);
    (starts_a_word && !name.is_empty() && !name.contains(' ') && !reason.trim().is_empty()).then(|| skip.trim())
}

#[cfg(test)]
mod tests {
    use super::{Counts, parse_skip};

    #[test]
    fn result_of_libtest_is_read() {
        let line = "test result: FAILED. 12 passed; 1 failed; 2 ignored; 0 measured; 4 filtered out; finished in 0.31s";
        assert_eq!(
            Counts::parse(line),
            Some(Counts { passed: 12, failed: 1, skipped: 2 }),
            "filtered out is not skipped"
        );
    }

    #[test]
    fn result_of_libtest_mimic_is_read() {
        let line = "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2.00s\n";
        assert_eq!(Counts::parse(line), Some(Counts { passed: 7, failed: 0, skipped: 1 }));
    }

    #[test]
    fn half_a_result_is_none() {
        for line in [
            "test result: ok. 7 passed; 0 failed",
            "test result: ok. x passed; 0 failed; 1 ignored",
            "test result: ok.",
            "test result",
            "test a::b ... ok",
            "the line `test result: ok. 1 passed; 0 failed; 0 ignored` in a text",
        ] {
            assert_eq!(Counts::parse(line), None, "{line}");
        }
    }

    #[test]
    fn skip_is_read_with_its_reason() {
        assert_eq!(parse_skip("SKIPPED ipv6::pods: no IPv6 here"), Some("ipv6::pods: no IPv6 here"));
        assert_eq!(parse_skip("test x ... SKIPPED x: no node\n"), Some("x: no node"), "behind an unfinished line");
    }

    #[test]
    fn skip_without_name_or_reason_is_none() {
        for line in
            ["SKIPPED x", "SKIPPED : y", "SKIPPED x: ", "NOT_SKIPPED x: y", "SKIPPED two words: y", "skipped x: y"]
        {
            assert_eq!(parse_skip(line), None, "{line}");
        }
    }
}
