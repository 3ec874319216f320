//! Several pods and several clients at once: to every cgroup its own counts, to the last one.

use testbed::{
    load::{self, Load, Target},
    server::{Kind, Options, Server},
};

use crate::{
    rig::Bench,
    wanted::{Counts, Ends},
};

const PODS: [(&str, Kind); 4] =
    [("shop-1", Kind::Nginx), ("shop-2", Kind::Nginx), ("shop-3", Kind::Python), ("shop-4", Kind::Node)];
const CLIENTS: [&str; 2] = ["user-1", "user-2"];
/// Of each client to each pod.
const MIX: [(&str, u32); 6] =
    [("/ok", 800), ("/missing", 150), ("/fail", 140), ("/unavailable", 50), ("/empty", 100), ("/drop", 10)];

/// 10,000 requests.
pub(crate) fn ten_thousand_requests(bench: &mut Bench) {
    let pods = PODS.map(|(name, kind)| {
        let host = bench.pod(name);
        let server = Server::start(&host.place, Options::new(kind)).unwrap();
        (name, host, server)
    });
    let targets =
        pods.each_ref().map(|(_, host, _)| Target::new(format!("{}:8080", host.ip), load::gets(&MIX)).connections(2));
    let loads = CLIENTS.map(|name| (name, Load::start(&bench.client(name).place, &targets).unwrap()));

    let mut wanted = Counts::new();
    let mut sent = 0;
    for (client, load) in loads {
        for ((pod, ..), tally) in pods.iter().zip(load.wait().unwrap()) {
            sent += tally.sent;
            assert_eq!(tally.no_response_closed, 10, "{client} to {pod}: {tally:?}");
            Ends::new(client, pod).load(&mut wanted, &tally);
        }
    }
    assert_eq!(sent, 10_000);
    bench.assert_counts(&wanted);
}
