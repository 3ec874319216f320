//! Count first, name later: the first request that a brand-new pod serves is counted, although the daemon hears of the pod's
//! object only seconds afterwards.

use std::{collections::BTreeMap, thread, time::Duration};

use testbed::{
    checkout,
    counts::{self, PodCounts, expected, exported},
    daemon::Daemon,
    load,
    node::PlayedNode,
    pods::{self, PodObject},
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
    pods::write(&pods_file, &[]).unwrap();
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

    pods::write(&pods_file, &[pod_object(&pod.id, &pod.host.ip)]).unwrap();
    let wanted = PodCounts::from([((REVISION.to_owned(), POD.to_owned()), expected(&seen, None))]);
    counts::wait_for(&daemon, &wanted).unwrap();
}

fn pod_object(container_id: &str, ip: &str) -> PodObject {
    PodObject {
        namespace: checkout::NAMESPACE.to_owned(),
        name: POD.to_owned(),
        uid: UID.to_owned(),
        deployment: checkout::NAME.to_owned(),
        revision: REVISION.to_owned(),
        node: NODE.to_owned(),
        image: checkout::FAULTY_IMAGE.to_owned(),
        ip: ip.to_owned(),
        container_id: container_id.to_owned(),
        ready: true,
    }
}
