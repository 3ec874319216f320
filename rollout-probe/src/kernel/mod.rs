//! Edge: the kernel. Loads and attaches the programs and reads their maps; the only place that speaks aya.
//!
//! Everything attached hangs on file descriptors of this process: when it ends, in whatever way, the kernel detaches all.

mod capability;
mod snapshot;
mod tracepoint;

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};

use aya::{
    Ebpf, EbpfError, EbpfLoader,
    maps::{HashMap, MapError},
    programs::{CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, ProgramError, SockOps, TracePoint},
};
use rollout_probe_common::abi::{CodeKey, DEFAULT_DURATION_BOUNDS_NS, DURATION_BOUNDS, TallyKey};

use crate::{cgroup::CgroupId, hook::Hooks, ledger::Counters};

/// The BPF object, built by the build script.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rollout-probe-ebpf"));

/// Where the kernel describes its tracepoints.
const TRACEFS: &str = "/sys/kernel/tracing";

/// Why the kernel side could not start, or a map could not be read. Every text is one line.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The process may not do what it must.
    #[error("missing {}: run as root, or add {} to the container's securityContext", .0.join(", "), .0.join(", "))]
    Capabilities(Vec<&'static str>),
    /// The cgroup directory cannot be opened.
    #[error("cannot open the cgroup root `{path}`")]
    CgroupRoot {
        /// As configured or found.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The object as a whole was refused: a map type or BTF that this kernel does not have.
    #[error("the kernel ({release}) refused the BPF object: {reason}; rollout-probe needs Linux 5.10 or later")]
    Load {
        /// `uname -r`.
        release: String,
        /// aya's own words, one line.
        reason: String,
    },
    /// A program was refused or could not be attached.
    #[error(
        "the kernel ({release}) refused to {step} the program `{program}`: {reason}; rollout-probe needs Linux 5.10 or later with cgroup v2"
    )]
    Program {
        /// `uname -r`.
        release: String,
        /// `load` or `attach`.
        step: &'static str,
        /// Its name.
        program: &'static str,
        /// The error and the verifier's last words, one line.
        reason: String,
    },
    /// A map is not in the object, or is of another shape: the object and the daemon do not belong together.
    #[error("map `{map}` of the BPF object")]
    Map {
        /// Its name.
        map: &'static str,
        /// Why.
        source: MapError,
    },
}

/// What the programs are told at load, and keep for as long as they run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Ascending upper bounds of the duration histogram's buckets in nanoseconds.
    pub duration_bounds_ns: [u64; DURATION_BOUNDS],
}

impl Default for Settings {
    fn default() -> Self {
        Self { duration_bounds_ns: DEFAULT_DURATION_BOUNDS_NS }
    }
}

/// The attached programs and their maps.
#[derive(Debug)]
pub struct Probe {
    ebpf: Ebpf,
    hooks: Hooks,
}

/// What a program costs.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Its name.
    pub program: String,
    /// Instructions that the verifier went through (Linux 5.16).
    pub verified: Option<u32>,
    /// Bytes of machine code.
    pub machine_code: u32,
    /// Time in it while somebody had the kernel's `bpf_stats` on.
    pub run_time: Duration,
    /// Runs in that time.
    pub runs: u64,
}

impl Probe {
    /// Loads the programs and attaches them at `cgroup_root`, a cgroup v2 directory. A hook that only adds detail may be
    /// missing: [`Probe::hooks`] says so.
    pub fn attach(cgroup_root: &Path, settings: &Settings) -> Result<Self, KernelError> {
        let missing = capability::missing();
        if !missing.is_empty() {
            return Err(KernelError::Capabilities(missing));
        }
        let cgroup = File::open(cgroup_root)
            .map_err(|source| KernelError::CgroupRoot { path: cgroup_root.to_owned(), source })?;
        raise_memlock_limit();
        let reset = tracepoint::reset_cookie_offset(Path::new(TRACEFS));
        let offset = reset.as_ref().copied().unwrap_or(0);
        // No BTF of the running kernel: the programs use the stable context types only, and parsing it costs 20 MB.
        let mut ebpf = EbpfLoader::new()
            .btf(None)
            .override_global("RESET_COOKIE_OFFSET", &offset, true)
            .override_global("DURATION_BOUNDS_NS", &settings.duration_bounds_ns[..], true)
            .load(OBJECT)
            .map_err(|error| KernelError::Load { release: release(), reason: object_reason(&error) })?;
        // All are loaded before the first is attached: a connection that opens while only some are is an older one.
        let skb = [("ingress", CgroupSkbAttachType::Ingress), ("egress", CgroupSkbAttachType::Egress)];
        for (name, _) in skb {
            program::<CgroupSkb>(&mut ebpf, name)?.load().map_err(refused("load", name))?;
        }
        program::<SockOps>(&mut ebpf, "establish")?.load().map_err(refused("load", "establish"))?;
        // `Single` is no flag at all: a bpf link is always one of many and refuses the flag for it.
        for (name, attach_type) in skb {
            program::<CgroupSkb>(&mut ebpf, name)?
                .attach(&cgroup, attach_type, CgroupAttachMode::Single)
                .map_err(refused("attach", name))?;
        }
        program::<SockOps>(&mut ebpf, "establish")?
            .attach(&cgroup, CgroupAttachMode::Single)
            .map_err(refused("attach", "establish"))?;

        let mut hooks = Hooks::required(["cgroup_skb_ingress", "cgroup_skb_egress", "sock_ops"]);
        hooks.optional(
            "tcp_receive_reset",
            reset.and_then(|_| attach_reset(&mut ebpf).map_err(|error| one_line(&error))),
        );
        Ok(Self { ebpf, hooks })
    }

    /// What the kernel says of each program.
    pub fn costs(&self) -> Vec<Cost> {
        let cost = |(name, program): (&str, &aya::programs::Program)| {
            let info = program.info().ok()?;
            Some(Cost {
                program: name.to_owned(),
                verified: info.verified_instruction_count(),
                machine_code: info.size_jitted(),
                run_time: info.run_time(),
                runs: info.run_count(),
            })
        };
        self.ebpf.programs().filter_map(cost).collect()
    }

    /// What became of each hook.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Reads all counters.
    pub fn snapshot(&self) -> Result<Counters, KernelError> {
        snapshot::read(&self.ebpf)
    }

    /// From now on, new connections of sockets made in `cgroup` are probes.
    pub fn add_prober(&mut self, cgroup: CgroupId) -> Result<(), KernelError> {
        let mut probers: HashMap<_, u64, u8> = hash_mut(&mut self.ebpf, "PROBERS")?;
        probers.insert(cgroup.0, 1, 0).map_err(|source| KernelError::Map { map: "PROBERS", source })
    }

    /// Undoes [`Probe::add_prober`].
    pub fn remove_prober(&mut self, cgroup: CgroupId) -> Result<(), KernelError> {
        let mut probers: HashMap<_, u64, u8> = hash_mut(&mut self.ebpf, "PROBERS")?;
        remove(&mut probers, &cgroup.0, "PROBERS")
    }

    /// Removes counters that the caller has taken over. Counts made since its last snapshot would be lost, so the caller
    /// only does this to cgroups that have been gone for a while.
    pub fn forget(&mut self, tallies: &[TallyKey], codes: &[CodeKey]) -> Result<(), KernelError> {
        let mut map = hash_mut::<TallyKey, rollout_probe_common::abi::Tally>(&mut self.ebpf, "TALLIES")?;
        for key in tallies {
            remove(&mut map, key, "TALLIES")?;
        }
        let mut map = hash_mut::<CodeKey, u64>(&mut self.ebpf, "CODES")?;
        for key in codes {
            remove(&mut map, key, "CODES")?;
        }
        Ok(())
    }
}

fn program<'a, T>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut T, KernelError>
where
    &'a mut T: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let absent = |reason: String| KernelError::Program { release: release(), step: "load", program: name, reason };
    let program = ebpf.program_mut(name).ok_or_else(|| absent("not in the BPF object".to_owned()))?;
    program.try_into().map_err(|error: ProgramError| absent(one_line(&error)))
}

fn refused(step: &'static str, program: &'static str) -> impl Fn(ProgramError) -> KernelError {
    move |error| KernelError::Program { release: release(), step, program, reason: program_reason(&error) }
}

fn attach_reset(ebpf: &mut Ebpf) -> Result<(), ProgramError> {
    let program: &mut TracePoint =
        ebpf.program_mut("receive_reset").ok_or(ProgramError::UnexpectedProgramType)?.try_into()?;
    program.load()?;
    program.attach("tcp", "tcp_receive_reset")?;
    Ok(())
}

fn hash_mut<'a, K: aya::Pod, V: aya::Pod>(
    ebpf: &'a mut Ebpf,
    name: &'static str,
) -> Result<HashMap<&'a mut aya::maps::MapData, K, V>, KernelError> {
    let map = ebpf.map_mut(name).ok_or_else(|| absent_map(name))?;
    HashMap::try_from(map).map_err(|source| KernelError::Map { map: name, source })
}

fn absent_map(map: &'static str) -> KernelError {
    KernelError::Map { map, source: MapError::KeyNotFound }
}

/// A key that is not there is as good as removed.
fn remove<K: aya::Pod, V: aya::Pod>(
    map: &mut HashMap<&mut aya::maps::MapData, K, V>,
    key: &K,
    name: &'static str,
) -> Result<(), KernelError> {
    match map.remove(key) {
        Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
        Err(source) => Err(KernelError::Map { map: name, source }),
    }
}

/// Kernels before 5.11 charge maps to this limit; later ones charge the cgroup, and a failure here changes nothing for them.
fn raise_memlock_limit() {
    use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
    if let Err(error) = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY) {
        tracing::debug!(%error, "cannot raise RLIMIT_MEMLOCK; only kernels before 5.11 need it");
    }
}

/// `uname -r`.
fn release() -> String {
    nix::sys::utsname::uname()
        .map_or_else(|_| "unknown".to_owned(), |name| name.release().to_string_lossy().into_owned())
}

/// The error with its causes, on one line.
fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn object_reason(error: &EbpfError) -> String {
    match error {
        EbpfError::ProgramError(error) => program_reason(error),
        other => one_line(other),
    }
}

/// A verifier log has thousands of lines; the last one before the statistics says why.
fn program_reason(error: &ProgramError) -> String {
    let ProgramError::LoadError { io_error, verifier_log } = error else { return one_line(error) };
    let log = verifier_log.to_string();
    tracing::debug!(%log, "verifier log");
    match last_words(&log) {
        Some(words) => format!("{io_error}: {words}"),
        None => io_error.to_string(),
    }
}

fn last_words(verifier_log: &str) -> Option<&str> {
    let statistics = ["processed ", "verification time", "stack depth"];
    verifier_log
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty() && !statistics.iter().any(|start| line.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn last_words_of_a_verifier_log_skip_its_statistics() {
        let log = "0: (bf) r6 = r1\n; let x\nR1 unbounded memory access\nprocessed 12 insns (limit 1000000)\n\n";
        assert_eq!(last_words(log), Some("R1 unbounded memory access"));
        assert_eq!(last_words("\n"), None);
    }
}
