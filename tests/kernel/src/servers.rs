//! Requests to real web servers: every response is counted once on both sides, by class and by exact error code.

use std::{collections::BTreeMap, thread, time::Duration};

use testbed::{
    load::{self, Request, Target, TargetTally},
    server::{Kind, Listen, Options, Server},
};

use crate::{
    rig::Bench,
    wanted::{Counts, USER_TO_SHOP},
};

/// How the client reaches the server.
#[derive(Clone, Copy)]
enum Route {
    Ipv4,
    Ipv6,
    /// IPv4 to a listener on `::`: an IPv6 socket with IPv4 packets.
    Ipv4ToDualStack,
}

pub(crate) fn keep_alive(bench: &mut Bench, kind: Kind) {
    let tally = exchange(bench, kind, Route::Ipv4, |target| target);
    // nginx closes after a 500.
    assert_eq!(tally.connections, if kind == Kind::Nginx { 1 + tally.responses[&500] } else { 1 });
}

pub(crate) fn connection_per_request(bench: &mut Bench, kind: Kind) {
    let tally = exchange(bench, kind, Route::Ipv4, Target::connection_per_request);
    assert_eq!(tally.connections, tally.sent);
}

pub(crate) fn ipv6(bench: &mut Bench, kind: Kind) {
    exchange(bench, kind, Route::Ipv6, |target| target.connections(3));
}

pub(crate) fn ipv4_to_dual_stack(bench: &mut Bench, kind: Kind) {
    exchange(bench, kind, Route::Ipv4ToDualStack, |target| target.connections(3));
}

/// Sends a mix of requests and compares three views of it: client, server log, counters.
fn exchange(bench: &mut Bench, kind: Kind, route: Route, how: impl Fn(Target) -> Target) -> TargetTally {
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let listen = if matches!(route, Route::Ipv4) { Listen::Ipv4 } else { Listen::DualStack };
    let server = Server::start(&pod.place, Options { listen, ..Options::new(kind) }).unwrap();
    let address = match route {
        Route::Ipv4 | Route::Ipv4ToDualStack => format!("{}:8080", pod.ip),
        Route::Ipv6 => format!("[{}]:8080", pod.ip6),
    };
    let mut requests = load::gets(&[("/ok", 40), ("/created", 5), ("/empty", 6), ("/moved", 4), ("/missing", 9)]);
    requests.extend(load::gets(&[("/fail", 8), ("/unavailable", 3)]));
    requests.push(Request::new("HEAD", "/ok", 5));

    let tally = load::run_target(&user.place, how(Target::new(address, requests))).unwrap();

    assert_eq!(
        tally.responses,
        BTreeMap::from([(200, 45), (201, 5), (204, 6), (301, 4), (404, 9), (500, 8), (503, 3)])
    );
    let mut wanted = Counts::new();
    USER_TO_SHOP.load(&mut wanted, &tally);
    bench.assert_counts(&wanted);
    assert_server_agrees(&server, &tally);
    tally
}

/// The server's own log says the same. nginx writes it a moment after the response.
pub(crate) fn assert_server_agrees(server: &Server, tally: &TargetTally) {
    for _ in 0..100 {
        if server.responses() == tally.responses {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.responses(), tally.responses, "the server's own log");
}
