//! What a Target needs next: from bound releases to release charts, and from those to one bootstrap chart.
//!
//! [`decide`] looks at everything at once and names every step that can be taken now; the shell takes them in order and
//! asks again when something changed. A plan that was carried out is followed by a smaller one, the last by an empty one.
//!
//! | file | answers |
//! | --- | --- |
//! | `view`, `own` | what a pass sees, and which objects are this Target's |
//! | `registry` | whether the render registry can be used |
//! | `releases` | which releases are bound, resolved and accepted |
//! | `chart` | how far one chart is: held, asked for, rendered |
//! | `stage1`, `stage2`, `version` | the release charts, the bootstrap chart, and its version |
//! | `verdict`, `status` | what the conditions say |
//! | `events` | which changes people are told of |
//! | `stale`, `deletion` | what is given up, and when |

mod chart;
mod deletion;
mod events;
mod own;
mod plan;
mod registry;
mod releases;
mod stage1;
mod stage2;
mod stale;
mod status;
mod verdict;
mod version;
mod view;

use std::time::Duration;

use jiff::Timestamp;

pub use chart::REFUSED_AGAIN;
pub use plan::{
    BindAnswer, BindOrder, BootstrapHistory, BootstrapTaskOrder, Coordinates, EventOrder, GivenVersion,
    RefusedTask, ReleaseTaskOrder, Stranger, TargetMemory, TargetOptions, TargetPlan, TargetStep,
};

use crate::record::TargetRecord;
use crate::world::World;
use own::Own;
use view::View;

/// Decides what `target` needs next.
///
/// `target` is its record in `world`, which may lag behind; `memory` is what its actor was told since. `now` is wall
/// time. The plan is the same for the same arguments, and it is empty when nothing is left to do.
pub fn decide(
    world: &World,
    target: &TargetRecord,
    memory: &TargetMemory,
    options: &TargetOptions,
    now: Timestamp,
) -> TargetPlan {
    let view = View { world, target, memory, options, now };
    let own = Own::of(&view);
    if target.meta.terminating {
        return deletion::plan(&view, &own);
    }
    if target.suspended {
        return TargetPlan { steps: status::suspended(&view).into_iter().collect(), wake_after: None };
    }
    living(&view, &own)
}

fn living(view: &View<'_>, own: &Own) -> TargetPlan {
    let registry = registry::resolve(view);
    let releases = releases::collect(view, own);
    let stage1 = stage1::plan(view, own, registry.usable.as_deref(), &releases);
    let rendered = verdict::releases_rendered(view, &registry, &releases, &stage1);
    let stage2 = stage2::plan(view, own, registry.usable.as_deref(), &stage1, rendered.all_rendered());
    let status = status::of(view, &registry, &releases, &rendered.condition, &stage2);
    let stale = stale::plan(view, own, &releases, &stage1, &stage2, &status);

    let mut steps = Vec::new();
    if !view.target.meta.has_finalizer(solar_api::names::TARGET_FINALIZER) {
        steps.push(TargetStep::AddFinalizer);
    }
    steps.extend(registry.protect.clone().map(TargetStep::ProtectRegistry));
    steps.extend(own.sweep());
    steps.extend(own.hand_on(view));
    steps.extend(stage1.steps());
    steps.extend(stage2.binding_step());
    steps.extend(status::write(view, &status));
    steps.extend(events::of_change(view, &status, &stage2));
    steps.extend(stage2.steps());
    steps.extend(stale.steps);
    let waits = [stage1.ask_again(), stage2.ask_again(), stale.due_in, verdict::next_look(view, &status)];
    TargetPlan { steps, wake_after: earliest(waits) }
}

fn earliest(waits: impl IntoIterator<Item = Option<Duration>>) -> Option<Duration> {
    waits.into_iter().flatten().min()
}
