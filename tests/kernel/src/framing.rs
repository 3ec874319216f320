//! Message framing on real sockets: the table of vectors, large segments with many messages, and latencies in order.

use std::time::Duration;

use conversation::{Sender, Vector};
use rollout_probe::{durations::Durations, kernel::Settings};
use rollout_probe_common::outcome::Protocol;
use testbed::peer::{Peer, Step, receive, send};

use crate::{
    bodies::play,
    rig::{Bench, Rig, cgroup_id},
    wanted::{Counts, USER_TO_SHOP, add},
};

const GET: &str = "GET / HTTP/1.1\r\nHost: shop\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const MISSING: &str = "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n";

/// Every vector that sockets can play: those with copies and holes of their own making are for the tests on the host.
pub(crate) fn vectors_on_sockets(bench: &mut Bench) {
    let vectors: Vec<_> = Vector::all().into_iter().filter(is_in_order).collect();
    let steps = |side| vectors.iter().map(|vector| script(vector, side)).collect::<Vec<_>>();
    let (server, client) = (steps(Sender::Server), steps(Sender::Client));
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let mut wanted = Counts::new();
    for address in [format!("{}:8080", pod.ip), format!("[{}]:8080", pod.ip6)] {
        let server = Peer::listen(&pod.place, &address, &server).unwrap();
        let client = Peer::connect(&user.place, &address, &client).unwrap();
        client.wait().unwrap();
        server.wait().unwrap();
        USER_TO_SHOP.connections(&mut wanted, vectors.len() as u64);
        for vector in &vectors {
            for &code in &vector.wanted.responses {
                USER_TO_SHOP.responses(&mut wanted, code, 1);
            }
            USER_TO_SHOP.no_response(&mut wanted, "closed", u64::from(vector.wanted.no_response));
            for why in &vector.wanted.lost {
                add(&mut wanted, &["lost_sync", why], 2); // at both ends
            }
        }
    }
    bench.assert_counts(&wanted);
}

fn is_in_order(vector: &Vector) -> bool {
    let mut ends = [0; 2];
    let follows = vector.segments.iter().all(|piece| {
        let end = &mut ends[piece.sender as usize];
        let follows = piece.at as usize == *end;
        *end += piece.bytes.len();
        follows
    });
    follows && !vector.older
}

fn script(vector: &Vector, side: Sender) -> Vec<Step> {
    let mut steps = Vec::new();
    for piece in &vector.segments {
        let is_ours = piece.sender == side;
        if !piece.bytes.is_empty() {
            steps.push(if is_ours { send(&piece.bytes) } else { receive(&piece.bytes) });
        }
        if piece.fin {
            steps.push(if is_ours { Step::FinishSending } else { Step::ReceiveEnd });
        }
    }
    steps
}

/// Three requests in one segment whose responses come one after the other: each latency begins with its own request.
pub(crate) fn latencies_of_pipelined_requests(bench: &mut Bench) {
    const PAUSE: Duration = Duration::from_millis(40);
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let address = format!("{}:8080", pod.ip);
    let mut steps = vec![receive(GET.repeat(3))];
    for response in [OK, MISSING, OK] {
        steps.extend([Step::Pause(PAUSE), send(response)]);
    }
    let all = [OK, MISSING, OK].concat();
    let server = Peer::listen(&pod.place, &address, &[steps]).unwrap();
    let client = Peer::connect(&user.place, &address, &[vec![send(GET.repeat(3)), receive(all)]]).unwrap();
    client.wait().unwrap();
    server.wait().unwrap();

    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 1);
    USER_TO_SHOP.responses(&mut wanted, 200, 2);
    USER_TO_SHOP.responses(&mut wanted, 404, 1);
    bench.assert_counts(&wanted);
    for place in [&pod.place, &user.place] {
        let cgroup = cgroup_id(place).0;
        let counters = bench.probe().snapshot().unwrap();
        let sum: u64 =
            counters.tallies.iter().filter(|(key, _)| key.cgroup == cgroup).map(|(_, it)| it.duration_sum_ns).sum();
        let sum = Duration::from_nanos(sum);
        assert!((PAUSE * 6..PAUSE * 8).contains(&sum), "one, two and three pauses, not {sum:?}");
    }
}

/// The buckets are those that were asked for at the start, and a histogram with fewer than there is room for has no others.
pub(crate) fn durations_in_buckets_as_asked_for() {
    let bounds = Durations::parse(&["0.05".to_owned(), "5".to_owned()]).unwrap();
    let mut rig = Rig::new();
    rig.attach_with(&Settings { duration_bounds_ns: bounds.for_the_programs() });
    let mut bench = Bench::on(&mut rig);
    let (pod, user) = (bench.pod("shop"), bench.client("user"));
    let address = format!("{}:8080", pod.ip);
    let slow = [receive(GET), Step::Pause(Duration::from_millis(100)), send(OK)];
    let server = [vec![receive(GET), send(OK), receive(GET), send(OK)], slow.to_vec()].concat();
    let client = vec![[send(GET), receive(OK)]; 3].concat();
    let server = Peer::listen(&pod.place, &address, &[server]).unwrap();
    let client = Peer::connect(&user.place, &address, &[client]).unwrap();
    client.wait().unwrap();
    server.wait().unwrap();

    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 1);
    USER_TO_SHOP.responses(&mut wanted, 200, 3);
    bench.assert_counts(&wanted);
    let counters = bench.probe().snapshot().unwrap();
    let mut both_ends = 0;
    for (_, tally) in counters.tallies.iter().filter(|(key, _)| key.protocol == Protocol::HTTP1) {
        assert_eq!(tally.duration_buckets[..3], [2, 1, 0], "two at once, one after 100 ms, none over 5 s");
        assert_eq!(tally.duration_buckets.iter().sum::<u64>(), 3, "in no bucket beyond: {:?}", tally.duration_buckets);
        both_ends += 1;
    }
    assert_eq!(both_ends, 2);
}

/// Both sides send 100 KB at once: heads far behind the first bytes of a segment, content that looks like heads.
pub(crate) fn many_messages_in_large_segments(bench: &mut Bench) {
    let content = "HTTP/1.1 500 x\r\n\r\nGET / HTTP/1.1\r\n\r\n".repeat(800);
    let length = content.len();
    let post = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{content}");
    let chunked = format!(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{length:x};a=b\r\n{content}\r\n0\r\nX: y\r\n\r\n"
    );
    let requests = [post.as_str(), GET, &chunked, GET, &post, GET].concat();
    let found = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{content}");
    let pieces = format!("HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:X}\r\n{content}\r\n0\r\n\r\n");
    let responses = [found.as_str(), MISSING, &pieces, MISSING, &found, OK].concat();
    assert!(requests.len() > 80_000 && responses.len() > 80_000);
    let server = vec![receive(&requests), send(&responses), receive(GET), send(OK)];
    let client = vec![send(&requests), receive(&responses), send(GET), receive(OK)];
    play(bench, &[server], &[client]);

    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 1);
    for (code, n) in [(200, 4), (201, 1), (404, 2)] {
        USER_TO_SHOP.responses(&mut wanted, code, n);
    }
    bench.assert_counts(&wanted);
}

/// More requests than the queue has room for: all responses are counted, those beyond without a duration, and it is said.
pub(crate) fn more_requests_than_the_queue_holds(bench: &mut Bench) {
    let (requests, responses) = (GET.repeat(40), OK.repeat(40));
    let server = vec![receive(&requests), send(&responses), receive(GET), send(MISSING)];
    let client = vec![send(&requests), receive(&responses), send(GET), receive(MISSING)];
    play(bench, &[server], &[client]);

    let mut wanted = Counts::new();
    USER_TO_SHOP.connections(&mut wanted, 1);
    USER_TO_SHOP.responses(&mut wanted, 200, 32);
    USER_TO_SHOP.responses(&mut wanted, 404, 1);
    for (host, role) in [("shop", "server"), ("user", "client")] {
        add(&mut wanted, &[host, "responses", role, "traffic", "2xx"], 8);
    }
    add(&mut wanted, &["lost_sync", "queue"], 2);
    bench.assert_counts(&wanted);
}
