//! Edge: pods from a file, as `kubectl get pods -o json` (or `yaml`) prints them, instead of from the API. Read again when it changes.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use tokio::{sync::mpsc, time};

use crate::{
    health::WatchError,
    naming::Naming,
    pod_record::PodRecord,
    pods::{PodEvent, Stopped},
};

/// How often the file is looked at. One `stat`, so that editors, renames and mounted `ConfigMap`s all work.
const PERIOD: Duration = Duration::from_millis(500);

/// Why a pods file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PodsFileError {
    /// It cannot be read.
    #[error("cannot read the pods file `{path}`")]
    Read {
        /// As given.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is neither JSON nor YAML.
    #[error("the pods file `{path}` is not valid JSON or YAML: {reason}")]
    Syntax {
        /// As given.
        path: PathBuf,
        /// The parser's words, with line and column, on one line.
        reason: String,
    },
    /// It is something else than a list of pods.
    #[error("the pods file `{path}` has kind `{kind}`, not PodList, List or Pod")]
    Kind {
        /// As given.
        path: PathBuf,
        /// What it says.
        kind: String,
    },
    /// One of its items is no pod.
    #[error("item {item} of the pods file `{path}` is not a pod: {reason}")]
    Item {
        /// As given.
        path: PathBuf,
        /// Counted from 0.
        item: usize,
        /// Why.
        reason: String,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    items: Vec<serde_json::Value>,
}

/// Reads the pods of `node`, or of all nodes.
pub fn read(path: &Path, node: Option<&str>, naming: &Naming) -> Result<Vec<PodRecord>, PodsFileError> {
    let text = fs::read_to_string(path).map_err(|source| PodsFileError::Read { path: path.to_owned(), source })?;
    parse(path, &text, node, naming)
}

fn parse(path: &Path, text: &str, node: Option<&str>, naming: &Naming) -> Result<Vec<PodRecord>, PodsFileError> {
    let path = || path.to_owned();
    let syntax =
        |reason: &dyn std::fmt::Display| PodsFileError::Syntax { path: path(), reason: one_line(&reason.to_string()) };
    let value: serde_json::Value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| syntax(&error))?
    } else {
        serde_saphyr::from_str(text).map_err(|error| syntax(&error))?
    };
    let file: File = serde_json::from_value(value.clone()).map_err(|error| syntax(&error))?;
    let items = match file.kind.as_str() {
        "PodList" | "List" => file.items,
        "Pod" => vec![value],
        kind => return Err(PodsFileError::Kind { path: path(), kind: kind.to_owned() }),
    };
    let mut pods = Vec::new();
    for (item, value) in items.into_iter().enumerate() {
        let error = |reason: String| PodsFileError::Item { path: path(), item, reason };
        let pod: Pod = serde_json::from_value(value).map_err(|cause| error(one_line(&cause.to_string())))?;
        let is_here =
            node.is_none_or(|node| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node));
        let mut record = PodRecord::from_pod(&pod, naming).ok_or_else(|| error("it has no metadata.uid".to_owned()))?;
        if is_here {
            record.owner = None; // there is no API to ask for it
            pods.push(record);
        }
    }
    Ok(pods)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sends the pods each time the file has changed. A fault keeps the pods of before.
pub async fn watch(
    path: PathBuf,
    node: Option<String>,
    naming: Naming,
    pods: mpsc::Sender<PodEvent>,
) -> Result<(), Stopped> {
    let mut seen = stamp(&path);
    let mut timer = time::interval(PERIOD);
    loop {
        timer.tick().await;
        let now = stamp(&path);
        if now == seen {
            continue;
        }
        seen = now;
        let event = match read(&path, node.as_deref(), &naming) {
            Ok(records) => PodEvent::Reset(records),
            Err(error) => PodEvent::Error(WatchError::File, error.into()),
        };
        pods.send(event).await.map_err(|_closed| Stopped)?;
    }
}

/// Changes whenever the file does: an editor writes in place, a careful writer renames.
fn stamp(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{PodsFileError, parse};
    use crate::naming::Naming;

    const YAML: &str = "
apiVersion: v1
kind: List
items:
- metadata: {name: web-1, namespace: shop, uid: u1}
  spec: {nodeName: node-a, containers: [{name: app}]}
- metadata: {name: web-2, namespace: shop, uid: u2}
  spec: {nodeName: node-b, containers: [{name: app}]}
";

    fn names(text: &str, node: Option<&str>) -> Vec<String> {
        let pods = parse(Path::new("pods"), text, node, &Naming::default()).expect("valid");
        pods.iter().map(|pod| pod.identity.pod.clone()).collect()
    }

    fn error(text: &str) -> PodsFileError {
        parse(Path::new("pods"), text, None, &Naming::default()).expect_err("invalid")
    }

    #[test]
    fn list_is_read_from_yaml_and_json() {
        assert_eq!(names(YAML, None), ["web-1", "web-2"]);
        let json = r#"{"kind": "PodList", "items": [{"metadata": {"name": "a", "uid": "u"}}]}"#;
        assert_eq!(names(json, None), ["a"]);
        assert_eq!(names(r#"{"kind": "Pod", "metadata": {"name": "a", "uid": "u"}}"#, None), ["a"]);
        assert_eq!(names(r#"{"kind": "PodList", "items": []}"#, None), Vec::<String>::new());
    }

    #[test]
    fn pods_of_other_nodes_are_left_out() {
        assert_eq!(names(YAML, Some("node-b")), ["web-2"]);
    }

    #[test]
    fn faults_are_named_on_one_line() {
        let cases = [
            ("kind: [", "not valid JSON or YAML"),
            ("{\"kind\": ", "not valid JSON or YAML"),
            ("", "not valid JSON or YAML"),
            ("just text", "not valid JSON or YAML"),
            ("kind: ConfigMap", "has kind `ConfigMap`"),
            ("items: []", "has kind ``"),
            (
                "kind: PodList\nitems:\n- metadata: {name: a}",
                "item 0 of the pods file `pods` is not a pod: it has no metadata.uid",
            ),
            ("kind: PodList\nitems:\n- metadata: {uid: a}\n- metadata: {uid: [1]}", "item 1 of the pods file"),
        ];
        for (text, expected) in cases {
            let error = error(text).to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{text:?} gave: {error}");
        }
    }
}
