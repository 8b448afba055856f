//! Which changes people are told of: each once, when it happens.

use std::sync::Arc;

use solar_api as api;
use solar_api::conditions::{bootstrap_ready, releases_rendered};

use super::chart::Stage;
use super::plan::{Coordinates, EventOrder, TargetStep};
use super::stage2::Stage2;
use super::view::View;
use crate::condition::{self, MAX_NOTE, Status};

const CREATED: &str = "Created";
const UPDATED: &str = "Updated";
const DELETED: &str = "Deleted";
const BOOTSTRAP_READY: &str = "BootstrapReady";
const RENDER_FAILED: &str = "RenderFailed";
const REGISTRY_BINDING_CONFLICT: &str = "RegistryBindingConflict";
const NAME_COLLISION: &str = "NameCollision";

pub(super) fn created(task: &Arc<str>, coordinates: &Coordinates) -> TargetStep {
    normal(CREATED, &format!("Created RenderTask {task} for {coordinates}"))
}

pub(super) fn updated(task: &Arc<str>) -> TargetStep {
    normal(UPDATED, &format!("Updated RenderTask {task}: it has the Target's render request"))
}

pub(super) fn deleted(task: &Arc<str>) -> TargetStep {
    normal(DELETED, &format!("Deleted RenderTask {task}"))
}

/// For a name that the Target leaves out.
pub(super) fn collision(sentence: &str) -> TargetStep {
    warning(NAME_COLLISION, &format!("{sentence}; the next bootstrap version is used"))
}

/// The events of conditions that say something new.
pub(super) fn of_change(view: &View<'_>, status: &api::TargetStatus, stage2: &Stage2) -> Vec<TargetStep> {
    let old = view.target.status.get().conditions;
    let changed = |type_: &str| {
        let new = condition::find(&status.conditions, type_)?;
        let told = condition::find(&old, type_).is_some_and(|old| {
            old.status == new.status && old.reason == new.reason && old.message == new.message
        });
        (!told).then_some(new)
    };
    let mut events = Vec::new();
    if let Some(rendered) = changed(releases_rendered::TYPE) {
        let reason = match rendered.reason.as_str() {
            releases_rendered::RELEASE_FAILED => Some(RENDER_FAILED),
            releases_rendered::REGISTRY_BINDING_CONFLICT => Some(REGISTRY_BINDING_CONFLICT),
            releases_rendered::NAME_COLLISION => Some(NAME_COLLISION),
            _ => None,
        };
        events.extend(reason.map(|reason| warning(reason, &rendered.message)));
    }
    if let Some(ready) = changed(bootstrap_ready::TYPE) {
        if ready.reason == bootstrap_ready::FAILED {
            events.push(warning(RENDER_FAILED, &ready.message));
        }
        events.extend(bootstrap_is_ready(stage2).filter(|_| ready.status == Status::True.as_str()));
    }
    events
}

fn bootstrap_is_ready(stage2: &Stage2) -> Option<TargetStep> {
    let bootstrap = stage2.wanted()?;
    let Stage::Rendered { digest } = &bootstrap.state.stage else {
        return None;
    };
    Some(normal(
        BOOTSTRAP_READY,
        &format!("Bootstrap version {} is ready, digest {digest}", bootstrap.version),
    ))
}

fn normal(reason: &'static str, note: &str) -> TargetStep {
    event(false, reason, note)
}

fn warning(reason: &'static str, note: &str) -> TargetStep {
    event(true, reason, note)
}

fn event(warning: bool, reason: &'static str, note: &str) -> TargetStep {
    TargetStep::Emit(EventOrder { warning, reason, note: condition::fit_text(note, MAX_NOTE) })
}
