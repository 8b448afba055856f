//! Putting finalizers on and taking them off. Those of others are never touched: each write names the list that it was
//! decided upon.

use solar_core::object::Meta;

use super::object::PassError;
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, Namespaced, Problem, add_finalizer, remove_finalizer};

/// Puts the kind's own `finalizer` on an object that is not being deleted; answers the object since then, `None` where
/// nothing was to be done.
pub async fn ensure_own<K: Namespaced>(
    shared: &Shared,
    meta: &Meta,
    finalizer: &str,
) -> Result<Option<K>, PassError> {
    if meta.terminating || meta.has_finalizer(finalizer) {
        return Ok(None);
    }
    let patch = add_finalizer(&meta.uid, &meta.finalizers, finalizer);
    Ok(Some(shared.api.patch::<K>(&meta.name, &patch).await?))
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

/// Puts `finalizer` on the object with this metadata, as a referrer does before it depends on the object.
pub async fn protect<K: Namespaced>(shared: &Shared, meta: &Meta, finalizer: &str) -> Result<(), PassError> {
    if meta.terminating || meta.has_finalizer(finalizer) {
        return Ok(());
    }
    let patch = add_finalizer(&meta.uid, &meta.finalizers, finalizer);
    match shared.api.patch::<K>(&meta.name, &patch).await {
        Ok(_) => Ok(()),
        Err(error) if error.problem == Problem::Conflict => {
            // Perhaps another referrer was faster: what counts is that the finalizer stands.
            let now = shared.api.get::<K>(&meta.name).await?;
            let now = now.map(|object| Meta::of(object.meta()));
            match now {
                Some(now) if now.uid == meta.uid && now.has_finalizer(finalizer) => Ok(()),
                _ => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}
