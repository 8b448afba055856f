//! What a Release needs next.

use std::sync::Arc;

use jiff::Timestamp;
use solar_api::ReleaseStatus;
use solar_api::conditions::component_version_resolved as reason;
use solar_api::names::COMPONENT_VERSION_REF_FINALIZER;

use crate::condition::{self, Wanted};
use crate::grant;
use crate::object::ObjectName;
use crate::record::ReleaseRecord;
use crate::world::World;

/// Whether, and which, ComponentVersion a Release resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It exists and may be used.
    Found {
        /// Whether `componentversion-ref` has to be put on first.
        unprotected: bool,
    },
    /// There is none, or it is going and cannot be held.
    NotFound,
    /// No grant allows it.
    NotGranted,
    /// Its namespace is not looked at.
    NotWatched,
}

/// Resolves the ComponentVersion of `release`. `watched` are the only namespaces that are looked at, `None` stands for
/// all.
pub fn resolve(world: &World, release: &ReleaseRecord, watched: Option<&[Arc<str>]>) -> Resolved {
    let wanted = &release.component_version;
    // Grants of a namespace that is not watched are not seen either, so this comes first.
    if watched.is_some_and(|watched| !watched.contains(&wanted.namespace)) {
        return Resolved::NotWatched;
    }
    let own = &release.meta.name.namespace;
    if !grant::allowed(world, "Release", own, "ComponentVersion", &wanted.namespace) {
        return Resolved::NotGranted;
    }
    match world.component_versions.get(wanted) {
        None => Resolved::NotFound,
        Some(version) => {
            let held = version.meta.has_finalizer(COMPONENT_VERSION_REF_FINALIZER);
            if version.meta.terminating && !held {
                return Resolved::NotFound;
            }
            Resolved::Found { unprotected: !held }
        }
    }
}

/// The status that follows; `None` when it is the stored one.
pub fn status(
    world: &World,
    release: &ReleaseRecord,
    resolved: &Resolved,
    now: Timestamp,
) -> Option<ReleaseStatus> {
    let stored = release.status.get();
    let conditions =
        condition::updated(&stored.conditions, &[wanted(release, resolved)], release.meta.generation, now);
    let effective_unique_name =
        effective_unique_name(world, release, resolved).or_else(|| stored.effective_unique_name.clone());
    if conditions.is_none() && effective_unique_name == stored.effective_unique_name {
        return None;
    }
    let conditions = conditions.unwrap_or(stored.conditions);
    Some(ReleaseStatus { conditions, effective_unique_name, ..stored })
}

/// The given name, else that of the component; a ComponentVersion that may not be referred to tells nothing.
fn effective_unique_name(world: &World, release: &ReleaseRecord, resolved: &Resolved) -> Option<String> {
    if let Some(name) = release.unique_name.as_deref().filter(|name| !name.is_empty()) {
        return Some(name.to_owned());
    }
    if !matches!(resolved, Resolved::Found { .. }) {
        return None;
    }
    let version = world.component_versions.get(&release.component_version)?;
    Some(version.component.name.to_string())
}

fn wanted(release: &ReleaseRecord, resolved: &Resolved) -> Wanted {
    let version: &ObjectName = &release.component_version;
    match resolved {
        Resolved::Found { .. } => {
            Wanted::yes(reason::TYPE, reason::RESOLVED, format!("ComponentVersion {version} was found"))
        }
        Resolved::NotFound => Wanted::no(
            reason::TYPE,
            reason::NOT_FOUND,
            format!(
                "ComponentVersion {version} does not exist: create it, or correct spec.componentVersionRef"
            ),
        ),
        Resolved::NotWatched => Wanted::no(
            reason::TYPE,
            reason::NOT_WATCHED,
            format!(
                "The namespace of ComponentVersion {version} is not watched: add it to --watch-namespace, or name a \
                 ComponentVersion of another one"
            ),
        ),
        Resolved::NotGranted => Wanted::no(
            reason::TYPE,
            reason::NOT_GRANTED,
            format!(
                "no ReferenceGrant in namespace {} lets Releases of namespace {} refer to ComponentVersions: create one",
                version.namespace, release.meta.name.namespace
            ),
        ),
    }
}
