//! Programs that do nothing but let the packet pass, at the same hooks: what the hooks themselves cost.
//!
//! Two instructions each, so they are loaded as numbers and need no object; the attributes of bpf(2) are laid out here for that.
#![expect(unsafe_code, reason = "aya loads objects only, and bpf(2) has no safe wrapper")]

use std::{
    fs::{self, File},
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::Path,
};

use anyhow::{Context, Result};

use crate::kernel_time::Runs;

/// `r0 = 1; exit`
const PASS: [u64; 2] = [0x0000_0001_0000_00b7, 0x95];

const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const PROG_TYPE_CGROUP_SKB: u32 = 8;
/// `BPF_CGROUP_INET_INGRESS` and `.._EGRESS`.
const ATTACH_TYPES: [u32; 2] = [0, 1];

/// The start of `union bpf_attr` for `BPF_PROG_LOAD` (`linux/bpf.h`).
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// The start of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

/// An empty program for each direction, attached while this lives.
#[derive(Debug)]
pub(crate) struct EmptyPair {
    programs: [OwnedFd; 2],
    _links: [OwnedFd; 2],
}

impl EmptyPair {
    pub(crate) fn attach(cgroup: &Path) -> Result<Self> {
        let cgroup = File::open(cgroup).with_context(|| format!("cannot open {}", cgroup.display()))?;
        let [ingress, egress] = ATTACH_TYPES.map(load);
        let programs = [ingress?, egress?];
        let link = |direction: usize| link(&programs[direction], &cgroup, ATTACH_TYPES[direction]);
        let links = [link(0)?, link(1)?];
        Ok(Self { programs, _links: links })
    }

    /// What ran so far, ingress and egress.
    pub(crate) fn runs(&self) -> Result<[Runs; 2]> {
        let [ingress, egress] = &self.programs;
        Ok([runs(ingress)?, runs(egress)?])
    }
}

fn load(attach_type: u32) -> Result<OwnedFd> {
    let mut attributes = ProgLoad {
        prog_type: PROG_TYPE_CGROUP_SKB,
        insn_cnt: 2,
        insns: PASS.as_ptr().addr() as u64,
        license: c"GPL".as_ptr().addr() as u64,
        expected_attach_type: attach_type,
        ..ProgLoad::default()
    };
    attributes.prog_name[..5].copy_from_slice(b"empty");
    bpf(PROG_LOAD, &attributes).context("cannot load an empty program")
}

fn link(program: &OwnedFd, cgroup: &File, attach_type: u32) -> Result<OwnedFd> {
    let number = |fd: RawFd| u32::try_from(fd).context("a descriptor is not negative");
    let attributes = LinkCreate {
        prog_fd: number(program.as_raw_fd())?,
        target_fd: number(cgroup.as_raw_fd())?,
        attach_type,
        flags: 0,
    };
    bpf(LINK_CREATE, &attributes).context("cannot attach an empty program")
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are those of the command, and what they point to is alive.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    match RawFd::try_from(fd) {
        // SAFETY: just made for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// From what the kernel says of a program's descriptor (`bpf_prog_show_fdinfo`, Linux 5.1).
fn runs(program: &OwnedFd) -> Result<Runs> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
    let value = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok());
        value.with_context(|| format!("no {name} of a program"))
    };
    Ok(Runs { ns: value("run_time_ns")?, count: value("run_cnt")? })
}
