//! Several registries behind one port, told apart by host.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use solar_controller::adapters::oci::{
    Artifact, DeleteOutcome, Digest, Endpoint, Manifest, OciError, OciRegistry, Reference,
};
use solar_controller::dev::registry::{RegistryHandle, RegistryStore};

use crate::fleet::DESCRIPTOR_HOST;

/// The registries of a run by host; every other host is `elsewhere`.
#[derive(Clone)]
pub struct Registries {
    /// Stores by host.
    pub stores: BTreeMap<&'static str, RegistryStore>,
    /// The one for component descriptors.
    pub descriptors: RegistryStore,
    /// What answers for hosts that nobody named.
    pub elsewhere: RegistryStore,
}

impl Registries {
    /// The port, as one actor.
    pub fn handle(&self, actor: &str) -> Arc<dyn OciRegistry> {
        let stores = self.stores.iter().map(|(host, store)| (*host, store));
        let stores = stores.chain([(DESCRIPTOR_HOST, &self.descriptors)]);
        let handles = stores.map(|(host, store)| (host, store.handle(actor))).collect();
        Arc::new(ByHost { handles, elsewhere: self.elsewhere.handle(actor) })
    }

    /// All of them but that for descriptors, to which nothing is written.
    pub fn all(&self) -> impl Iterator<Item = &RegistryStore> {
        self.stores.values().chain(std::iter::once(&self.elsewhere))
    }
}

struct ByHost {
    handles: BTreeMap<&'static str, RegistryHandle>,
    elsewhere: RegistryHandle,
}

impl ByHost {
    fn of(&self, endpoint: &Endpoint) -> &RegistryHandle {
        self.handles.get(endpoint.host.as_str()).unwrap_or(&self.elsewhere)
    }
}

#[async_trait]
impl OciRegistry for ByHost {
    async fn head(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Digest>, OciError> {
        self.of(endpoint).head(endpoint, repository, reference).await
    }

    async fn manifest(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<Option<Manifest>, OciError> {
        self.of(endpoint).manifest(endpoint, repository, reference).await
    }

    async fn blob(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        digest: &Digest,
        limit: usize,
    ) -> Result<Option<Bytes>, OciError> {
        self.of(endpoint).blob(endpoint, repository, digest, limit).await
    }

    async fn push(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        tag: &str,
        artifact: &Artifact,
    ) -> Result<Digest, OciError> {
        self.of(endpoint).push(endpoint, repository, tag, artifact).await
    }

    async fn delete(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        reference: &Reference,
    ) -> Result<DeleteOutcome, OciError> {
        self.of(endpoint).delete(endpoint, repository, reference).await
    }

    async fn tags(&self, endpoint: &Endpoint, repository: &str) -> Result<Vec<String>, OciError> {
        self.of(endpoint).tags(endpoint, repository).await
    }
}
