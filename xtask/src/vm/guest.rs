//! Boots a kernel in QEMU, emulated, and reads its console until it is off: shows every line, and takes from them what the
//! guest and the tests there report. A guest that hangs is ended.

use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::findings::Findings;
use super::kernel::{Kernel, Series};

pub(super) const QEMU: &str = "qemu-system-x86_64";

/// Until the guest's first process runs; 10 s where it was slow.
const BOOT_LIMIT: Duration = Duration::from_mins(2);

/// Until it is off.
const LIMIT: Duration = Duration::from_mins(12);

/// What a guest has reported.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) findings: Findings,
    /// The tests' exit code; nothing when they did not end.
    pub(super) code: Option<i32>,
}

pub(super) fn run(series: Series, kernel: &Kernel, archive: &Path) -> Result<Report> {
    let mut qemu = command(kernel, archive).spawn().with_context(|| format!("cannot start {QEMU}"))?;
    let console = qemu.stdout.take().context("the console is piped")?;
    let report = follow(series, console);
    // It has ended, unless the console could not be read to its end.
    let ended = end(&mut qemu);
    let report = report?;
    ended?;
    ensure!(report.code.is_some(), "the guest is off without having said how its tests ended");
    Ok(report)
}

fn command(kernel: &Kernel, archive: &Path) -> Command {
    let mut qemu = Command::new(QEMU);
    qemu.args(["-accel", "tcg,thread=multi,tb-size=512", "-smp", "2", "-m", "1536"])
        // la57: slower page walks for nothing. cx16: QEMU 7.2 runs cmpxchg16b wrong, on which Linux 6.12 panics at boot.
        .args(["-cpu", "max,la57=off,cx16=off"])
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"])
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(archive)
        .args(["-append", "console=ttyS0 quiet mitigations=off nokaslr panic=-1"]);
    qemu.stdin(Stdio::null()).stdout(Stdio::piped());
    qemu
}

fn follow(series: Series, console: impl Read + Send + 'static) -> Result<Report> {
    let (sender, lines) = mpsc::sync_channel(1024);
    thread::spawn(move || send_lines(console, &sender));
    let begun = Instant::now();
    let mut report = Report::default();
    loop {
        let limit = if report.findings.release.is_empty() { BOOT_LIMIT } else { LIMIT };
        match lines.recv_timeout((begun + limit).saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line.context("cannot read the console")?).trim_end().to_owned();
                report.take(&line)?;
                println!("{}", shown(series, &line));
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(report),
            Err(RecvTimeoutError::Timeout) if report.findings.release.is_empty() => {
                bail!("no sign of life within {} s", BOOT_LIMIT.as_secs())
            }
            Err(RecvTimeoutError::Timeout) => bail!("still not off after {} s", LIMIT.as_secs()),
        }
    }
}

fn send_lines(console: impl Read, sender: &SyncSender<io::Result<Vec<u8>>>) {
    for line in BufReader::new(console).split(b'\n') {
        // The other side is gone once it has given up.
        if sender.send(line).is_err() {
            return;
        }
    }
}

fn end(qemu: &mut Child) -> Result<()> {
    if qemu.try_wait()?.is_none() {
        // Its console is closed or it has hung. Fails only when it has ended since.
        drop(qemu.kill());
    }
    qemu.wait().map(drop).context("cannot wait for QEMU")
}

impl Report {
    /// From `GUEST booted 5.10.0 in 4.2 s`, `GUEST ended with 0 after 60.1 s`, and what the tests find.
    fn take(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["GUEST", "booted", release, ..] => release.clone_into(&mut self.findings.release),
            ["GUEST", "ended", "with", code, ..] => {
                self.code = Some(code.parse().with_context(|| format!("`{line}` has no exit code"))?);
            }
            _ => self.findings.take(line)?,
        }
        Ok(())
    }
}

/// A line of the console under its kernel's name. The result stays as it is, and a skip gets the kernel into its name, for
/// whoever counts them.
fn shown(series: Series, line: &str) -> String {
    let name = series.name();
    if line.starts_with("test result: ") {
        return line.to_owned();
    }
    match line.split_once("SKIPPED ") {
        Some((before, skip)) => format!("{before}SKIPPED linux-{name}/{skip}"),
        None => format!("{name} | {line}"),
    }
}
