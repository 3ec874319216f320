//! The guest's file system: the tests, the daemon, and the programs they start, each with the shared libraries it needs, at the
//! paths they have here. Packed as an archive that the kernel unpacks into memory.
//!
//! What this machine lacks, the guest lacks too, and the tests there say so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::cpio::{Archive, Node};
use super::kernel::Kernel;
use crate::host;

const INIT: &str = include_str!("init.sh");

/// What the tests start. Node is left out: it is ten times as large as all the rest.
const PROGRAMS: [&str; 5] = ["ip", "nginx", "python3", "bpftool", "setpriv"];

/// Where the guest mounts something or writes.
const DIRECTORIES: [&str; 9] = ["busybox", "dev", "modules", "proc", "root", "run", "sys", "tmp", "var/log/nginx"];

/// Parts of Python's library that no server needs: two thirds of it.
const NOT_OF_PYTHON: [&str; 12] = [
    "__pycache__",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
    "unittest",
];

/// The programs that were built for the guest.
pub(super) struct Built {
    pub(super) tests: PathBuf,
    pub(super) daemon: PathBuf,
}

#[derive(Default)]
pub(super) struct Image {
    /// Path in the guest, without a slash before it, to contents and whether they can be run.
    files: BTreeMap<String, (Vec<u8>, bool)>,
}

impl Image {
    /// Without a kernel's modules.
    pub(super) fn new(built: &Built, arguments: &[String], scratch: &Path) -> Result<Self> {
        let mut image = Self::default();
        image.text("init", INIT, true);
        image.text("arguments", &arguments.join(" "), false);
        image.text("etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", false);
        image.text("etc/group", "root:x:0:\nnogroup:x:65534:\n", false);
        image.file("bin/busybox", &program("busybox")?, true)?;
        for (name, path) in [("kernel-tests", &built.tests), ("rollout-probe", &built.daemon)] {
            let stripped = scratch.join(name);
            host::run_quietly(host::command("strip").arg("-o").arg(&stripped).arg(path))?;
            image.libraries(path)?;
            image.file(name, &stripped, true)?;
        }
        for name in PROGRAMS {
            let Some(path) = host::find_program(name) else { continue };
            if name == "python3" {
                image.python(&path)?;
            } else {
                image.program(&path)?;
            }
        }
        Ok(image)
    }

    /// Writes the archive with this kernel's modules.
    pub(super) fn write(&self, kernel: &Kernel, to: &Path) -> Result<()> {
        let file = File::create(to).with_context(|| format!("cannot write `{}`", to.display()))?;
        let mut archive = Archive::new(BufWriter::new(file));
        // Sorted, so that each comes after the one it is in.
        let mut directories: BTreeSet<&str> = self.files.keys().flat_map(|path| parents(path)).collect();
        for path in DIRECTORIES {
            directories.insert(path);
            directories.extend(parents(path));
        }
        for path in directories {
            archive.add(path, &Node::Directory)?;
        }
        for (path, (contents, executable)) in &self.files {
            archive.add(path, &Node::File(contents, *executable))?;
        }
        for module in &kernel.modules {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            archive.add(&format!("modules/{name}"), &Node::File(&fs::read(module)?, false))?;
        }
        archive.finish().context("cannot write the archive")
    }

    fn text(&mut self, path: &str, text: &str, executable: bool) {
        self.files.insert(path.to_owned(), (text.as_bytes().to_vec(), executable));
    }

    fn file(&mut self, path: &str, from: &Path, executable: bool) -> Result<()> {
        let contents = fs::read(from).with_context(|| format!("cannot read `{}`", from.display()))?;
        self.files.insert(path.trim_start_matches('/').to_owned(), (contents, executable));
        Ok(())
    }

    /// A program or library at the place it has here, with the libraries it needs.
    fn program(&mut self, path: &Path) -> Result<()> {
        self.file(&path.to_string_lossy(), path, true)?;
        self.libraries(path)
    }

    fn libraries(&mut self, path: &Path) -> Result<()> {
        // A static program is none of ldd's business, and it says so with an error.
        let listed = host::output_of(host::command("ldd").arg(path)).unwrap_or_default();
        for library in libraries(&listed) {
            if !self.files.contains_key(library.trim_start_matches('/')) {
                self.file(library, Path::new(library), true)?;
            }
        }
        Ok(())
    }

    /// An interpreter asks for its library where it was installed, so both keep their places.
    fn python(&mut self, found: &Path) -> Result<()> {
        const WHERE: &str = "import sys, sysconfig; print(sys.executable); print(sysconfig.get_path('stdlib'))";
        // What is found may be a wrapper that picks one of several.
        let said = host::output_of(host::command(&found.to_string_lossy()).args(["-I", "-c", WHERE]));
        let said = said.with_context(|| format!("`{}` does not say where it is", found.display()))?;
        let (program, library) = said.split_once('\n').context("Python names no library")?;
        self.program(Path::new(program))?;
        if program != "/usr/bin/python3" {
            self.text("usr/bin/python3", &format!("#!/bin/busybox sh\nexec {program} \"$@\"\n"), true);
        }
        self.python_library(Path::new(library))
    }

    fn python_library(&mut self, dir: &Path) -> Result<()> {
        for entry in fs::read_dir(dir).with_context(|| format!("cannot list `{}`", dir.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if !NOT_OF_PYTHON.contains(&name.as_ref()) {
                    self.python_library(&path)?;
                }
            } else if path.extension().is_some_and(|extension| extension == "so") {
                self.program(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "py") {
                self.file(&path.to_string_lossy(), &path, false)?;
            }
        }
        Ok(())
    }
}

/// The directories that `path` is in.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(slash, _)| &path[..slash])
}

/// From lines such as `libc.so.6 => /lib/libc.so.6 (0x0000)` and `/lib64/ld-linux.so.2 (0x0000)`.
fn libraries(listed: &str) -> impl Iterator<Item = &str> {
    listed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

fn program(name: &str) -> Result<PathBuf> {
    host::find_program(name).with_context(|| format!("{name} is not installed"))
}

#[cfg(test)]
mod tests {
    use super::{libraries, parents};

    #[test]
    fn libraries_are_the_paths_that_ldd_lists() {
        let listed = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld-linux.so.2 (0x3)\n";
        assert_eq!(libraries(listed).collect::<Vec<_>>(), ["/lib/libc.so.6", "/lib64/ld-linux.so.2"]);
    }

    #[test]
    fn parents_are_those_above_from_the_top() {
        assert_eq!(parents("usr/bin/ip").collect::<Vec<_>>(), ["usr", "usr/bin"]);
        assert_eq!(parents("init").count(), 0);
    }
}
