//! Deployment `shop/checkout`, which the end-to-end tests and the demo roll from a good image to a faulty one.

use anyhow::{Context, Result};

use crate::controlplane::ControlPlane;

pub const NAMESPACE: &str = "shop";
pub const NAME: &str = "checkout";
pub const REPLICAS: usize = 2;
pub const PORT: u16 = 8080;
/// Asked every second, and fine in every image.
pub const READINESS_PATH: &str = "/healthz";
/// Serves everything.
pub const GOOD_IMAGE: &str = "nginx-ok:1";
/// Fails on `/api/pay` and `/api/cart`.
pub const FAULTY_IMAGE: &str = "nginx-faulty:2";

/// Creates the Deployment, or changes its image: the controllers do the rest.
pub fn apply(cluster: &ControlPlane, image: &str) -> Result<()> {
    cluster.kubectl_with_input(&["apply", "-f", "-"], &manifests(image)).map(drop)
}

/// What `kubectl rollout status` says when the rollout is over; an error when it fails or takes more than a minute.
pub fn rollout_status(cluster: &ControlPlane) -> Result<String> {
    let deployment = format!("deployment/{NAME}");
    let said = cluster.kubectl(&["--namespace", NAMESPACE, "rollout", "status", &deployment, "--timeout=60s"]);
    let said = said.with_context(|| {
        let everything = ["--namespace", NAMESPACE, "describe", "deployments,replicasets,pods"];
        cluster.kubectl(&everything).unwrap_or_default()
    })?;
    Ok(said.lines().last().unwrap_or_default().to_owned())
}

/// The `pod-template-hash` of the `ReplicaSet` with this image.
pub fn revision(cluster: &ControlPlane, image: &str) -> Result<String> {
    let template =
        "{range .items[*]}{.spec.template.spec.containers[0].image} {.metadata.labels.pod-template-hash}{'\\n'}{end}";
    let jsonpath = format!("--output=jsonpath={template}");
    let listed = cluster.kubectl(&["--namespace", NAMESPACE, "get", "replicasets", &jsonpath])?;
    let hash = listed.lines().find_map(|line| line.strip_prefix(image)?.strip_prefix(' '));
    hash.map(str::to_owned).with_context(|| format!("no ReplicaSet with image {image} in:\n{listed}"))
}

fn manifests(image: &str) -> String {
    format!(
        "apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {NAME}, namespace: {NAMESPACE}}}
spec:
  replicas: {REPLICAS}
  selector: {{matchLabels: {{app: {NAME}}}}}
  template:
    metadata: {{labels: {{app: {NAME}}}}}
    spec:
      containers:
      - name: web
        image: {image}
        ports: [{{containerPort: {PORT}}}]
        readinessProbe: {{httpGet: {{path: {READINESS_PATH}, port: {PORT}}}, periodSeconds: 1}}
"
    )
}
