//! What the tests find out about a kernel: what each program costs there, and which hooks are active.
//!
//! The tests print it as `PROGRAM ingress verified=202000 machine_code=9000` and `HOOK sock_ops active`, which is read here.

use std::fmt;

use anyhow::{Context as _, Result};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// `uname -r`; empty until it is known.
    pub(super) release: String,
    programs: Vec<Program>,
    hooks: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    name: String,
    /// Instructions that the verifier went through; unknown before Linux 5.16.
    verified: Option<u64>,
    /// Bytes.
    machine_code: u64,
}

impl Findings {
    /// Takes a line of the tests' output; one that reports nothing is nothing.
    pub(super) fn take(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        // A progress line without an end may stand before it.
        let Some(start) = words.iter().position(|word| ["PROGRAM", "HOOK"].contains(word)) else { return Ok(()) };
        match words[start..] {
            ["PROGRAM", name, verified, machine_code] => {
                let program = program(name, verified, machine_code);
                self.programs.push(program.with_context(|| format!("half a report: `{line}`"))?);
            }
            ["HOOK", name, state] => self.hooks.push((name.to_owned(), state.to_owned())),
            _ => {}
        }
        Ok(())
    }
}

fn program(name: &str, verified: &str, machine_code: &str) -> Option<Program> {
    let verified = verified.strip_prefix("verified=")?;
    let verified = if verified == "unknown" { None } else { Some(verified.parse().ok()?) };
    let machine_code = machine_code.strip_prefix("machine_code=")?.parse().ok()?;
    Some(Program { name: name.to_owned(), verified, machine_code })
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<32}{:<16}{:>14}{:>16}", self.release, "program", "verified insns", "machine code, B")?;
        for Program { name, verified, machine_code } in &self.programs {
            let verified = verified.map_or_else(|| "not told".to_owned(), |n| n.to_string());
            writeln!(f, "{:<32}{name:<16}{verified:>14}{machine_code:>16}", "")?;
        }
        let hooks: Vec<String> = self.hooks.iter().map(|(name, state)| format!("{name} {state}")).collect();
        writeln!(f, "{:<32}hooks: {}", "", hooks.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::Findings;

    #[test]
    fn report_is_read_behind_an_unfinished_line() {
        let mut findings = Findings { release: "6.1.0".to_owned(), ..Findings::default() };
        for line in [
            "test programs_verifier_budget ... PROGRAM ingress verified=202000 machine_code=9000",
            "PROGRAM egress verified=unknown machine_code=8000",
            "HOOK sock_ops active",
            "test x ... ok",
        ] {
            findings.take(line).expect("whole lines");
        }
        let text = findings.to_string();
        for part in ["6.1.0", "202000", "not told", "sock_ops active"] {
            assert!(text.contains(part), "{part} in:\n{text}");
        }
    }

    #[test]
    fn half_a_report_is_an_error() {
        let error = Findings::default().take("PROGRAM ingress verified=20 machine_code=").expect_err("cut short");
        assert!(error.to_string().contains("ingress"), "{error}");
    }
}
