//! The server as a tower service, for clients in the same process.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tower::{BoxError, Service};

use super::{MAX_BODY, Place, Received, ResponseBody};
use crate::server::Server;

/// A [`tower::Service`] that answers the requests of one actor.
#[derive(Debug, Clone)]
pub struct EmbeddedService {
    server: Server,
    actor: Arc<str>,
}

impl EmbeddedService {
    pub(crate) fn new(server: Server, actor: &str) -> Self {
        Self { server, actor: actor.into() }
    }
}

impl<B> Service<Request<B>> for EmbeddedService
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (server, actor) = (self.server.clone(), self.actor.clone());
        Box::pin(respond(server, actor, request, Place::Here))
    }
}

/// Reads the body of a request and serves it.
pub(super) async fn respond<B>(
    server: Server,
    actor: Arc<str>,
    request: Request<B>,
    place: Place,
) -> Result<Response<ResponseBody>, BoxError>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let received = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Received::Whole(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Received::TooLarge,
        Err(error) => return Err(error),
    };
    Ok(super::handle(server, actor, Request::from_parts(parts, received), place).await?)
}
