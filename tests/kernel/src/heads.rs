//! Heads, however they are cut into segments, and the interim ones before a final one.

use std::time::Duration;

use testbed::{
    load::{self, Target},
    peer::{Step, receive, send, send_split},
    server::{Kind, Options, Server},
};

use crate::{
    bodies::play,
    rig::Bench,
    wanted::{Counts, USER_TO_SHOP},
};

const REQUEST: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const ERROR: &str = "HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n";

/// Both heads cut in two at every byte, as first and as later ones of their connections.
pub(crate) fn split_at_every_byte(bench: &mut Bench) {
    let (mut server, mut client) = (Vec::new(), Vec::new());
    for at in 1..ERROR.len() {
        server.push(
            [vec![receive(REQUEST)], send_split(ERROR, at), vec![receive(REQUEST)], send_split(ERROR, at)].concat(),
        );
        client.push(vec![send(REQUEST), receive(ERROR), send(REQUEST), receive(ERROR)]);
    }
    for at in 1..REQUEST.len() {
        server.push(vec![receive(REQUEST), send(ERROR), receive(REQUEST), send(ERROR)]);
        client.push(
            [send_split(REQUEST, at), vec![receive(ERROR)], send_split(REQUEST, at), vec![receive(ERROR)]].concat(),
        );
    }
    play(bench, &server, &client);

    let connections = server.len() as u64;
    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, connections);
    USER_TO_SHOP.responses(&mut wanted, 500, 2 * connections);
    bench.assert_counts(&wanted);
}

/// One byte a segment, in both directions.
pub(crate) fn byte_by_byte(bench: &mut Bench) {
    let bytes = |text: &str| -> Vec<Step> {
        text.bytes().flat_map(|byte| [send([byte]), Step::Pause(Duration::from_micros(500))]).collect()
    };
    let server = [vec![receive(REQUEST)], bytes(ERROR), vec![receive(REQUEST)], bytes(ERROR)].concat();
    let client = [bytes(REQUEST), vec![receive(ERROR)], bytes(REQUEST), vec![receive(ERROR)]].concat();
    play(bench, &[server], &[client]);
    assert_responses(bench, 500, 2);
}

/// Interim responses in one segment with the final one, and each in its own.
pub(crate) fn interim_responses(bench: &mut Bench) {
    const HEADS: [&str; 5] = [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 102 Processing\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </b.css>; rel=preload\r\n\r\n",
        ERROR,
    ];
    let all = HEADS.concat();
    let apart = HEADS.iter().flat_map(|head| [send(head), Step::Pause(Duration::from_millis(2))]).collect();
    let server = [vec![receive(REQUEST), send(&all), receive(REQUEST)], apart].concat();
    let client = vec![send(REQUEST), receive(&all), send(REQUEST), receive(&all)];
    play(bench, &[server], &[client]);
    assert_responses(bench, 500, 2);
}

/// 103 from a real server.
pub(crate) fn early_hints(bench: &mut Bench) {
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let _server = Server::start(&pod.place, Options::new(Kind::Node)).unwrap();
    let target = Target::new(format!("{}:8080", pod.ip), load::gets(&[("/hints", 10), ("/fail", 5)]));
    let tally = load::run_target(&user.place, target).unwrap();
    assert_eq!((tally.responses[&200], tally.responses[&500]), (10, 5));
    let mut wanted = Counts::new();
    USER_TO_SHOP.load(&mut wanted, &tally);
    bench.assert_counts(&wanted);
}

/// `Expect: 100-continue` that is refused: the body never comes, the connection goes on.
pub(crate) fn expectation_failed(bench: &mut Bench) {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n";
    let failed = "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n";
    let server = vec![receive(post), send(failed), receive(REQUEST), send(ERROR)];
    let client = vec![send(post), receive(failed), send(REQUEST), receive(ERROR)];
    play(bench, &[server], &[client]);
    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 1);
    USER_TO_SHOP.responses(&mut wanted, 417, 1);
    USER_TO_SHOP.responses(&mut wanted, 500, 1);
    bench.assert_counts(&wanted);
}

/// After a 101 the connection belongs to another protocol, whatever its bytes look like.
pub(crate) fn switched_protocol(bench: &mut Bench) {
    let upgrade = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let server = vec![receive(upgrade), send(switched), receive(REQUEST), send(ERROR), send(ERROR), receive(REQUEST)];
    let client = vec![send(upgrade), receive(switched), send(REQUEST), receive(ERROR), receive(ERROR), send(REQUEST)];
    play(bench, &[server], &[client]);
    assert_responses(bench, 101, 1);
}

fn assert_responses(bench: &Bench, code: u16, responses: u64) {
    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 1);
    USER_TO_SHOP.responses(&mut wanted, code, responses);
    bench.assert_counts(&wanted);
}
