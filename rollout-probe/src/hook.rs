//! What became of each place where the programs are attached: data for one start-up line and one metric.

/// A hook and its state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hook {
    /// Stable name, a metric label.
    pub name: &'static str,
    /// Why it is not active; nothing when it is.
    pub unavailable: Option<String>,
}

/// All hooks, in the order of their attachment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hooks(Vec<Hook>);

impl Hooks {
    /// Hooks without which the daemon does not start, so they are active.
    pub fn required<const N: usize>(names: [&'static str; N]) -> Self {
        Self(names.map(|name| Hook { name, unavailable: None }).into())
    }

    /// A hook that may be missing.
    pub fn optional(&mut self, name: &'static str, result: Result<(), String>) {
        self.0.push(Hook { name, unavailable: result.err() });
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Hook> {
        self.0.iter()
    }
}
