use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::PodRecord;
use crate::{
    cgroup::{ContainerId, PodUid},
    naming::Naming,
    selector::Selector,
};

const UID: &str = "0b1f9c6e-3c5d-4a7e-9f21-8a1b2c3d4e5f";

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn pod(uid: &str, status: &serde_json::Value) -> PodRecord {
    named(uid, status, &Naming::default())
}

fn named(uid: &str, status: &serde_json::Value, naming: &Naming) -> PodRecord {
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
    PodRecord::from_pod(&pod, naming).expect("it has a uid")
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
    assert_eq!(PodRecord::from_pod(&Pod::default(), &Naming::default()), None);
    let mut bare = Pod::default();
    bare.metadata.uid = Some(UID.to_owned());
    let record = PodRecord::from_pod(&bare, &Naming::default()).expect("a uid is enough");
    assert_eq!(record.containers, Vec::<String>::new());
}

#[test]
fn static_pod_is_found_by_its_configuration_hash() {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(UID.to_owned());
    let hash = "9aac5b5c8815def09a2ef9e37b89da55";
    pod.metadata.annotations = Some([("kubernetes.io/config.hash".to_owned(), hash.to_owned())].into());
    let record = PodRecord::from_pod(&pod, &Naming::default()).expect("it has a uid");
    assert_eq!((record.uid, record.object_uid.as_str()), (PodUid::new(hash), UID));
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
fn labels_that_are_not_wanted_are_empty() {
    let naming = Naming { keep_pod: false, keep_container: false, ..Naming::default() };
    let record = named(UID, &running('a'), &naming);
    assert_eq!((record.identity.pod.as_str(), record.name.as_str()), ("", "checkout-5d4f8c7b9d-x"));
    assert_eq!(record.containers, [""]);
    assert_eq!(record.container(&ContainerId::new(&id('a'))), Some(""));
}

#[test]
fn pod_that_is_not_selected_is_excluded() {
    let naming = |selector| Naming { selector: Selector::parse(selector).expect("valid"), ..Naming::default() };
    assert!(!named(UID, &running('a'), &naming("pod-template-hash")).excluded);
    assert!(named(UID, &running('a'), &naming("!pod-template-hash")).excluded);
}
