//! Payloads on demand: what records leave out is fetched where it is needed, once for each spec.

use std::any::Any;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use kube::ResourceExt as _;
use lru::LruCache;
use solar_core::object::{ObjectName, Revision};
use thiserror::Error;

use super::api::{Api, Namespaced};
use super::error::ApiError;

/// How many whole objects are kept; at a typical 4 KiB that is 2 MiB, at the largest that etcd takes 768 MiB.
const KEPT: usize = 512;

/// The payload could not be had.
#[derive(Debug, Error)]
pub enum PayloadError {
    /// The request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The object is gone.
    #[error("{0} is gone")]
    Gone(ObjectName),
}

type Key = (&'static str, ObjectName);

/// A small cache of whole objects.
pub struct Payloads {
    objects: Mutex<LruCache<Key, Arc<dyn Any + Send + Sync>>>,
}

impl std::fmt::Debug for Payloads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payloads").finish_non_exhaustive()
    }
}

impl Default for Payloads {
    fn default() -> Self {
        Self { objects: Mutex::new(LruCache::new(NonZeroUsize::new(KEPT).unwrap_or(NonZeroUsize::MIN))) }
    }
}

impl Payloads {
    /// The object with the spec that `revision` names, or a newer one. Nothing but the spec is to be read from it: the
    /// rest may be older than what the watch shows.
    ///
    /// The caller compares hashes: a newer object may have another payload.
    pub async fn get<K: Namespaced>(
        &self,
        api: &Api,
        name: &ObjectName,
        revision: &Revision,
    ) -> Result<Arc<K>, PayloadError> {
        if let Some(kept) = self.kept::<K>(name, revision) {
            return Ok(kept);
        }
        self.keep_found(name, api.get::<K>(name).await?)
    }

    /// As [`Self::get`], for jobs, which have no quick retry of their own; a pass must not wait so long.
    pub async fn get_persistently<K: Namespaced>(
        &self,
        api: &Api,
        name: &ObjectName,
        revision: &Revision,
    ) -> Result<Arc<K>, PayloadError> {
        if let Some(kept) = self.kept::<K>(name, revision) {
            return Ok(kept);
        }
        self.keep_found(name, api.get_persistently::<K>(name).await?)
    }

    fn keep_found<K: Namespaced>(&self, name: &ObjectName, found: Option<K>) -> Result<Arc<K>, PayloadError> {
        let found = found.ok_or_else(|| PayloadError::Gone(name.clone()))?;
        Ok(self.keep(found))
    }

    /// Keeps an object that an answer brought along.
    pub fn keep<K: Namespaced>(&self, object: K) -> Arc<K> {
        let name = ObjectName::new(object.namespace().unwrap_or_default(), object.name_any());
        let object = Arc::new(object);
        self.lock().put((std::any::type_name::<K>(), name), object.clone());
        object
    }

    fn kept<K: Namespaced>(&self, name: &ObjectName, revision: &Revision) -> Option<Arc<K>> {
        let kept = self.lock().get(&(std::any::type_name::<K>(), name.clone()))?.clone();
        let kept = kept.downcast::<K>().ok()?;
        let same = kept.meta().uid.as_deref() == Some(&revision.uid)
            && kept.meta().generation == Some(revision.generation);
        same.then_some(kept)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<Key, Arc<dyn Any + Send + Sync>>> {
        self.objects.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
