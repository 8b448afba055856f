//! What ReleasesRendered and BootstrapReady say, and when a missing object is looked for again.

use std::time::Duration;

use solar_api as api;
use solar_api::conditions::{bootstrap_ready, registry_resolved, releases_rendered as reason};

use super::chart::Stage;
use super::registry::RenderRegistry;
use super::releases::Releases;
use super::stage1::{ReleaseChart, Stage1};
use super::stage2::Stage2;
use super::view::View;
use crate::backoff;
use crate::condition::{self, Status, Wanted};
use crate::hash;
use crate::layout::MAX_BOOTSTRAP_VERSION;

/// First wait for something that is missing.
const LOOK_BASE: Duration = Duration::from_secs(5);
/// Longest wait for something that is missing.
const LOOK_CAP: Duration = Duration::from_mins(5);

/// `ReleasesRendered`.
pub(super) struct ReleasesRendered {
    pub(super) condition: Wanted,
}

impl ReleasesRendered {
    pub(super) fn all_rendered(&self) -> bool {
        self.condition.status == Status::True
    }
}

/// The first of the causes that applies.
pub(super) fn releases_rendered(
    view: &View<'_>,
    registry: &RenderRegistry,
    releases: &Releases,
    stage1: &Stage1,
) -> ReleasesRendered {
    let fault = unresolved(view, registry)
        .or_else(|| nothing_bound(releases))
        .or_else(|| conflict(releases))
        .or_else(|| missing(releases))
        .or_else(|| unmatched(stage1))
        .or_else(|| collision(stage1))
        .or_else(|| failed(stage1))
        .or_else(|| pending(stage1));
    let condition = match fault {
        Some((reason, message)) => Wanted::no(reason::TYPE, reason, message),
        None => Wanted::yes(reason::TYPE, reason::ALL_RENDERED, "Every accepted release has its chart"),
    };
    ReleasesRendered { condition }
}

type Fault = Option<(&'static str, String)>;

fn unresolved(view: &View<'_>, registry: &RenderRegistry) -> Fault {
    let waits = || format!("Waits for Registry {} to be resolved", view.target.registry);
    registry.usable.is_none().then(|| (reason::PENDING, waits()))
}

fn nothing_bound(releases: &Releases) -> Fault {
    if releases.bindings == 0 {
        let message = "No ReleaseBinding names this Target: bind a Release to it".to_owned();
        return Some((reason::NO_RELEASE_BINDINGS, message));
    }
    let message = || format!("No bound release can be accepted: {}", joined(&releases.filtered));
    releases.all_filtered().then(|| (reason::ALL_RELEASE_BINDINGS_FILTERED, message()))
}

fn conflict(releases: &Releases) -> Fault {
    let conflicts = &releases.secrets.conflicts;
    let message = || {
        format!(
            "Nothing is rendered: {}. Delete one of the bindings, or let their Registries name one pull secret",
            joined(conflicts)
        )
    };
    (!conflicts.is_empty()).then(|| (reason::REGISTRY_BINDING_CONFLICT, message()))
}

fn missing(releases: &Releases) -> Fault {
    let message = || format!("Missing: {}", releases.missing.join("; "));
    (!releases.missing.is_empty()).then(|| (reason::MISSING_DEPENDENCIES, message()))
}

fn unmatched(stage1: &Stage1) -> Fault {
    let sentence = |unmatched: &super::stage1::Unmatched| {
        format!("host {} of resource {} of Release {}", unmatched.host, unmatched.resource, unmatched.release)
    };
    let sentences: Vec<String> = stage1.unmatched.iter().map(sentence).collect();
    let message = || {
        format!(
            "No RegistryBinding of this Target serves {}: bind a Registry with that host",
            sentences.join("; ")
        )
    };
    (!sentences.is_empty()).then(|| (reason::MISSING_REGISTRY_BINDING, message()))
}

fn collision(stage1: &Stage1) -> Fault {
    let collisions = stage1.charts.iter().filter_map(|chart| match &chart.state.stage {
        Stage::Collision { message, mend } => {
            Some(format!("{message}: {mend}, or change Release {}", release(chart)))
        }
        _ => None,
    });
    listed(reason::NAME_COLLISION, collisions)
}

fn failed(stage1: &Stage1) -> Fault {
    let failures = stage1.charts.iter().filter_map(|chart| match &chart.state.stage {
        Stage::Failed { message } | Stage::Refused { message, .. } => {
            Some(format!("Release {}: {message}", release(chart)))
        }
        _ => None,
    });
    listed(reason::RELEASE_FAILED, failures)
}

/// Names a single chart, the one that comes last: a message that changed with each chart would be a write each.
fn pending(stage1: &Stage1) -> Fault {
    let cleaned = stage1.charts.iter().find_map(|chart| match &chart.state.stage {
        Stage::CleanedUp { cause, .. } => Some(cleaned_up(&chart.state.artifact.name, cause)),
        _ => None,
    });
    let awaited = || {
        let awaited =
            stage1.charts.iter().rfind(|chart| !matches!(chart.state.stage, Stage::Rendered { .. }))?;
        let task = &awaited.state.chart.task;
        Some(format!(
            "Waits for release charts, among them RenderTask {task} of Release {}",
            release(awaited)
        ))
    };
    cleaned.or_else(awaited).map(|message| (reason::PENDING, message))
}

fn cleaned_up(artifact: &str, cause: &str) -> String {
    format!("Waits for RenderArtifact {artifact} to be cleaned up: {cause}")
}

fn release(chart: &ReleaseChart) -> &crate::object::ObjectName {
    &chart.bound.release.meta.name
}

fn listed(reason: &'static str, sentences: impl Iterator<Item = String>) -> Fault {
    let sentences: Vec<String> = sentences.collect();
    (!sentences.is_empty()).then(|| (reason, sentences.join("; ")))
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// `BootstrapReady`.
pub(super) fn bootstrap_ready(stage2: &Stage2) -> Wanted {
    use bootstrap_ready::{FAILED, READY, RENDERING, TYPE, WAITING};
    let preparing = || Wanted::no(TYPE, RENDERING, "The next bootstrap chart is being prepared");
    let bootstrap = match stage2 {
        Stage2::Unknown => {
            return Wanted::no(TYPE, WAITING, "Waits for the releases to be resolved and rendered");
        }
        Stage2::VersionUnknown { cause: None, .. } => return preparing(),
        Stage2::VersionUnknown { cause: Some(cause), .. } => {
            let message = format!("The tags of earlier bootstrap charts could not be listed: {cause}");
            return Wanted::no(TYPE, FAILED, message);
        }
        Stage2::NoVersionLeft { repository } => {
            let message = format!(
                "Version {MAX_BOOTSTRAP_VERSION} of {repository} is used and none can follow: delete the tag, the \
                 RenderArtifact and the RenderTask of that version"
            );
            return Wanted::no(TYPE, FAILED, message);
        }
        Stage2::Wanted(bootstrap) => bootstrap,
    };
    let chart = &bootstrap.state.chart;
    match &bootstrap.state.stage {
        Stage::Preparing => preparing(),
        Stage::Held | Stage::Rendering => {
            Wanted::no(TYPE, RENDERING, format!("Waits for RenderTask {}", chart.task))
        }
        Stage::CleanedUp { cause, .. } => {
            Wanted::no(TYPE, RENDERING, cleaned_up(&bootstrap.state.artifact.name, cause))
        }
        Stage::Rendered { digest } => Wanted::yes(
            TYPE,
            READY,
            format!("{} can be pulled, digest {digest}", chart.coordinates.chart_url()),
        ),
        Stage::Failed { message } => {
            Wanted::no(TYPE, FAILED, format!("RenderTask {} failed: {message}", chart.task))
        }
        Stage::Collision { message, mend } => Wanted::no(TYPE, FAILED, format!("{message}: {mend}")),
        Stage::Refused { message, .. } => Wanted::no(TYPE, FAILED, message.clone()),
    }
}

/// When something that is missing is looked for although no watch told of it.
pub(super) fn next_look(view: &View<'_>, status: &api::TargetStatus) -> Option<Duration> {
    let find = |type_| condition::find(&status.conditions, type_);
    let registry = find(registry_resolved::TYPE).filter(|registry| {
        // Which namespaces are watched changes with a restart only.
        registry.status != Status::True.as_str() && registry.reason != registry_resolved::NOT_WATCHED
    });
    let releases = || find(reason::TYPE).filter(|rendered| rendered.reason == reason::MISSING_DEPENDENCIES);
    let since = registry.or_else(releases)?.last_transition_time.0;
    Some(backoff::until_next_look(since, view.now, LOOK_BASE, LOOK_CAP, spread(view)))
}

/// A fraction that is each Target's own, so that Targets which miss one thing do not look all at once.
fn spread(view: &View<'_>) -> f64 {
    let number = u32::from_str_radix(&hash::hash8(&view.target.meta.uid), 16).unwrap_or_default();
    f64::from(number) / f64::from(u32::MAX)
}
