//! What is no longer wanted, and when it goes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use solar_api as api;
use solar_api::RenderTaskType;
use solar_api::conditions::bootstrap_ready;

use super::chart::Stage;
use super::own::{self, Own};
use super::plan::TargetStep;
use super::releases::Releases;
use super::stage1::Stage1;
use super::stage2::Stage2;
use super::view::View;
use crate::condition;
use crate::object::ObjectName;
use crate::record::{RenderBindingRecord, RenderTaskRecord};

/// What goes now, and when to look at the rest.
#[derive(Default)]
pub(super) struct Stale {
    pub(super) steps: Vec<TargetStep>,
    pub(super) due_in: Option<Duration>,
}

/// Old and new stand beside each other until the new bootstrap chart has been Ready for the grace period, counted from
/// the transition of BootstrapReady. When nothing is wanted at all, everything goes at once, the bootstrap last; charts
/// whose ReleaseBinding lost its grant stay as long as that exists, and then so does everything.
pub(super) fn plan(
    view: &View<'_>,
    own: &Own,
    releases: &Releases,
    stage1: &Stage1,
    stage2: &Stage2,
    status: &api::TargetStatus,
) -> Stale {
    if releases.nothing_wanted() {
        let kept = !releases.hidden.is_empty();
        let steps = if kept { Vec::new() } else { removal(view, own, &Wanted::default(), releases) };
        return Stale { steps, due_in: None };
    }
    let Some(bootstrap) = stage2.wanted().filter(|b| matches!(b.state.stage, Stage::Rendered { .. })) else {
        return Stale::default();
    };
    let charts = stage1.charts.iter().map(|chart| &chart.state).chain([&bootstrap.state]);
    let mut wanted = Wanted::default();
    for state in charts {
        wanted.tasks.insert(state.chart.task.clone());
        wanted.artifacts.insert(state.artifact.clone());
    }
    let steps = removal(view, own, &wanted, releases);
    match remaining_grace(view, status) {
        Some(left) if !steps.is_empty() => Stale { steps: Vec::new(), due_in: Some(left) },
        _ => Stale { steps, due_in: None },
    }
}

fn remaining_grace(view: &View<'_>, status: &api::TargetStatus) -> Option<Duration> {
    let since = condition::find(&status.conditions, bootstrap_ready::TYPE)?.last_transition_time.0;
    let ready_for = view.now.duration_since(since);
    // A time further ahead than clocks differ was written by somebody else, and would never be over.
    let ready_for = Duration::try_from(ready_for).unwrap_or_else(|_| match ready_for.unsigned_abs() {
        ahead if ahead < view.options.stale_grace => Duration::ZERO,
        _ => view.options.stale_grace,
    });
    view.options.stale_grace.checked_sub(ready_for).filter(|left| !left.is_zero())
}

/// Names of what stays.
#[derive(Default)]
struct Wanted {
    tasks: BTreeSet<Arc<str>>,
    artifacts: BTreeSet<ObjectName>,
}

/// Tasks first: a task without its binding would ask in vain to push.
fn removal(view: &View<'_>, own: &Own, wanted: &Wanted, releases: &Releases) -> Vec<TargetStep> {
    let hidden = |repository: &str| releases.hidden.contains(repository);
    let tasks = own
        .tasks
        .iter()
        .filter(|task| !wanted.tasks.contains(&task.meta.name.name) && !hidden(&task.coordinates.repository));
    let (last, first): (Vec<&Arc<RenderTaskRecord>>, Vec<_>) =
        tasks.partition(|task| task.type_ == RenderTaskType::Bootstrap);
    let bindings = own
        .bindings
        .iter()
        .filter(|binding| !binding.meta.terminating && !wanted.artifacts.contains(&binding.artifact));
    let is_hidden = |binding: &Arc<RenderBindingRecord>| match repository(view, binding) {
        Some(repository) => hidden(repository),
        // Not seen yet, so it may be one of those.
        None => !releases.hidden.is_empty(),
    };
    let is_bootstrap = |binding: &&Arc<RenderBindingRecord>| {
        repository(view, binding) == Some(crate::layout::bootstrap_repository(view.name()).as_str())
    };
    let (last_bindings, first_bindings): (Vec<_>, Vec<_>) =
        bindings.filter(|binding| !is_hidden(binding)).partition(is_bootstrap);
    let mut steps = Vec::new();
    for (tasks, bindings) in [(first, first_bindings), (last, last_bindings)] {
        steps.extend(tasks.into_iter().flat_map(own::delete_task));
        steps.extend(bindings.into_iter().map(unbind));
    }
    steps
}

fn repository<'a>(view: &View<'a>, binding: &RenderBindingRecord) -> Option<&'a str> {
    let artifact = view.world.render_artifacts.get(&binding.artifact)?;
    Some(&artifact.coordinates.repository)
}

pub(super) fn unbind(binding: &Arc<RenderBindingRecord>) -> TargetStep {
    TargetStep::Unbind { artifact: binding.artifact.name.clone() }
}
