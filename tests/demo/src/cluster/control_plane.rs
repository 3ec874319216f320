//! A real API server, real controllers, a real Deployment; `kubectl rollout status` itself says that it succeeded.

use anyhow::{Result, ensure};
use testbed::{
    checkout,
    controlplane::ControlPlane,
    kubelet::{Kubelet, PodRecord},
    node::PlayedNode,
    shipped,
};

use super::{Cluster, NODE, Rollout};
use crate::traffic::Traffic;

pub(super) struct RealControlPlane {
    kubelet: Kubelet, // first: it ends its pods while the API server is there
    control_plane: ControlPlane,
}

impl RealControlPlane {
    pub(super) fn start(node: PlayedNode, traffic: Traffic) -> Result<Self> {
        let control_plane = ControlPlane::start()?;
        shipped::apply_namespace_and_rbac(&control_plane)?;
        let kubelet = Kubelet::start(&control_plane, NODE, node, traffic)?;
        Ok(Self { kubelet, control_plane })
    }
}

impl Cluster for RealControlPlane {
    /// The daemon has the shipped `ServiceAccount`, and with it no right but to read pods.
    fn daemon_flags(&self) -> Result<Vec<String>> {
        let kubeconfig = self.control_plane.service_account_kubeconfig(shipped::NAMESPACE, shipped::SERVICE_ACCOUNT)?;
        Ok(["--node-name", NODE, "--kubeconfig", &kubeconfig.to_string_lossy()].map(str::to_owned).to_vec())
    }

    fn roll(&mut self, image: &str) -> Result<Rollout> {
        checkout::apply(&self.control_plane, image)?;
        let said = checkout::rollout_status(&self.control_plane)?;
        ensure!(said.contains("successfully rolled out"), "kubectl rollout status says: {said}");
        let revision = checkout::revision(&self.control_plane, image)?;
        Ok(Rollout { revision, verdict: format!("kubectl rollout status says: {said}") })
    }

    fn stop_probes(&mut self) -> Result<Vec<PodRecord>> {
        self.kubelet.stop_probes()?;
        self.kubelet.pods()
    }
}
