//! The HTTP front.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::RegistryStore;

/// The actor name of requests that come over HTTP.
const ACTOR: &str = "http";
/// The largest request body, in bytes.
const BODY_LIMIT: usize = 128 * 1024 * 1024;

/// Serves the registry on a listener until `shutdown` resolves; connections that are open then end
/// after their current request.
pub async fn serve(
    store: RegistryStore,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let app = Router::new().fallback(handle).with_state(store.clone());
    let listener = CountingListener { inner: listener, store };
    axum::serve(listener, app.into_make_service_with_connect_info::<Cutter>())
        .with_graceful_shutdown(shutdown)
        .await
}

async fn handle(
    State(store): State<RegistryStore>,
    ConnectInfo(cutter): ConnectInfo<Cutter>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
        let mut response = Response::new(Body::from("body too large"));
        *response.status_mut() = http::StatusCode::PAYLOAD_TOO_LARGE;
        return response;
    };
    let request = http::Request::from_parts(parts, body);
    if let Ok(response) = store.exchange(ACTOR, request).await {
        return response.map(Body::from);
    }
    cutter.cut();
    Response::new(Body::empty())
}

/// Ends a connection without an answer.
#[derive(Clone)]
struct Cutter(Arc<AtomicBool>);

impl Cutter {
    fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Connected<IncomingStream<'_, CountingListener>> for Cutter {
    fn connect_info(stream: IncomingStream<'_, CountingListener>) -> Self {
        Self(Arc::clone(&stream.io().cut))
    }
}

struct CountingListener {
    inner: TcpListener,
    store: RegistryStore,
}

impl Listener for CountingListener {
    type Io = Connection;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Connection, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.inner).await;
        self.store.lock().connections += 1;
        (Connection { stream, cut: Arc::default() }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

/// A connection that fails once it is cut, so that the server drops it.
struct Connection {
    stream: TcpStream,
    cut: Arc<AtomicBool>,
}

impl Connection {
    fn check(&self) -> io::Result<()> {
        if self.cut.load(Ordering::Acquire) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
