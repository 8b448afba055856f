//! The port without sockets.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;

use crate::adapters::clock::Clock;
use crate::adapters::oci::session::Session;
use crate::adapters::oci::transport::{Transport, TransportError};
use crate::adapters::oci::{
    Artifact, DeleteOutcome, Digest, Endpoint, Manifest, OciError, OciRegistry, Reference, Timeouts,
};

use super::RegistryStore;
use super::exchange::Cut;

/// [`OciRegistry`] straight to a store, as one actor. Protocol, authentication, limits and errors
/// are those of the real client; only the sockets are missing.
#[derive(Clone)]
pub struct RegistryHandle {
    session: Arc<Session<StoreTransport>>,
}

struct StoreTransport {
    store: RegistryStore,
    actor: String,
}

impl RegistryHandle {
    pub(super) fn new(store: RegistryStore, actor: String, timeouts: Timeouts) -> Self {
        // No answer of a store names a date.
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
        Self { session: Arc::new(Session::new(StoreTransport { store, actor }, timeouts, clock)) }
    }
}

#[async_trait]
impl Transport for StoreTransport {
    async fn send(
        &self,
        request: http::Request<Bytes>,
        limit: usize,
    ) -> Result<http::Response<Bytes>, TransportError> {
        let answer = self.store.exchange(&self.actor, request).await;
        let response = answer.map_err(|Cut| TransportError::Cut("connection reset".into()))?;
        if response.body().len() > limit { Err(TransportError::TooLarge) } else { Ok(response) }
    }
}

#[async_trait]
impl OciRegistry for RegistryHandle {
    async fn head(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError> {
        self.session.head(endpoint, repository, reference).await
    }

    async fn manifest(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Manifest>, OciError> {
        self.session.manifest(endpoint, repository, reference).await
    }

    async fn blob(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        digest: &Digest,
        limit: usize,
    ) -> Result<Option<Bytes>, OciError> {
        self.session.blob(endpoint, repository, digest, limit).await
    }

    async fn push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        tag: &str,
        artifact: &Artifact,
    ) -> Result<Digest, OciError> {
        self.session.push(endpoint, repository, tag, artifact).await
    }

    async fn delete(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<DeleteOutcome, OciError> {
        self.session.delete(endpoint, repository, reference).await
    }

    async fn tags(&self, endpoint: &Endpoint, repository: &str) -> Result<Vec<String>, OciError> {
        self.session.tags(endpoint, repository).await
    }
}
