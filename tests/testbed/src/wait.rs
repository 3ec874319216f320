//! Waiting for something to become true, with a limit.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

const POLL: Duration = Duration::from_millis(20);

/// Returns when `holds` does; after `timeout` an error that says `what` was waited for.
pub fn until(what: &str, timeout: Duration, mut holds: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + timeout;
    while !holds() {
        ensure!(Instant::now() < deadline, "waited {timeout:?} in vain for {what}");
        thread::sleep(POLL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::until;

    #[test]
    fn waits_until_it_holds_or_says_what_did_not() {
        let mut calls = 0;
        let third = || {
            calls += 1;
            calls == 3
        };
        assert!(until("the third call", Duration::from_mins(1), third).is_ok());
        let error = until("what never comes", Duration::ZERO, || false).expect_err("it never holds");
        assert!(error.to_string().contains("what never comes"), "{error}");
    }
}
