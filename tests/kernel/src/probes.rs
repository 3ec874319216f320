//! Whose requests are probes: those of sockets that were made in a prober's cgroup, and nobody else's.

use std::{thread, time::Duration};

use testbed::{
    load::{self, Prober},
    peer::{Peer, Step, receive, send},
    process::Place,
    server::{Kind, Listen, Options, Server},
    wait,
};

use crate::{
    rig::{Bench, cgroup_id},
    wanted::{Counts, Ends, USER_TO_SHOP},
};

const KUBELET_TO_SHOP: Ends<'static> = Ends { server: "shop", client: "kubelet", origin: "probe" };
const PERIOD: Duration = Duration::from_millis(50);

/// Probes over IPv4 and IPv6 beside users' traffic.
pub(crate) fn are_told_from_traffic(bench: &mut Bench) {
    let (pod, user, kubelet) = (bench.pod("shop"), bench.client("user"), bench.kubelet());
    bench.probe().add_prober(cgroup_id(&kubelet)).unwrap();
    let _server = Server::start(&pod.place, Options::new(Kind::Nginx)).unwrap();
    let address = format!("{}:8080", pod.ip);

    let mut probers = vec![Prober::start(&kubelet, &address, "/healthz", PERIOD).unwrap()];
    probers.push(Prober::start(&kubelet, &format!("[{}]:8080", pod.ip6), "/unavailable", PERIOD).unwrap());
    wait::until("the pod to be ready", Duration::from_secs(5), || probers[0].ready()).unwrap();
    let tally = load::run(&user.place, &address, &[("/ok", 200), ("/fail", 20)]).unwrap();
    thread::sleep(PERIOD * 4);

    let mut wanted = Counts::new();
    USER_TO_SHOP.load(&mut wanted, &tally);
    for (prober, code) in probers.into_iter().zip([200, 503]) {
        let seen = prober.finish().unwrap();
        assert!(seen.responses.get(&code) > Some(&2), "{seen:?}");
        KUBELET_TO_SHOP.probes(&mut wanted, &seen);
    }
    bench.assert_counts(&wanted);
    bench.probe().remove_prober(cgroup_id(&kubelet)).unwrap();
}

/// The addresses and ports of a probe, used again by somebody who is no prober.
pub(crate) fn port_used_again_is_traffic(bench: &mut Bench) {
    const REQUEST: &str = "GET /healthz HTTP/1.1\r\nHost: shop\r\n\r\n";
    const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let (pod, user, kubelet) = (bench.pod("shop"), bench.client("user"), bench.kubelet());
    bench.probe().add_prober(cgroup_id(&kubelet)).unwrap();
    // The server closes first, so the port is free again at once on the other side.
    let answer = vec![receive(REQUEST), send(OK)];
    let address = format!("{}:8080", pod.ip);
    let server = Peer::listen(&pod.place, &address, &[answer.clone(), answer.clone(), answer]).unwrap();
    let beside_kubelet = Place { netns: kubelet.netns.clone(), ..user.place };
    for place in [&kubelet, &beside_kubelet, &kubelet] {
        let ask = vec![send(REQUEST), receive(OK), Step::ReceiveEnd];
        Peer::connect_from(place, "0.0.0.0:40001", &address, &[ask]).unwrap().wait().unwrap();
    }
    server.wait().unwrap();

    let mut wanted = Counts::new();
    for (ends, n) in [(KUBELET_TO_SHOP, 2), (USER_TO_SHOP, 1)] {
        ends.connections(&mut wanted, n);
        ends.responses(&mut wanted, 200, n);
    }
    bench.assert_counts(&wanted);
    bench.probe().remove_prober(cgroup_id(&kubelet)).unwrap();
}

/// Probes that connect and say nothing (`tcpSocket`), to servers that accept before or only after there is something to read.
pub(crate) fn that_only_connect(bench: &mut Bench) {
    const PROBES: usize = 5;
    let kubelet = bench.kubelet();
    bench.probe().add_prober(cgroup_id(&kubelet)).unwrap();
    let mut wanted = Counts::new();
    for listen in [Listen::DualStack, Listen::Deferred] {
        let pod = bench.pod("shop");
        let _server = Server::start(&pod.place, Options { listen, ..Options::new(Kind::Nginx) }).unwrap();
        for address in [format!("{}:8080", pod.ip), format!("[{}]:8080", pod.ip6)] {
            Peer::connect(&kubelet, &address, &vec![vec![]; PROBES]).unwrap().wait().unwrap();
            KUBELET_TO_SHOP.connections(&mut wanted, PROBES as u64);
        }
    }
    bench.assert_counts(&wanted);
    bench.probe().remove_prober(cgroup_id(&kubelet)).unwrap();
}

/// A server that accepts and closes at once, before the probe has sent anything.
pub(crate) fn closed_at_once(bench: &mut Bench) {
    let (pod, kubelet) = (bench.pod("shop"), bench.kubelet());
    bench.probe().add_prober(cgroup_id(&kubelet)).unwrap();
    let address = format!("{}:8080", pod.ip);
    let server = Peer::listen(&pod.place, &address, &[vec![]]).unwrap();
    Peer::connect(&kubelet, &address, &[vec![Step::ReceiveEnd]]).unwrap().wait().unwrap();
    server.wait().unwrap();
    let mut wanted = Counts::new();
    KUBELET_TO_SHOP.connections(&mut wanted, 1);
    bench.assert_counts(&wanted);
    bench.probe().remove_prober(cgroup_id(&kubelet)).unwrap();
}
