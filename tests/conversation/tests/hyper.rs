//! The random conversations against hyper, which reads whole streams by itself: as a server what the client sends, as a client
//! each response.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use conversation::{Connection, Conversation, Counted, End};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client, server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const CONVERSATIONS: u64 = 3_000;
/// More than any of the streams has.
const PIPE: usize = 1 << 20;

/// The methods that a hyper server reads from this stream.
async fn methods(asked: &[u8]) -> Vec<String> {
    let (mut ours, theirs) = tokio::io::duplex(PIPE);
    ours.write_all(asked).await.expect("room in the pipe");
    ours.shutdown().await.expect("an end");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Arc::clone(&seen);
        async move {
            seen.lock().expect("nobody panicked").push(request.method().as_str().to_owned());
            request.into_body().collect().await.expect("the request's content");
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let connection =
        server::conn::http1::Builder::new().half_close(true).serve_connection(TokioIo::new(theirs), service);
    connection.await.expect("requests without a fault");
    drop(ours);
    Arc::into_inner(seen).expect("the connection is gone").into_inner().expect("nobody panicked")
}

/// The codes that a hyper client reads, one response after the other.
async fn statuses(it: &Conversation) -> Vec<u16> {
    let (mut ours, theirs) = tokio::io::duplex(PIPE);
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(theirs)).await.expect("a connection");
    let connection = tokio::spawn(connection);
    let mut statuses = Vec::new();
    for (method, bytes) in it.methods.iter().zip(&it.responses) {
        let request = Request::builder().method(*method).uri("/").body(Empty::<Bytes>::new()).expect("a request");
        sender.ready().await.expect("the response before was read to its end");
        let response = tokio::spawn(sender.send_request(request));
        // hyper refuses bytes that come before the request is out.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            ours.read_buf(&mut head).await.expect("the request");
        }
        ours.write_all(bytes).await.expect("room in the pipe");
        if statuses.len() + 1 == it.methods.len() && it.is_closed {
            ours.shutdown().await.expect("an end");
        }
        let response = response.await.expect("no panic").expect("a response");
        statuses.push(response.status().as_u16());
        response.into_body().collect().await.expect("the response's content");
    }
    drop((ours, sender));
    let _closed_in_any_way = connection.await.expect("no panic");
    statuses
}

#[tokio::test]
async fn random_conversations_are_counted_as_hyper_reads_them() {
    for seed in 1_000_000..1_000_000 + CONVERSATIONS {
        let it = Conversation::random(seed, false);
        assert_eq!(methods(&it.asked).await, it.methods, "seed {seed}: the requests");
        let statuses = statuses(&it).await;
        let connection = End::Server.play(Connection::server(), &it.segments);
        let wanted = Counted { responses: statuses, ..Counted::default() };
        assert_eq!(Counted::of(connection.outcomes()), wanted, "seed {seed}");
    }
}
