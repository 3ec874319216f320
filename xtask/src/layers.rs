//! The rules between modules, as a check: dependencies point one way, from the edges (IO) to the pure modules, and only
//! `app` and `main` know everybody.
//!
//! Reads text, not types: a name smuggled in by a glob or a macro is not seen. Tests inside a module keep its rules.

mod paths;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use paths::paths_in;

/// What a group of the daemon's modules may not name.
struct Layer {
    modules: &'static [&'static str],
    /// Paths of other crates, up to the part that decides.
    foreign: &'static [&'static str],
    /// Modules of the daemon.
    own: &'static [&'static str],
    because: &'static str,
}

const LAYERS: &[Layer] = &[
    Layer {
        modules: &[
            "cgroup",
            "durations",
            "exposition",
            "health",
            "hook",
            "identity",
            "index",
            "ledger",
            "naming",
            "node",
            "pod_record",
            "pod_status",
            "pods",
            "recent",
            "revision",
            "selector",
            "series",
        ],
        foreign: &["tokio", "aya", "kube", "std::fs", "std::process"],
        own: &["kernel", "cgroup_fs", "cluster", "pods_file", "admin", "app"],
        because: "pure modules do no IO and are tested without root",
    },
    Layer {
        modules: &["kernel"],
        foreign: &["kube", "k8s_openapi"],
        own: &["cluster", "app"],
        because: "`kernel` and `cluster` meet through plain values",
    },
    Layer {
        modules: &["cluster"],
        foreign: &["aya"],
        own: &["kernel", "app"],
        because: "`kernel` and `cluster` meet through plain values",
    },
    Layer {
        modules: &["cgroup_fs", "pods_file", "admin", "config", "telemetry"],
        foreign: &["aya", "kube"],
        own: &["kernel", "cluster", "app"],
        because: "only `app` wires",
    },
];

/// What `rollout-probe-common` may depend on: it is compiled into the BPF object.
const COMMON_DEPENDENCIES: &[&str] = &["aya"];

pub(crate) fn check(root: &Path) -> Result<()> {
    let mut faults = Vec::new();
    let source = root.join("rollout-probe/src");
    for file in rust_files(&source)? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let relative = file.strip_prefix(&source).unwrap_or(&file);
        faults.extend(faults_in(relative, &text));
    }
    let manifest = root.join("rollout-probe-common/Cargo.toml");
    let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read `{}`", manifest.display()))?;
    for name in dependencies_in(&text).filter(|name| !COMMON_DEPENDENCIES.contains(name)) {
        faults.push(format!("rollout-probe-common depends on `{name}`: it may depend on {COMMON_DEPENDENCIES:?} only"));
    }
    for fault in &faults {
        eprintln!("{fault}");
    }
    if !faults.is_empty() {
        bail!("{} breaches of the rules in `xtask/src/layers.rs`", faults.len());
    }
    Ok(())
}

fn rust_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list `{}`", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The breaches in one file of the daemon, named relative to its `src`.
fn faults_in(file: &Path, text: &str) -> Vec<String> {
    let module = file.iter().next().map(|first| Path::new(first).with_extension("")).unwrap_or_default();
    let Some(layer) = LAYERS.iter().find(|layer| layer.modules.iter().any(|name| module == Path::new(name))) else {
        return Vec::new();
    };
    let mut faults: Vec<String> = paths_in(text)
        .iter()
        .filter_map(|path| layer.breach(path))
        .map(|name| format!("{}: `{}` names `{name}`: {}", file.display(), module.display(), layer.because))
        .collect();
    faults.sort();
    faults.dedup();
    faults
}

impl Layer {
    /// What of the forbidden a path names. `super::kernel` and `crate::kernel` are the same to it.
    fn breach(&self, path: &str) -> Option<&'static str> {
        let inner = ["crate::", "super::", "self::", "rollout_probe::"];
        let mut rest = path;
        while let Some(shorter) = inner.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
            rest = shorter;
        }
        let forbidden = if rest.len() < path.len() { self.own } else { self.foreign };
        forbidden
            .iter()
            .copied()
            .find(|name| rest == *name || rest.strip_prefix(name).is_some_and(|r| r.starts_with("::")))
    }
}

/// The dependencies a manifest declares for its users, which are all but those of its tests.
fn dependencies_in(manifest: &str) -> impl Iterator<Item = &str> {
    let mut table = "";
    manifest.lines().map(str::trim).filter_map(move |line| {
        if let Some(heading) = line.strip_prefix('[') {
            table = heading.trim_end_matches(']');
            let (parent, name) = table.rsplit_once('.')?;
            return is_dependency_table(parent).then_some(name);
        }
        let (name, _) = line.split_once(['=', '.'])?;
        (is_dependency_table(table) && !line.starts_with('#')).then(|| name.trim())
    })
}

fn is_dependency_table(heading: &str) -> bool {
    matches!(heading.rsplit('.').next(), Some("dependencies" | "build-dependencies"))
}

#[cfg(test)]
mod tests {
    use super::{dependencies_in, faults_in};
    use std::path::Path;

    fn faults(file: &str, text: &str) -> usize {
        faults_in(Path::new(file), text).len()
    }

    #[test]
    fn pure_module_with_io_is_a_fault() {
        assert_eq!(faults("ledger.rs", "use tokio::time::Instant;"), 1, "a runtime");
        assert_eq!(faults("index/tests.rs", "use kube::{Api, Client};"), 1, "a submodule is part of its module");
        assert_eq!(faults("series.rs", "fn f() { let m = aya::maps::HashMap::new(); }"), 1, "a path without `use`");
        assert_eq!(faults("cgroup.rs", "use std::{fmt, fs};"), 1, "a nested name");
    }

    #[test]
    fn pure_module_with_edge_is_a_fault_however_it_is_named() {
        for text in ["use crate::kernel::Probe;", "use super::kernel;", "use crate::{index, kernel::{self, Sample}};"] {
            assert_eq!(faults("ledger.rs", text), 1, "{text}");
        }
    }

    #[test]
    fn names_that_only_look_alike_are_fine() {
        let text = r#"
            //! use tokio::time; and crate::kernel
            use k8s_openapi::api::core::v1::Pod; /* use aya::maps; */
            use crate::{cgroup::CgroupId, kernel_version};
            use std::time::Duration;
            const TEXT: &str = "use kube::Client;";
            fn f(kernel: u32) -> u32 { kernel }
        "#;
        assert_eq!(faults("index.rs", text), 0, "comments, strings, prefixes and locals name no module");
    }

    #[test]
    fn kernel_and_cluster_never_see_each_other() {
        assert_eq!(faults("kernel/attach.rs", "use crate::cluster::Watch;"), 1, "kernel to cluster");
        assert_eq!(faults("cluster.rs", "use crate::kernel::Probe;"), 1, "cluster to kernel");
        assert_eq!(
            faults("kernel/mod.rs", "use aya::Ebpf; use crate::ledger::Sample;"),
            0,
            "an edge may use pure modules"
        );
    }

    #[test]
    fn app_and_main_may_name_everybody() {
        let text = "use crate::{kernel, cluster}; use tokio::signal;";
        assert_eq!(faults("app.rs", text) + faults("main.rs", text), 0, "they wire");
    }

    #[test]
    fn dependencies_of_a_manifest_are_found_in_every_form() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\naya = { optional = true }\n# old = \"1\"\n\
            bytes.workspace = true\n[dev-dependencies]\nproptest = \"1\"\n[dependencies.serde]\nversion = \"1\"\n\
            [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n[features]\nuser = []\n";
        assert_eq!(dependencies_in(manifest).collect::<Vec<_>>(), ["aya", "bytes", "serde", "libc"]);
    }
}
