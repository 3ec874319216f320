//! The manifests that ship, in `deploy/`.

use anyhow::Result;

use crate::controlplane::ControlPlane;

/// The daemon's namespace and the name of its `ServiceAccount`.
pub const NAMESPACE: &str = "rollout-probe";
pub const SERVICE_ACCOUNT: &str = "rollout-probe";

/// The path of a file or folder in `deploy/`.
pub fn manifest(path: &str) -> String {
    format!("{}/../../deploy/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// The daemon's namespace, in which even a dry run fails as long as it does not exist, and its `ServiceAccount` with the
/// `ClusterRole` and the binding.
pub fn apply_namespace_and_rbac(cluster: &ControlPlane) -> Result<()> {
    cluster.kubectl(&["apply", "-f", &manifest("base/namespace.yaml")])?;
    cluster.kubectl(&["apply", "--namespace", NAMESPACE, "-f", &manifest("base/rbac.yaml")])?;
    Ok(())
}
