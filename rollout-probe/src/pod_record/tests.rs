use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{
    PodRecord,
    fixture::{UID, id, named, pod, running},
};
use crate::{
    cgroup::{ContainerId, PodUid},
    naming::Naming,
    selector::Selector,
};

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
