//! Quick repetitions inside one attempt.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Artifact, DeleteOutcome, Digest, Endpoint, Manifest, OciError, OciRegistry, Reference};

const ATTEMPTS: u32 = 3;
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// A registry that wants to be left alone for longer than this ends the attempt.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// Tries reads and pushes up to three times within seconds when the connection failed or the
/// registry answered 429 or 5xx.
///
/// A push is repeated only while the failed one cannot take effect any more, so a success never
/// leaves an unanswered write behind. A DELETE is never repeated here: what to do next depends on
/// what a HEAD finds.
pub struct Retrying {
    inner: Arc<dyn OciRegistry>,
    jitter: Mutex<fastrand::Rng>,
}

impl Retrying {
    /// Repeats the requests of `inner`; `jitter` spreads the delays.
    pub fn new(inner: Arc<dyn OciRegistry>, jitter: fastrand::Rng) -> Self {
        Self { inner, jitter: Mutex::new(jitter) }
    }

    async fn repeat<T, F>(&self, mut request: impl FnMut() -> F) -> Result<T, OciError>
    where
        F: Future<Output = Result<T, OciError>>,
    {
        let mut failures = 0;
        loop {
            let error = match request().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            failures += 1;
            match self.delay(failures, &error) {
                Some(delay) if failures < ATTEMPTS => tokio::time::sleep(delay).await,
                _ => return Err(error),
            }
        }
    }

    /// How long to wait before the next try; `None` when there should be none.
    fn delay(&self, failures: u32, error: &OciError) -> Option<Duration> {
        if !error.is_transient() || error.may_still_land() {
            return None;
        }
        let backoff = FIRST_DELAY * 2_u32.saturating_pow(failures - 1);
        let delay = error.retry_after().unwrap_or(backoff);
        let spread = self.jitter.lock().unwrap_or_else(PoisonError::into_inner).f64();
        (delay <= LONGEST_DELAY).then(|| delay + backoff.mul_f64(spread / 2.0))
    }
}

#[async_trait]
impl OciRegistry for Retrying {
    async fn head(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError> {
        self.repeat(|| self.inner.head(endpoint, repository, reference)).await
    }

    async fn head_once(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError> {
        self.inner.head_once(endpoint, repository, reference).await
    }

    async fn manifest(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Manifest>, OciError> {
        self.repeat(|| self.inner.manifest(endpoint, repository, reference)).await
    }

    async fn blob(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        digest: &Digest,
        limit: usize,
    ) -> Result<Option<Bytes>, OciError> {
        self.repeat(|| self.inner.blob(endpoint, repository, digest, limit)).await
    }

    async fn push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        tag: &str,
        artifact: &Artifact,
    ) -> Result<Digest, OciError> {
        self.repeat(|| self.inner.push(endpoint, repository, tag, artifact)).await
    }

    async fn delete(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<DeleteOutcome, OciError> {
        self.inner.delete(endpoint, repository, reference).await
    }

    async fn tags(&self, endpoint: &Endpoint, repository: &str) -> Result<Vec<String>, OciError> {
        self.repeat(|| self.inner.tags(endpoint, repository)).await
    }
}
