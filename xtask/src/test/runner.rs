//! Runs one command of a stage: shows its output as it comes, reads the counts and skips out of it, and ends it when it
//! hangs.

use std::io::{self, BufRead as _, BufReader, PipeReader, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use signal_hook::consts::{SIGKILL, SIGTERM};

use super::counts::{Counts, parse_skip};
use super::report::Outcome;
use crate::host::{Root, shown};
use crate::interrupt::Interrupt;

/// How long one command may take, the longest being a build from nothing and all tests of a tier. A hung test then costs
/// its own stage, and the report is still written.
const LIMIT: Duration = Duration::from_mins(15);

/// What a command that is told to end may take to clean up.
const GRACE: Duration = Duration::from_secs(20);

pub(super) struct Runner<'a, W> {
    limit: Duration,
    root: Root,
    interrupt: &'a Interrupt,
    /// Where the commands' output is shown.
    out: W,
}

impl<'a, W: Write> Runner<'a, W> {
    pub(super) fn new(root: Root, interrupt: &'a Interrupt, out: W) -> Self {
        Self { limit: LIMIT, root, interrupt, out }
    }

    pub(super) fn run(&mut self, command: &mut Command, outcome: &mut Outcome) -> Result<()> {
        writeln!(self.out, "$ {}", shown(command)).context("cannot write")?;
        let (mut child, output) = self.spawn(command).with_context(|| format!("cannot start `{}`", shown(command)))?;
        let (ended, end) = mpsc::channel();
        let (limit, interrupt) = (self.limit, self.interrupt.clone());
        let watchdog = thread::spawn(move || end_after(limit, &end, &interrupt));

        let read = self.read(output, outcome);
        let status = child.wait();
        self.interrupt.pass_to_nobody();
        drop(ended);
        let hung = watchdog.join().unwrap_or_default();

        read.context("cannot pass the output on")?;
        let status = status.with_context(|| format!("cannot wait for `{}`", shown(command)))?;
        if hung {
            bail!("`{}` was ended after {} s", shown(command), self.limit.as_secs());
        }
        if !status.success() {
            bail!("`{}` failed: {status}", shown(command));
        }
        Ok(())
    }

    /// Both streams come through one pipe, so that the lines keep their order.
    fn spawn(&self, command: &mut Command) -> io::Result<(Child, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        command.stdin(Stdio::null()).stderr(writer.try_clone()?).stdout(writer);
        // A process of root's cannot be signalled by us: behind sudo it stays in our group and hears the terminal itself.
        let own_group = self.root != Root::Sudo;
        if own_group {
            command.process_group(0);
        }
        let child = command.spawn()?;
        if own_group {
            self.interrupt.pass_to(&child);
        }
        // `command` holds the writing ends, and the pipe ends only when the last one is closed.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok((child, reader))
    }

    /// Until the last process that holds the pipe is gone. Bytes that are no UTF-8 are shown as they are.
    fn read(&mut self, output: PipeReader, outcome: &mut Outcome) -> io::Result<()> {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line)? > 0 {
            self.out.write_all(&line)?;
            self.out.flush()?;
            let text = String::from_utf8_lossy(&line);
            if let Some(counts) = Counts::parse(&text) {
                outcome.counts += counts;
            } else if let Some(skip) = parse_skip(&text) {
                outcome.skips.push(skip.to_owned());
            }
            line.clear();
        }
        Ok(())
    }
}

/// Ends the group that gets our signals unless the other side of the channel is dropped in time; says whether it had to.
fn end_after(limit: Duration, end: &Receiver<()>, interrupt: &Interrupt) -> bool {
    if end.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
        return false;
    }
    interrupt.pass_on(SIGTERM);
    if end.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
        interrupt.pass_on(SIGKILL);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::counts::Counts;
    use super::super::report::Outcome;
    use super::Runner;
    use crate::host::Root;
    use crate::interrupt::Interrupt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn counts_and_skips_are_read_from_both_streams() {
        let (interrupt, mut shown, mut outcome) = (Interrupt::default(), Vec::new(), Outcome::default());
        let script = "echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured'; echo 'SKIPPED a: no b' >&2;
            printf '\\377\\n'; printf 'test result: FAILED. 1 passed; 3 failed; 0 ignored'; exit 1";
        let result = Runner::new(Root::Already, &interrupt, &mut shown).run(&mut shell(script), &mut outcome);
        assert!(result.is_err(), "the exit code decides, whatever was printed");
        assert_eq!(outcome.counts, Counts { passed: 3, failed: 3, skipped: 1 }, "a last line needs no end");
        assert_eq!(outcome.skips, ["a: no b"]);
        assert!(shown.windows(3).any(|bytes| bytes == b"\n\xff\n"), "what is no UTF-8 is shown as it is");
    }

    #[test]
    fn hung_command_is_ended_with_what_it_started() {
        let (interrupt, begun) = (Interrupt::default(), Instant::now());
        let mut runner = Runner::new(Root::Already, &interrupt, Vec::new());
        runner.limit = Duration::from_millis(100);
        let hung = runner.run(&mut shell("sleep 60 & sleep 60"), &mut Outcome::default());
        let error = hung.expect_err("a command that hangs has failed").to_string();
        assert!(error.contains("was ended"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "the child in the background held the pipe");
    }
}
