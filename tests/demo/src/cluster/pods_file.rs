//! No API server: this program does what a Deployment's controllers and a kubelet do, and writes the pods to a file.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use tempfile::TempDir;
use testbed::{
    checkout::{FAULTY_IMAGE, GOOD_IMAGE, NAME, NAMESPACE, PORT, READINESS_PATH, REPLICAS},
    kubelet::{Endpoints, PodRecord},
    load::Prober,
    node::{NginxPod, PlayedNode},
    pods::{self, PodObject},
    wait,
};

use super::{Cluster, NODE, Rollout};
use crate::traffic::Traffic;

const PROBE_PERIOD: Duration = Duration::from_secs(1);
const READY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct PodsFile {
    running: Vec<Running>, // first: stopped before the node goes
    node: PlayedNode,
    traffic: Traffic,
    ended: Vec<PodRecord>,
    dir: TempDir,
}

struct Running {
    object: PodObject,
    pod: NginxPod,
    prober: Option<Prober>,
}

impl PodsFile {
    pub(super) fn new(node: PlayedNode, traffic: Traffic) -> Result<Self> {
        let cluster = Self { running: Vec::new(), node, traffic, ended: Vec::new(), dir: tempfile::tempdir()? };
        cluster.write()?;
        Ok(cluster)
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("pods.json")
    }

    fn write(&self) -> Result<()> {
        let objects: Vec<_> = self.running.iter().map(|running| running.object.clone()).collect();
        pods::write(&self.path(), &objects)
    }

    /// Starts a pod, and returns when its probe has found it ready.
    fn start_pod(&mut self, image: &str, revision: &str) -> Result<()> {
        let number = self.ended.len() + self.running.len() + 1;
        let uid = format!("7b1f0c52-6a3e-4d0b-9a51-{number:012}");
        let pod = self.node.run_nginx(&uid, image == FAULTY_IMAGE, PORT)?;
        let address = format!("{}:{PORT}", pod.host.ip);
        let prober = Prober::start(&self.node.kubelet_place(), &address, READINESS_PATH, PROBE_PERIOD)?;
        let object = PodObject {
            namespace: NAMESPACE.to_owned(),
            name: format!("{NAME}-{revision}-pod{number}"),
            uid,
            deployment: NAME.to_owned(),
            revision: revision.to_owned(),
            node: NODE.to_owned(),
            image: image.to_owned(),
            ip: pod.host.ip.clone(),
            container_id: pod.id.clone(),
            ready: false,
        };
        self.running.push(Running { object, pod, prober: Some(prober) });
        self.write()?;
        self.await_ready()
    }

    /// Of the pod that was started last.
    fn await_ready(&mut self) -> Result<()> {
        let Some(running) = self.running.last_mut() else { return Ok(()) };
        let what = format!("pod {} to be ready", running.object.name);
        wait::until(&what, READY_TIMEOUT, || running.prober.as_mut().is_some_and(Prober::ready))?;
        running.object.ready = true;
        self.traffic.add(&record(running, false)?)?;
        self.write()
    }

    /// Out of rotation first, then the server drains and ends, then the object goes.
    fn end_pod(&mut self, mut running: Running) -> Result<()> {
        running.object.ready = false;
        self.traffic.remove(&record(&mut running, false)?)?;
        let mut ended = record(&mut running, true)?;
        ended.deleted = true;
        self.ended.push(ended);
        self.node.remove_pod(running.pod)?;
        self.write()
    }
}

impl Cluster for PodsFile {
    fn daemon_flags(&self) -> Result<Vec<String>> {
        Ok(["--node-name", NODE, "--pods-file", &self.path().to_string_lossy()].map(str::to_owned).to_vec())
    }

    /// As a Deployment with `maxSurge: 1` and `maxUnavailable: 0`: a new pod is Ready before an old one ends.
    fn roll(&mut self, image: &str) -> Result<Rollout> {
        let revision = revision(image);
        for _ in 0..REPLICAS {
            self.start_pod(image, revision)?;
            if let Some(old) = self.running.iter().position(|running| running.object.revision != revision) {
                let old = self.running.remove(old);
                self.end_pod(old)?;
            }
        }
        let verdict =
            format!("all {REPLICAS} pods of revision {revision} are Ready, which is all that a rollout waits for");
        Ok(Rollout { revision: revision.to_owned(), verdict })
    }

    fn stop_probes(&mut self) -> Result<Vec<PodRecord>> {
        let mut records = self.ended.clone();
        for running in &mut self.running {
            records.push(record(running, true)?);
        }
        Ok(records)
    }
}

/// What a controller would compute from the pod template.
fn revision(image: &str) -> &'static str {
    if image == GOOD_IMAGE { "5d4f8c7b9d" } else { "6c9d7f5b88" }
}

/// The pod as the kubelet would record it; with `final_probes` its probes end.
fn record(running: &mut Running, final_probes: bool) -> Result<PodRecord> {
    let prober = if final_probes { running.prober.take() } else { None };
    let object = &running.object;
    Ok(PodRecord {
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        uid: object.uid.clone(),
        revision: object.revision.clone(),
        ip: object.ip.clone(),
        ready: object.ready,
        deleted: false,
        probes: prober.map(Prober::finish).transpose()?,
    })
}
