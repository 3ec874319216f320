use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{Index, PodRecord};
use crate::cgroup::{ContainerId, PodUid};

const UID: &str = "0b1f9c6e-3c5d-4a7e-9f21-8a1b2c3d4e5f";
const GRACE: Duration = Duration::from_mins(5);

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn pod(uid: &str, status: &serde_json::Value) -> PodRecord {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "checkout-5d4f8c7b9d-x", "namespace": "shop", "uid": uid,
            "labels": {"pod-template-hash": "5d4f8c7b9d"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "checkout-5d4f8c7b9d", "uid": "x", "controller": true,
            }],
        },
        "spec": {
            "containers": [{"name": "app"}],
            "initContainers": [{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always"}],
        },
        "status": status,
    }))
    .expect("a pod");
    PodRecord::from_pod(&pod).expect("it has a uid")
}

fn running(digit: char) -> serde_json::Value {
    json!({"containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": true, "restartCount": 0,
        "containerID": format!("containerd://{}", id(digit)),
    }]})
}

#[test]
fn pod_object_becomes_labels_containers_and_ids() {
    let record = pod(UID, &running('a'));
    let expected = ("shop", "checkout-5d4f8c7b9d-x", "checkout", "Deployment", "5d4f8c7b9d");
    let labels = &record.identity;
    assert_eq!(
        (&*labels.namespace, &*labels.pod, &*labels.workload, &*labels.workload_kind, &*labels.revision),
        expected
    );
    assert_eq!(record.containers, ["app", "proxy"], "native sidecars run as long as the pod, init containers do not");
    assert_eq!(record.container(&ContainerId::new(&id('a'))), Some("app"));
    assert_eq!(record.container(&ContainerId::new(&id('b'))), None);
}

#[test]
fn pod_without_uid_or_status_is_no_fault() {
    assert_eq!(PodRecord::from_pod(&Pod::default()), None);
    let mut bare = Pod::default();
    bare.metadata.uid = Some(UID.to_owned());
    let record = PodRecord::from_pod(&bare).expect("a uid is enough");
    assert_eq!(record.containers, Vec::<String>::new());
}

#[test]
fn static_pod_is_found_by_its_configuration_hash() {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(UID.to_owned());
    let hash = "9aac5b5c8815def09a2ef9e37b89da55";
    pod.metadata.annotations = Some([("kubernetes.io/config.hash".to_owned(), hash.to_owned())].into());
    let record = PodRecord::from_pod(&pod).expect("it has a uid");
    assert_eq!((record.uid, record.object_uid.as_str()), (PodUid::new(hash), UID));
}

#[test]
fn restarted_container_keeps_its_older_ids() {
    let mut index = Index::default();
    index.apply(pod(UID, &running('a')));
    index.apply(pod(UID, &running('b')));
    let record = index.get(&PodUid::new(UID)).expect("known");
    assert_eq!(record.container(&ContainerId::new(&id('a'))), Some("app"));
    assert_eq!(record.container(&ContainerId::new(&id('b'))), Some("app"));
}

#[test]
fn last_terminated_run_is_known_from_one_status() {
    let status = json!({"containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 1,
        "lastState": {"terminated": {"exitCode": 1, "containerID": format!("containerd://{}", id('c'))}},
    }]});
    assert_eq!(pod(UID, &status).container(&ContainerId::new(&id('c'))), Some("app"));
}

#[test]
fn deleted_pod_stays_for_the_grace_time() {
    let (mut index, start) = (Index::default(), Instant::now());
    let uid = PodUid::new(UID);
    index.apply(pod(UID, &running('a')));
    index.delete(&uid, start);
    assert_eq!(index.expire(start + GRACE / 2, GRACE), []);
    assert!(index.get(&uid).is_some(), "its last errors can still be scraped");
    assert_eq!(index.expire(start + GRACE, GRACE), std::slice::from_ref(&uid));
    assert!(index.get(&uid).is_none());
}

#[test]
fn reset_deletes_what_a_missed_watch_event_would_have() {
    let (mut index, start) = (Index::default(), Instant::now());
    let other = "11111111-3c5d-4a7e-9f21-8a1b2c3d4e5f";
    index.apply(pod(UID, &running('a')));
    index.reset(vec![pod(other, &running('b'))], start);
    assert_eq!(index.iter().count(), 2, "grace time");
    assert_eq!(index.expire(start + GRACE, GRACE), [PodUid::new(UID)]);
    index.reset(vec![pod(other, &running('b'))], start);
    assert_eq!(index.expire(start + GRACE * 9, GRACE), [], "the live one never expires");
}

#[test]
fn pod_that_comes_back_is_not_deleted() {
    let (mut index, start) = (Index::default(), Instant::now());
    index.apply(pod(UID, &running('a')));
    index.delete(&PodUid::new(UID), start);
    index.apply(pod(UID, &running('a')));
    assert_eq!(index.expire(start + GRACE * 2, GRACE), []);
}
