//! Real registries behind a proxy that does what networks and proxies do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use solar_controller::adapters::oci::{
    Endpoint, HttpRegistry, OciError, OciErrorKind, OciRegistry, Operation, Reference, Timeouts, UntagError,
    UntagOutcome, UntagProgress, UntagRequest, untag,
};
use test_bed::{Generation, Registry};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::distribution::{holds, untag_v1};
use crate::support::{chart, http_client, patient};

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The connection ends, and the registry has not heard of the request.
    CutBefore,
    /// The connection ends after the registry has done what it was asked.
    CutAfter,
    /// The registry hears of the request after the client has given up.
    Late,
    /// The proxy's own answer.
    Status(u16),
}

#[derive(Default)]
struct Plan {
    /// Requests since the plan was made.
    seen: usize,
    /// Which of them meets what.
    trouble: Option<(usize, Trouble)>,
    /// Whether it has.
    met: bool,
    /// Requests that the registry is busy with.
    under_way: usize,
    /// Reads of blobs are sent to the registry under this host.
    blobs_at: Option<String>,
}

struct Shared {
    target: String,
    client: reqwest::Client,
    plan: Mutex<Plan>,
    land: Notify,
    landed: Notify,
}

/// A proxy in front of a registry.
struct Proxy {
    host: String,
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
            plan.seen += 1;
            let trouble = plan.trouble.filter(|(at, _)| *at == plan.seen);
            plan.met |= trouble.is_some();
            (trouble.map(|(_, trouble)| trouble), plan.blobs_at.clone())
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
    async fn before(registry: &Registry) -> Self {
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

    fn plan(&self, plan: Plan) {
        *self.shared.plan() = plan;
    }

    fn seen(&self) -> usize {
        self.shared.plan().seen
    }

    /// After an attempt that failed: no more trouble, and whatever was sent has landed.
    async fn calm_down(&self) {
        let met = {
            let mut plan = self.shared.plan();
            let late = plan.trouble.take().is_some_and(|(_, trouble)| trouble == Trouble::Late);
            late && plan.met
        };
        if met {
            self.shared.land.notify_one();
            self.shared.landed.notified().await;
        }
        while self.shared.plan().under_way > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::anonymous(&self.host, true)
    }
}

fn is_meant(error: &OciError, trouble: Trouble) -> bool {
    match trouble {
        Trouble::CutBefore | Trouble::CutAfter => matches!(error.kind, OciErrorKind::Cut { .. }),
        Trouble::Late => matches!(error.kind, OciErrorKind::TimedOut { .. }),
        // A push loses what `Retry-After` says: the client library keeps it to itself.
        Trouble::Status(429) if matches!(error.operation, Operation::PushBlob | Operation::PushManifest) => {
            matches!(error.kind, OciErrorKind::Throttled { .. })
        }
        Trouble::Status(429) => error.retry_after() == Some(Duration::from_secs(1)),
        Trouble::Status(status) => error.kind == OciErrorKind::Server { status },
    }
}

/// A client with time, and one without.
struct Clients {
    patient: HttpRegistry,
    hasty: HttpRegistry,
}

impl Clients {
    fn new() -> Self {
        let limit = Duration::from_millis(300);
        Self { patient: http_client(patient()), hasty: http_client(Timeouts { read: limit, write: limit }) }
    }
}

/// Pushes and untags while one request meets trouble, tries again, and looks; `false` when there was no such request.
async fn one_trouble(
    clients: &Clients,
    proxy: &Proxy,
    trouble: Trouble,
    at: usize,
    repository: &str,
) -> bool {
    let (endpoint, friend) = (proxy.endpoint(), &clients.patient);
    let artifact = chart("content");
    proxy.plan(Plan::default());
    friend.push(&endpoint, repository, "sibling", &artifact).await.expect("no trouble yet");

    let first = if trouble == Trouble::Late { &clients.hasty } else { friend };
    proxy.plan(Plan { trouble: Some((at, trouble)), ..Plan::default() });
    let other = chart("other");
    if let Err(error) = first.push(&endpoint, repository, "v1", &other).await {
        assert!(is_meant(&error, trouble), "{trouble:?} at {at}: {error:?}");
        proxy.calm_down().await;
        assert_eq!(friend.push(&endpoint, repository, "v1", &other).await.as_ref(), Ok(other.digest()));
    }
    // Looked at behind the proxy, so that looking is not counted.
    let direct = Endpoint::anonymous(&proxy.shared.target, true);
    holds(friend, &direct, repository, "v1", &other).await;

    let mut progress = UntagProgress::default();
    let expected = Some(other.digest());
    let request = UntagRequest { endpoint: &endpoint, repository, tag: "v1", expected };
    match untag(first, &request, &mut progress).await {
        Ok(outcome) => assert_eq!(outcome, UntagOutcome::Deleted, "{trouble:?} at {at}"),
        Err(UntagError::Failed { source, .. }) => {
            assert!(is_meant(&source, trouble), "{trouble:?} at {at}: {source:?}");
            proxy.calm_down().await;
            let again = untag(friend, &request, &mut progress).await;
            let done = matches!(again, Ok(UntagOutcome::Deleted | UntagOutcome::AlreadyGone));
            assert!(done, "{trouble:?} at {at}: {again:?}");
        }
        Err(error) => panic!("{trouble:?} at {at}: {error:?}"),
    }
    let met = proxy.seen() >= at;
    let gone = friend.head(&direct, repository, &Reference::tag("v1")).await;
    assert_eq!(gone, Ok(None), "{trouble:?} at {at}");
    holds(friend, &direct, repository, "sibling", &artifact).await;
    met
}

async fn every_request_meets(troubles: &[Trouble]) {
    let clients = Clients::new();
    for generation in Generation::ALL {
        let Some(server) = Registry::builder(generation).start() else { continue };
        let proxy = Proxy::before(&server).await;
        for (number, trouble) in troubles.iter().enumerate() {
            let mut at = 1;
            while one_trouble(&clients, &proxy, *trouble, at, &format!("team/{number}-{at}")).await {
                at += 1;
            }
            // A push and three requests to untag at least.
            assert!(at > 8, "{generation:?} {trouble:?}: only {} requests", at - 1);
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_at_any_request_costs_one_more_attempt() {
    every_request_meets(&[Trouble::CutBefore, Trouble::CutAfter]).await;
}

#[tokio::test]
async fn a_proxy_that_answers_itself_at_any_request_costs_one_more_attempt() {
    every_request_meets(&[Trouble::Status(429), Trouble::Status(500)]).await;
}

#[tokio::test]
async fn a_request_that_lands_after_its_time_costs_one_more_attempt() {
    every_request_meets(&[Trouble::Late]).await;
}

#[tokio::test]
async fn blobs_may_live_on_another_host() {
    for generation in Generation::ALL {
        let Some(server) = Registry::builder(generation).start() else { continue };
        let proxy = Proxy::before(&server).await;
        proxy.plan(Plan { blobs_at: Some(server.named_host()), ..Plan::default() });
        let (registry, endpoint) = (http_client(patient()), proxy.endpoint());
        let artifact = chart("content");
        for tag in ["v1", "v1", "sibling"] {
            let pushed = registry.push(&endpoint, "team/web", tag, &artifact).await;
            assert_eq!(pushed.as_ref(), Ok(artifact.digest()));
            holds(&registry, &endpoint, "team/web", tag, &artifact).await;
        }
        assert_eq!(untag_v1(&registry, &endpoint, "team/web", &artifact).await, Ok(UntagOutcome::Deleted));
        holds(&registry, &endpoint, "team/web", "sibling", &artifact).await;
    }
}
