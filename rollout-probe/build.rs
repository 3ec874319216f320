//! Builds the BPF object and leaves it in `OUT_DIR`, where `kernel` takes it from.
//!
//! Not with aya-build: it prints every line of the inner build as a warning, and builds once more for each profile. The
//! inner build here is silent unless it fails, and is shared: the object does not depend on the daemon's profile.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

const SETUP: &str = "run `cargo xtask setup`, which installs it at the version that matches the toolchain";
const OBJECT: &str = "rollout-probe-ebpf";

fn main() -> Result<()> {
    check_tools()?;
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    // <target>/<profile>/build/<package>/out
    let target_dir = out_dir.ancestors().nth(4).context("OUT_DIR has an unknown layout")?.join("bpf");
    let target = match env::var("CARGO_CFG_TARGET_ENDIAN")?.as_str() {
        "big" => "bpfeb-unknown-none",
        _ => "bpfel-unknown-none",
    };
    println!("cargo:rerun-if-changed=../rollout-probe-ebpf");
    println!("cargo:rerun-if-changed=../rollout-probe-common/src");
    let mut cargo = Command::new(env::var_os("CARGO").context("cargo sets CARGO")?);
    cargo
        .args(["build", "--quiet", "--release", "--package", OBJECT, "--bins", "--target", target])
        .args(["-Z", "build-std=core", "--target-dir"])
        .arg(&target_dir)
        // `-Z` on the pinned stable toolchain: build-std is the one unstable thing that the BPF target needs.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags()?)
        // Set by the outer cargo for the daemon's own target; clippy's wrapper must not reach the inner build.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC");
    let output = cargo.output().with_context(|| format!("cannot run {cargo:?}"))?;
    if !output.status.success() {
        bail!("the BPF object does not build: {cargo:?}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let built = target_dir.join(target).join("release").join(OBJECT);
    fs::copy(&built, out_dir.join(OBJECT)).with_context(|| format!("cannot copy `{}`", built.display()))?;
    Ok(())
}

/// BTF (`--btf`, made from debug info) is what makes socket storage and global functions loadable.
fn rustflags() -> Result<String> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    Ok([&format!("--cfg=bpf_target_arch=\"{arch}\""), "-Cdebuginfo=2", "-Clink-arg=--btf"].join("\x1f"))
}

/// Says in one line what is missing, before cargo fails on it in many.
fn check_tools() -> Result<()> {
    let linker = Command::new("bpf-linker").arg("--version").output();
    ensure!(linker.is_ok_and(|output| output.status.success()), "`bpf-linker` is missing: {SETUP}");
    let rustc = env::var("RUSTC").context("cargo sets RUSTC")?;
    let sysroot = Command::new(rustc).args(["--print", "sysroot"]).output().context("rustc --print sysroot")?;
    let sysroot = String::from_utf8(sysroot.stdout).context("the sysroot's path is not UTF-8")?;
    let source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core");
    ensure!(source.is_dir(), "`rust-src` is missing (no {}): {SETUP}", source.display());
    Ok(())
}
