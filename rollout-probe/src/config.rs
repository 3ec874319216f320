//! From flags and environment to a checked configuration. Every fault is reported at once, with its value.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::cgroup::DEFAULT_PROBERS;

/// Per-revision HTTP error metrics from every pod of this node, counted in the kernel.
#[derive(Debug, Parser)]
#[command(version, about, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count on this node and serve /metrics.
    Run(RunArgs),
}

/// The flags as they come. All values are checked together, in [`Config::check`].
#[derive(Args, Clone, Debug, Default)]
pub struct RunArgs {
    /// This node's name in Kubernetes: only its pods are watched.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: Option<String>,
    /// Where to serve /metrics, /healthz and /readyz.
    #[arg(long, env = "METRICS_ADDR", value_name = "ADDR:PORT", default_value = "0.0.0.0:9478")]
    pub metrics_addr: String,
    /// Root of the cgroup v2 hierarchy [default: where it is mounted].
    #[arg(long, env = "CGROUP_ROOT", value_name = "DIR")]
    pub cgroup_root: Option<PathBuf>,
    /// Kubernetes configuration [default: in-cluster, else the usual kubeconfig rules].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Take the pods from this file instead of the API: a PodList or List in JSON or YAML, read again when it changes.
    #[arg(long, env = "PODS_FILE", value_name = "FILE")]
    pub pods_file: Option<PathBuf>,
    /// A cgroup path component whose processes are health probers; may be given more than once [default: the kubelet's usual ones].
    #[arg(long, value_name = "NAME")]
    pub probe_cgroup: Vec<String>,
    /// `text` or `json`.
    #[arg(long, env = "LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: String,
}

/// Where the pods come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PodSource {
    /// The API, for the pods of this node.
    Api {
        /// This node's name.
        node: String,
        /// As given.
        kubeconfig: Option<PathBuf>,
    },
    /// A file.
    File(PathBuf),
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one object a line.
    Json,
}

/// A checked configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// This node's name, if given.
    pub node: Option<String>,
    /// Where to listen.
    pub metrics_addr: SocketAddr,
    /// As given.
    pub cgroup_root: Option<PathBuf>,
    /// Where the pods come from.
    pub pods: PodSource,
    /// Path components of probers.
    pub probe_cgroups: Vec<String>,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl Config {
    /// Checks the flags; the error lists all that is wrong, one line each.
    pub fn check(args: RunArgs) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let metrics_addr = args.metrics_addr.parse().map_err(|_not_an_address| {
            faults.push(format!("--metrics-addr `{}` is not ADDRESS:PORT, such as 0.0.0.0:9478", args.metrics_addr));
        });
        let log_format = match args.log_format.as_str() {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => {
                faults.push(format!("--log-format `{other}` is neither `text` nor `json`"));
                LogFormat::Text
            }
        };
        let node = check_node(args.node_name, &mut faults);
        let pods = check_pods(node.as_deref(), args.kubeconfig, args.pods_file, &mut faults);
        let probe_cgroups = check_probers(args.probe_cgroup, &mut faults);
        match (metrics_addr, pods) {
            (Ok(metrics_addr), Some(pods)) if faults.is_empty() => {
                Ok(Self { node, metrics_addr, cgroup_root: args.cgroup_root, pods, probe_cgroups, log_format })
            }
            _ => Err(faults),
        }
    }
}

/// A node's name is a DNS subdomain (RFC 1123), and goes into a field selector.
fn check_node(name: Option<String>, faults: &mut Vec<String>) -> Option<String> {
    let name = name?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if name.is_empty() || name.len() > 253 || !name.bytes().all(fits) {
        faults.push(format!("--node-name `{name}` is not a node's name (lower case letters, digits, `-` and `.`)"));
    }
    Some(name)
}

fn check_pods(
    node: Option<&str>,
    kubeconfig: Option<PathBuf>,
    file: Option<PathBuf>,
    faults: &mut Vec<String>,
) -> Option<PodSource> {
    match (file, kubeconfig) {
        (Some(file), None) => Some(PodSource::File(file)),
        (Some(file), Some(kubeconfig)) => {
            let (file, kubeconfig) = (file.display(), kubeconfig.display());
            faults.push(format!("--pods-file `{file}` and --kubeconfig `{kubeconfig}` exclude each other"));
            None
        }
        (None, kubeconfig) => {
            let Some(node) = node else {
                faults.push(
                    "--node-name (or NODE_NAME) is not set: without it the pods of this node cannot be told".to_owned(),
                );
                return None;
            };
            Some(PodSource::Api { node: node.to_owned(), kubeconfig })
        }
    }
}

fn check_probers(given: Vec<String>, faults: &mut Vec<String>) -> Vec<String> {
    for name in &given {
        if name.is_empty() || name.contains('/') {
            faults.push(format!(
                "--probe-cgroup `{name}` is not one component of a cgroup path, such as kubelet.service"
            ));
        }
    }
    if given.is_empty() { DEFAULT_PROBERS.map(str::to_owned).into() } else { given }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser as _;

    use super::{Cli, Command, Config, LogFormat, PodSource, RunArgs};

    fn args(flags: &[&str]) -> RunArgs {
        let Command::Run(args) =
            Cli::try_parse_from([&["rollout-probe", "run"], flags].concat()).expect("known flags").command;
        args
    }

    #[test]
    fn defaults_need_a_node_name_only() {
        let config = Config::check(args(&["--node-name", "node-a"])).expect("valid");
        assert_eq!(config.metrics_addr.to_string(), "0.0.0.0:9478");
        assert_eq!(config.pods, PodSource::Api { node: "node-a".to_owned(), kubeconfig: None });
        assert_eq!(config.log_format, LogFormat::Text);
        assert!(config.probe_cgroups.contains(&"kubelet.service".to_owned()));
    }

    #[test]
    fn pods_file_needs_no_node_name() {
        let mut flags = args(&["--pods-file", "/tmp/pods.json", "--log-format", "json", "--probe-cgroup", "prober"]);
        flags.node_name = None;
        let config = Config::check(flags).expect("valid");
        assert_eq!(config.pods, PodSource::File(PathBuf::from("/tmp/pods.json")));
        assert_eq!((config.log_format, config.probe_cgroups), (LogFormat::Json, vec!["prober".to_owned()]));
    }

    #[test]
    fn every_fault_is_reported_at_once_with_its_value() {
        let mut flags = args(&["--metrics-addr", "9478", "--log-format", "xml", "--probe-cgroup", "a/b"]);
        flags.node_name = Some("Node A".to_owned());
        flags.pods_file = Some(PathBuf::from("p"));
        flags.kubeconfig = Some(PathBuf::from("k"));
        let faults = Config::check(flags).expect_err("all wrong");
        for value in ["`9478`", "`xml`", "`a/b`", "`Node A`", "`p` and --kubeconfig `k`"] {
            assert!(faults.iter().any(|fault| fault.contains(value)), "{value} in {faults:#?}");
        }
        assert_eq!(faults.len(), 5);
        assert!(faults.iter().all(|fault| !fault.contains('\n')));
    }

    #[test]
    fn missing_node_name_is_a_fault() {
        let faults = Config::check(RunArgs { node_name: None, ..args(&[]) }).expect_err("no node");
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("NODE_NAME"), "{faults:?}");
    }
}
