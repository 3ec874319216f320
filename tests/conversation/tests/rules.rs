//! The rules of a conversation: what is counted, when, and what is not.

#![expect(clippy::cast_possible_truncation, reason = "lengths of short texts")]

use conversation::{
    Connection,
    Direction::{self, Egress, Ingress},
    Outcome, RX, Random, TX,
};
use rollout_probe_common::{
    flow::state,
    outcome::{LostSync, NoResponse, Phase, Role},
};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const ERROR: &[u8] = b"HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n";

fn response(status: u16) -> Outcome {
    Outcome::Response(status, Some(1))
}

#[test]
fn keep_alive_exchanges_are_counted_one_by_one() {
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, OK).sends(Ingress, GET).sends(Egress, ERROR);
    assert_eq!(it.outcomes(), [response(200), response(500)]);
    assert_eq!(it.flow.role, Role::SERVER);
}

#[test]
fn role_is_who_asks_and_not_who_connects() {
    let mut it = Connection::client();
    it.sends(Egress, GET).sends(Ingress, OK);
    assert_eq!((it.outcomes(), it.flow.role), (&[response(200)][..], Role::CLIENT));
    // A connection opened by us on which the other side asks (a reverse tunnel).
    let mut it = Connection::client();
    it.sends(Ingress, GET).sends(Egress, OK);
    assert_eq!((it.outcomes(), it.flow.role, it.flow.tcp_role()), (&[response(200)][..], Role::SERVER, Role::CLIENT));
}

#[test]
fn heads_split_at_every_byte_are_counted_once() {
    for at in 1..GET.len() {
        let mut it = Connection::server();
        it.sends(Ingress, &GET[..at]).sends(Ingress, &GET[at..]).sends(Egress, ERROR);
        assert_eq!(
            it.outcomes(),
            [Outcome::Response(500, Some(2))],
            "request split at {at}: latency from its first byte"
        );
    }
    for at in 1..ERROR.len() {
        let mut it = Connection::server();
        it.sends(Ingress, GET).sends(Egress, &ERROR[..at]).sends(Egress, &ERROR[at..]);
        it.sends(Ingress, GET).sends(Egress, OK);
        assert_eq!(it.statuses(), [500, 200], "response split at {at}");
    }
    let mut it = Connection::server();
    for byte in GET {
        it.sends(Ingress, &[*byte]);
    }
    for byte in ERROR {
        it.sends(Egress, &[*byte]);
    }
    assert_eq!(it.statuses(), [500]);
}

#[test]
fn retransmissions_count_nothing() {
    let mut it = Connection::server();
    it.sends(Ingress, GET).at(Ingress, RX, GET, false).sends(Egress, OK).at(Egress, TX, OK, false);
    it.at(Egress, TX, ERROR, false); // the same place with other bytes: an old copy too
    it.sends(Ingress, GET).sends(Egress, ERROR);
    assert_eq!(it.outcomes(), [Outcome::Response(200, Some(2)), response(500)]);
}

#[test]
fn merged_segment_is_taken_from_its_first_new_byte() {
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, OK).sends(Ingress, GET);
    let merged = [OK, ERROR].concat();
    it.at(Egress, TX, &merged, false);
    assert_eq!(it.outcomes(), [response(200), response(500)]);
}

#[test]
fn head_behind_a_hole_is_found_when_it_comes() {
    let mut it = Connection::client();
    it.sends(Egress, GET);
    it.at(Ingress, RX.wrapping_add(20), &ERROR[20..], false);
    assert_eq!(it.outcomes(), []);
    it.at(Ingress, RX, &ERROR[..20], false);
    assert_eq!(it.outcomes(), [Outcome::Response(500, Some(2))]);
}

#[test]
fn head_whose_rest_came_before_its_start_is_not_guessed() {
    let mut it = Connection::client();
    it.sends(Egress, GET);
    it.at(Ingress, RX.wrapping_add(10), &ERROR[10..], false);
    it.sends(Ingress, &ERROR[..10]);
    it.next[0] = RX.wrapping_add(ERROR.len() as u32);
    assert_eq!(it.outcomes(), [Outcome::Lost(LostSync::HOLE)]);
    it.sends(Egress, GET).sends(Ingress, OK);
    assert_eq!(it.outcomes()[1..], [response(200)], "the next request is a certain boundary");
}

#[test]
fn content_that_comes_before_its_head_is_passed_over_all_the_same() {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 60\r\n\r\n";
    let head = HEAD.len() as u32;
    for parts in [60, 50] {
        let mut it = Connection::server();
        it.at(Ingress, RX.wrapping_add(head), &[b'x'; 60][..parts], false);
        it.at(Ingress, RX, HEAD, false);
        it.at(Ingress, RX.wrapping_add(head + parts as u32), &[b'x'; 60][parts..], false);
        it.next[0] = RX.wrapping_add(head + 60);
        it.sends(Ingress, GET).sends(Egress, OK).sends(Egress, ERROR);
        assert_eq!(it.statuses(), [200, 500], "{parts} bytes of content came early");
    }
}

#[test]
fn message_that_comes_before_the_content_in_front_of_it_is_not_guessed() {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 60\r\n\r\n";
    let head = HEAD.len() as u32;
    let mut it = Connection::server();
    it.at(Ingress, RX.wrapping_add(head), &[&[b'x'; 60], GET].concat(), false);
    it.at(Ingress, RX, HEAD, false);
    assert_eq!(it.outcomes(), [Outcome::Lost(LostSync::HOLE)]);
}

#[test]
fn request_head_with_a_hole_still_gets_its_response() {
    let post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok";
    let mut it = Connection::server();
    it.at(Ingress, RX.wrapping_add(30), &post[30..], false);
    it.at(Ingress, RX, &post[..30], false);
    it.next[0] = RX.wrapping_add(post.len() as u32);
    it.sends(Egress, ERROR).sends(Ingress, GET).sends(Egress, OK);
    assert_eq!(it.outcomes(), [Outcome::Lost(LostSync::HOLE), response(500), response(200)]);
}

#[test]
fn body_that_arrives_before_its_head_moves_the_next_head() {
    let mut it = Connection::client();
    it.sends(Egress, GET);
    let body = b"HTTP/1.1 503 in a body";
    it.at(Ingress, RX.wrapping_add(OK.len() as u32), body, false);
    it.at(Ingress, RX, OK, false);
    it.next[0] = RX.wrapping_add((OK.len() + body.len()) as u32);
    it.sends(Egress, GET).sends(Ingress, ERROR);
    assert_eq!(it.outcomes(), [Outcome::Response(200, Some(2)), response(500)]);
}

#[test]
fn bodies_that_look_like_heads_are_bodies() {
    let mut it = Connection::server();
    it.sends(Ingress, b"POST / HTTP/1.1\r\nContent-Length: 23\r\n\r\n").sends(Ingress, b"GET /admin HTTP/1.1\r\n\r\n");
    it.sends(Egress, b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n").sends(Egress, ERROR).sends(Egress, ERROR);
    it.sends(Ingress, GET).sends(Egress, ERROR);
    assert_eq!(it.outcomes(), [Outcome::Response(200, Some(2)), response(500)]);
}

#[test]
fn interim_responses_are_not_counted() {
    const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n";
    let together = [b"HTTP/1.1 100 Continue\r\n\r\n", HINTS, HINTS, b"HTTP/1.1 102 x\r\n\r\n", OK].concat();
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, &together).sends(Ingress, GET).sends(Egress, ERROR);
    assert_eq!(it.outcomes(), [response(200), response(500)], "all in one segment");
    for at in 1..together.len() {
        let mut it = Connection::server();
        it.sends(Ingress, GET).sends(Egress, &together[..at]).sends(Egress, &together[at..]);
        assert_eq!(it.statuses(), [200], "split at {at}");
    }
}

#[test]
fn more_interim_responses_than_the_budget_are_owned_up_to() {
    let interim = b"HTTP/1.1 100 \r\n\r\n";
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, &interim.repeat(4000)).sends(Egress, OK);
    assert_eq!(it.statuses(), [200]);
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, &interim.repeat(5000)).sends(Egress, OK);
    assert_eq!(it.outcomes(), [Outcome::Lost(LostSync::BUDGET)]);
}

#[test]
fn switched_protocol_is_counted_once_and_left_alone() {
    let mut it = Connection::server();
    it.sends(Ingress, b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n");
    it.sends(Egress, b"HTTP/1.1 101 Switching Protocols\r\n\r\n").sends(Egress, ERROR).sends(Ingress, GET);
    assert_eq!(it.outcomes(), [response(101)]);
    assert_eq!((it.flow.state, it.flow.phase()), (state::OPAQUE, Phase::AFTER_RESPONSE));
    let mut it = Connection::server();
    it.sends(Ingress, b"CONNECT e:1 HTTP/1.1\r\n\r\n").sends(Egress, OK).sends(Egress, ERROR);
    assert_eq!((it.outcomes(), it.flow.state), (&[response(200)][..], state::OPAQUE));
    let mut it = Connection::server();
    it.sends(Ingress, b"CONNECT e:1 HTTP/1.1\r\n\r\n").sends(Egress, b"HTTP/1.1 403 x\r\n\r\n");
    it.sends(Ingress, GET).sends(Egress, OK);
    assert_eq!(it.outcomes(), [response(403), response(200)], "a refused tunnel is none");
}

#[test]
fn empty_lines_before_a_head_are_skipped() {
    let mut it = Connection::server();
    it.sends(Ingress, b"\r\n")
        .sends(Ingress, b"\r\nGET / HTTP/1.1\r\n\r\n")
        .sends(Egress, b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(it.outcomes(), [response(200)]);
}

#[test]
fn request_without_response_is_counted_when_the_server_ends() {
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, OK).sends(Ingress, GET).ends(Egress).ends(Egress);
    assert_eq!(
        it.outcomes(),
        [response(200), Outcome::NoResponse(NoResponse::CLOSED, 1)],
        "a retransmitted FIN changes nothing"
    );
    assert_eq!(it.flow.phase(), Phase::AFTER_RESPONSE);
}

#[test]
fn request_on_a_connection_that_the_server_has_ended_is_missed() {
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, OK).ends(Egress).sends(Ingress, GET);
    assert_eq!(it.outcomes(), [response(200), Outcome::NoResponse(NoResponse::CLOSED, 1)]);
}

#[test]
fn half_closed_client_still_gets_its_response() {
    let mut it = Connection::server();
    it.sends(Ingress, GET).ends(Ingress).sends(Egress, OK).ends(Egress);
    assert_eq!(it.outcomes(), [Outcome::Response(200, Some(2))]);
}

#[test]
fn fin_with_the_last_payload_or_before_it_is_no_missing_response() {
    let mut it = Connection::server();
    it.sends(Ingress, GET).at(Egress, TX, OK, true);
    assert_eq!(it.outcomes(), [response(200)], "FIN on the response");
    let mut it = Connection::client();
    it.sends(Egress, GET).at(Ingress, RX.wrapping_add(OK.len() as u32), b"", true);
    assert_eq!(it.outcomes(), [], "a FIN that overtakes the response proves nothing yet");
    it.at(Ingress, RX, OK, false);
    assert_eq!(it.outcomes(), [Outcome::Response(200, Some(2))]);
}

#[test]
fn piece_of_a_head_is_no_response() {
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, b"HTTP/1.1 5").ends(Egress);
    assert_eq!(it.outcomes(), [Outcome::NoResponse(NoResponse::CLOSED, 1)]);
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, b"HTTP/1.1 100 Continue\r\n\r\n").ends(Egress);
    assert_eq!(it.outcomes(), [Outcome::NoResponse(NoResponse::CLOSED, 1)], "an interim response is not the response");
}

#[test]
fn other_protocols_are_opaque_from_their_first_bytes() {
    let firsts: [(Direction, &[u8]); 5] = [
        (Ingress, b"\x16\x03\x01\x02\x00"),
        (Ingress, b"*1\r\n$4\r\nPING\r\n"),
        (Ingress, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (Egress, b"220 mail ESMTP\r\n"),
        (Egress, b"J\x00\x00\x00\x0a8.0"),
    ];
    for (direction, bytes) in firsts {
        let mut it = Connection::server();
        it.sends(direction, bytes).sends(Ingress, GET).sends(Egress, ERROR);
        assert_eq!((it.outcomes(), it.flow.state), (&[][..], state::OPAQUE), "{}", bytes.escape_ascii());
    }
}

#[test]
fn response_whose_request_was_not_seen_has_no_latency() {
    let mut it = Connection::server();
    it.sends(Egress, ERROR).sends(Ingress, GET).sends(Egress, OK);
    assert_eq!(it.outcomes(), [Outcome::Response(500, None), response(200)]);
}

#[test]
fn bytes_that_are_no_head_lose_the_connection_until_a_certain_boundary() {
    let mut it = Connection::server();
    it.sends(Ingress, GET).sends(Egress, b"what is this").sends(Egress, ERROR);
    assert_eq!(it.outcomes(), [Outcome::Lost(LostSync::RESPONSE_HEAD)], "nothing is guessed");
    it.sends(Ingress, GET).sends(Egress, OK);
    assert_eq!(it.outcomes()[1..], [response(200)], "a request after the other side's bytes is a boundary");
    it.sends(Ingress, b"rest of something");
    assert_eq!(it.outcomes()[2..], [Outcome::Lost(LostSync::REQUEST_HEAD)]);
}

#[test]
fn older_connection_is_joined_at_a_request_that_follows_a_response() {
    let mut it = Connection::older();
    it.sends(Egress, b"HTTP/1.1 500 in the middle of a body").sends(Egress, ERROR);
    it.sends(Ingress, GET).sends(Egress, OK).sends(Ingress, GET).sends(Egress, ERROR);
    assert_eq!(it.outcomes(), [Outcome::Lost(LostSync::MID_STREAM), response(200), response(500)]);
    let mut it = Connection::older();
    it.sends(Ingress, b"GET /in/the/middle/of/an/upload").sends(Ingress, GET).sends(Egress, OK);
    assert_eq!(it.outcomes(), [], "an upload's bytes are no request");
}

#[test]
fn older_connection_of_another_protocol_is_given_up() {
    let mut it = Connection::older();
    for _ in 0..40 {
        it.sends(Ingress, b"\x00\x00\x00\x01query").sends(Egress, b"\x00\x00\x00\x01rows");
    }
    assert_eq!((it.flow.state, it.outcomes()), (state::OPAQUE, &[][..]), "it was never HTTP/1, so nothing was lost");
}

#[test]
fn reset_phase_is_what_the_connection_was_doing() {
    let mut it = Connection::server();
    assert_eq!(it.flow.phase(), Phase::IDLE);
    it.sends(Ingress, GET);
    assert_eq!(it.flow.phase(), Phase::OUTSTANDING);
    it.sends(Egress, OK);
    assert_eq!(it.flow.phase(), Phase::AFTER_RESPONSE);
}

/// Every conversation above is short; this one is long and cut at random, with copies and reordering.
#[test]
fn random_cuts_copies_and_order_change_nothing() {
    let mut random = Random::new(0);
    for _ in 0..2000 {
        let mut it = Connection::client();
        let mut expected = vec![];
        for _ in 0..5 {
            it.sends(Egress, GET);
            let status = 200 + random.below(400) as u16;
            let body = "HTTP/1.1 500 x\r\n".repeat(random.below(20));
            let message = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            expected.push(status);
            let start = it.next[0];
            let mut pieces = vec![];
            let mut at = 0;
            while at < message.len() {
                let n = 1 + random.below(message.len() - at);
                pieces.push((at, at + n));
                at += n;
            }
            // Each piece may come early, and any may come twice; TCP ends with all of them delivered in order.
            // Bytes of the status line may not come in the wrong order: what was past is past.
            let early = *pieces.iter().rfind(|(from, _)| *from == 0 || *from >= 16).expect("the first");
            it.at(Ingress, start.wrapping_add(early.0 as u32), &message.as_bytes()[early.0..early.1], false);
            for (from, to) in pieces {
                for _ in 0..=random.below(2) {
                    it.at(Ingress, start.wrapping_add(from as u32), &message.as_bytes()[from..to], false);
                }
            }
            it.next[0] = start.wrapping_add(message.len() as u32);
        }
        assert_eq!(it.statuses(), expected);
    }
}
