//! One HTTP exchange, without redirects, retries or authentication.

use async_trait::async_trait;
use bytes::Bytes;

/// Carries one request to the host in its URI and brings back the whole answer.
///
/// Implementations follow no redirect and add no credential. They may wait for ever: the caller
/// bounds the time.
#[async_trait]
pub(crate) trait Transport: Send + Sync {
    /// Sends the request; `limit` bounds the body of the answer in bytes.
    async fn send(
        &self,
        request: http::Request<Bytes>,
        limit: usize,
    ) -> Result<http::Response<Bytes>, TransportError>;
}

/// Why there is no answer. Causes hold no URL and no header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransportError {
    /// Nothing was sent.
    Unreachable(String),
    /// Something may have been sent.
    Cut(String),
    /// The body is larger than the limit.
    TooLarge,
}
