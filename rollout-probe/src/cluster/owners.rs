//! Edge: asks the API for the objects that run pods, where the pods do not say enough: who made this `Job`, which number has
//! this `ReplicaSet`'s revision.
//!
//! It reads metadata only, each owner once, a few a second. A kind that we may not read is not asked for again for a while: the shipped
//! `ClusterRole` grants pods alone, and then all pods are named by what they say themselves.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta},
};
use tokio::{sync::mpsc, time};

use crate::{
    pod_record::PodRecord,
    pods::{PodEvent, Stopped},
    revision::{self, Owner, OwnerFacts},
};

/// Questions that may wait.
pub(super) const QUEUE: usize = 1024;
/// Between two requests.
const PACE: Duration = Duration::from_millis(100);
/// How far up: Pod, ReplicaSet, Experiment, Rollout, and something above that.
const LEVELS: usize = 4;
/// How long a kind that we may not read is left alone.
const REFUSAL: Duration = Duration::from_mins(10);
/// Answers that are remembered; then all are forgotten.
const REMEMBERED: usize = 8192;

/// Who is this?
#[derive(Debug)]
pub(super) struct Question {
    owner: Owner,
    namespace: String,
}

impl Question {
    /// If there is one to ask.
    pub(super) fn about(pod: &PodRecord) -> Option<Self> {
        let owner = pod.owner.clone().filter(|_| !pod.excluded)?;
        Some(Self { owner, namespace: pod.identity.namespace.clone() })
    }
}

/// Answers questions as long as they come.
pub(super) async fn answer(
    client: Client,
    mut questions: mpsc::Receiver<Question>,
    answers: mpsc::Sender<PodEvent>,
) -> Result<(), Stopped> {
    let mut owners = Owners { client, refused: HashMap::new() };
    let mut known: HashMap<String, OwnerFacts> = HashMap::new();
    while let Some(Question { owner, namespace }) = questions.recv().await {
        let uid = owner.uid.clone();
        // Said again, because the index forgets an owner with its last pod, and another pod may come.
        let facts = match known.get(&uid) {
            Some(facts) => facts.clone(),
            None => match owners.facts(owner, &namespace).await {
                Ok(facts) => facts,
                Err(error) => {
                    // Asked again with the pod's next change.
                    tracing::debug!(error = &error as &dyn std::error::Error, uid, "cannot ask for an owner");
                    continue;
                }
            },
        };
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(uid.clone(), facts.clone());
        answers.send(PodEvent::Owner(uid, facts)).await.map_err(|_closed| Stopped)?;
    }
    Ok(())
}

struct Owners {
    client: Client,
    /// By `apiVersion` and kind, since when.
    refused: HashMap<(String, String), Instant>,
}

impl Owners {
    /// Walks up from `owner` as far as we may read. What is not certain is not said.
    async fn facts(&mut self, owner: Owner, namespace: &str) -> Result<OwnerFacts, kube::Error> {
        let mut facts = OwnerFacts::default();
        let mut current = owner;
        for _ in 0..LEVELS {
            let Some(meta) = self.metadata(&current, namespace).await? else { break };
            facts.revision_number = facts.revision_number.or_else(|| revision::revision_number(&meta));
            let Some(above) = revision::owner_of(&meta).filter(|_| !current.is_certain) else { break };
            facts.workload = Some((above.kind.clone(), above.name.clone()));
            current = above;
        }
        Ok(facts)
    }

    /// Nothing when it is not there any more, or when we may not read its kind.
    async fn metadata(&mut self, owner: &Owner, namespace: &str) -> Result<Option<ObjectMeta>, kube::Error> {
        let kind = (owner.api_version.clone(), owner.kind.clone());
        if self.refused.get(&kind).is_some_and(|since| since.elapsed() < REFUSAL) {
            return Ok(None);
        }
        time::sleep(PACE).await;
        let types = TypeMeta { api_version: owner.api_version.clone(), kind: owner.kind.clone() };
        let Ok(gvk) = GroupVersionKind::try_from(types) else { return Ok(None) };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &ApiResource::from_gvk(&gvk));
        match api.get_metadata(&owner.name).await {
            // Another object may have taken the name meanwhile.
            Ok(found) => Ok(Some(found.metadata).filter(|meta| meta.uid.as_deref() == Some(&owner.uid))),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tracing::info!(kind = owner.kind, "may not read these: pods are named by what they say themselves");
                self.refused.insert(kind, Instant::now());
                Ok(None)
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}
