//! Which releases are bound to the Target, and which of them it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solar_api::conditions::releases_resolved as reason;
use solar_api::names::COMPONENT_VERSION_REF_FINALIZER;

use super::own::Own;
use super::view::View;
use crate::condition::Wanted;
use crate::grant;
use crate::layout;
use crate::object::ObjectName;
use crate::pull_secret::{self, PullSecrets};
use crate::record::{ComponentVersionRecord, ReleaseBindingRecord, ReleaseRecord, RenderArtifactRecord};
use crate::resolver::{self, Candidate, Filtered};
use crate::world::IndexKey;

/// A bound release with everything that it refers to.
#[derive(Clone)]
pub(super) struct BoundRelease {
    pub(super) binding: ObjectName,
    pub(super) release: Arc<ReleaseRecord>,
    pub(super) version: Arc<ComponentVersionRecord>,
}

impl BoundRelease {
    /// The name under which at most one release reaches a Target.
    pub(super) fn unique_name(&self) -> &str {
        let given = self.release.unique_name.as_deref().filter(|name| !name.is_empty());
        given.unwrap_or(&self.version.component.name)
    }
}

/// What is bound to a Target.
pub(super) struct Releases {
    /// How many bindings have an effect or would have one.
    pub(super) bindings: usize,
    /// Repositories of charts whose bindings exist without a grant: they are neither rendered nor given up.
    pub(super) hidden: BTreeSet<String>,
    /// What reaches the Target, first come first.
    pub(super) accepted: Vec<BoundRelease>,
    /// Bindings without effect.
    pub(super) filtered: Vec<Filtered>,
    /// What bindings refer to in vain, one sentence each.
    pub(super) missing: Vec<String>,
    /// Pull secrets by host.
    pub(super) secrets: PullSecrets,
}

impl Releases {
    pub(super) fn all_filtered(&self) -> bool {
        self.bindings > 0 && self.filtered.len() == self.bindings
    }

    /// Whether nothing is to be installed, by what people bound and not by what is missing.
    pub(super) fn nothing_wanted(&self) -> bool {
        self.bindings == 0 || self.all_filtered()
    }

    /// `ReleasesResolved`.
    pub(super) fn condition(&self) -> Wanted {
        if self.bindings == 0 {
            let message = "No ReleaseBinding names this Target: bind a Release to it";
            return Wanted::no(reason::TYPE, reason::NO_RELEASE_BINDINGS, message);
        }
        if self.filtered.is_empty() && !self.missing.is_empty() {
            let message =
                "Every bound release that was found is accepted; ReleasesRendered names what is missing";
            return Wanted::yes(reason::TYPE, reason::NO_CONFLICTS, message);
        }
        if self.filtered.is_empty() {
            return Wanted::yes(reason::TYPE, reason::NO_CONFLICTS, "Every bound release is accepted");
        }
        let filtered: Vec<String> = self.filtered.iter().map(ToString::to_string).collect();
        Wanted::yes(reason::TYPE, reason::RESOLVED, format!("Filtered: {}", filtered.join("; ")))
    }
}

pub(super) fn collect(view: &View<'_>, own: &Own) -> Releases {
    let key = IndexKey::Target(view.name().clone());
    let (visible, ungranted): (Vec<_>, Vec<_>) =
        view.world.release_bindings.by(&key).cloned().partition(|binding| is_visible(view, binding));
    let (mut bound, mut missing) = (Vec::new(), Vec::new());
    for binding in &visible {
        match look_up(view, binding) {
            Ok(release) => bound.push(release),
            Err(sentence) => missing.push(sentence),
        }
    }
    let secrets = pull_secret::resolve(view.world, view.name());
    missing.extend(secrets.missing.iter().map(|missing| {
        format!("Registry {} of RegistryBinding {} does not exist", missing.registry, missing.binding)
    }));
    let (accepted, filtered) = resolve(&bound);
    let hidden = hidden_repositories(view, own, &ungranted);
    Releases { bindings: visible.len(), hidden, accepted, filtered, missing, secrets }
}

fn is_visible(view: &View<'_>, binding: &ReleaseBindingRecord) -> bool {
    let target = &view.name().namespace;
    grant::allowed(view.world, "ReleaseBinding", &binding.meta.name.namespace, "Target", target)
}

/// The Release and ComponentVersion behind `binding`, or what is missing. A Release that is being deleted counts until
/// it is gone.
fn look_up(view: &View<'_>, binding: &ReleaseBindingRecord) -> Result<BoundRelease, String> {
    let name = &binding.meta.name;
    let Some(release) = view.world.releases.get(&binding.release) else {
        return Err(format!("Release {} of ReleaseBinding {name} does not exist", binding.release));
    };
    let wanted = &release.component_version;
    let missing = |fault: &str| format!("ComponentVersion {wanted} of Release {} {fault}", release.meta.name);
    if !view.watches(&wanted.namespace) {
        return Err(missing("is in a namespace that is not watched"));
    }
    if !grant::allowed(view.world, "Release", &name.namespace, "ComponentVersion", &wanted.namespace) {
        return Err(missing("is not granted by a ReferenceGrant in its namespace"));
    }
    let version = view.world.component_versions.get(wanted).ok_or_else(|| missing("does not exist"))?;
    if !version.meta.can_be_depended_on(COMPONENT_VERSION_REF_FINALIZER) {
        return Err(missing("is being deleted"));
    }
    Ok(BoundRelease { binding: name.clone(), release: release.clone(), version: version.clone() })
}

fn resolve(bound: &[BoundRelease]) -> (Vec<BoundRelease>, Vec<Filtered>) {
    let candidates = bound.iter().map(|bound| Candidate {
        binding: &bound.binding,
        release: &bound.release,
        unique_name: bound.unique_name(),
    });
    let resolution = resolver::resolve(candidates);
    let by_binding: BTreeMap<&ObjectName, &BoundRelease> =
        bound.iter().map(|bound| (&bound.binding, bound)).collect();
    let find = |candidate: &Candidate<'_>| by_binding.get(candidate.binding).map(|bound| (*bound).clone());
    (resolution.accepted.iter().filter_map(find).collect(), resolution.filtered)
}

/// The repositories of bindings that lost their grant: those for which charts of this Target are there. A binding that
/// never had a grant says nothing.
fn hidden_repositories(
    view: &View<'_>,
    own: &Own,
    ungranted: &[Arc<ReleaseBindingRecord>],
) -> BTreeSet<String> {
    if ungranted.is_empty() {
        return BTreeSet::new();
    }
    let artifact = |name: &ObjectName| view.world.render_artifacts.get(name).cloned();
    let held: Vec<Arc<RenderArtifactRecord>> =
        own.bindings.iter().filter_map(|binding| artifact(&binding.artifact)).collect();
    let used: BTreeSet<&str> = (own.tasks.iter().map(|task| task.coordinates.repository.as_ref()))
        .chain(held.iter().map(|artifact| artifact.coordinates.repository.as_ref()))
        .collect();
    let repositories =
        ungranted.iter().map(|binding| layout::release_repository(&view.name().namespace, &binding.release));
    repositories.filter(|repository| used.contains(repository.as_str())).collect()
}
