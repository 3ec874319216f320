//! A node's part of the cgroup v2 tree, laid out as a kubelet does.
//!
//! On removal every process in it is killed first: so nothing outlives its pod, such as the workers of a web server whose master was killed.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::network::names_with;

/// Where the kubelet itself runs.
pub const KUBELET: &str = "kubelet.service";

const REMOVE_TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// How a kubelet names the cgroups of pods.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Driver {
    /// `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope`
    Systemd,
    /// `kubepods/burstable/pod<uid>/<id>`
    Cgroupfs,
}

/// The cgroup of a container of a burstable pod, from the node's root.
pub fn container_path(driver: Driver, uid: &str, container_id: &str) -> PathBuf {
    match driver {
        Driver::Systemd => {
            let uid = uid.replace('-', "_"); // a `-` would be one more level of slices
            let pod = format!("kubepods-burstable-pod{uid}.slice");
            let container = format!("cri-containerd-{container_id}.scope");
            ["kubepods.slice", "kubepods-burstable.slice", &pod, &container].iter().collect()
        }
        Driver::Cgroupfs => ["kubepods", "burstable", &format!("pod{uid}"), container_id].iter().collect(),
    }
}

/// The part of the tree that belongs to one node. Removed on drop, with all processes in it.
#[derive(Debug)]
pub struct CgroupTree {
    root: PathBuf,
}

impl CgroupTree {
    /// An empty one with this name, below the hierarchy's root.
    pub fn new(name: &str) -> Result<Self> {
        let root = mount_point()?.join(name);
        fs::create_dir(&root).with_context(|| format!("cannot make the cgroup {}", root.display()))?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the cgroup at this path from the node's root, with those above it.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = self.root.join(path);
        fs::create_dir_all(&path).with_context(|| format!("cannot make the cgroup {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for CgroupTree {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.root) {
            eprintln!("{error:#}");
        }
    }
}

/// A cgroup's id, as the kernel knows it: the inode number of its directory.
pub fn id(path: &Path) -> Result<u64> {
    Ok(path.metadata().with_context(|| format!("cgroup {}", path.display()))?.ino())
}

/// Kills the processes in a cgroup and below, and removes it with those below. One that is gone is fine.
pub fn remove(path: &Path) -> Result<()> {
    let deadline = Instant::now() + REMOVE_TIMEOUT;
    while let Err(error) = try_remove(path) {
        if Instant::now() > deadline {
            bail!("cannot remove the cgroup {}: {error}", path.display());
        }
        thread::sleep(POLL); // what was killed takes a moment to be gone
    }
    Ok(())
}

/// Removes every cgroup below the hierarchy's root whose name begins with this.
pub(crate) fn remove_all(prefix: &str) -> Result<()> {
    let mount_point = mount_point()?;
    names_with(&mount_point, prefix).iter().try_for_each(|name| remove(&mount_point.join(name)))
}

fn try_remove(path: &Path) -> io::Result<()> {
    let processes = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    for process in processes.lines().filter_map(|line| line.parse().ok()) {
        // Fails only when it has ended since.
        let _killed = kill(Pid::from_raw(process), Signal::SIGKILL);
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type()?.is_dir() {
            try_remove(&entry.path())?;
        }
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Where the cgroup v2 hierarchy is mounted.
pub fn mount_point() -> Result<PathBuf> {
    parse_mount_point(&fs::read_to_string("/proc/self/mountinfo")?).context("no cgroup v2 hierarchy is mounted")
}

/// proc(5): `id parent major:minor root mount-point options.. - type source options`.
fn parse_mount_point(mountinfo: &str) -> Option<PathBuf> {
    let mounts = mountinfo.lines().filter_map(|line| line.split_once(" - "));
    let (mount, _) = mounts.into_iter().find(|(_, file_system)| file_system.starts_with("cgroup2 "))?;
    mount.split(' ').nth(4).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Driver, container_path, parse_mount_point};

    #[test]
    fn container_paths_are_those_of_a_kubelet() {
        let path = |driver| container_path(driver, "7b1f0c52-6a3e", "c0ffee");
        let systemd = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7b1f0c52_6a3e.slice/cri-containerd-c0ffee.scope";
        assert_eq!(path(Driver::Systemd), Path::new(systemd));
        assert_eq!(path(Driver::Cgroupfs), Path::new("kubepods/burstable/pod7b1f0c52-6a3e/c0ffee"));
    }

    #[test]
    fn mount_point_is_that_of_version_2() {
        let hybrid = "25 1 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n26 1 0:23 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(parse_mount_point(hybrid), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(parse_mount_point("25 1 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup2 rw\n"), None);
    }
}
