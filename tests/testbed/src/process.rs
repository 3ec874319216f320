//! Child processes in their places: a network namespace and a cgroup, both entered before the program starts, so that every
//! socket it ever makes belongs there.
//!
//! No child outlives the thread that started it (the kernel kills it then) or its [`Process`]. What a child starts itself is
//! stopped with its cgroup: see `cgroup`.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use nix::{
    sched::{CloneFlags, setns},
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, kill},
    },
    unistd::{Pid, getpid, getppid},
};
use tempfile::TempDir;

const POLL: Duration = Duration::from_millis(10);
const TAIL_LINES: usize = 15;

/// Where a process runs; the default is where we are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Place {
    /// Name of a network namespace, as in `ip netns`.
    pub netns: Option<String>,
    /// Directory of a cgroup.
    pub cgroup: Option<PathBuf>,
}

/// A child whose output goes to a file. Killed on drop.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    dir: TempDir,
}

impl Process {
    /// Starts it where we are.
    pub fn spawn(command: Command) -> Result<Self> {
        Self::spawn_in(command, &Place::default())
    }

    pub fn spawn_in(mut command: Command, place: &Place) -> Result<Self> {
        let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let dir = tempfile::tempdir()?;
        let log = File::create(dir.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = spawn_placed(&mut command, place)?;
        Ok(Self { name, child, dir })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal such as `libc::SIGTERM`; to a process that has ended, nothing.
    pub fn signal(&mut self, signal: i32) {
        // Not yet waited for, so the id is still its own.
        if self.is_running()
            && let (Ok(id), Ok(signal)) = (i32::try_from(self.id()), Signal::try_from(signal))
        {
            // Fails only when it has ended since.
            let _sent = kill(Pid::from_raw(id), signal);
        }
    }

    /// Waits until it ends; an error with its log when it does not in time.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "{} did not end within {timeout:?}\n{}", self.name, self.log_tail());
            thread::sleep(POLL);
        }
    }

    /// All that it has printed.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last lines of that under its name, for error messages.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        format!("--- log of {}\n{}\n", self.name, tail.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a command in its place, with the standard streams that the command says.
pub fn spawn_placed(command: &mut Command, place: &Place) -> Result<Child> {
    enter(command, place)?;
    command.spawn().with_context(|| format!("cannot run {}", command.get_program().display()))
}

#[expect(unsafe_code, reason = "nothing safe runs code between fork and exec")]
fn enter(command: &mut Command, place: &Place) -> Result<()> {
    // Opened here: what follows a fork may only make system calls.
    let open_netns =
        |name| File::open(Path::new("/run/netns").join(name)).with_context(|| format!("network namespace {name}"));
    let open_cgroup = |path: &PathBuf| {
        let procs = OpenOptions::new().write(true).open(path.join("cgroup.procs"));
        procs.with_context(|| format!("cgroup {}", path.display()))
    };
    let netns = place.netns.as_ref().map(open_netns).transpose()?;
    let cgroup = place.cgroup.as_ref().map(open_cgroup).transpose()?;
    let parent = getpid();
    let enter = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != parent {
            return Err(io::ErrorKind::NotFound.into()); // it died before it could have been noticed
        }
        if let Some(mut procs) = cgroup.as_ref() {
            procs.write_all(b"0")?;
        }
        if let Some(netns) = &netns {
            setns(netns, CloneFlags::CLONE_NEWNET)?;
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only: it neither allocates nor takes locks.
    unsafe { command.pre_exec(enter) };
    Ok(())
}
