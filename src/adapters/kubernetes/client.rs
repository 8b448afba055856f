//! The client that requests and watches go through.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use kube::Client;
use kube::client::Body;
use tower::timeout::TimeoutLayer;
use tower::{BoxError, Layer as _, Service};

use super::requests::CountRequests;

/// An answer has to begin within this time, that to a list or a watch too: kube's watcher waits for it without a limit
/// of its own, and a controller whose list never comes is blind without a word.
const HEAD: Duration = Duration::from_secs(20);

/// What every client has, the outer one first: requests are counted, and fail when no answer begins within 20 s.
pub(super) fn layers() -> (CountRequests, TimeoutLayer) {
    (CountRequests, TimeoutLayer::new(HEAD))
}

/// A client over `service` whose requests are counted, and fail when no answer begins within 20 s.
pub fn bounded<S, B>(service: S, default_namespace: &str) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Client::new(layers().layer(service), default_namespace)
}
