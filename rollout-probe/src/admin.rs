//! Edge: the HTTP server: `/metrics`, `/healthz` and `/readyz`. It knows how to render and nothing of what.
//!
//! Small on purpose: a bounded number of connections, short heads, no request bodies, a timeout for a slow head.

use std::{convert::Infallible, future::Future, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore, time};

use crate::exposition::{Format, accepts_gzip, gzip};

/// Connections served at a time; more wait.
const CONNECTIONS: usize = 64;
/// For a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// For a connection as a whole, however slow the reader is.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(1);

/// What the server shows.
pub trait Pages: Send + Sync + 'static {
    /// All metrics in OpenMetrics text; the error is one line.
    fn metrics(&self) -> Result<String, String>;
    /// Whether everything that has to be there once is there.
    fn is_ready(&self) -> bool;
}

/// Binds `addr`.
pub async fn bind(addr: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(addr).await
}

/// Serves until `stop` is done; connections that are open then get a moment to end.
pub async fn serve(listener: TcpListener, pages: Arc<impl Pages>, stop: impl Future<Output = ()>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    tokio::pin!(stop);
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = &mut stop => return,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return,
        };
        match accepted {
            Ok((stream, _peer)) => {
                let pages = Arc::clone(&pages);
                tokio::spawn(async move {
                    let _slot = slot;
                    let service = service_fn(move |request| answer(Arc::clone(&pages), request));
                    let connection = http1::Builder::new()
                        .timer(TokioTimer::new())
                        .header_read_timeout(HEAD_TIMEOUT)
                        .max_buf_size(16 * 1024)
                        .serve_connection(TokioIo::new(stream), service);
                    match time::timeout(CONNECTION_TIMEOUT, connection).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::debug!(%error, "a connection to the metrics server failed"),
                        Err(_elapsed) => tracing::debug!("a connection to the metrics server took too long"),
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, for example: it passes.
                tracing::warn!(%error, "the metrics server cannot accept a connection");
                time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(pages: Arc<impl Pages>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD only\n"));
    }
    Ok(match request.uri().path() {
        "/metrics" => metrics(pages, request.headers()).await,
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        "/readyz" if pages.is_ready() => plain(StatusCode::OK, "ok\n"),
        "/readyz" => plain(StatusCode::SERVICE_UNAVAILABLE, "the pods are not listed yet\n"),
        _ => plain(StatusCode::NOT_FOUND, "there is /metrics, /healthz and /readyz\n"),
    })
}

/// Reading the kernel's maps, rendering and compressing take milliseconds on a full node: not on the reactor's time.
async fn metrics(pages: Arc<impl Pages>, request: &HeaderMap) -> Response<Full<Bytes>> {
    let field = |name: HeaderName| request.get(name).and_then(|value| value.to_str().ok());
    let (format, compress) = (Format::negotiate(field(ACCEPT)), accepts_gzip(field(ACCEPT_ENCODING)));
    let render = move || {
        let text = format.render(pages.metrics()?);
        if compress { gzip(&text).map_err(|error| error.to_string()) } else { Ok(text.into_bytes()) }
    };
    let reason = match tokio::task::spawn_blocking(render).await {
        Ok(Ok(body)) => {
            let mut response = Response::new(Full::new(Bytes::from(body)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
            if compress {
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            return response;
        }
        Ok(Err(reason)) => reason,
        Err(error) => format!("rendering failed: {error}"),
    };
    plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{reason}\n"))
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text.to_owned())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
