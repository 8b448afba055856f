//! One request of the protocol and the reading of its answer.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header};
use jiff::Timestamp;
use url::Url;

use super::auth::Access;
use super::error::{OciError, OciErrorKind, Operation};
use super::types::{Endpoint, Reference, check_repository, check_tag};
use crate::adapters::clock::Clock;

/// Bound on answers that carry no content, in bytes: error bodies, tokens.
pub(super) const SMALL_BODY: usize = 256 * 1024;

/// One request and what it is for.
pub(super) struct Call<'a> {
    pub(super) operation: Operation,
    pub(super) access: Access,
    pub(super) endpoint: &'a Endpoint,
    pub(super) repository: &'a str,
    pub(super) limit: usize,
    pub(super) clock: Clock,
}

/// A request that can be sent again.
pub(super) struct Message {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Message {
    pub(super) fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub(super) fn header(mut self, name: header::HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, header::HeaderValue::from_static(value));
        self
    }

    #[cfg(feature = "dev")]
    pub(super) fn body(mut self, body: &Bytes) -> Self {
        self.body = body.clone();
        self
    }
}

/// An answer and the origin that gave it.
pub(super) struct Answer {
    pub(super) url: Url,
    pub(super) response: Response<Bytes>,
}

impl Call<'_> {
    pub(super) fn fail(&self, kind: OciErrorKind) -> OciError {
        fail(self.operation, self.endpoint, self.repository, kind)
    }

    pub(super) fn protocol(&self, what: impl Into<String>) -> OciError {
        self.fail(OciErrorKind::Protocol { what: what.into() })
    }

    pub(super) fn refused(&self, response: &Response<Bytes>) -> OciError {
        let retry_after = retry_after(response.headers(), self.clock.wall());
        self.fail(refusal(response.status(), retry_after, response.body()))
    }

    pub(super) fn url(&self, tail: &str) -> Result<Url, OciError> {
        check_repository(self.repository).map_err(|error| self.fail(error.into()))?;
        let (scheme, host) = (self.endpoint.scheme(), self.endpoint.api_host());
        Url::parse(&format!("{scheme}://{host}/v2/{}/{tail}", self.repository))
            .map_err(|error| self.fail(OciErrorKind::Client { cause: format!("host {host:?}: {error}") }))
    }

    pub(super) fn manifest_url(&self, reference: &Reference) -> Result<Url, OciError> {
        if let Reference::Tag(tag) = reference {
            check_tag(tag).map_err(|error| self.fail(error.into()))?;
        }
        self.url(&format!("manifests/{}", reference.as_str()))
    }
}

/// An error with its context.
pub(crate) fn fail(
    operation: Operation,
    endpoint: &Endpoint,
    repository: &str,
    kind: OciErrorKind,
) -> OciError {
    OciError { operation, host: endpoint.host.clone(), repository: repository.to_owned(), kind }
}

/// What an answer that is neither success nor absence means.
pub(crate) fn refusal(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> OciErrorKind {
    let code = error_code(body);
    match status.as_u16() {
        401 => OciErrorKind::Unauthorized { code },
        403 => OciErrorKind::Forbidden { code },
        429 => OciErrorKind::Throttled { retry_after },
        status @ 500.. => OciErrorKind::Server { status },
        status @ 400.. => OciErrorKind::Rejected { status, code },
        status => OciErrorKind::Protocol { what: format!("status {status}") },
    }
}

/// The first error code of a registry's error body, if it looks like one.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    pub(super) struct Entry {
        code: String,
    }
    #[derive(serde::Deserialize)]
    pub(super) struct Errors {
        errors: Vec<Entry>,
    }
    let errors: Errors = serde_json::from_slice(body).ok()?;
    let code = errors.errors.into_iter().next()?.code;
    let plain = code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain && (1..=64).contains(&code.len())).then_some(code)
}

fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    solar_core::retry_after::wait(headers.get(header::RETRY_AFTER)?.to_str().ok()?, now)
}

/// Where an answer points to, resolved against who gave it.
pub(super) fn location(base: &Url, headers: &HeaderMap) -> Option<Url> {
    base.join(headers.get(header::LOCATION)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart_by_status() {
        let retry_after = Some(Duration::from_secs(7));
        let body = br#"{"errors":[{"code":"DENIED","message":"no"}]}"#;
        let code = Some("DENIED".to_owned());
        let table = [
            (401, OciErrorKind::Unauthorized { code: code.clone() }),
            (403, OciErrorKind::Forbidden { code: code.clone() }),
            (409, OciErrorKind::Rejected { status: 409, code }),
            (429, OciErrorKind::Throttled { retry_after }),
            (503, OciErrorKind::Server { status: 503 }),
        ];
        for (status, expected) in table {
            let status = StatusCode::from_u16(status).unwrap_or_default();
            assert_eq!(refusal(status, retry_after, body), expected);
        }
    }

    #[test]
    fn error_codes_that_are_no_codes_are_dropped() {
        for body in ["", "404 page not found", "{}", r#"{"errors":[]}"#, r#"{"errors":[{"code":"a b\nc"}]}"#]
        {
            assert_eq!(error_code(body.as_bytes()), None, "{body}");
        }
        let long = format!(r#"{{"errors":[{{"code":"{}"}}]}}"#, "A".repeat(65));
        assert_eq!(error_code(long.as_bytes()), None);
    }
}
