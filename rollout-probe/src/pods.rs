//! Pure: what a source of pods says. The API and the pods file say the same things.

use crate::{cgroup::PodUid, health::WatchError, pod_record::PodRecord, revision::OwnerFacts};

/// One thing that a source of pods has to say.
#[derive(Debug)]
pub enum PodEvent {
    /// A pod was added or changed.
    Apply(Box<PodRecord>),
    /// A pod was deleted.
    Delete(PodUid),
    /// These are all the pods there are.
    Reset(Vec<PodRecord>),
    /// What is known of the owner with this uid.
    Owner(String, OwnerFacts),
    /// Something failed; the source goes on by itself.
    Error(WatchError, Box<dyn std::error::Error + Send + Sync>),
}

/// Nobody listens any more: the daemon is on its way out.
#[derive(Debug)]
pub struct Stopped;
