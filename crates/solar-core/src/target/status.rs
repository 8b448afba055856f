//! A Target's status: all conditions at once.

use solar_api as api;
use solar_api::conditions::ready;

use super::chart::Stage;
use super::plan::TargetStep;
use super::registry::RenderRegistry;
use super::releases::Releases;
use super::stage2::Stage2;
use super::verdict;
use super::version;
use super::view::View;
use crate::condition::{self, Status, Wanted};

/// The status as it should be.
pub(super) fn of(
    view: &View<'_>,
    registry: &RenderRegistry,
    releases: &Releases,
    rendered: &Wanted,
    stage2: &Stage2,
) -> api::TargetStatus {
    let mut status = view.target.status.get();
    let stages = [
        registry.condition.clone(),
        releases.condition(),
        rendered.clone(),
        verdict::bootstrap_ready(stage2),
    ];
    for wanted in stages.iter().chain([&summary(&stages)]) {
        set(view, &mut status, wanted);
    }
    status.observed_generation = view.target.meta.generation;
    if releases.nothing_wanted() && releases.hidden.is_empty() {
        status.chart_url = None;
    }
    if let Some(bootstrap) = stage2.wanted() {
        if bootstrap.is_given() {
            status.bootstrap_version = version::stored(view).max(bootstrap.version);
        }
        if let Stage::Rendered { .. } = bootstrap.state.stage {
            status.chart_url = Some(bootstrap.state.chart.coordinates.chart_url());
        }
    }
    status
}

fn set(view: &View<'_>, status: &mut api::TargetStatus, wanted: &Wanted) {
    condition::set(&mut status.conditions, wanted, view.target.meta.generation, view.now);
}

/// `Ready`: what the first stage that is not done says.
fn summary(stages: &[Wanted]) -> Wanted {
    match stages.iter().find(|stage| stage.status != Status::True) {
        None => Wanted::yes(ready::TYPE, ready::READY, "The bootstrap chart can be pulled"),
        Some(first) => Wanted::no(ready::TYPE, first.reason, first.message.clone()),
    }
}

/// The write that makes `status` the stored one, when it says anything else.
pub(super) fn write(view: &View<'_>, status: &api::TargetStatus) -> Option<TargetStep> {
    let stored = view.target.status.get();
    let same = stored.bootstrap_version == status.bootstrap_version
        && stored.chart_url == status.chart_url
        && stored.observed_generation == status.observed_generation
        && condition::same(&stored.conditions, &status.conditions);
    (!same).then(|| TargetStep::WriteStatus(status.clone()))
}

/// The write for a suspended Target: Ready says so, and the other conditions stay as they were.
pub(super) fn suspended(view: &View<'_>) -> Option<TargetStep> {
    let mut status = view.target.status.get();
    let message =
        format!("Nothing is done: remove the annotation {} to go on", api::names::SUSPEND_ANNOTATION);
    set(view, &mut status, &Wanted::no(ready::TYPE, ready::SUSPENDED, message));
    status.observed_generation = view.target.meta.generation;
    write(view, &status)
}
