//! One pod's container: the server process that its image name stands for, and its prober.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::{
    api::core::v1::{Container as ContainerSpec, Pod},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

use crate::{
    load::{ProbeTally, Prober},
    node::{NginxPod, PlayedNode},
};

/// A container that runs, and is probed until its probes are stopped.
pub(super) struct Container {
    pod: NginxPod,
    prober: Option<Prober>,
    ready: bool,
}

impl Container {
    pub(super) fn start(node: &mut PlayedNode, pod: &Pod) -> Result<Self> {
        let spec = pod.spec.as_ref().and_then(|spec| spec.containers.first()).context("it has no container")?;
        let faulty = is_faulty(spec.image.as_deref().unwrap_or_default())?;
        let probe = ReadinessProbe::from_spec(spec)?;
        let pod = node.run_nginx(&pod.uid().unwrap_or_default(), faulty, probe.port)?;
        let address = format!("{}:{}", pod.host.ip, probe.port);
        let prober = Prober::start(&node.kubelet_place(), &address, &probe.path, probe.period)?;
        Ok(Self { pod, prober: Some(prober), ready: false })
    }

    pub(super) fn id(&self) -> String {
        self.pod.id.clone()
    }

    pub(super) fn ip(&self) -> String {
        self.pod.host.ip.clone()
    }

    /// What the last probe found; an error when the server has ended by itself.
    pub(super) fn check_ready(&mut self) -> Result<bool> {
        let process = self.pod.server.process();
        if !process.is_running() {
            bail!("the server has ended by itself\n{}", process.log_tail());
        }
        if let Some(prober) = &mut self.prober {
            self.ready = prober.ready();
        }
        Ok(self.ready)
    }

    /// What all probes saw; nothing if they were stopped before.
    pub(super) fn stop_probes(&mut self) -> Result<Option<ProbeTally>> {
        self.prober.take().map(Prober::finish).transpose()
    }

    pub(super) fn stop(self, node: &mut PlayedNode) -> Result<()> {
        node.remove_pod(self.pod)
    }
}

/// Images that can be "pulled" here.
fn is_faulty(image: &str) -> Result<bool> {
    match image {
        "nginx-ok:1" => Ok(false),
        "nginx-faulty:2" => Ok(true),
        other => bail!("no server stands for the image `{other}`"),
    }
}

struct ReadinessProbe {
    port: u16,
    path: String,
    period: Duration,
}

impl ReadinessProbe {
    fn from_spec(container: &ContainerSpec) -> Result<Self> {
        let probe = container.readiness_probe.as_ref().context("it has no readiness probe")?;
        let get = probe.http_get.as_ref().context("its readiness probe is no httpGet")?;
        let port = match &get.port {
            IntOrString::Int(port) => u16::try_from(*port)?,
            IntOrString::String(name) => bail!("its readiness probe has a named port, `{name}`"),
        };
        let path = get.path.clone().unwrap_or_else(|| "/".to_owned());
        let period = Duration::from_secs(u64::try_from(probe.period_seconds.unwrap_or(10))?); // 10: the API's default
        Ok(Self { port, path, period })
    }
}
