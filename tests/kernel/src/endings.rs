//! How connections end: requests that never get an answer, and resets, with what the connection was doing.

use std::time::Duration;

use testbed::{
    load::{self, Target},
    peer::{Step, receive, send},
    server::{Kind, Options, Server},
};

use crate::{
    bodies::play,
    rig::Bench,
    wanted::{Counts, USER_TO_SHOP},
};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: shop\r\n\r\n";
/// Until what was sent has been received and acknowledged.
const SETTLE: Step = Step::Pause(Duration::from_millis(20));
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A server that closes instead of answering.
pub(crate) fn closed_without_response(bench: &mut Bench, kind: Kind) {
    let wanted =
        load_without_answers(bench, kind, "/drop", |tally| (tally.no_response_closed, tally.no_response_reset), (7, 0));
    bench.assert_counts(&wanted);
}

/// A server that resets instead of answering.
pub(crate) fn reset_without_response(bench: &mut Bench, kind: Kind) {
    let wanted = load_without_answers(
        bench,
        kind,
        "/reset",
        |tally| (tally.no_response_closed, tally.no_response_reset),
        (0, 7),
    );
    bench.assert_counts(&wanted);
}

fn load_without_answers(
    bench: &mut Bench,
    kind: Kind,
    path: &str,
    unanswered: fn(&load::TargetTally) -> (u64, u64),
    closed_and_reset: (u64, u64),
) -> Counts {
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let _server = Server::start(&pod.place, Options::new(kind)).unwrap();
    let target = Target::new(format!("{}:8080", pod.ip), load::gets(&[("/ok", 7), (path, 7)]));
    let tally = load::run_target(&user.place, target).unwrap();
    assert_eq!(unanswered(&tally), closed_and_reset);
    let mut wanted = Counts::new();
    USER_TO_SHOP.load(&mut wanted, &tally);
    wanted
}

/// Resets out of the blue, by either side, before the first request and after the last response.
pub(crate) fn resets_by_phase(bench: &mut Bench) {
    let asks = || vec![send(REQUEST), receive(OK)];
    let answers = || vec![receive(REQUEST), send(OK)];
    let server = [
        vec![Step::ReceiveReset],
        [answers(), vec![SETTLE, Step::Reset]].concat(),
        [answers(), vec![Step::ReceiveReset]].concat(),
    ];
    let client = [
        vec![SETTLE, Step::Reset],
        [asks(), vec![Step::ReceiveReset]].concat(),
        [asks(), vec![SETTLE, Step::Reset]].concat(),
    ];
    play(bench, &server, &client);

    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 3);
    USER_TO_SHOP.responses(&mut wanted, 200, 2);
    USER_TO_SHOP.client_resets(&mut wanted, "idle", 1);
    USER_TO_SHOP.server_resets(&mut wanted, "after_response", 1);
    USER_TO_SHOP.client_resets(&mut wanted, "after_response", 1);
    bench.assert_counts(&wanted);
}

/// A server that accepts and resets before the client has sent anything: the accepted socket never receives a packet.
pub(crate) fn reset_by_server_before_any_request(bench: &mut Bench) {
    play(bench, &[vec![SETTLE, Step::Reset]], &[vec![Step::ReceiveReset]]);
    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 1);
    USER_TO_SHOP.server_resets(&mut wanted, "idle", 1);
    bench.assert_counts(&wanted);
}

/// A server that closes with a part of the request unread: the kernel makes a reset of it.
pub(crate) fn closed_with_request_unread(bench: &mut Bench) {
    play(bench, &[vec![Step::Receive(1)]], &[vec![send(REQUEST), Step::ReceiveReset]]);
    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 1);
    USER_TO_SHOP.server_resets(&mut wanted, "outstanding", 1);
    USER_TO_SHOP.no_response(&mut wanted, "reset", 1);
    bench.assert_counts(&wanted);
}

/// A client that gives up by a reset, on the first request and on a later one.
pub(crate) fn client_gives_up(bench: &mut Bench) {
    let server = [
        vec![receive(REQUEST), Step::ReceiveReset],
        vec![receive(REQUEST), send(OK), receive(REQUEST), Step::ReceiveReset],
    ];
    let give_up = [send(REQUEST), SETTLE, Step::Reset];
    let client = [give_up.to_vec(), [vec![send(REQUEST), receive(OK)], give_up.to_vec()].concat()];
    play(bench, &server, &client);
    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 2);
    USER_TO_SHOP.responses(&mut wanted, 200, 1);
    USER_TO_SHOP.client_resets(&mut wanted, "outstanding", 2);
    USER_TO_SHOP.no_response(&mut wanted, "reset", 2);
    bench.assert_counts(&wanted);
}
