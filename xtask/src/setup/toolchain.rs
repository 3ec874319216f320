//! What cargo needs to build the BPF object and to lint: components of the pinned toolchain, and the linker.

use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use crate::host;

/// bpf-linker reads the bitcode that rustc writes, so it must speak the LLVM of the pinned toolchain: 0.10.3 loads the
/// LLVM 22 that ships in rustc 1.95, and 0.11 wants LLVM 23. Change it together with `rust-toolchain.toml`.
const BPF_LINKER: &str = "0.10.3";

/// Names a `.tar.xz` of the `rust-src` component for machines that cannot fetch it.
const RUST_SRC_ARCHIVE: &str = "ROLLOUT_PROBE_RUST_SRC_ARCHIVE";

/// A component, and the file below the sysroot that shows it is there: asking rustup would take longer.
const COMPONENTS: [(&str, &str); 3] = [
    ("rust-src", "lib/rustlib/src/rust/library/core/Cargo.toml"),
    ("clippy", "bin/cargo-clippy"),
    ("rustfmt", "bin/rustfmt"),
];

pub(super) fn install() -> Result<()> {
    let toolchain_file = host::workspace_root().join("rust-toolchain.toml");
    let text = fs::read_to_string(&toolchain_file).context("cannot read `rust-toolchain.toml`")?;
    let channel = channel_of(&text).context("`rust-toolchain.toml` names no channel")?;
    let sysroot = host::output_of(host::command("rustc").args(["--print", "sysroot"]))
        .context("`rustc --print sysroot` failed")?;
    let sysroot = Path::new(&sysroot);
    for (component, shown_by) in COMPONENTS {
        let file = sysroot.join(shown_by);
        if !file.exists() {
            println!("setup: the toolchain {channel} lacks {component}");
            install_component(component, channel, sysroot, &file)?;
        }
    }
    install_bpf_linker()
}

/// rustup may also call a component installed whose files are gone; only the file decides.
fn install_component(component: &str, channel: &str, sysroot: &Path, file: &Path) -> Result<()> {
    let added = host::run(host::command("rustup").args(["component", "add", component, "--toolchain", channel]));
    if file.exists() {
        return Ok(());
    }
    let error =
        added.err().unwrap_or_else(|| anyhow!("rustup added {component}, but there is no `{}`", file.display()));
    let archive = env::var_os(RUST_SRC_ARCHIVE).filter(|_| component == "rust-src");
    let Some(archive) = archive else {
        return Err(error.context(format!(
            "cannot install {component} (for rust-src, {RUST_SRC_ARCHIVE} may name a .tar.xz of the component instead)"
        )));
    };
    println!("setup: {error:#}; unpacking {RUST_SRC_ARCHIVE} instead");
    host::run(host::command("tar").arg("xJf").arg(archive).arg("-C").arg(sysroot))?;
    ensure!(file.exists(), "{RUST_SRC_ARCHIVE} is no archive of rust-src: it holds no `{}`", file.display());
    Ok(())
}

fn install_bpf_linker() -> Result<()> {
    match installed_bpf_linker() {
        Some(version) if version == BPF_LINKER => return Ok(()),
        Some(version) => println!("setup: replacing bpf-linker {version} by {BPF_LINKER}, which fits the toolchain"),
        None => println!("setup: installing bpf-linker {BPF_LINKER} (a minute or two)"),
    }
    let mut install = host::cargo();
    install.args(["install", "bpf-linker", "--version", BPF_LINKER, "--locked", "--force"]);
    // It builds in a temporary directory of its own: nothing of the linker stays among our build's files.
    host::run(install.env_remove("CARGO_TARGET_DIR"))?;
    match installed_bpf_linker() {
        Some(version) if version == BPF_LINKER => Ok(()),
        Some(version) => {
            bail!("`PATH` finds bpf-linker {version} before the {BPF_LINKER} that cargo has just installed")
        }
        None => bail!("bpf-linker is installed but not on `PATH`: add cargo's `bin` directory to it"),
    }
}

fn installed_bpf_linker() -> Option<String> {
    let output = host::output_of(host::command("bpf-linker").arg("--version"))?;
    bpf_linker_version(&output).map(str::to_owned)
}

/// From `bpf-linker 0.10.3`.
fn bpf_linker_version(output: &str) -> Option<&str> {
    output.lines().next()?.strip_prefix("bpf-linker ")?.split_whitespace().next()
}

fn channel_of(toolchain_file: &str) -> Option<&str> {
    let lines = toolchain_file.lines().map(str::trim);
    let value = lines.filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "channel")?.1;
    value.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::{bpf_linker_version, channel_of};

    #[test]
    fn channel_is_read_from_the_toolchain_file() {
        let text = "# channel = \"1.0\"\n[toolchain]\nchannel = \"1.95.0\" # pinned\nprofile = \"minimal\"\n";
        assert_eq!(channel_of(text), Some("1.95.0"), "comments do not count");
        assert_eq!(channel_of("[toolchain]\nprofile = \"minimal\"\n"), None, "no channel is no guess");
    }

    #[test]
    fn linker_version_is_the_second_word() {
        assert_eq!(bpf_linker_version("bpf-linker 0.10.3"), Some("0.10.3"));
        assert_eq!(bpf_linker_version("bpf-linker 0.11.0 (LLVM 23)\n"), Some("0.11.0"));
        assert_eq!(bpf_linker_version("ld 2.40"), None, "another linker has no version of ours");
    }
}
