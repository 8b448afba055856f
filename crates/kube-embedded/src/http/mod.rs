//! From an HTTP request to an HTTP answer.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod dispatch;
pub(crate) mod input;
pub(crate) mod path;
mod protobuf;
pub(crate) mod query;
pub(crate) mod render;
pub(crate) mod serve;
pub(crate) mod service;

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};

pub use self::{body::ResponseBody, service::EmbeddedService};
use crate::{
    faults::{Fault, WatchFault},
    request::RequestInfo,
    server::{Inner, Reply, Server, lock},
    status::ApiError,
};

/// The largest body that is taken, as in the real server.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;

/// What a client gets: a response, or a broken connection.
pub(crate) type Answer = Result<Response<ResponseBody>, TransportError>;

/// The connection broke before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// A fault lost the answer.
    #[error("connection reset by peer before the answer came")]
    AnswerLost,
    /// A fault refused the connection.
    #[error("connection refused")]
    Refused,
    /// The actor is fenced.
    #[error("connection refused: the actor of this client is fenced")]
    Fenced,
    /// The server went away while the request was held.
    #[error("connection closed: the server is gone")]
    Closed,
}

/// A request with its body, and what is known about it before it is served.
pub(crate) struct Incoming {
    pub request: Request<Bytes>,
    pub route: path::Route,
    pub info: Arc<RequestInfo>,
    /// The name in the path; that of `info` may come from elsewhere.
    pub name: Arc<str>,
    /// Whether there is no body because it was too large.
    pub too_large: bool,
    pub watch_fault: WatchFault,
    /// How many revisions old the answer to a list may be.
    pub stale: u64,
}

/// A request that waits for its release.
pub(crate) struct Held {
    incoming: Incoming,
    reply: Reply,
}

impl Held {
    /// Serves the request; its client may be gone.
    pub fn release(self, server: &Server) {
        let answer = finish(&server.inner, self.incoming);
        let _ = self.reply.send(answer);
    }
}

/// A body as it was received.
pub(crate) enum Received {
    Whole(Bytes),
    TooLarge,
}

/// Where requests are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where they are polled, so that equal requests give an equal order.
    Here,
    /// On tokio's threads for what blocks, so that a request that computes for long holds no connection up.
    Apart,
}

/// Serves one request.
pub(crate) async fn handle(
    server: Server,
    actor: Arc<str>,
    request: Request<Received>,
    place: Place,
) -> Answer {
    let inner = server.inner.clone();
    if inner.is_fenced(&actor) {
        return Err(TransportError::Fenced);
    }
    let too_large = matches!(request.body(), Received::TooLarge);
    let request = request.map(|body| match body {
        Received::Whole(bytes) => bytes,
        Received::TooLarge => Bytes::new(),
    });
    let (route, mut info, name) = path::route(&inner, actor, &request);
    let now = inner.now();
    lock(&inner.log).arrived(&mut info, now);
    let fault = lock(&inner.faults).strike(&info);
    let mut incoming = Incoming {
        request,
        route,
        info: Arc::new(info),
        name,
        too_large,
        watch_fault: WatchFault::default(),
        stale: 0,
    };
    match fault {
        Fault::None => {}
        Fault::Refuse => return Err(TransportError::Refused),
        Fault::Hang => std::future::pending().await,
        Fault::Delay(time) => tokio::time::sleep(time).await,
        Fault::Watch(watch) => incoming.watch_fault = watch,
        Fault::StaleList(by) => incoming.stale = by,
        Fault::TimeOutAfter => {
            let (format, number) = (accept::Format::of(&incoming.request), incoming.info.number);
            drop(finish(&inner, incoming)?);
            lock(&inner.log).answered(number, 504);
            let message =
                "Timeout: request did not complete within requested timeout - context deadline exceeded";
            return Ok(render::error(&ApiError::new(504, "Timeout", message), format));
        }
        Fault::LoseAnswer => {
            let _ = finish(&inner, incoming);
            return Err(TransportError::AnswerLost);
        }
        Fault::Hold => {
            let (reply, answer) = futures::channel::oneshot::channel();
            lock(&inner.held).push_back(Held { incoming, reply });
            // Only the server may keep itself alive from here on.
            drop((inner, server));
            return answer.await.unwrap_or(Err(TransportError::Closed));
        }
        status @ Fault::Status { .. } => {
            if let Some(error) = status.as_error() {
                let format = accept::Format::of(&incoming.request);
                lock(&inner.log).answered(incoming.info.number, error.code);
                return Ok(render::error(&error, format));
            }
        }
    }
    if place == Place::Here || matches!(incoming.route, path::Route::Other(_)) {
        return finish(&inner, incoming);
    }
    drop(server);
    #[allow(
        clippy::disallowed_methods,
        reason = "there are no ports here, and simulations carry out in place"
    )]
    let carried = tokio::task::spawn_blocking(move || finish(&inner, incoming));
    // It can end in nothing else than a panic, which broke this request alone.
    carried.await.unwrap_or(Err(TransportError::Closed))
}

/// Carries a request out and notes the code of its answer.
fn finish(inner: &Arc<Inner>, incoming: Incoming) -> Answer {
    let info = incoming.info.clone();
    if inner.is_fenced(&info.actor) {
        return Err(TransportError::Fenced);
    }
    let answer = dispatch::dispatch(inner, incoming);
    if inner.is_fenced(&info.actor) {
        return Err(TransportError::Fenced);
    }
    if let Ok(response) = &answer {
        lock(&inner.log).answered(info.number, response.status().as_u16());
    }
    answer
}
