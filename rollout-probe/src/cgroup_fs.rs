//! Edge: the cgroup v2 tree, walked once and then followed by inotify.
//!
//! A watch on each directory tells of new and removed ones at once. A directory that appears between its parent's event
//! and its own watch is found by reading the directory after the watch is set. If the kernel's event queue overflows, the
//! tree is walked again. A cgroup that is gone before its inode was read stays without a name; its counts are not lost.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};

use crate::cgroup::CgroupId;

/// A change of the tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CgroupEvent {
    /// A cgroup is there; its path is relative to the root and starts with `/`.
    Created(CgroupId, String),
    /// A cgroup is gone.
    Removed(CgroupId),
    /// The whole tree was walked once.
    Walked,
}

/// Why the tree cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// There is no cgroup v2 hierarchy.
    #[error("no cgroup v2 hierarchy is mounted (looked in `{0}`); give --cgroup-root if it is elsewhere")]
    NotMounted(PathBuf),
    /// The list of mounts cannot be read.
    #[error("cannot read `{path}`")]
    Mounts {
        /// Of the list.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The given directory is of another file system.
    #[error("`{0}` is not a cgroup v2 directory")]
    NotCgroup2(PathBuf),
    /// inotify failed.
    #[error(
        "cannot watch the cgroup tree at `{path}` (fs.inotify.max_user_watches or max_user_instances may be too low)"
    )]
    Watch {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The mount point of the cgroup v2 hierarchy, as `mountinfo` (`/proc/self/mountinfo`) has it.
pub fn find_root(mountinfo: &Path) -> Result<PathBuf, CgroupError> {
    let text =
        fs::read_to_string(mountinfo).map_err(|source| CgroupError::Mounts { path: mountinfo.to_owned(), source })?;
    root_in(&text).ok_or_else(|| CgroupError::NotMounted(mountinfo.to_owned()))
}

/// proc(5): `id parent major:minor root mount-point options.. - type source options`. A mount of the whole hierarchy comes first.
fn root_in(mountinfo: &str) -> Option<PathBuf> {
    let mounts: Vec<(&str, &str)> = mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            let mut fields = mount.split(' ').skip(3);
            if kind.split(' ').next() != Some("cgroup2") {
                return None;
            }
            Some((fields.next()?, fields.next()?))
        })
        .collect();
    let whole = mounts.iter().find(|(root, _)| *root == "/").or_else(|| mounts.first());
    whole.map(|(_, point)| PathBuf::from(point))
}

/// Whether `path` is in a cgroup v2 file system.
pub fn check_root(path: &Path) -> Result<(), CgroupError> {
    let stat = nix::sys::statfs::statfs(path)
        .map_err(|errno| CgroupError::Mounts { path: path.to_owned(), source: errno.into() })?;
    if stat.filesystem_type() == nix::sys::statfs::CGROUP2_SUPER_MAGIC {
        Ok(())
    } else {
        Err(CgroupError::NotCgroup2(path.to_owned()))
    }
}

/// The tree below a root, and what is watched of it.
struct Tree<'a> {
    root: &'a Path,
    inotify: Inotify,
    /// Each watched directory: its path relative to the root, and its id.
    watched: HashMap<WatchDescriptor, (PathBuf, CgroupId)>,
    /// The same by path. The parent tells of a removal: a watch holds its cgroup's inode, so that one never says it is gone.
    paths: HashMap<PathBuf, WatchDescriptor>,
}

/// Walks the tree at `root` and follows it; `tell` gets every event and ends this by answering false.
pub fn follow(root: &Path, mut tell: impl FnMut(CgroupEvent) -> bool) -> Result<(), CgroupError> {
    let error = |source| CgroupError::Watch { path: root.to_owned(), source };
    let mut tree =
        Tree { root, inotify: Inotify::init().map_err(error)?, watched: HashMap::new(), paths: HashMap::new() };
    let mut wanted = tree.walk(PathBuf::new(), &mut tell).map_err(error)? && tell(CgroupEvent::Walked);
    let mut buffer = vec![0; 64 * 1024];
    while wanted {
        wanted = tree.read(&mut buffer, &mut tell).map_err(error)?;
    }
    Ok(())
}

impl Tree<'_> {
    /// Watches `relative` and everything below it. Only the root must be there.
    fn walk(&mut self, relative: PathBuf, tell: &mut impl FnMut(CgroupEvent) -> bool) -> io::Result<bool> {
        let mask = WatchMask::CREATE | WatchMask::DELETE | WatchMask::ONLYDIR;
        let mut pending = vec![relative];
        while let Some(relative) = pending.pop() {
            let path = self.root.join(&relative);
            let entered = self.inotify.watches().add(&path, mask).and_then(|watch| Ok((watch, fs::metadata(&path)?)));
            let (watch, meta) = match entered {
                Ok(entered) => entered,
                // Gone again already.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !relative.as_os_str().is_empty() => continue,
                Err(error) => return Err(error),
            };
            let id = CgroupId(meta.ino());
            self.paths.insert(relative.clone(), watch.clone());
            if self.watched.insert(watch, (relative.clone(), id)).is_none()
                && !tell(CgroupEvent::Created(id, format!("/{}", relative.display())))
            {
                return Ok(false);
            }
            pending.extend(children(&path).into_iter().map(|name| relative.join(name)));
        }
        Ok(true)
    }

    fn read(&mut self, buffer: &mut [u8], tell: &mut impl FnMut(CgroupEvent) -> bool) -> io::Result<bool> {
        let events: Vec<(WatchDescriptor, EventMask, Option<PathBuf>)> = self
            .inotify
            .read_events_blocking(buffer)?
            .map(|event| (event.wd, event.mask, event.name.map(|name: &OsStr| PathBuf::from(name))))
            .collect();
        for (watch, mask, name) in events {
            let wanted = if mask.contains(EventMask::Q_OVERFLOW) {
                self.walk_again(tell)?
            } else if let (true, Some((parent, _)), Some(name)) =
                (mask.contains(EventMask::ISDIR), self.watched.get(&watch), name)
            {
                let relative = parent.join(name);
                if mask.contains(EventMask::DELETE) { self.remove(&relative, tell) } else { self.walk(relative, tell)? }
            } else {
                true
            };
            if !wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn remove(&mut self, relative: &Path, tell: &mut impl FnMut(CgroupEvent) -> bool) -> bool {
        let Some(watch) = self.paths.remove(relative) else { return true };
        let Some((_, id)) = self.watched.remove(&watch) else { return true };
        // It fails when the kernel has dropped the watch with the directory, which is as good.
        let _dropped_already = self.inotify.watches().remove(watch);
        tell(CgroupEvent::Removed(id))
    }

    /// Events were lost: what was removed meanwhile is found by its inode, what is new by walking.
    fn walk_again(&mut self, tell: &mut impl FnMut(CgroupEvent) -> bool) -> io::Result<bool> {
        let is_gone = |(relative, id): &(PathBuf, CgroupId)| {
            !fs::metadata(self.root.join(relative)).is_ok_and(|meta| meta.ino() == id.0)
        };
        let gone: Vec<PathBuf> =
            self.watched.values().filter(|entry| is_gone(entry)).map(|(relative, _)| relative.clone()).collect();
        for relative in gone {
            if !self.remove(&relative, tell) {
                return Ok(false);
            }
        }
        self.walk(PathBuf::new(), tell)
    }
}

/// Names of the directories in a directory; none when it is gone.
fn children(path: &Path) -> Vec<std::ffi::OsString> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.file_name()).collect()
}

#[cfg(test)]
mod tests;
