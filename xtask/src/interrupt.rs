//! Keeps this process alive after Ctrl-C or SIGTERM for as long as what it started needs to clean up.
//!
//! A child that is given a process group of its own gets each signal exactly once, from here, whether it came from the
//! terminal or from `kill`: for many of our programs a second signal means "now, without cleaning up". A child in our own
//! group gets the terminal's signal from the kernel, and a signal to us alone is only noted.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    /// The last signal, 0 while there was none.
    seen: Arc<AtomicI32>,
    /// The process group to pass signals to, 0 while there is none.
    group: Arc<AtomicI32>,
}

impl Interrupt {
    /// From here on the signals no longer end this process.
    pub(crate) fn watch() -> Result<Self> {
        let interrupt = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot install the signal handlers")?;
        let watched = interrupt.clone();
        thread::spawn(move || {
            for signal in signals.forever() {
                watched.seen.store(signal, Ordering::SeqCst);
                watched.pass_on(signal);
            }
        });
        Ok(interrupt)
    }

    pub(crate) fn seen(&self) -> Option<i32> {
        Some(self.seen.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// Passes signals to the group that `child` leads.
    pub(crate) fn pass_to(&self, child: &Child) {
        self.group.store(i32::try_from(child.id()).unwrap_or_default(), Ordering::SeqCst);
        // One that came between the start of the child and the line above.
        if let Some(signal) = self.seen() {
            self.pass_on(signal);
        }
    }

    pub(crate) fn pass_to_nobody(&self) {
        self.group.store(0, Ordering::SeqCst);
    }

    /// Sends a signal to the group as if it had come from outside, without noting it.
    pub(crate) fn pass_on(&self, signal: i32) {
        let group = self.group.load(Ordering::SeqCst);
        if group == 0 {
            return;
        }
        let Ok(signal) = Signal::try_from(signal) else { return };
        match killpg(Pid::from_raw(group), signal) {
            // A group that ended a moment ago has done what the signal asks for.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => println!("could not pass {signal} on: {error}"),
        }
    }
}
