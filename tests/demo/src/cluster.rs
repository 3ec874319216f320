//! Who runs the Deployment: a real control plane where its programs are at hand, else this program with a pods file.

mod control_plane;
mod pods_file;

use anyhow::Result;
use testbed::{
    controlplane::{ASSETS_VARIABLE, ControlPlane},
    kubelet::PodRecord,
    node::PlayedNode,
};

use crate::traffic::Traffic;

/// The name of the played node.
const NODE: &str = "played-node";

/// A rollout that is over, and that passed for a success.
pub(crate) struct Rollout {
    /// The `pod-template-hash`.
    pub(crate) revision: String,
    /// Who says that it succeeded, and in which words.
    pub(crate) verdict: String,
}

/// Runs Deployment `shop/checkout` on the played node.
pub(crate) trait Cluster {
    /// Where the daemon gets the pods from.
    fn daemon_flags(&self) -> Result<Vec<String>>;
    /// Brings all pods to this image, one after the other; returns when that has succeeded by Kubernetes' own rule.
    fn roll(&mut self, image: &str) -> Result<Rollout>;
    /// Ends all probes. Every pod that ever ran, with what its probes saw.
    fn stop_probes(&mut self) -> Result<Vec<PodRecord>>;
}

pub(crate) fn start(node: PlayedNode, traffic: &Traffic, say: &dyn Fn(&str)) -> Result<Box<dyn Cluster>> {
    if let Some(reason) = ControlPlane::missing() {
        say(&format!("no control plane ({reason}): a pods file stands for the API server"));
        say(&format!("with {ASSETS_VARIABLE} set, the same runs on a real API server with its controllers"));
        return Ok(Box::new(pods_file::PodsFile::new(node, traffic.clone())?));
    }
    say("starting a real control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler");
    Ok(Box::new(control_plane::RealControlPlane::start(node, traffic.clone())?))
}
