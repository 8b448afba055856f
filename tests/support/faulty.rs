//! A proxy that does to the requests to a registry what networks and proxies do.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use test_bed::Registry;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The connection ends, and the registry has not heard of the request.
    CutBefore,
    /// The connection ends after the registry has done what it was asked.
    CutAfter,
    /// The registry hears of the request after the client has given up.
    Late,
    /// The proxy's own answer.
    Status(u16),
}

/// What is to happen.
#[derive(Default)]
pub struct Plan {
    /// Requests since the plan was made.
    pub seen: usize,
    /// Which of them meets what.
    pub trouble: Option<(usize, Trouble)>,
    /// Each request with such a number meets the next of these troubles.
    pub again: Option<(usize, Vec<Trouble>)>,
    /// How many have met trouble.
    pub met: usize,
    /// Requests that the registry is busy with.
    pub under_way: usize,
    /// Reads of blobs are sent to the registry under this host.
    pub blobs_at: Option<String>,
}

impl Plan {
    /// One request more: what happens to it.
    fn next(&mut self) -> Option<Trouble> {
        self.seen += 1;
        let once = self.trouble.filter(|(at, _)| *at == self.seen).map(|(_, trouble)| trouble);
        let again = self.again.as_ref().filter(|(every, _)| self.seen.is_multiple_of(*every));
        let trouble = once.or_else(|| again.map(|(_, troubles)| troubles[self.met % troubles.len()]));
        self.met += usize::from(trouble.is_some());
        trouble
    }
}

struct Shared {
    target: String,
    client: reqwest::Client,
    plan: Mutex<Plan>,
    land: Notify,
    landed: Notify,
}

/// A proxy in front of a registry.
pub struct Proxy {
    /// Where it listens, `127.0.0.1:<port>`.
    pub host: String,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

fn answer(status: u16, header: (&str, &str)) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(header.0, header.1);
    response.body(Full::default()).expect("a response")
}

/// Ends the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut")]
struct Cut;

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the registry to the end, also when the client leaves meanwhile.
    async fn pass_on(self: &Arc<Self>, request: Request<Bytes>) -> Response<Full<Bytes>> {
        let shared = Arc::clone(self);
        let (tell, told) = oneshot::channel();
        self.plan().under_way += 1;
        detach(async move {
            let answer = shared.ask(request).await;
            shared.plan().under_way -= 1;
            // Nobody listens any more where the client has left.
            tell.send(answer).ok();
        });
        told.await.expect("the registry's answer")
    }

    async fn ask(&self, request: Request<Bytes>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let url = format!("http://{}{}", self.target, parts.uri);
        let sent = self.client.request(parts.method, url).headers(parts.headers).body(body).send().await;
        let response = sent.expect("the registry answers");
        let mut answer = Response::builder().status(response.status());
        *answer.headers_mut().expect("no error") = response.headers().clone();
        let body = response.bytes().await.expect("the registry's whole answer");
        answer.body(Full::new(body)).expect("a response")
    }

    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Cut> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
        let request = Request::from_parts(parts, body);
        let (trouble, blobs_at) = {
            let mut plan = self.plan();
            (plan.next(), plan.blobs_at.clone())
        };
        let is_read = matches!(request.method().as_str(), "GET" | "HEAD");
        if let Some(host) = blobs_at.filter(|_| is_read && request.uri().path().contains("/blobs/sha256:")) {
            return Ok(answer(307, ("location", &format!("http://{host}{}", request.uri()))));
        }
        match trouble {
            None => Ok(self.pass_on(request).await),
            Some(Trouble::CutBefore) => Err(Cut),
            Some(Trouble::CutAfter) => {
                self.pass_on(request).await;
                Err(Cut)
            }
            Some(Trouble::Late) => {
                let shared = Arc::clone(&self);
                // The client will be gone, and with it this future.
                detach(async move {
                    shared.land.notified().await;
                    shared.pass_on(request).await;
                    shared.landed.notify_one();
                });
                std::future::pending().await
            }
            Some(Trouble::Status(status)) => Ok(answer(status, ("retry-after", "1"))),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a proxy of the tests, outside of what is simulated")]
fn detach(future: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(future);
}

impl Proxy {
    /// One in front of `registry`; it ends when it is dropped.
    pub async fn before(registry: &Registry) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let host = listener.local_addr().expect("its address").to_string();
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        let shared = Arc::new(Shared {
            target: registry.host(),
            client: client.build().expect("a client"),
            plan: Mutex::default(),
            land: Notify::new(),
            landed: Notify::new(),
        });
        let mut server = JoinSet::new();
        server.spawn(Self::serve(listener, Arc::clone(&shared)));
        Self { host, shared, _server: server }
    }

    async fn serve(listener: TcpListener, shared: Arc<Shared>) {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let shared = Arc::clone(&shared);
            let service = service_fn(move |request| Arc::clone(&shared).handle(request));
            let connection = hyper::server::conn::http1::Builder::new();
            // It ends with an error when it is cut.
            connections.spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    }

    /// From now on this happens.
    pub fn plan(&self, plan: Plan) {
        *self.shared.plan() = plan;
    }

    /// The registry's own host.
    pub fn target(&self) -> &str {
        &self.shared.target
    }

    /// How many requests have met trouble since the plan was made.
    pub fn met(&self) -> usize {
        self.shared.plan().met
    }

    /// How many requests there were since the plan was made.
    pub fn seen(&self) -> usize {
        self.shared.plan().seen
    }

    /// After an attempt that failed: no more trouble, and whatever was sent has landed.
    pub async fn calm_down(&self) {
        let met = {
            let mut plan = self.shared.plan();
            let late = plan.trouble.take().is_some_and(|(_, trouble)| trouble == Trouble::Late);
            late && plan.met > 0
        };
        if met {
            self.shared.land.notify_one();
            self.shared.landed.notified().await;
        }
        while self.shared.plan().under_way > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
