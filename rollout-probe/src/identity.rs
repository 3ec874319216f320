//! Pure: who a pod is, as the labels of its series say it.

use std::sync::Arc;

/// The part of a series' labels that all containers of a pod share. Cheap to clone.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Identity(Arc<Labels>);

/// The label values of an [`Identity`].
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Labels {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// Name of the workload that runs the pod; the pod's own name when nothing does.
    pub workload: String,
    /// Kind of that workload: `Deployment`, `StatefulSet`, ... or `Pod`.
    pub workload_kind: String,
    /// The revision's hash; empty where the workload has no revisions.
    pub revision: String,
}

impl Identity {
    /// Takes label values.
    pub fn new(labels: Labels) -> Self {
        Self(Arc::new(labels))
    }
}

impl std::ops::Deref for Identity {
    type Target = Labels;

    fn deref(&self) -> &Labels {
        &self.0
    }
}
