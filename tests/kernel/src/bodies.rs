//! Bodies: however long, and whatever they look like, they are not taken for heads.

use std::{collections::BTreeMap, time::Duration};

use testbed::{
    load::{self, Load, Request, Target, TargetTally},
    peer::{Peer, Step, receive, send},
    server::{Kind, Options, Server},
};

use crate::{
    rig::Bench,
    servers::assert_server_agrees,
    wanted::{Counts, USER_TO_SHOP},
};

/// 5 MB bodies by `sendfile`, on several connections at once, each followed by an error on the same connection.
pub(crate) fn sendfile_then_errors(bench: &mut Bench) {
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let server = Server::start(&pod.place, Options::new(Kind::Nginx)).unwrap();
    let requests = load::gets(&[("/large", 6), ("/unavailable", 6)]);
    let connection = Target::new(format!("{}:8080", pod.ip), requests);
    let tallies = Load::start(&user.place, &vec![connection; 4]).unwrap().wait().unwrap();

    let mut sum = TargetTally::default();
    for tally in &tallies {
        sum.add(tally);
    }
    assert_eq!(sum.responses, BTreeMap::from([(200, 24), (503, 24)]));
    assert_eq!(sum.connections, 4, "nginx keeps the connection after a 503");
    let mut wanted = Counts::new();
    USER_TO_SHOP.load(&mut wanted, &sum);
    bench.assert_counts(&wanted);
    assert_server_agrees(&server, &sum);
}

/// Request bodies, small, longer than a packet, and announced with `Expect: 100-continue`.
pub(crate) fn request_bodies(bench: &mut Bench, kind: Kind) {
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let server = Server::start(&pod.place, Options::new(kind)).unwrap();
    let requests = [
        Request::post("/echo", 0, 3),
        Request::post("/echo", 10, 5),
        Request::post("/echo", 200_000, 5),
        Request::post("/echo", 20_000, 4).expect_continue(),
        Request::post("/fail", 1_000, 2),
    ];
    let tally = load::run_target(&user.place, Target::new(format!("{}:8080", pod.ip), requests)).unwrap();

    assert_eq!(tally.responses, BTreeMap::from([(200, 17), (500, 2)]));
    let mut wanted = Counts::new();
    USER_TO_SHOP.load(&mut wanted, &tally);
    bench.assert_counts(&wanted);
    assert_server_agrees(&server, &tally);
}

/// A response body whose second segment begins like a status line.
pub(crate) fn response_body_like_a_response(bench: &mut Bench) {
    let body = format!("{:60}", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let server =
        [receive(GET), send(&response), pause(), send(&body), receive(GET), send(&response), pause(), send(&body)];
    let client = [send(GET), receive(response.clone() + &body), send(GET), receive(response + &body)];
    assert_two_200(bench, server, client);
}

/// A request body whose second segment begins like a request line.
pub(crate) fn request_body_like_a_request(bench: &mut Bench) {
    let body = "GET /admin HTTP/1.1\r\nHost: shop\r\n\r\n";
    let post = format!("POST /echo HTTP/1.1\r\nHost: shop\r\nContent-Length: {}\r\n\r\n", body.len());
    let received = || receive(post.clone() + body);
    let server = [received(), send(OK), received(), send(OK)];
    let client = [send(&post), pause(), send(body), receive(OK), send(&post), pause(), send(body), receive(OK)];
    assert_two_200(bench, server, client);
}

const GET: &str = "GET / HTTP/1.1\r\nHost: shop\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn pause() -> Step {
    Step::Pause(Duration::from_millis(10))
}

fn assert_two_200(bench: &mut Bench, server: impl Into<Vec<Step>>, client: impl Into<Vec<Step>>) {
    play(bench, &[server.into()], &[client.into()]);
    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 1);
    USER_TO_SHOP.responses(&mut wanted, 200, 2);
    bench.assert_counts(&wanted);
}

/// Plays scripted connections between a pod `shop` and a client `user`.
pub(crate) fn play(bench: &mut Bench, server: &[Vec<Step>], client: &[Vec<Step>]) {
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let address = format!("{}:8080", pod.ip);
    let server = Peer::listen(&pod.place, &address, server).unwrap();
    let client = Peer::connect(&user.place, &address, client).unwrap();
    client.wait().unwrap();
    server.wait().unwrap();
}
