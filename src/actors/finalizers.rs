//! Putting finalizers on and taking them off. Those of others are never touched: each write names the list that it was
//! decided upon.

use solar_core::object::Meta;

use super::object::PassError;
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, Namespaced, Problem, add_finalizer, remove_finalizer};

/// Tries to put a finalizer on, each with the list as it is then: others add theirs at the same time.
const TRIES: u32 = 4;

/// Puts `finalizer` on the object with this metadata, as a referrer does before it depends on the object. One that is
/// being deleted takes none.
pub async fn protect<K: Namespaced>(shared: &Shared, meta: &Meta, finalizer: &str) -> Result<(), PassError> {
    ensure::<K>(shared, meta, finalizer).await.map(drop)
}

/// Puts `finalizer` on an object that is not being deleted; answers the object as it is then, `None` where nothing was to
/// be done. One that turns out to go without it is outdated: nobody may depend on it any more.
pub async fn ensure<K: Namespaced>(
    shared: &Shared,
    meta: &Meta,
    finalizer: &str,
) -> Result<Option<K>, PassError> {
    let mut meta = meta.clone();
    let mut found = None;
    for tries in 1.. {
        if meta.terminating || meta.has_finalizer(finalizer) {
            break;
        }
        let patch = add_finalizer(&meta.uid, &meta.finalizers, finalizer);
        let error = match shared.api.patch::<K>(&meta.name, &patch).await {
            Ok(patched) => return Ok(Some(patched)),
            Err(error) if error.problem == Problem::Conflict && tries < TRIES => error,
            Err(error) => return Err(error.into()),
        };
        let Some(now) = shared.api.get::<K>(&meta.name).await? else { return Err(error.into()) };
        let read = Meta::of(now.meta());
        if read.uid != meta.uid {
            return Err(error.into());
        }
        if read.terminating && !read.has_finalizer(finalizer) {
            return Err(PassError::Outdated(read.name));
        }
        meta = read;
        found = Some(now);
    }
    Ok(found)
}

/// Takes the kind's own `finalizer` off; answers the object since then, `None` where nothing was to be done or the object
/// is gone.
pub async fn remove_own<K: Namespaced>(
    shared: &Shared,
    meta: &Meta,
    finalizer: &str,
) -> Result<Option<K>, PassError> {
    if !meta.has_finalizer(finalizer) {
        return Ok(None);
    }
    let patch = remove_finalizer(&meta.uid, &meta.finalizers, finalizer, None);
    match shared.api.patch::<K>(&meta.name, &patch).await {
        Ok(patched) => Ok(Some(patched)),
        Err(ApiError { problem: Problem::NotFound, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
