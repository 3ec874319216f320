//! Runs one command of a stage: shows its output as it comes, reads the counts and skips out of it, and ends it when it
//! hangs. A command that leaves processes behind has failed.

use std::io::{self, BufRead as _, BufReader, PipeReader, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use signal_hook::consts::{SIGKILL, SIGTERM};

use super::counts::{Counts, parse_skip};
use super::report::Outcome;
use crate::host::{Root, shown};
use crate::interrupt::Interrupt;

/// How long one command may take, the longest being a build from nothing and all tests of a tier. A hung test then costs
/// its own stage, and the report is still written.
const LIMIT: Duration = Duration::from_mins(15);

/// What a command that is told to end may take to clean up, and what it started may take to end after it.
const GRACE: Duration = Duration::from_secs(20);

/// How often it looks whether the command still runs while nothing is printed.
const TICK: Duration = Duration::from_millis(50);

pub(super) struct Runner<'a, W> {
    limit: Duration,
    grace: Duration,
    root: Root,
    interrupt: &'a Interrupt,
    /// Where the commands' output is shown.
    out: W,
}

impl<'a, W: Write> Runner<'a, W> {
    pub(super) fn new(root: Root, interrupt: &'a Interrupt, out: W) -> Self {
        Self { limit: LIMIT, grace: GRACE, root, interrupt, out }
    }

    pub(super) fn run(&mut self, command: &mut Command, outcome: &mut Outcome) -> Result<()> {
        writeln!(self.out, "$ {}", shown(command)).context("cannot write")?;
        let (mut child, output) = self.spawn(command).with_context(|| format!("cannot start `{}`", shown(command)))?;
        let (sender, lines) = mpsc::sync_channel(1024);
        thread::spawn(move || send_lines(output, &sender));
        let ended = self.follow(&mut child, &lines, outcome);
        self.interrupt.pass_to_nobody();
        let status = ended.with_context(|| format!("`{}`", shown(command)))?;
        ensure!(status.success(), "`{}` failed: {status}", shown(command));
        Ok(())
    }

    /// Until the command has ended and the last process that holds its output is gone.
    fn follow(
        &mut self,
        child: &mut Child,
        lines: &Receiver<io::Result<Vec<u8>>>,
        outcome: &mut Outcome,
    ) -> Result<ExitStatus> {
        let mut deadline = Instant::now() + self.limit;
        let mut measures = [SIGTERM, SIGKILL].into_iter();
        let mut status = None;
        loop {
            match lines.recv_timeout(TICK) {
                Ok(line) => self.take(&line.context("cannot read the output")?, outcome)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if status.is_none() {
                status = child.try_wait().context("cannot wait")?;
                deadline = if status.is_some() { Instant::now() + self.grace } else { deadline };
            }
            if Instant::now() < deadline {
                continue;
            }
            if status.is_some() {
                self.interrupt.pass_on(SIGKILL);
                bail!("left processes behind, which still held its output after {} s", self.grace.as_secs());
            }
            let Some(signal) = measures.next() else { bail!("still runs after SIGKILL") };
            self.interrupt.pass_on(signal);
            deadline = Instant::now() + self.grace;
        }
        let status = status.map_or_else(|| child.wait(), Ok).context("cannot wait")?;
        ensure!(measures.len() == 2, "was ended after {} s", self.limit.as_secs());
        Ok(status)
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

    /// Bytes that are no UTF-8 are shown as they are.
    fn take(&mut self, line: &[u8], outcome: &mut Outcome) -> Result<()> {
        self.out.write_all(line).and_then(|()| self.out.flush()).context("cannot show the output")?;
        let text = String::from_utf8_lossy(line);
        if let Some(counts) = Counts::parse(&text) {
            outcome.counts += counts;
        } else if let Some(skip) = parse_skip(&text) {
            outcome.skips.push(skip.to_owned());
        }
        Ok(())
    }
}

fn send_lines(output: PipeReader, sender: &SyncSender<io::Result<Vec<u8>>>) {
    // The other side is gone once it has given up on the command; nobody reads any more then.
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map(|line| [line, b"\n".to_vec()].concat());
        if sender.send(line).is_err() {
            return;
        }
    }
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
        let error = hung.expect_err("a command that hangs has failed");
        assert!(format!("{error:#}").contains("was ended"), "{error:#}");
        assert!(begun.elapsed() < Duration::from_secs(10), "the child in the background held the pipe");
    }

    #[test]
    fn command_that_leaves_a_process_behind_has_failed() {
        let (interrupt, mut outcome) = (Interrupt::default(), Outcome::default());
        let mut runner = Runner::new(Root::Already, &interrupt, Vec::new());
        runner.grace = Duration::from_millis(200);
        let mut leaking = shell("echo 'test result: ok. 1 passed; 0 failed; 0 ignored'; setsid sleep 3 & exit 0");
        let error = runner.run(&mut leaking, &mut outcome).expect_err("nobody is left to clean up");
        assert!(format!("{error:#}").contains("left processes behind"), "{error:#}");
        assert_eq!(outcome.counts.passed, 1, "what it said before still counts");
    }
}
