use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{Index, Known, OVERFLOW, OWNER_TIMEOUT};
use crate::{
    cgroup::{ContainerId, PodUid},
    naming::Naming,
    pod_record::{
        PodRecord,
        fixture::{UID, id, pod, running},
    },
    revision::OwnerFacts,
};

const GRACE: Duration = Duration::from_mins(5);

#[test]
fn restarted_container_keeps_its_older_ids() {
    let (mut index, start) = (Index::default(), Instant::now());
    index.apply(pod(UID, &running('a')), start);
    index.apply(pod(UID, &running('b')), start);
    for digit in ['a', 'b'] {
        assert_eq!(index.container(&PodUid::new(UID), &ContainerId::new(&id(digit))), Some("app"));
    }
}

#[test]
fn deleted_pod_stays_for_the_grace_time() {
    let (mut index, start) = (Index::default(), Instant::now());
    let uid = PodUid::new(UID);
    index.apply(pod(UID, &running('a')), start);
    index.delete(&uid, start);
    assert!(!index.expire(start + GRACE / 2, GRACE));
    assert!(matches!(index.get(&uid), Known::Named(_)), "its last errors can still be scraped");
    assert!(index.expire(start + GRACE, GRACE));
    assert!(matches!(index.get(&uid), Known::Unknown));
}

#[test]
fn reset_deletes_what_a_missed_watch_event_would_have() {
    let (mut index, start) = (Index::default(), Instant::now());
    let other = "11111111-3c5d-4a7e-9f21-8a1b2c3d4e5f";
    index.apply(pod(UID, &running('a')), start);
    index.reset(vec![pod(other, &running('b'))], start);
    assert_eq!(index.named().count(), 2, "grace time");
    assert!(index.expire(start + GRACE, GRACE));
    assert_eq!(index.named().map(|pod| pod.uid.clone()).collect::<Vec<_>>(), [PodUid::new(other)]);
    index.reset(vec![pod(other, &running('b'))], start);
    assert!(!index.expire(start + GRACE * 9, GRACE), "the live one never expires");
}

#[test]
fn pod_that_comes_back_is_not_deleted() {
    let (mut index, start) = (Index::default(), Instant::now());
    index.apply(pod(UID, &running('a')), start);
    index.delete(&PodUid::new(UID), start);
    index.apply(pod(UID, &running('a')), start);
    assert!(!index.expire(start + GRACE * 2, GRACE));
}

fn by_job(uid: &str) -> PodRecord {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "backup-29384560-x", "namespace": "shop", "uid": uid,
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "backup-29384560", "uid": "job", "controller": true,
            }],
        },
        "spec": {"containers": [{"name": "app", "image": "backup:1"}]},
    }))
    .expect("a pod");
    PodRecord::from_pod(&pod, &Naming::default()).expect("it has a uid")
}

fn workload(index: &Index, uid: &str) -> Option<(String, String)> {
    match index.get(&PodUid::new(uid)) {
        Known::Named(pod) => Some((pod.identity.workload_kind.clone(), pod.identity.workload.clone())),
        _ => None,
    }
}

fn named(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[test]
fn pod_is_named_when_its_owner_is_known() {
    let (mut index, start) = (Index::default(), Instant::now());
    index.apply(by_job("1"), start);
    assert!(matches!(index.get(&PodUid::new("1")), Known::Unnamed), "it is not named twice");
    index.owner_known("job", OwnerFacts { workload: Some(named("CronJob", "backup")), revision_number: None });
    assert_eq!(workload(&index, "1"), Some(named("CronJob", "backup")));
    index.apply(by_job("1"), start);
    index.apply(by_job("2"), start);
    assert_eq!(workload(&index, "1"), Some(named("CronJob", "backup")), "after a change of the pod too");
    assert_eq!(workload(&index, "2"), Some(named("CronJob", "backup")), "an answer serves all pods of the owner");
}

#[test]
fn pod_keeps_the_name_it_got_when_its_owner_was_unknown() {
    let (mut index, start) = (Index::default(), Instant::now());
    index.apply(by_job("1"), start);
    index.expire(start + OWNER_TIMEOUT, GRACE);
    assert_eq!(workload(&index, "1"), Some(named("Job", "backup-29384560")));
    index.owner_known("job", OwnerFacts { workload: Some(named("CronJob", "backup")), revision_number: None });
    assert_eq!(workload(&index, "1"), Some(named("Job", "backup-29384560")), "a counter does not change its labels");
}

#[test]
fn answer_without_facts_is_an_answer() {
    let (mut index, start) = (Index::default(), Instant::now());
    index.apply(by_job("1"), start);
    index.owner_known("job", OwnerFacts::default());
    assert_eq!(workload(&index, "1"), Some(named("Job", "backup-29384560")));
}

#[test]
fn pods_beyond_the_limit_share_the_overflow_for_good() {
    let (mut index, start) = (Index::with_limit(2), Instant::now()); // a pod here has two containers
    let other = "11111111-3c5d-4a7e-9f21-8a1b2c3d4e5f";
    let mut second = pod(other, &running('b'));
    second.identity = by_job(other).identity;
    index.apply(pod(UID, &running('a')), start);
    index.apply(second.clone(), start);
    assert_eq!(workload(&index, UID), Some(named("Deployment", "checkout")));
    assert_eq!(workload(&index, other), Some(named(OVERFLOW, "")));
    assert_eq!(index.container(&PodUid::new(other), &ContainerId::new(&id('b'))), Some(""));
    assert_eq!((index.overflowed(), index.own_series().count()), (1, 1));

    index.delete(&PodUid::new(UID), start);
    index.expire(start + GRACE, GRACE);
    index.apply(second, start + GRACE);
    assert_eq!(workload(&index, other), Some(named(OVERFLOW, "")), "what it counted stays there");
}

#[test]
fn revision_is_first_seen_with_its_first_pod() {
    let (mut index, start) = (Index::default(), Instant::now());
    let began = |uid, at| {
        let mut pod = by_job(uid);
        pod.started = Some(at);
        pod
    };
    index.apply(began("1", 2000), start);
    index.apply(began("2", 3000), start);
    index.owner_known("job", OwnerFacts { workload: None, revision_number: Some("7".to_owned()) });
    index.delete(&PodUid::new("1"), start);
    index.expire(start + GRACE, GRACE);
    let revisions = index.revisions();
    let (identity, revision) = revisions.first_key_value().expect("one revision");
    assert_eq!((revisions.len(), identity.pod.as_str()), (1, ""));
    assert_eq!((revision.images.as_str(), revision.number, revision.first_seen), ("backup:1", Some("7"), Some(2000)));
}
