//! Answers of the registry.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

/// An answer, or a refusal that becomes one.
pub(super) type Served = Result<Response<Bytes>, Refusal>;

/// A refusal with its error body.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    code: &'static str,
    headers: HeaderMap,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &'static str) -> Self {
        Self { status, code, headers: HeaderMap::new() }
    }

    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// The answer with a JSON error body, or a plain-text one when there is no code.
    pub(super) fn into_response(self) -> Response<Bytes> {
        let mut response = if self.code.is_empty() {
            plain(self.status, Bytes::from(self.status.to_string()))
        } else {
            let message = self.code.to_lowercase().replace('_', " ");
            json(self.status, &serde_json::json!({ "errors": [{ "code": self.code, "message": message }] }))
        };
        response.headers_mut().extend(self.headers);
        response
    }
}

pub(super) fn plain(status: u16, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert("docker-distribution-api-version", HeaderValue::from_static("registry/2.0"));
    response
}

pub(super) fn json(status: u16, body: &serde_json::Value) -> Response<Bytes> {
    with(plain(status, Bytes::from(body.to_string())), header::CONTENT_TYPE, "application/json")
}

pub(super) fn with(mut response: Response<Bytes>, name: HeaderName, value: &str) -> Response<Bytes> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}
