//! A Target that is being deleted.

use solar_api::names::TARGET_FINALIZER;

use super::own::{self, Own};
use super::plan::{TargetPlan, TargetStep};
use super::stale;
use super::view::View;

/// Its tasks go, then its bindings; when neither is left, its finalizer goes, and with it the last reason for which the
/// Registry is held on its behalf: giving up the tags needs that Registry.
pub(super) fn plan(view: &View<'_>, own: &Own) -> TargetPlan {
    let mut steps = own.sweep();
    steps.extend(own.tasks.iter().flat_map(own::delete_task));
    let bindings = || own.bindings.iter().chain(&own.uncontrolled);
    steps.extend(bindings().filter(|binding| !binding.meta.terminating).map(stale::unbind));
    let empty = own.tasks.is_empty() && bindings().next().is_none() && own.orphans.is_empty();
    if empty && view.target.meta.has_finalizer(TARGET_FINALIZER) {
        steps.push(TargetStep::RemoveFinalizer);
    }
    TargetPlan { steps, wake_after: None }
}
