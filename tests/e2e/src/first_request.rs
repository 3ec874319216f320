//! Count first, name later: the first request that a brand-new pod serves is counted, although the daemon hears of the pod's
//! object only seconds afterwards.

use std::{collections::BTreeMap, fs, path::Path, thread, time::Duration};

use serde_json::{Value, json};
use testbed::{
    counts::{self, PodCounts, expected, exported},
    daemon::Daemon,
    load,
    node::PlayedNode,
};

const NODE: &str = "played-node";
const UID: &str = "7b1f0c52-6a3e-4d0b-9a51-2f8f6f3f9d10";
const REVISION: &str = "6c9d7f5b88";
const POD: &str = "checkout-6c9d7f5b88-x7k2p";
/// How long the object is late.
const DELAY: Duration = Duration::from_secs(3);

pub(crate) fn is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let pods_file = dir.path().join("pods.json");
    write_pods(&pods_file, &[]);
    let mut node = PlayedNode::new().unwrap();
    let user = node.client("user").unwrap();
    let daemon = Daemon::start(&["--node-name", NODE, "--pods-file", pods_file.to_str().unwrap()]).unwrap();

    let pod = node.run_nginx(UID, true, 8080).unwrap();
    let address = format!("{}:8080", pod.host.ip);
    let seen = load::run(&user.place, &address, &[("/api/pay", 1)]).unwrap();
    assert_eq!(seen.responses, BTreeMap::from([(500, 1)]));
    thread::sleep(DELAY);
    assert_eq!(
        exported(&daemon.scrape().unwrap()).unwrap(),
        PodCounts::new(),
        "nobody has told the daemon of this pod"
    );

    write_pods(&pods_file, &[pod_object(&pod.id, &pod.host.ip)]);
    let wanted = PodCounts::from([((REVISION.to_owned(), POD.to_owned()), expected(&seen, None))]);
    counts::wait_for(&daemon, &wanted).unwrap();
}

/// A new file takes the old one's place at once, as the daemon's documentation asks for.
fn write_pods(path: &Path, pods: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    let new = path.with_extension("new");
    fs::write(&new, list.to_string()).unwrap();
    fs::rename(new, path).unwrap();
}

fn pod_object(container_id: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "shop", "name": POD, "uid": UID, "labels": {"pod-template-hash": REVISION},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("checkout-{REVISION}"), "uid": UID, "controller": true,
            }],
        },
        "spec": {"nodeName": NODE, "containers": [{"name": "web", "image": "nginx-faulty:2"}]},
        "status": {
            "phase": "Running", "podIP": ip,
            "containerStatuses": [{
                "name": "web", "image": "nginx-faulty:2", "imageID": "", "ready": true, "restartCount": 0,
                "containerID": format!("containerd://{container_id}"),
            }],
        },
    })
}
