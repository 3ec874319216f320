//! Edge: the pods of this node from the Kubernetes API, by list and watch.
//!
//! Of each object only a [`PodRecord`] is kept; the watch itself keeps none. Errors are counted by stage and retried with
//! backoff and jitter for ever: counting does not wait for the API.

mod owners;

use std::path::Path;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt as _, watcher},
};
use tokio::sync::mpsc;

use crate::{
    health::WatchError,
    naming::Naming,
    pod_record::PodRecord,
    pods::{PodEvent, Stopped},
};

/// Why there is no client for the API. Being unreachable is no such reason.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The named kubeconfig is missing or wrong.
    #[error("cannot use the kubeconfig `{path}`")]
    Kubeconfig {
        /// As given.
        path: String,
        /// Why.
        source: kube::config::KubeconfigError,
    },
    /// Neither in a cluster nor is there a kubeconfig in the usual places.
    #[error("no Kubernetes API: not in a cluster, and no kubeconfig found; give --kubeconfig or --pods-file")]
    Nowhere(#[source] kube::config::InferConfigError),
    /// A certificate or token of the configuration cannot be used.
    #[error("cannot make a Kubernetes client")]
    Client(#[source] Box<kube::Error>),
}

/// A client: by `kubeconfig`, else as a pod of the cluster, else by the usual kubeconfig rules. Sends nothing yet.
pub async fn client(kubeconfig: Option<&Path>) -> Result<Client, ClusterError> {
    let config = match kubeconfig {
        Some(path) => from_file(path).await?,
        None => Config::infer().await.map_err(ClusterError::Nowhere)?,
    };
    Client::try_from(config).map_err(|error| ClusterError::Client(Box::new(error)))
}

async fn from_file(path: &Path) -> Result<Config, ClusterError> {
    let named = |source| ClusterError::Kubeconfig { path: path.display().to_string(), source };
    let file = Kubeconfig::read_from(path).map_err(named)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(named)
}

/// Watches the pods of `node`, and asks for their owners, until nobody listens.
pub async fn watch(client: Client, node: &str, naming: &Naming, pods: mpsc::Sender<PodEvent>) -> Result<(), Stopped> {
    let (questions, asked) = mpsc::channel(owners::QUEUE);
    let owners = owners::answer(client.clone(), asked, pods.clone());
    let pods = watch_pods(client, node, naming, pods, questions);
    tokio::try_join!(owners, pods).map(|_both_ended| ())
}

async fn watch_pods(
    client: Client,
    node: &str,
    naming: &Naming,
    pods: mpsc::Sender<PodEvent>,
    questions: mpsc::Sender<owners::Question>,
) -> Result<(), Stopped> {
    let api: Api<Pod> = Api::all(client);
    let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let stream = watcher(api, config).default_backoff();
    pin_mut!(stream);
    let mut listed = Vec::new();
    while let Some(event) = stream.next().await {
        let Some(event) = digest(event, naming, &mut listed) else { continue };
        let records = match &event {
            PodEvent::Apply(record) => std::slice::from_ref(&**record),
            PodEvent::Reset(records) => records,
            _ => &[],
        };
        // A question that finds no room is asked again with the pod's next change.
        let asking: Vec<_> = records.iter().filter_map(owners::Question::about).collect();
        pods.send(event).await.map_err(|_closed| Stopped)?;
        for question in asking {
            let _asked_or_later = questions.try_send(question);
        }
    }
    Ok(())
}

/// Turns a watch event into one of ours; a list comes in pieces and is collected in `listed`.
fn digest(
    event: watcher::Result<watcher::Event<Pod>>,
    naming: &Naming,
    listed: &mut Vec<PodRecord>,
) -> Option<PodEvent> {
    let record = |pod| PodRecord::from_pod(pod, naming);
    match event {
        Ok(watcher::Event::Init) => {
            listed.clear();
            None
        }
        Ok(watcher::Event::InitApply(pod)) => {
            listed.extend(record(&pod));
            None
        }
        Ok(watcher::Event::InitDone) => Some(PodEvent::Reset(std::mem::take(listed))),
        Ok(watcher::Event::Apply(pod)) => record(&pod).map(|pod| PodEvent::Apply(Box::new(pod))),
        Ok(watcher::Event::Delete(pod)) => record(&pod).map(|pod| PodEvent::Delete(pod.uid)),
        Err(error) => Some(PodEvent::Error(stage(&error), error.into())),
    }
}

fn stage(error: &watcher::Error) -> WatchError {
    match error {
        watcher::Error::InitialListFailed(_) => WatchError::List,
        watcher::Error::WatchStartFailed(_) => WatchError::Start,
        _ => WatchError::Watch,
    }
}
