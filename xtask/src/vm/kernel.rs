//! The kernels of the matrix, and how one gets here: Debian's packages for virtual machines, fetched by name and unpacked
//! in part. Kept in the build directory, so that a package is fetched once for each of its versions.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use super::apt::{self, Apt};
use crate::host;

const MIRROR: &str = "http://deb.debian.org";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Depends on the newest kernel of its suite.
const NEWEST: &str = "linux-image-cloud-amd64";

/// What the tests' networks are made of, each after those it needs. Whatever else they need is built in.
const MODULES: [&str; 4] = ["llc", "stp", "bridge", "veth"];

/// A series of kernels, by the Debian suite that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Series {
    /// The oldest that is supported
    #[value(name = "5.10")]
    Bullseye,
    #[value(name = "6.1")]
    Bookworm,
    #[value(name = "6.12")]
    Trixie,
    /// The newest that Debian builds for a stable release
    #[value(name = "newest")]
    Backports,
}

/// A kernel that can be booted.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    /// In the order in which they are to be loaded.
    pub(super) modules: Vec<PathBuf>,
}

impl Series {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bullseye => "5.10",
            Self::Bookworm => "6.1",
            Self::Trixie => "6.12",
            Self::Backports => "newest",
        }
    }

    /// Lines of an apt sources list.
    fn sources(self) -> String {
        let line = |archive: &str, suite: &str| format!("deb [signed-by={KEYRING}] {MIRROR}/{archive} {suite} main\n");
        let with_security =
            |suite: &str| line("debian", suite) + &line("debian-security", &format!("{suite}-security"));
        match self {
            Self::Bullseye => with_security("bullseye"),
            Self::Bookworm => with_security("bookworm"),
            Self::Trixie => with_security("trixie"),
            Self::Backports => line("debian", "trixie-backports"),
        }
    }
}

/// The newest kernel of the series; the one that was fetched before when the suite cannot be read.
pub(super) fn get(series: Series, cache: &Path) -> Result<Kernel> {
    if let Some(program) = apt::missing() {
        bail!("{program} is not installed");
    }
    let dir = cache.join(series.name());
    fs::create_dir_all(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
    let kept = dir.join("kernel");
    match Apt::update(&dir, &series.sources()).and_then(|apt| fetch(&apt, &dir, &kept)) {
        Ok(()) => {}
        Err(error) if kept.exists() => println!("{error:#}: taking the kernel that was fetched before"),
        Err(error) => return Err(error),
    }
    read(&kept)
}

/// Leaves the newest kernel in `kept`.
fn fetch(apt: &Apt, dir: &Path, kept: &Path) -> Result<()> {
    let is_part =
        |name: &String| ["linux-image-", "linux-binary-", "linux-modules-"].iter().any(|part| name.starts_with(part));
    let newest = apt.dependencies(NEWEST)?.into_iter().find(|name| name.starts_with("linux-image-"));
    let newest = newest.with_context(|| format!("{NEWEST} depends on no kernel"))?;
    // Since 7.x the image and its modules are packages of their own.
    let mut packages: Vec<String> = apt.dependencies(&newest)?.into_iter().filter(is_part).collect();
    packages.insert(0, newest);
    let files = apt.files(&packages)?;
    let stamp = files.join("\n");
    if fs::read_to_string(kept.join("packages")).is_ok_and(|packages| packages == stamp) {
        return Ok(());
    }
    println!("fetching {}", files.join(", "));
    apt.download(&packages)?;
    let fresh = tempfile::tempdir_in(dir).context("cannot make a temporary directory")?;
    unpack(&files.iter().map(|file| dir.join(file)).collect::<Vec<_>>(), fresh.path())?;
    fs::write(fresh.path().join("packages"), stamp)?;
    if kept.exists() {
        fs::remove_dir_all(kept)?;
    }
    fs::rename(fresh.keep(), kept).with_context(|| format!("cannot keep the kernel in `{}`", kept.display()))
}

/// Takes the image and the modules out of the packages, and removes the packages.
fn unpack(packages: &[PathBuf], to: &Path) -> Result<()> {
    let tree = to.join("tree");
    for package in packages {
        host::run_quietly(host::command("dpkg-deb").arg("-x").arg(package).arg(&tree))?;
        fs::remove_file(package)?;
    }
    let image = find(&tree, &|name| name.starts_with("vmlinuz"))?.context("the packages hold no vmlinuz")?;
    fs::rename(image, to.join("vmlinuz"))?;
    for (number, module) in MODULES.iter().enumerate() {
        let is_it = |name: &str| name.strip_prefix(module).is_some_and(|rest| [".ko", ".ko.xz"].contains(&rest));
        let found = find(&tree, &is_it)?.with_context(|| format!("the packages hold no module {module}"))?;
        let plain = to.join(format!("{number}-{module}.ko"));
        if found.extension().is_some_and(|extension| extension == "xz") {
            let mut xz = host::command("xz");
            xz.arg("-dc").arg(&found).stdin(Stdio::null()).stdout(File::create(&plain)?);
            host::run_quietly(&mut xz)?;
        } else {
            fs::rename(found, plain)?;
        }
    }
    fs::remove_dir_all(tree).context("cannot remove what was unpacked")
}

fn find(dir: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list `{}`", dir.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if let Some(found) = find(&entry.path(), wanted)? {
                return Ok(Some(found));
            }
        } else if entry.file_name().to_str().is_some_and(wanted) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

fn read(kept: &Path) -> Result<Kernel> {
    let mut modules = Vec::new();
    for entry in fs::read_dir(kept).with_context(|| format!("cannot list `{}`", kept.display()))? {
        modules.push(entry?.path());
    }
    modules.retain(|path| path.extension().is_some_and(|extension| extension == "ko"));
    modules.sort();
    Ok(Kernel { image: kept.join("vmlinuz"), modules })
}
