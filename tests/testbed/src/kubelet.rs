//! Plays the kubelet of one Node for a real control plane.
//!
//! Owns the played node and one thread that compares, a few times a second, the pods that the API server has bound to the
//! node with those it runs: starts what is new (a network namespace, a cgroup of the kubelet's layout, a real server
//! process), probes it for readiness, writes statuses, and stops and deletes what is to be deleted. It remembers what its
//! probes saw of every pod it ever ran. It lists instead of watching: simpler, and nothing here is in a hurry.
//!
//! One container per pod, no volumes, no init containers, no restarts: a server that ends by itself is an error.

mod container;
mod status;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use container::Container;
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use status::ContainerState;
use tokio::runtime::Handle;

use crate::{controlplane::ControlPlane, load::ProbeTally, node::PlayedNode};

const PERIOD: Duration = Duration::from_millis(100);

/// What became of one pod.
#[derive(Clone, Debug)]
pub struct PodRecord {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Its label `pod-template-hash`.
    pub revision: String,
    pub ip: String,
    pub ready: bool,
    pub deleted: bool,
    /// Complete once its probes have ended: it was deleted, or [`Kubelet::stop_probes`] was called.
    pub probes: Option<ProbeTally>,
}

/// Who sends traffic to the pods: told when a pod may get some and when no more, as a Service's endpoints are.
pub trait Endpoints: Send {
    /// The pod is Ready, again perhaps.
    fn add(&mut self, pod: &PodRecord) -> Result<()>;
    /// The pod is not Ready any more, or is about to end. It does so only when this returns: what was sent gets its answer.
    fn remove(&mut self, pod: &PodRecord) -> Result<()>;
}

/// Nobody.
impl Endpoints for () {
    fn add(&mut self, _pod: &PodRecord) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, _pod: &PodRecord) -> Result<()> {
        Ok(())
    }
}

/// A running kubelet; on drop everything it runs is stopped.
#[derive(Debug)]
pub struct Kubelet {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Mutex<Shared>>,
}

/// What the thread tells.
#[derive(Debug, Default)]
struct Shared {
    pods: BTreeMap<String, PodRecord>, // by uid
    error: Option<String>,
}

#[derive(Debug)]
enum Command {
    StopProbes(Sender<()>),
}

impl Kubelet {
    /// Registers the node under this name and starts to run the pods bound to it.
    pub fn start(
        cluster: &ControlPlane,
        node_name: &str,
        node: PlayedNode,
        endpoints: impl Endpoints + 'static,
    ) -> Result<Self> {
        cluster.block_on(register(cluster, node_name))?;
        let (commands, receiver) = mpsc::channel();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let worker = Worker {
            pods: Api::all(cluster.client()),
            client: cluster.client(),
            runtime: cluster.runtime_handle(),
            node_name: node_name.to_owned(),
            running: BTreeMap::new(),
            node,
            endpoints: Box::new(endpoints),
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new().name("kubelet".into()).spawn(move || worker.run(&receiver))?;
        Ok(Self { commands: Some(commands), thread: Some(thread), shared })
    }

    /// Every pod it has run so far, also the deleted ones, oldest uid first; an error when it failed meanwhile.
    pub fn pods(&self) -> Result<Vec<PodRecord>> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &shared.error {
            bail!("the kubelet failed: {error}");
        }
        Ok(shared.pods.values().cloned().collect())
    }

    /// The pods of this revision that are there and Ready.
    pub fn ready_pods(&self, revision: &str) -> Result<Vec<PodRecord>> {
        let pods = self.pods()?.into_iter();
        Ok(pods.filter(|pod| pod.revision == revision && pod.ready && !pod.deleted).collect())
    }

    /// Ends all probes, so that their tallies are complete. Pods keep running, and keep the readiness they have.
    pub fn stop_probes(&self) -> Result<()> {
        let (reply, done) = mpsc::channel();
        let sent = self.commands.as_ref().is_some_and(|commands| commands.send(Command::StopProbes(reply)).is_ok());
        if !sent || done.recv().is_err() {
            self.pods()?; // says why
            bail!("the kubelet's thread is gone");
        }
        Ok(())
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        drop(self.commands.take()); // the thread's sign to end
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the kubelet's thread has panicked");
        }
    }
}

async fn register(cluster: &ControlPlane, name: &str) -> Result<()> {
    let (object, status) = status::node(name);
    let nodes: Api<Node> = Api::all(cluster.client());
    nodes.create(&PostParams::default(), &serde_json::from_value(object)?).await.context("cannot create the Node")?;
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .context("cannot set the Node's status")?;
    Ok(())
}

/// The thread's own state.
struct Worker {
    pods: Api<Pod>,
    client: kube::Client,
    runtime: Handle,
    node_name: String,
    running: BTreeMap<String, Running>, // by uid; first: stopped before the node goes
    node: PlayedNode,
    endpoints: Box<dyn Endpoints>,
    shared: Arc<Mutex<Shared>>,
}

struct Running {
    pod: Pod,
    container: Container,
    state: ContainerState,
}

impl Worker {
    fn run(mut self, commands: &Receiver<Command>) {
        loop {
            let result = match commands.recv_timeout(PERIOD) {
                Ok(Command::StopProbes(reply)) => self.stop_probes().map(|()| {
                    let _unless_gone = reply.send(());
                }),
                Err(RecvTimeoutError::Timeout) => self.reconcile(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Err(error) = result {
                self.shared.lock().unwrap_or_else(PoisonError::into_inner).error = Some(format!("{error:#}"));
                return;
            }
        }
    }

    fn reconcile(&mut self) -> Result<()> {
        let bound = ListParams::default().fields(&format!("spec.nodeName={}", self.node_name));
        let pods = self.runtime.block_on(self.pods.list(&bound)).context("cannot list the node's pods")?;
        for pod in pods {
            let uid = pod.uid().with_context(|| format!("pod {} has no uid", pod.name_any()))?;
            match (self.running.remove(&uid), pod.metadata.deletion_timestamp.is_some()) {
                (None, false) => self.start_pod(pod, uid)?,
                (Some(running), false) => self.probe_pod(running, uid)?,
                (Some(running), true) => self.end_pod(running)?,
                (None, true) => self.delete_object(&pod)?,
            }
        }
        Ok(())
    }

    fn start_pod(&mut self, pod: Pod, uid: String) -> Result<()> {
        let container =
            Container::start(&mut self.node, &pod).with_context(|| format!("cannot run pod {}", pod.name_any()))?;
        let now = Timestamp::now();
        let (id, ip) = (container.id(), container.ip());
        let running = Running {
            state: ContainerState { id, ip, ready: false, started_at: now, ready_since: now },
            container,
            pod,
        };
        self.write_status(&running)?;
        self.record(&running, None);
        self.running.insert(uid, running);
        Ok(())
    }

    /// Takes over what the last probe found.
    fn probe_pod(&mut self, mut running: Running, uid: String) -> Result<()> {
        let ready = running.container.check_ready()?;
        if ready != running.state.ready {
            self.set_ready(&mut running, ready)?;
        }
        self.running.insert(uid, running);
        Ok(())
    }

    fn set_ready(&mut self, running: &mut Running, ready: bool) -> Result<()> {
        running.state.ready = ready;
        running.state.ready_since = Timestamp::now();
        self.write_status(running)?;
        let record = self.record(running, None);
        if ready { self.endpoints.add(&record) } else { self.endpoints.remove(&record) }
    }

    /// As a kubelet does: out of rotation first, then the server drains and ends, then the object goes.
    fn end_pod(&mut self, mut running: Running) -> Result<()> {
        self.set_ready(&mut running, false)?;
        let probes = running.container.stop_probes()?;
        self.record(&running, probes);
        let Running { pod, container, .. } = running;
        container.stop(&mut self.node).with_context(|| format!("cannot stop pod {}", pod.name_any()))?;
        self.delete_object(&pod)?;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = pod.uid().unwrap_or_default();
        shared.pods.entry(uid).and_modify(|record| record.deleted = true);
        Ok(())
    }

    fn stop_probes(&mut self) -> Result<()> {
        for (uid, mut running) in std::mem::take(&mut self.running) {
            let probes = running.container.stop_probes()?;
            self.record(&running, probes);
            self.running.insert(uid, running);
        }
        Ok(())
    }

    fn namespaced(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }

    fn write_status(&self, running: &Running) -> Result<()> {
        let patch = Patch::Merge(status::running(&running.pod, &running.state));
        let (api, name) = (self.namespaced(&running.pod), running.pod.name_any());
        let written = self.runtime.block_on(api.patch_status(&name, &PatchParams::default(), &patch));
        written.map(drop).with_context(|| format!("cannot write the status of pod {name}"))
    }

    fn delete_object(&self, pod: &Pod) -> Result<()> {
        let deleted = self
            .runtime
            .block_on(self.namespaced(pod).delete(&pod.name_any(), &DeleteParams::default().grace_period(0)));
        match deleted {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()), // someone else was quicker
            other => {
                other.map(drop).map_err(|error| anyhow!(error).context(format!("cannot delete pod {}", pod.name_any())))
            }
        }
    }

    fn record(&self, running: &Running, probes: Option<ProbeTally>) -> PodRecord {
        let Running { pod, state, .. } = running;
        let uid = pod.uid().unwrap_or_default();
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let record = shared.pods.entry(uid.clone()).or_insert_with(|| PodRecord {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            uid,
            revision: pod.labels().get("pod-template-hash").cloned().unwrap_or_default(),
            ip: state.ip.clone(),
            ready: false,
            deleted: false,
            probes: None,
        });
        record.ready = state.ready;
        record.probes = probes.or(record.probes.take());
        record.clone()
    }
}
