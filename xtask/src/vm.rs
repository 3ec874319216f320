//! `cargo xtask vm`: the privileged tests on other kernels, in QEMU. Needs no root: the guest is a machine of its own.
//!
//! A kernel that cannot be had or booted here is a skip, said loudly; one on which a test fails is a failure.

mod apt;
mod cpio;
mod findings;
mod guest;
mod image;
mod kernel;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;

use crate::host;
use image::{Built, Image};
pub(crate) use kernel::Series;

pub(crate) fn run(kernels: &[Series], filter: &[String]) -> Result<ExitCode> {
    let kernels = if kernels.is_empty() { Series::value_variants() } else { kernels };
    if let Some(reason) = missing() {
        for series in kernels {
            skip(*series, &reason);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let image = Image::new(&build()?, filter, scratch.path())?;
    let mut reports = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for series in kernels {
        match on(*series, &image, scratch.path()) {
            Ok(Some(report)) => {
                if report.code != Some(0) {
                    code = ExitCode::FAILURE;
                }
                reports.push(report.findings.to_string());
            }
            Ok(None) => {}
            Err(error) => {
                println!("{}: {error:#}", series.name());
                code = ExitCode::FAILURE;
            }
        }
    }
    println!("\n{}", reports.concat());
    Ok(code)
}

/// The tests on one kernel; nothing when it is not to be had.
fn on(series: Series, image: &Image, scratch: &Path) -> Result<Option<guest::Report>> {
    println!("\n==== Linux {} ====", series.name());
    let kernel = match kernel::get(series, &target_dir()?.join("vm")) {
        Ok(kernel) => kernel,
        Err(error) => {
            skip(series, &format!("{error:#}"));
            return Ok(None);
        }
    };
    let archive = scratch.join("initramfs");
    image.write(&kernel, &archive)?;
    guest::run(series, &kernel, &archive).map(Some)
}

/// In the words of a test binary, so that it is counted with the skipped tests.
fn skip(series: Series, reason: &str) {
    println!("SKIPPED linux-{}: {reason}", series.name());
    println!("test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
}

/// Why no guest can be booted here.
fn missing() -> Option<String> {
    if env::consts::ARCH != "x86_64" {
        return Some(format!("the kernels are for x86_64 and the tests for {}", env::consts::ARCH));
    }
    let mut programs = [guest::QEMU, "busybox", "strip", "ldd"].into_iter();
    let program = programs.find(|program| host::find_program(program).is_none())?;
    Some(format!("{program} is not installed: `cargo xtask setup --for vm`"))
}

fn build() -> Result<Built> {
    host::run(host::cargo().args(["build", "--package", "rollout-probe"]))?;
    let mut tests = host::cargo();
    tests.args(["test", "--no-run", "--package", "kernel-tests", "--message-format=json"]);
    let messages = host::output_of(&mut tests)
        .context("the privileged tests do not build: see `cargo test -p kernel-tests --no-run`")?;
    let tests = executable(&messages).context("cargo names no test binary")?;
    Ok(Built { tests, daemon: target_dir()?.join("debug/rollout-probe") })
}

/// The path that cargo gives the test binary in its messages, one JSON object a line.
fn executable(messages: &str) -> Option<PathBuf> {
    let line =
        messages.lines().find(|line| line.contains(r#""executable":""#) && line.contains(r#""name":"kernel""#))?;
    let (path, _) = line.split_once(r#""executable":""#)?.1.split_once('"')?;
    // One that JSON has to escape is none that this reads.
    (!path.contains('\\')).then(|| PathBuf::from(path))
}

/// Cargo's, in which this program is `<profile>/xtask`.
fn target_dir() -> Result<PathBuf> {
    let exe = env::current_exe().context("cannot tell where this program is")?;
    Ok(exe.ancestors().nth(2).context("not in cargo's target directory")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::executable;
    use std::path::Path;

    #[test]
    fn test_binary_is_found_in_cargo_s_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"kernel\"},\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"kernel\"},\"executable\":\"/t/kernel-1\"}\n";
        assert_eq!(executable(messages).as_deref(), Some(Path::new("/t/kernel-1")));
        assert_eq!(executable("{}\n"), None);
    }
}
