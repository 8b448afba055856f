//! Which version the bootstrap chart has.
//!
//! While a tag, an artifact or a task of a version exists, no other content gets that version.

use solar_api::RenderTaskType;

use super::own::Own;
use super::plan::{BindAnswer, GivenVersion};
use super::view::View;
use crate::hash::PayloadHash;
use crate::layout::{self, MAX_BOOTSTRAP_VERSION};
use crate::object::ObjectName;
use crate::record::{RegistryRecord, RenderArtifactRecord};
use crate::world::IndexKey;

/// What is known of the version of an input.
pub(super) enum Version {
    /// It has it already, or gets it now.
    Is(i64),
    /// It is not known yet which versions were used earlier.
    Unknown,
    /// The last version that there can be is used.
    NoneLeft,
}

/// The version in the status; 0 where there is none, or one after which none can be given: somebody else wrote that.
pub(super) fn stored(view: &View<'_>) -> i64 {
    let stored = view.target.status.get().bootstrap_version;
    if (0..MAX_BOOTSTRAP_VERSION).contains(&stored) { stored } else { 0 }
}

/// The version that `input` has already or gets now.
pub(super) fn of_input(
    view: &View<'_>,
    own: &Own,
    registry: &RegistryRecord,
    repository: &str,
    input: PayloadHash,
) -> Version {
    let stored = stored(view);
    let current = current(own, registry, repository).filter(|current| current.version >= stored);
    if let Some(current) = current.filter(|current| current.input == input) {
        return Version::Is(current.version);
    }
    let tasks = task_versions(view, repository).max().unwrap_or_default();
    let given = view.memory.given;
    if let Some(given) = given.filter(|given| given.input == input && given.version >= stored.max(tasks)) {
        return Version::Is(given.version);
    }
    let fresh = stored == 0 && given.is_none();
    if fresh && view.memory.history.is_none() {
        return Version::Unknown;
    }
    let history = view.memory.history.as_ref().filter(|_| stored == 0).map_or(0, |history| history.highest);
    let used = stored.max(tasks).max(history).max(given.map_or(0, |given| given.version));
    next(view, own, registry, repository, used).map_or(Version::NoneLeft, Version::Is)
}

/// The own bootstrap task of the highest version.
fn current(own: &Own, registry: &RegistryRecord, repository: &str) -> Option<GivenVersion> {
    let tasks = own.tasks.iter().filter(|task| {
        task.type_ == RenderTaskType::Bootstrap
            && !task.meta.terminating
            && *task.coordinates.base_url == *registry.host
            && task.coordinates.repository.as_ref() == repository
    });
    let versions = tasks.filter_map(|task| {
        Some(GivenVersion {
            version: layout::parse_bootstrap_tag(&task.coordinates.tag)?,
            input: task.content,
        })
    });
    versions.max_by_key(|given| given.version)
}

/// Versions in tasks of this Target, also of an earlier one of its name.
fn task_versions(view: &View<'_>, repository: &str) -> impl Iterator<Item = i64> {
    let tasks = view.world.render_tasks.by(&IndexKey::Owner(view.name().clone()));
    let tasks = tasks.filter(move |task| {
        task.type_ == RenderTaskType::Bootstrap && task.coordinates.repository.as_ref() == repository
    });
    tasks.filter_map(|task| layout::parse_bootstrap_tag(&task.coordinates.tag))
}

/// One more than every version that is used, or the one that was begun to be prepared: its artifact is held, no task
/// was ever made for it, because a version is in the status before its task exists, and nothing was pushed. `None`: there
/// is none after those that are used.
fn next(view: &View<'_>, own: &Own, registry: &RegistryRecord, repository: &str, used: i64) -> Option<i64> {
    let key = IndexKey::repository(&view.name().namespace, repository);
    let is_prepared = |artifact: &RenderArtifactRecord, version: i64| {
        version > used
            && *artifact.coordinates.base_url == *registry.host
            && artifact.status.get().digest.is_none()
            && holds(view, own, &artifact.meta.name)
    };
    let artifacts = || {
        let artifacts = view.world.render_artifacts.by(&key);
        artifacts
            .filter_map(|artifact| Some((artifact, layout::parse_bootstrap_tag(&artifact.coordinates.tag)?)))
    };
    let others = artifacts().filter(|(artifact, version)| !is_prepared(artifact, *version));
    let used = others.map(|(_, version)| version).max().unwrap_or_default().max(used);
    let prepared =
        artifacts().filter(|(artifact, version)| *version > used && is_prepared(artifact, *version));
    let after = || (used < MAX_BOOTSTRAP_VERSION).then_some(used + 1);
    prepared.map(|(_, version)| version).max().or_else(after)
}

fn holds(view: &View<'_>, own: &Own, artifact: &ObjectName) -> bool {
    own.holds(artifact) || view.memory.answers.get(&artifact.name) == Some(&BindAnswer::Bound)
}
