//! Connections of unusual birth: accepted with their first data, older than the programs, or not of HTTP/1 at all.

use testbed::{
    load::{self, Target},
    node::Host,
    peer::{Peer, Step, receive, send},
    server::{Kind, Listen, Options, Server},
};

use crate::{
    bodies::play,
    rig::{Bench, Rig},
    servers::assert_server_agrees,
    wanted::{Counts, Ends, USER_TO_SHOP, add},
};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: shop\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";

/// `TCP_DEFER_ACCEPT`: the first request comes to the listening socket. It has a response and a latency all the same.
pub(crate) fn deferred_accept(bench: &mut Bench) {
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let _server = Server::start(&pod.place, Options { listen: Listen::Deferred, ..Options::new(Kind::Nginx) }).unwrap();
    let requests = load::gets(&[("/ok", 30), ("/missing", 10), ("/drop", 5)]);
    let target = |address: String| Target::new(address, requests.clone());
    let mut wanted = Counts::new();
    for target in [
        target(format!("{}:8080", pod.ip)).connection_per_request().connections(4),
        target(format!("[{}]:8080", pod.ip6)),
    ] {
        let tally = load::run_target(&user.place, target).unwrap();
        assert_eq!(tally.sent, 45);
        USER_TO_SHOP.load(&mut wanted, &tally);
    }
    bench.assert_counts(&wanted);
}

/// Connections that were open before the programs: counted from a request that certainly is one.
pub(crate) fn older_than_the_programs() {
    let mut rig = Rig::new();
    let mut bench = Bench::on(&mut rig);
    let (shop, user, cart) = (bench.pod("shop"), bench.client("user"), bench.pod("cart"));

    // Attached between two exchanges: nothing is known until a request has followed a response.
    let at_rest = Pair::start(&shop, &user, &exchange(OK), &[Some(OK), Some(ERROR), Some(OK)]);
    // Attached in the middle of a body, whose rest looks like a response: the next request is certain.
    let body = "HTTP/1.1 500 Internal Server Error\r\n\r\n";
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let in_a_body = Pair::start(&cart, &user, &exchange(&head), &[None, Some(ERROR), Some(OK)]);
    bench.rig.attach();
    at_rest.finish();
    in_a_body.finish();

    let mut wanted = Counts::new();
    for (server, responses) in [("shop", [(500, 1), (200, 1)]), ("cart", [(500, 1), (200, 1)])] {
        for (code, n) in responses {
            Ends::new("user", server).responses(&mut wanted, code, n);
        }
    }
    add(&mut wanted, &["lost_sync", "mid_stream"], 4);
    bench.assert_counts(&wanted);
}

/// A request and its response.
fn exchange(response: &str) -> [Vec<Step>; 2] {
    [vec![receive(REQUEST), send(response)], vec![send(REQUEST), receive(response)]]
}

/// Both ends of one connection that meet after a first part.
struct Pair {
    ends: [Peer; 2],
}

impl Pair {
    /// Plays `first`, and once both have met, exchanges with these responses; `None` is the rest of a body.
    fn start(pod: &Host, user: &Host, first: &[Vec<Step>; 2], then: &[Option<&str>]) -> Self {
        let [mut server, mut client] = first.clone();
        server.push(Step::Meet);
        client.push(Step::Meet);
        for response in then {
            let [answers, asks] = match response {
                Some(response) => exchange(response),
                None => [
                    vec![send("HTTP/1.1 500 Internal Server Error\r\n\r\n")],
                    vec![receive("HTTP/1.1 500 Internal Server Error\r\n\r\n")],
                ],
            };
            server.extend(answers);
            client.extend(asks);
        }
        let address = format!("{}:8080", pod.ip);
        let server = Peer::listen(&pod.place, &address, &[server]).unwrap();
        let client = Peer::connect(&user.place, &address, &[client]).unwrap();
        let mut pair = Self { ends: [server, client] };
        pair.ends.iter_mut().for_each(|end| end.meet().unwrap());
        pair
    }

    fn finish(mut self) {
        self.ends.iter_mut().for_each(|end| end.go_on().unwrap());
        self.ends.into_iter().for_each(|end| end.wait().unwrap());
    }
}

/// Other protocols: their connections are counted and nothing else, even when later bytes look like HTTP/1.
pub(crate) fn other_protocols(bench: &mut Bench) {
    let talks: [&[(Side, &[u8])]; 6] = [
        // Redis, inline and as RESP
        &[
            (Side::Client, b"*1\r\n$4\r\nPING\r\n"),
            (Side::Server, b"+PONG\r\n"),
            (Side::Client, b"GET key\r\n"),
            (Side::Server, b"$-1\r\n"),
        ],
        &[(Side::Client, b"GET key\r\n"), (Side::Server, b"HTTP/1.1 500 is the value\r\n")],
        // SMTP: the server speaks first
        &[
            (Side::Server, b"220 shop ESMTP\r\n"),
            (Side::Client, b"EHLO user\r\n"),
            (Side::Server, b"250 shop\r\n"),
            (Side::Client, b"GET / HTTP/1.1\r\n\r\n"),
            (Side::Server, b"HTTP/1.1 500 no\r\n\r\n"),
        ],
        // TLS: a ClientHello's and a ServerHello's first bytes
        &[
            (Side::Client, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
            (Side::Server, b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03"),
            (Side::Client, b"GET / HTTP/1.1\r\n\r\n"),
            (Side::Server, b"HTTP/1.1 500 \r\n\r\n"),
        ],
        // HTTP/2 with prior knowledge: preface, SETTINGS of both sides
        &[
            (Side::Client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
            (Side::Server, b"\0\0\0\x04\0\0\0\0\0"),
            (Side::Client, b"GET / HTTP/1.1\r\n\r\n"),
            (Side::Server, b"HTTP/1.1 500 \r\n\r\n"),
        ],
        // SSH: both speak first
        &[(Side::Server, b"SSH-2.0-OpenSSH_9.2\r\n"), (Side::Client, b"SSH-2.0-OpenSSH_9.2\r\n")],
    ];
    let steps = |side: Side| {
        talks.map(|talk| {
            talk.iter().map(|&(from, bytes)| if from == side { send(bytes) } else { receive(bytes) }).collect()
        })
    };
    play(bench, &steps(Side::Server), &steps(Side::Client));
    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 6);
    bench.assert_counts(&wanted);
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Server,
    Client,
}

/// Short connections as fast as they can be made, several at a time, so that many a first request reaches the node on one CPU
/// while another is still setting the connection up.
pub(crate) fn twenty_thousand_short(bench: &mut Bench) {
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let server = Server::start(&pod.place, Options::new(Kind::Nginx)).unwrap();
    let requests = load::gets(&[("/ok", 18_000), ("/fail", 1_500), ("/missing", 500)]);
    let target = Target::new(format!("{}:8080", pod.ip), requests).connection_per_request().connections(8);
    let tally = load::run_target(&user.place, target).unwrap();
    assert_eq!((tally.sent, tally.connections), (20_000, 20_000));
    let mut wanted = Counts::new();
    USER_TO_SHOP.load(&mut wanted, &tally);
    bench.assert_counts(&wanted);
    assert_server_agrees(&server, &tally);
}
