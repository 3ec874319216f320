//! What a test needs of the machine. A test whose needs are not met is reported as ignored, with the reason: never as passed.

use testbed::{controlplane::ControlPlane, prometheus::Prometheus, server};

use crate::manifests;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Requirement {
    Root,
    ControlPlane,
    Nginx,
    Prometheus,
    PodMonitorCrd,
}

impl Requirement {
    /// Why it is not met here, if so.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Self::Root => (!nix::unistd::geteuid().is_root()).then(|| "it needs root".to_owned()),
            Self::ControlPlane => ControlPlane::missing(),
            Self::Nginx => server::missing().contains(&"nginx").then(|| "nginx is not installed".to_owned()),
            Self::Prometheus => {
                let missing = Prometheus::missing();
                (!missing.is_empty()).then(|| format!("not installed: {}", missing.join(", ")))
            }
            Self::PodMonitorCrd => manifests::crd_path().err(),
        }
    }
}
