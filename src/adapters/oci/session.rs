//! The distribution protocol over any [`Transport`]: authentication, redirects, limits in time.
//!
//! Each request goes out without credentials first, unless an authorization for the same endpoint,
//! repository and access is still fresh; what a 401 asks for is answered once.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use url::Url;

use super::auth::{self, Access, Authorization, AuthorizationCache, Challenge};
use super::call::{Answer, Call, Message, SMALL_BODY, location};
use super::error::{OciError, OciErrorKind, Operation};
use super::transport::{Transport, TransportError};
use super::types::{Credentials, Endpoint};
use crate::adapters::clock::Clock;

const MAX_REDIRECTS: usize = 5;

/// How long one request may take in all, its authentication included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// HEAD, GET and lists.
    pub read: Duration,
    /// Uploads, PUT and DELETE. Less than the time for which an unanswered write counts as under
    /// way (30 s), so that it never outlives that.
    pub write: Duration,
}

impl Default for Timeouts {
    /// 10 s for reads, 20 s for writes.
    fn default() -> Self {
        Self { read: Duration::from_secs(10), write: Duration::from_secs(20) }
    }
}

/// Protocol state shared by all requests of one client.
pub(crate) struct Session<T> {
    transport: T,
    timeouts: Timeouts,
    clock: Clock,
    authorizations: AuthorizationCache,
}

impl<T: Transport> Session<T> {
    pub(crate) fn new(transport: T, timeouts: Timeouts, clock: Clock) -> Self {
        Self { transport, timeouts, clock, authorizations: AuthorizationCache::new() }
    }

    /// The authorization for pushes to a repository: a fresh one, or what the registry asks for when
    /// an upload is begun without one. `None` when it asks for nothing.
    pub(crate) async fn authorize_push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
    ) -> Result<Option<Authorization>, OciError> {
        if let Some(fresh) = self.fresh_push(endpoint, repository) {
            return Ok(Some(fresh));
        }
        let call = self.push_blob_call(endpoint, repository);
        let message = Message::new(Method::POST, call.url("blobs/uploads/")?);
        self.bounded(&call, async {
            let begun = self.follow(&call, &message, None).await;
            count(call.operation, begun.as_ref().map(|answer| answer.response.status()));
            let answer = begun?;
            if answer.response.status() == StatusCode::UNAUTHORIZED {
                let (authorization, lifetime) = self.answer(&call, &message.url, &answer).await?;
                self.authorizations.put(endpoint, repository, Access::Push, authorization.clone(), lifetime);
                return Ok(Some(authorization));
            }
            if !answer.response.status().is_success() {
                return Err(call.refused(&answer.response));
            }
            self.cancel_upload(&call, &answer).await;
            Ok(None)
        })
        .await
    }

    /// Gives up an upload that was begun only to see whether the registry asks for anything. A
    /// registry that doesn't listen drops it by itself later.
    async fn cancel_upload(&self, call: &Call<'_>, begun: &Answer) {
        if let Some(location) = location(&begun.url, begun.response.headers())
            && let Err(error) = self.follow(call, &Message::new(Method::DELETE, location), None).await
        {
            tracing::debug!(%error, "an unused upload was not cancelled");
        }
    }

    /// The authorization for pushes that the registry took a short while ago.
    pub(crate) fn fresh_push(&self, endpoint: &Endpoint, repository: &str) -> Option<Authorization> {
        self.authorizations.get(endpoint, repository, Access::Push)
    }

    /// Forgets the authorization for pushes: the registry no longer takes it.
    pub(crate) fn forget_push(&self, endpoint: &Endpoint, repository: &str) {
        self.authorizations.forget(endpoint, repository, Access::Push);
    }

    pub(super) async fn call(&self, call: &Call<'_>, message: Message) -> Result<Response<Bytes>, OciError> {
        let result = self.bounded(call, self.authorized(call, &message)).await;
        count(call.operation, result.as_ref().map(Response::status));
        result
    }

    async fn bounded<R>(
        &self,
        call: &Call<'_>,
        work: impl Future<Output = Result<R, OciError>>,
    ) -> Result<R, OciError> {
        let after = match call.access {
            Access::Pull => self.timeouts.read,
            Access::Push | Access::Delete => self.timeouts.write,
        };
        let result = tokio::time::timeout(after, work).await;
        result.unwrap_or_else(|_| Err(call.fail(OciErrorKind::TimedOut { after })))
    }

    async fn authorized(&self, call: &Call<'_>, message: &Message) -> Result<Response<Bytes>, OciError> {
        let Call { access, endpoint, repository, .. } = *call;
        let fresh = self.authorizations.get(endpoint, repository, access);
        let first = self.follow(call, message, fresh.as_ref()).await?;
        if first.response.status() != StatusCode::UNAUTHORIZED {
            return Ok(first.response);
        }
        self.authorizations.forget(endpoint, repository, access);
        let (authorization, lifetime) = self.answer(call, &message.url, &first).await?;
        let second = self.follow(call, message, Some(&authorization)).await?;
        if second.response.status() == StatusCode::UNAUTHORIZED {
            return Err(call.refused(&second.response));
        }
        self.authorizations.put(endpoint, repository, access, authorization, lifetime);
        Ok(second.response)
    }

    /// Sends the message, following redirects; the authorization stays with the origin it is for.
    async fn follow(
        &self,
        call: &Call<'_>,
        message: &Message,
        authorization: Option<&Authorization>,
    ) -> Result<Answer, OciError> {
        let mut url = message.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mine = authorization.filter(|_| url.origin() == message.url.origin());
            let response = self.send(call, message, &url, mine).await?;
            if !response.status().is_redirection() {
                return Ok(Answer { url, response });
            }
            let safe = matches!(message.method, Method::GET | Method::HEAD);
            if !safe && !matches!(response.status().as_u16(), 307 | 308) {
                return Err(call.protocol(format!("redirect {} of a write", response.status().as_u16())));
            }
            let target =
                location(&url, response.headers()).ok_or_else(|| call.protocol("redirect to nowhere"))?;
            if url.scheme() == "https" && target.scheme() != "https" {
                return Err(call.protocol("redirect from https to plain http"));
            }
            url = target;
        }
        Err(call.protocol(format!("more than {MAX_REDIRECTS} redirects")))
    }

    async fn send(
        &self,
        call: &Call<'_>,
        message: &Message,
        url: &Url,
        authorization: Option<&Authorization>,
    ) -> Result<Response<Bytes>, OciError> {
        let mut request = Request::builder()
            .method(message.method.clone())
            .uri(url.as_str())
            .body(message.body.clone())
            .map_err(|error| call.fail(OciErrorKind::Client { cause: error.to_string() }))?;
        request.headers_mut().clone_from(&message.headers);
        if let Some(value) = authorization.and_then(Authorization::header) {
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        let sent = self.transport.send(request, call.limit).await;
        sent.map_err(|error| call.fail(transport_failure(error, call.limit)))
    }

    /// Answers a 401 with the endpoint's credentials, if whoever gave it may ask for them.
    async fn answer(
        &self,
        call: &Call<'_>,
        registry: &Url,
        refused: &Answer,
    ) -> Result<(Authorization, Duration), OciError> {
        let challenge =
            auth::challenge(refused.response.headers()).filter(|_| refused.url.origin() == registry.origin());
        match (challenge, &call.endpoint.credentials) {
            (Some(Challenge::Basic), Credentials::Basic { username, password }) => {
                Ok((Authorization::Basic(username.clone(), password.clone()), Duration::MAX))
            }
            (Some(Challenge::Bearer { realm, service, scope }), _) => {
                self.token(call, registry, &realm, service.as_deref(), scope.as_deref()).await
            }
            _ => Err(call.refused(&refused.response)),
        }
    }

    /// A call whose answer has at most `limit` bytes.
    pub(super) fn call_to<'a>(
        &self,
        operation: Operation,
        access: Access,
        (endpoint, repository): (&'a Endpoint, &'a str),
        limit: usize,
    ) -> Call<'a> {
        Call { operation, access, endpoint, repository, limit, clock: self.clock }
    }

    pub(super) fn push_blob_call<'a>(&self, endpoint: &'a Endpoint, repository: &'a str) -> Call<'a> {
        self.call_to(Operation::PushBlob, Access::Push, (endpoint, repository), SMALL_BODY)
    }

    async fn token(
        &self,
        call: &Call<'_>,
        registry: &Url,
        realm: &str,
        service: Option<&str>,
        scope: Option<&str>,
    ) -> Result<(Authorization, Duration), OciError> {
        let call = Call { operation: Operation::Token, limit: SMALL_BODY, ..*call };
        let realm = Url::parse(realm).map_err(|_| call.protocol("a token endpoint that is no URL"))?;
        if !auth::realm_is_vouched_for(registry, &realm) {
            let realm = realm.origin().ascii_serialization();
            return Err(call.fail(OciErrorKind::RealmRefused { realm }));
        }
        let request =
            auth::token_request(&realm, service, scope, &call.endpoint.credentials).ok_or_else(|| {
                call.fail(OciErrorKind::Client { cause: "credentials that fit no header".into() })
            })?;
        let sent = self.transport.send(request, call.limit).await;
        let response = sent.map_err(|error| call.fail(transport_failure(error, call.limit)));
        count(Operation::Token, response.as_ref().map(Response::status));
        let response = response?;
        if !response.status().is_success() {
            return Err(call.refused(&response));
        }
        let token = auth::parse_token(response.body())
            .map(|(token, lifetime)| (Authorization::Bearer(token), lifetime));
        token
            .filter(|(authorization, _)| authorization.header().is_some())
            .ok_or_else(|| call.protocol("no usable token in the answer of the token endpoint"))
    }
}

fn transport_failure(error: TransportError, limit: usize) -> OciErrorKind {
    match error {
        TransportError::Unreachable(cause) => OciErrorKind::Unreachable { cause },
        TransportError::Cut(cause) => OciErrorKind::Cut { cause },
        TransportError::TooLarge => OciErrorKind::TooLarge { limit },
    }
}

/// Counts an answered or failed request in `solar_oci_requests_total`.
fn count(operation: Operation, result: Result<StatusCode, &OciError>) {
    let code = match result {
        Ok(status) => status.as_str().to_owned(),
        Err(error) => error.label().to_owned(),
    };
    metrics::counter!("solar_oci_requests_total", "operation" => operation.as_str(), "code" => code)
        .increment(1);
}
