use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use super::{CgroupError, CgroupEvent, check_root, find_root, follow, root_in};
use crate::cgroup::CgroupId;

const PATIENCE: Duration = Duration::from_secs(10);

fn id(path: &Path) -> CgroupId {
    CgroupId(fs::metadata(path).expect("it is there").ino())
}

/// Follows a plain directory: to inotify a tree is a tree.
fn follow_in_background(root: PathBuf) -> Receiver<CgroupEvent> {
    let (tx, rx) = mpsc::channel();
    thread::spawn(move || follow(&root, |event| tx.send(event).is_ok()));
    rx
}

fn next(events: &Receiver<CgroupEvent>) -> CgroupEvent {
    events.recv_timeout(PATIENCE).expect("an event comes within PATIENCE")
}

#[test]
fn tree_is_walked_and_then_followed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let old = dir.path().join("kubepods/pod1");
    fs::create_dir_all(&old).expect("made");
    let events = follow_in_background(dir.path().to_owned());
    assert_eq!(next(&events), CgroupEvent::Created(id(dir.path()), "/".to_owned()));
    assert_eq!(next(&events), CgroupEvent::Created(id(&dir.path().join("kubepods")), "/kubepods".to_owned()));
    assert_eq!(next(&events), CgroupEvent::Created(id(&old), "/kubepods/pod1".to_owned()));
    assert_eq!(next(&events), CgroupEvent::Walked);

    let new = old.join("container");
    fs::create_dir(&new).expect("made");
    let new_id = id(&new);
    assert_eq!(next(&events), CgroupEvent::Created(new_id, "/kubepods/pod1/container".to_owned()));
    fs::remove_dir(&new).expect("removed");
    assert_eq!(next(&events), CgroupEvent::Removed(new_id));
}

#[test]
fn nested_directories_made_at_once_are_all_found() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let events = follow_in_background(dir.path().to_owned());
    while next(&events) != CgroupEvent::Walked {}
    let mut expected = Vec::new();
    for pod in 0..50 {
        let path = dir.path().join(format!("a{pod}/b/c"));
        fs::create_dir_all(&path).expect("made");
        expected.push(id(&path));
    }
    while !expected.is_empty() {
        if let CgroupEvent::Created(found, _) = next(&events) {
            expected.retain(|id| *id != found);
        }
    }
}

#[test]
fn missing_root_is_named() {
    let error = follow(Path::new("/nonexistent/cgroup"), |_| true).expect_err("nothing there");
    assert!(error.to_string().contains("`/nonexistent/cgroup`"), "{error}");
}

#[test]
fn root_is_the_whole_hierarchy_before_a_part_of_it() {
    let v1 = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
    let part = "31 25 0:27 /kubepods /mnt/part rw shared:9 - cgroup2 cgroup2 rw\n";
    let whole = "32 25 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate\n";
    assert_eq!(root_in(&[v1, part, whole].concat()), Some(PathBuf::from("/sys/fs/cgroup/unified")));
    assert_eq!(root_in(&[v1, part].concat()), Some(PathBuf::from("/mnt/part")));
    assert_eq!(root_in(v1), None, "a cgroup v1 host");
    assert_eq!(root_in("garbage - cgroup2"), None);
}

#[test]
fn host_without_cgroup2_is_refused_in_one_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mounts = dir.path().join("mountinfo");
    fs::write(&mounts, "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw\n").expect("written");
    let error = find_root(&mounts).expect_err("no cgroup2");
    assert!(matches!(error, CgroupError::NotMounted(_)), "{error}");
    assert!(matches!(check_root(dir.path()), Err(CgroupError::NotCgroup2(_))));
    assert!(matches!(check_root(Path::new("/nonexistent")), Err(CgroupError::Mounts { .. })));
}
