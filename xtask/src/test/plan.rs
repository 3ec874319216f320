//! The stages in their order, and the commands each is made of.

use std::env;
use std::process::Command;

use clap::ValueEnum;

use crate::host::{self, Root};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// Install what this machine lacks
    Setup,
    /// Formatting, clippy, layers
    Lint,
    /// Tests that run anywhere
    Unit,
    /// The real programs and real traffic; needs root
    Kernel,
    /// The daemon beside a real control plane; needs root
    E2e,
}

impl Stage {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Lint => "lint",
            Self::Unit => "unit",
            Self::Kernel => "kernel",
            Self::E2e => "e2e",
        }
    }

    pub(super) fn has_tests(self) -> bool {
        matches!(self, Self::Unit | Self::Kernel | Self::E2e)
    }

    pub(super) fn needs_root(self) -> bool {
        matches!(self, Self::Kernel | Self::E2e)
    }

    pub(super) fn commands(self, root: Root) -> Vec<Command> {
        match self {
            // Our own verbs as processes of their own, so that they are streamed, timed and interrupted like the rest.
            Self::Setup | Self::Lint => vec![own_verb(self.name())],
            Self::Unit => vec![cargo_test(&[]), cargo_test(&["--package", "testbed", "--package", "demo"])],
            Self::Kernel => vec![build(&["rollout-probe"]), as_root(cargo_test(&["--package", "kernel-tests"]), root)],
            Self::E2e => {
                vec![build(&["rollout-probe", "demo"]), as_root(cargo_test(&["--package", "e2e-tests"]), root)]
            }
        }
    }
}

fn own_verb(verb: &str) -> Command {
    let program = env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut command = host::command(&program.to_string_lossy());
    command.arg(verb);
    command
}

/// The privileged tests start the daemon and the demo as people do, as programs.
fn build(packages: &[&str]) -> Command {
    let mut build = host::cargo();
    build.arg("build").args(packages.iter().flat_map(|package| ["--package", package]));
    build
}

fn cargo_test(packages: &[&str]) -> Command {
    let mut test = host::cargo();
    test.args(["test", "--no-fail-fast"]).args(packages);
    test
}

/// Cargo itself stays the user's, so that no file of root's is left in the target directory: only what it runs is root's.
fn as_root(mut test: Command, root: Root) -> Command {
    if root == Root::Sudo {
        test.args(["--config", r#"target."cfg(all())".runner = ["sudo", "-n", "-E"]"#]);
    }
    test
}

#[cfg(test)]
mod tests {
    use super::Stage;
    use crate::host::{Root, shown};
    use clap::ValueEnum as _;

    #[test]
    fn stages_are_named_on_the_command_line_as_in_the_table() {
        for stage in Stage::value_variants() {
            let value = stage.to_possible_value().expect("no stage is hidden");
            assert_eq!(value.get_name(), stage.name());
        }
    }

    #[test]
    fn only_privileged_tests_run_through_sudo() {
        for stage in Stage::value_variants() {
            let through_sudo = stage.commands(Root::Sudo).iter().any(|command| shown(command).contains("sudo"));
            assert_eq!(through_sudo, stage.needs_root(), "{}", stage.name());
            let anyway = stage.commands(Root::Already).iter().any(|command| shown(command).contains("sudo"));
            assert!(!anyway, "{} needs no sudo as root", stage.name());
        }
    }
}
