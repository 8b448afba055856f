//! Writes to registries only while this process leads, and knows whether one is still under way.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use solar_core::artifact::UNANSWERED_WRITE;
use tokio::time::Instant;

use super::{
    Artifact, DeleteOutcome, Digest, Endpoint, Manifest, OciError, OciErrorKind, OciRegistry, Operation,
    Reference,
};
use crate::adapters::leadership::Leadership;

/// Writes of this process that have no answer yet, or never got one.
#[derive(Debug, Default)]
pub struct Writes {
    under_way: AtomicUsize,
    may_land_until: Mutex<Option<Instant>>,
}

impl Writes {
    /// Whether no write of this process can take effect any more.
    pub fn are_answered(&self) -> bool {
        let may_land_until = *self.may_land_until.lock().unwrap_or_else(PoisonError::into_inner);
        self.under_way.load(Ordering::Acquire) == 0
            && may_land_until.is_none_or(|until| until <= Instant::now())
    }

    fn may_still_land(&self) {
        let until = Instant::now() + UNANSWERED_WRITE;
        *self.may_land_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }
}

/// One write; it counts as unanswered when it is dropped before its end.
struct UnderWay<'a> {
    writes: &'a Writes,
    answered: bool,
}

impl<'a> UnderWay<'a> {
    fn begin(writes: &'a Writes) -> Self {
        writes.under_way.fetch_add(1, Ordering::AcqRel);
        Self { writes, answered: false }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.writes.may_still_land();
        }
        self.writes.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A registry port that writes only while this process leads. Reading is always allowed.
pub struct Led {
    inner: Arc<dyn OciRegistry>,
    lead: Leadership,
    writes: Arc<Writes>,
}

impl Led {
    /// Writes through `inner` while `lead` is valid; `writes` tells what is under way.
    pub fn new(inner: Arc<dyn OciRegistry>, lead: Leadership, writes: Arc<Writes>) -> Self {
        Self { inner, lead, writes }
    }

    async fn write<T>(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        operation: Operation,
        request: impl Future<Output = Result<T, OciError>> + Send,
    ) -> Result<T, OciError> {
        let mut under_way = UnderWay::begin(&self.writes);
        if !self.lead.is_valid() {
            // Nothing was sent.
            under_way.answered = true;
        }
        let Ok(answer) = self.lead.while_valid(request).await else {
            return Err(OciError {
                operation,
                host: endpoint.host.clone(),
                repository: repository.to_owned(),
                kind: OciErrorKind::NotLeading,
            });
        };
        under_way.answered = !answer.as_ref().is_err_and(OciError::may_still_land);
        answer
    }
}

#[async_trait]
impl OciRegistry for Led {
    async fn head(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError> {
        self.inner.head(endpoint, repository, reference).await
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
        self.inner.manifest(endpoint, repository, reference).await
    }

    async fn blob(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        digest: &Digest,
        limit: usize,
    ) -> Result<Option<Bytes>, OciError> {
        self.inner.blob(endpoint, repository, digest, limit).await
    }

    async fn push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        tag: &str,
        artifact: &Artifact,
    ) -> Result<Digest, OciError> {
        let push = self.inner.push(endpoint, repository, tag, artifact);
        self.write(endpoint, repository, Operation::PushManifest, push).await
    }

    async fn delete(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<DeleteOutcome, OciError> {
        let delete = self.inner.delete(endpoint, repository, reference);
        self.write(endpoint, repository, Operation::Delete, delete).await
    }

    async fn tags(&self, endpoint: &Endpoint, repository: &str) -> Result<Vec<String>, OciError> {
        self.inner.tags(endpoint, repository).await
    }
}
