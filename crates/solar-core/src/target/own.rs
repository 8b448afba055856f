//! Which tasks and bindings are this Target's.
//!
//! They are known by the uid in their ownerReference: those of an earlier Target of the same name are strangers.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::events;
use super::plan::TargetStep;
use super::view::View;
use crate::object::{ControllerRef, ObjectName};
use crate::record::{RenderBindingRecord, RenderTaskRecord};
use crate::world::IndexKey;

const KIND: &str = "Target";

/// The tasks and bindings of a Target.
pub(super) struct Own {
    /// Tasks of this uid, by name.
    pub(super) tasks: Vec<Arc<RenderTaskRecord>>,
    /// Tasks of an earlier Target of this name, by name.
    pub(super) orphans: Vec<Arc<RenderTaskRecord>>,
    /// Bindings of this uid, by name.
    pub(super) bindings: Vec<Arc<RenderBindingRecord>>,
    /// Bindings that name this Target in their spec and nobody as their controller, by name. They hold nothing for this
    /// Target until they are made anew, but they keep a tag, so they must not outlive it.
    pub(super) uncontrolled: Vec<Arc<RenderBindingRecord>>,
    held: BTreeSet<ObjectName>,
}

impl Own {
    pub(super) fn of(view: &View<'_>) -> Self {
        let key = IndexKey::Owner(view.name().clone());
        let (mut tasks, mut orphans) = (Vec::new(), Vec::new());
        for task in view.world.render_tasks.by(&key) {
            match relation(view, task.controller.as_deref(), &task.meta.name) {
                Relation::Own => tasks.push(task.clone()),
                Relation::Predecessor => orphans.push(task.clone()),
                Relation::Stranger => {}
            }
        }
        let all = || view.world.render_bindings.by(&key);
        let bindings: Vec<_> = all().filter(|binding| is_own_binding(view, binding)).cloned().collect();
        let uncontrolled = all().filter(|binding| binding.controller.is_none()).filter(|binding| {
            *binding.owner_kind == *KIND && binding.meta.name.namespace == view.name().namespace
        });
        let uncontrolled = uncontrolled.cloned().collect();
        let living = bindings.iter().filter(|binding| !binding.meta.terminating);
        let held = living.map(|binding| binding.artifact.clone()).collect();
        Self { tasks, orphans, bindings, uncontrolled, held }
    }

    /// Whether this Target holds `artifact`.
    pub(super) fn holds(&self, artifact: &ObjectName) -> bool {
        self.held.contains(artifact)
    }

    /// Hands the Target's render request to those of its tasks that do not have it.
    pub(super) fn hand_on(&self, view: &View<'_>) -> Vec<TargetStep> {
        let Some(request) = &view.target.render_request else { return Vec::new() };
        let unasked = self.tasks.iter().filter(|task| {
            !task.meta.terminating && task.render_request.as_deref() != Some(request.as_ref())
        });
        let steps = unasked.flat_map(|task| {
            let name = task.meta.name.name.clone();
            let told = events::updated(&name);
            let uid = task.meta.uid.clone();
            [TargetStep::RequestRender { name, uid, request: request.clone() }, told]
        });
        steps.collect()
    }

    /// Deletes what an earlier Target of the same name left: its tasks are never adopted.
    pub(super) fn sweep(&self) -> Vec<TargetStep> {
        self.orphans.iter().flat_map(delete_task).collect()
    }
}

/// Deletes `task` and tells of it; nothing when that is under way.
pub(super) fn delete_task(task: &Arc<RenderTaskRecord>) -> Vec<TargetStep> {
    if task.meta.terminating {
        return Vec::new();
    }
    let name = task.meta.name.name.clone();
    let told = events::deleted(&name);
    vec![TargetStep::DeleteTask { name, uid: task.meta.uid.clone() }, told]
}

pub(super) fn is_own_task(view: &View<'_>, task: &RenderTaskRecord) -> bool {
    matches!(relation(view, task.controller.as_deref(), &task.meta.name), Relation::Own)
}

/// Whether `task` was made by an earlier Target of this name.
pub(super) fn is_orphan(view: &View<'_>, task: &RenderTaskRecord) -> bool {
    matches!(relation(view, task.controller.as_deref(), &task.meta.name), Relation::Predecessor)
}

pub(super) fn is_own_binding(view: &View<'_>, binding: &RenderBindingRecord) -> bool {
    matches!(relation(view, binding.controller.as_deref(), &binding.meta.name), Relation::Own)
}

enum Relation {
    Own,
    Predecessor,
    Stranger,
}

fn relation(view: &View<'_>, controller: Option<&ControllerRef>, object: &ObjectName) -> Relation {
    let target = &view.target.meta;
    // Owner references do not reach into other namespaces.
    let near = object.namespace == target.name.namespace;
    match controller.filter(|controller| near && controller.kind.as_ref() == KIND) {
        Some(controller) if controller.uid == target.uid => Relation::Own,
        Some(controller) if controller.name.as_ref() == target.name.name.as_ref() => Relation::Predecessor,
        _ => Relation::Stranger,
    }
}
