//! From flags and environment to a checked configuration. Every fault is reported at once, with its value.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

use k8s_openapi::jiff::SignedDuration;

use crate::{
    cgroup::DEFAULT_PROBERS, durations::Durations, naming::Naming, selector::Selector, series::SERIES_PER_CONTAINER,
};

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
    /// Upper bounds of the duration histogram's buckets in seconds, ascending, at most 15 [default: 0.001 to 60].
    #[arg(long, env = "DURATION_BUCKETS", value_name = "SECONDS,..", value_delimiter = ',')]
    pub duration_buckets: Vec<String>,
    /// Which of the labels `pod` and `container` series have. Without them they add up per revision.
    #[arg(long, env = "LABELS", value_name = "NAME,..", value_delimiter = ',', default_value = "pod,container")]
    pub labels: Vec<String>,
    /// Series only for pods in these namespaces.
    #[arg(long, env = "NAMESPACES", value_name = "NAME,..", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// No series for pods in these namespaces.
    #[arg(long, env = "EXCLUDE_NAMESPACES", value_name = "NAME,..", value_delimiter = ',')]
    pub exclude_namespaces: Vec<String>,
    /// Series only for pods with such labels, as `kubectl --selector` takes them.
    #[arg(long, env = "POD_SELECTOR", value_name = "SELECTOR", default_value = "")]
    pub pod_selector: String,
    /// About how many series there may be: pods beyond that share one set of them.
    #[arg(long, env = "MAX_SERIES", value_name = "COUNT", default_value = "200000")]
    pub max_series: String,
    /// How long the series of a deleted pod stay.
    #[arg(long, env = "POD_GRACE", value_name = "DURATION", default_value = "5m")]
    pub pod_grace: String,
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
#[derive(Clone, Debug, PartialEq)]
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
    /// Buckets of the duration histogram.
    pub durations: Durations,
    /// Which pods get series, with which labels.
    pub naming: Naming,
    /// About how many series there may be.
    pub max_series: usize,
    /// How long the series of a deleted pod stay.
    pub pod_grace: Duration,
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
        let durations = check_durations(&args.duration_buckets, &mut faults);
        let max_series = check_max_series(&args.max_series, &mut faults);
        let pod_grace = check_grace(&args.pod_grace, &mut faults);
        let naming =
            check_naming(args.labels, args.namespaces, args.exclude_namespaces, &args.pod_selector, &mut faults);
        match (metrics_addr, pods) {
            (Ok(metrics_addr), Some(pods)) if faults.is_empty() => Ok(Self {
                node,
                metrics_addr,
                cgroup_root: args.cgroup_root,
                pods,
                probe_cgroups,
                durations,
                naming,
                max_series,
                pod_grace,
                log_format,
            }),
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

fn check_durations(given: &[String], faults: &mut Vec<String>) -> Durations {
    if given.is_empty() {
        return Durations::default();
    }
    Durations::parse(given).unwrap_or_else(|why| {
        faults.push(format!("--duration-buckets `{}` {why}", given.join(",")));
        Durations::default()
    })
}

fn check_max_series(given: &str, faults: &mut Vec<String>) -> usize {
    given.parse().ok().filter(|count| *count >= SERIES_PER_CONTAINER).unwrap_or_else(|| {
        faults.push(format!("--max-series `{given}` is not a number of {SERIES_PER_CONTAINER} or more"));
        0
    })
}

fn check_grace(given: &str, faults: &mut Vec<String>) -> Duration {
    let duration = given.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    duration.unwrap_or_else(|| {
        faults.push(format!("--pod-grace `{given}` is not a duration, such as 5m or 90s"));
        Duration::ZERO
    })
}

fn check_naming(
    labels: Vec<String>,
    namespaces: Vec<String>,
    excluded_namespaces: Vec<String>,
    selector: &str,
    faults: &mut Vec<String>,
) -> Naming {
    let not_empty = |names: Vec<String>| names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>();
    let labels = not_empty(labels);
    for label in labels.iter().filter(|label| !["pod", "container"].contains(&label.as_str())) {
        faults.push(format!("--labels `{label}` is neither `pod` nor `container`: all other labels are always there"));
    }
    let selector = Selector::parse(selector).unwrap_or_else(|part| {
        faults.push(format!("--pod-selector `{selector}` has a part that is no label selector: `{part}`"));
        Selector::default()
    });
    Naming {
        keep_pod: labels.iter().any(|label| label == "pod"),
        keep_container: labels.iter().any(|label| label == "container"),
        namespaces: not_empty(namespaces),
        excluded_namespaces: not_empty(excluded_namespaces),
        selector,
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use clap::Parser as _;

    use super::{Cli, Command, Config, LogFormat, Naming, PodSource, RunArgs, Selector};

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
        flags.labels = vec!["pod".to_owned(), "uid".to_owned()];
        flags.pod_selector = "app=web,=x".to_owned();
        flags.max_series = "9".to_owned();
        flags.duration_buckets = vec!["0.5".to_owned(), "0.1".to_owned()];
        flags.pod_grace = "-5m".to_owned();
        flags.node_name = Some("Node A".to_owned());
        flags.pods_file = Some(PathBuf::from("p"));
        flags.kubeconfig = Some(PathBuf::from("k"));
        let faults = Config::check(flags).expect_err("all wrong");
        let wanted = [
            "`9478`",
            "`xml`",
            "`a/b`",
            "`Node A`",
            "`p` and --kubeconfig `k`",
            "`uid`",
            "`=x`",
            "`9`",
            "`-5m`",
            "`0.5,0.1` has `0.1`",
        ];
        for value in wanted {
            assert!(faults.iter().any(|fault| fault.contains(value)), "{value} in {faults:#?}");
        }
        assert_eq!(faults.len(), wanted.len());
        assert!(faults.iter().all(|fault| !fault.contains('\n')));
    }

    #[test]
    fn what_gets_series_is_as_the_flags_say() {
        let flags = args(&[
            "--node-name",
            "node-a",
            "--labels",
            "",
            "--namespaces",
            "shop,bank",
            "--exclude-namespaces",
            "kube-system",
            "--pod-selector",
            "app=web",
            "--max-series",
            "5000",
            "--pod-grace",
            "90s",
        ]);
        let config = Config::check(flags).expect("valid");
        assert_eq!((config.max_series, config.pod_grace), (5000, Duration::from_secs(90)));
        let expected = Naming {
            keep_pod: false,
            keep_container: false,
            namespaces: vec!["shop".to_owned(), "bank".to_owned()],
            excluded_namespaces: vec!["kube-system".to_owned()],
            selector: Selector::parse("app=web").expect("valid"),
        };
        assert_eq!(config.naming, expected);
        let default = Config::check(args(&["--node-name", "node-a"])).expect("valid");
        assert_eq!((default.naming, default.pod_grace), (Naming::default(), Duration::from_mins(5)));
    }

    #[test]
    fn missing_node_name_is_a_fault() {
        let faults = Config::check(RunArgs { node_name: None, ..args(&[]) }).expect_err("no node");
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("NODE_NAME"), "{faults:?}");
    }
}
