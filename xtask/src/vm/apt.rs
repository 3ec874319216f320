//! apt with sources and lists of its own: reads suites that this machine does not use and downloads from them by name.
//! Signatures are checked by apt with the system's keyring; nothing is installed, and the machine's own lists stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::host;

pub(super) struct Apt {
    dir: PathBuf,
}

impl Apt {
    /// Reads the lists of these sources (lines of a sources list) into `dir`.
    pub(super) fn update(dir: &Path, sources: &str) -> Result<Self> {
        let lists = dir.join("lists/partial");
        fs::create_dir_all(&lists).with_context(|| format!("cannot make `{}`", lists.display()))?;
        fs::write(dir.join("sources.list"), sources).context("cannot write the sources list")?;
        let apt = Self { dir: dir.to_owned() };
        // Without the error mode a list that cannot be fetched is a warning.
        apt.output("apt-get", &["-o", "APT::Update::Error-Mode=any", "update"])?;
        Ok(apt)
    }

    /// The packages that the newest version of this one depends on.
    pub(super) fn dependencies(&self, package: &str) -> Result<Vec<String>> {
        Ok(dependencies(&self.output("apt-cache", &["depends", package])?))
    }

    /// The file names of these packages, which have their versions in them.
    pub(super) fn files(&self, packages: &[String]) -> Result<Vec<String>> {
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        Ok(files(&self.output("apt-get", &[&["--print-uris", "download"], &packages[..]].concat())?))
    }

    /// Downloads these packages into its directory.
    pub(super) fn download(&self, packages: &[String]) -> Result<()> {
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        self.output("apt-get", &[&["download"], &packages[..]].concat()).map(drop)
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let option = |name: &str, path: &str| format!("{name}={}", self.dir.join(path).display());
        let mut command = Command::new(program);
        for setting in [
            &option("Dir::Etc::sourcelist", "sources.list"),
            &option("Dir::State::lists", "lists"),
            "Dir::Etc::sourceparts=-",
            "Dir::Cache::pkgcache=",
            "Dir::Cache::srcpkgcache=",
            "Acquire::Languages=none",
            "Acquire::Retries=2",
            "Acquire::http::Timeout=20",
            // The directory need not be open to apt's own user.
            "APT::Sandbox::User=root",
            "APT::Architecture=amd64",
        ] {
            command.args(["-o", setting]);
        }
        command.arg("-qq").args(arguments).current_dir(&self.dir).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot start `{program}`"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{program} {}` failed: {}", arguments.join(" "), said.trim().replace('\n', "; "));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// From lines such as `  Depends: linux-base`. Alternatives (`|Depends`) and virtual packages (`<name>`) are left out.
fn dependencies(shown: &str) -> Vec<String> {
    let names = shown.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.filter(|name| !name.starts_with('<')).map(str::to_owned).collect()
}

/// From lines such as `'http://host/path' name_version_arch.deb 1928 SHA256:...`.
fn files(uris: &str) -> Vec<String> {
    uris.lines().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned).collect()
}

/// Whether there is an apt here that could be asked.
pub(super) fn missing() -> Option<&'static str> {
    ["apt-get", "apt-cache", "dpkg-deb", "xz"].into_iter().find(|program| host::find_program(program).is_none())
}

#[cfg(test)]
mod tests {
    use super::{dependencies, files};

    #[test]
    fn dependencies_are_real_packages() {
        let shown = "linux-image-7\n  PreDepends: linux-base\n |Depends: dracut\n  Depends: <initrd>\n    dracut\n  \
                     Depends: linux-binary-7\n  Depends: linux-modules-7\n  Suggests: grub\n";
        assert_eq!(dependencies(shown), ["linux-binary-7", "linux-modules-7"]);
    }

    #[test]
    fn file_name_is_the_second_word() {
        let uris = "'http://deb.debian.org/a_1%2b2_amd64.deb' a_1+2_amd64.deb 12 SHA256:00\n\n";
        assert_eq!(files(uris), ["a_1+2_amd64.deb"]);
    }
}
