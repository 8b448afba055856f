//! How far one chart is: whether this Target holds its artifact, and whether its task has pushed it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use solar_api::conditions::render_task as reason;

use super::own;
use super::plan::{BindAnswer, BindOrder, Coordinates, Stranger, TargetStep};
use super::view::View;
use crate::condition;
use crate::hash::PayloadHash;
use crate::names;
use crate::object::ObjectName;
use crate::record::{RenderArtifactRecord, RenderTaskRecord};

/// A chart that is wanted.
#[derive(Clone)]
pub(super) struct Chart {
    pub(super) coordinates: Coordinates,
    /// The render registry.
    pub(super) registry: ObjectName,
    /// Name of the task that makes it.
    pub(super) task: Arc<str>,
    /// Hash of what it is made from.
    pub(super) content: PayloadHash,
}

impl Chart {
    /// The artifact that stands for the chart's tag.
    pub(super) fn artifact(&self, view: &View<'_>) -> ObjectName {
        let namespace = &view.name().namespace;
        view.name().sibling(names::artifact_at(namespace, &self.coordinates))
    }
}

/// How often it is looked whether a stranger still has a name that is needed, should the word of its end be missed.
const STRANGER_AGAIN: Duration = Duration::from_secs(60);
/// When something is asked for again that the API server refused: a person has to mend something.
pub const REFUSED_AGAIN: Duration = Duration::from_secs(30);

/// How far a chart is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// Its artifact is not held yet, or its task is being made room for.
    Preparing,
    /// Its artifact is held, and there is no task.
    Held,
    /// Its task has not come to a result, or the tag has to be looked at again.
    Rendering,
    /// Its tag is being cleaned up.
    CleanedUp {
        /// When to ask again.
        retry_after: Duration,
        /// What the clean-up waits for.
        cause: String,
    },
    /// Its artifact cannot be held, or its task not made, until a person mends something.
    Refused {
        /// When to ask again.
        retry_after: Duration,
        /// What is wrong, in one sentence.
        message: String,
    },
    /// The chart can be pulled.
    Rendered {
        /// Digest of its manifest.
        digest: String,
    },
    /// Its task failed.
    Failed {
        /// The task's message.
        message: String,
    },
    /// Something else has a name that is needed.
    Collision {
        /// Both, in one sentence.
        message: String,
        /// What a person can do about it besides changing what is to be rendered.
        mend: &'static str,
    },
}

/// A chart and what is to be done for it.
pub(super) struct ChartState {
    pub(super) chart: Chart,
    pub(super) artifact: ObjectName,
    pub(super) stage: Stage,
    /// What to ask the artifact's actor.
    pub(super) bind: Option<BindOrder>,
    /// Whether its task is to be made now.
    pub(super) create: bool,
    /// A task of this Target that must make room.
    pub(super) discard: Option<Arc<RenderTaskRecord>>,
}

impl ChartState {
    /// Binding, and making room; creating is left to the caller.
    pub(super) fn steps(&self) -> impl Iterator<Item = TargetStep> {
        let bind = self.bind.clone().map(TargetStep::Bind);
        bind.into_iter().chain(self.make_room())
    }

    /// Deletes the task that must make room.
    pub(super) fn make_room(&self) -> impl Iterator<Item = TargetStep> {
        self.discard.iter().flat_map(own::delete_task)
    }

    pub(super) fn ask_again(&self) -> Option<Duration> {
        match &self.stage {
            Stage::CleanedUp { retry_after, .. } | Stage::Refused { retry_after, .. } => Some(*retry_after),
            Stage::Collision { .. } => Some(STRANGER_AGAIN),
            _ => None,
        }
    }
}

/// Looks how far `chart` is.
pub(super) fn look(view: &View<'_>, chart: Chart) -> ChartState {
    let artifact = chart.artifact(view);
    let hold = hold(view, &chart, &artifact);
    let bind = hold.asks().then(|| BindOrder {
        artifact: artifact.name.clone(),
        coordinates: chart.coordinates.clone(),
        registry: chart.registry.clone(),
        render_task: chart.task.clone(),
    });
    let (stage, discard) = match hold {
        Hold::Stranger(with) => (collision(view, &artifact, &chart, &with), None),
        Hold::Later { stage, .. } => (stage, None),
        Hold::Bound | Hold::Repoint => with_task(view, &chart, &artifact, true),
        Hold::Unbound => with_task(view, &chart, &artifact, false),
    };
    let (stage, create) = match stage {
        Stage::Held => refused(view, &chart).unwrap_or((Stage::Held, true)),
        stage => (stage, false),
    };
    ChartState { chart, artifact, stage, bind, create, discard }
}

/// The stage of a chart whose task the API server has refused, and whether it is time to try again.
fn refused(view: &View<'_>, chart: &Chart) -> Option<(Stage, bool)> {
    let refused = view.memory.refused.get(&chart.task)?;
    let left = left_until(view, refused.until);
    let retry_after = left.unwrap_or(REFUSED_AGAIN);
    Some((Stage::Refused { retry_after, message: refused.cause.clone() }, left.is_none()))
}

/// The stage of a chart for which a name is needed that `with` has.
fn collision(view: &View<'_>, artifact: &ObjectName, chart: &Chart, with: &Stranger) -> Stage {
    let at = &chart.coordinates;
    let message = match with {
        Stranger::Artifact(with) => {
            format!("RenderArtifact {artifact} is needed for {at} and stands for {with}")
        }
        Stranger::Binding => {
            let binding = binding_name(view, artifact);
            format!("RenderBinding {binding} is needed for {at} and holds another artifact")
        }
        Stranger::Task => {
            let task = view.name().sibling(chart.task.clone());
            format!("RenderTask {task} is needed for {at} and is not this Target's")
        }
    };
    let mend = match with {
        Stranger::Artifact(_) => "delete it if it was made by hand, which deletes its tag too",
        Stranger::Binding | Stranger::Task => "delete it if it was made by hand",
    };
    Stage::Collision { message, mend }
}

/// Name of the binding by which this Target holds `artifact`.
fn binding_name(view: &View<'_>, artifact: &ObjectName) -> ObjectName {
    artifact.sibling(crate::artifact::binding_name(&artifact.name, view.name()))
}

/// Whether this Target holds an artifact.
enum Hold {
    /// It does.
    Bound,
    /// It does, and its binding names another Registry.
    Repoint,
    /// It does not.
    Unbound,
    /// It may not yet, and asks again after a while.
    Later { ask: bool, stage: Stage },
    /// It never will.
    Stranger(Stranger),
}

impl Hold {
    fn asks(&self) -> bool {
        matches!(self, Self::Repoint | Self::Unbound | Self::Later { ask: true, .. })
    }
}

fn hold(view: &View<'_>, chart: &Chart, artifact: &ObjectName) -> Hold {
    let existing = view.world.render_artifacts.get(artifact);
    if let Some(with) = existing.map(|a| Coordinates::of_artifact(a)).filter(|has| *has != chart.coordinates)
    {
        return Hold::Stranger(Stranger::Artifact(with));
    }
    let watched = view.world.render_bindings.get(&binding_name(view, artifact));
    let is_taken = watched.is_some_and(|binding| binding.artifact != *artifact);
    let binding = watched.filter(|binding| {
        let belongs = own::is_own_binding(view, binding) && binding.artifact == *artifact;
        belongs && !binding.meta.terminating && existing.is_some()
    });
    match (binding, view.memory.answers.get(&artifact.name)) {
        (Some(binding), _) if binding.registry.as_ref() == Some(&chart.registry) => Hold::Bound,
        // The watch may not show yet that a stranger has gone.
        (_, Some(BindAnswer::Bound)) => Hold::Bound,
        _ if is_taken => Hold::Stranger(Stranger::Binding),
        (_, Some(BindAnswer::Terminating { retry_after, cause })) => {
            let (ask, retry_after) = ask_again(view, artifact, *retry_after);
            Hold::Later { ask, stage: Stage::CleanedUp { retry_after, cause: cause.clone() } }
        }
        (_, Some(BindAnswer::Refused { retry_after, cause })) => {
            let (ask, retry_after) = ask_again(view, artifact, *retry_after);
            Hold::Later { ask, stage: Stage::Refused { retry_after, message: cause.clone() } }
        }
        (Some(_), _) => Hold::Repoint,
        (None, None) => Hold::Unbound,
        (None, Some(BindAnswer::Collision { with })) => Hold::Stranger(with.clone()),
    }
}

/// Whether it is time to ask the artifact's actor again, and when it is.
fn ask_again(view: &View<'_>, artifact: &ObjectName, retry_after: Duration) -> (bool, Duration) {
    let left = view.memory.ask_again.get(&artifact.name).and_then(|at| left_until(view, *at));
    (left.is_none(), left.unwrap_or(retry_after))
}

/// The time that is left until `at`; `None`: it has come.
fn left_until(view: &View<'_>, at: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(view.now)).ok().filter(|left| !left.is_zero())
}

/// The stage by the chart's task, and a task that has to go first.
fn with_task(
    view: &View<'_>,
    chart: &Chart,
    artifact: &ObjectName,
    bound: bool,
) -> (Stage, Option<Arc<RenderTaskRecord>>) {
    let name = view.name().sibling(chart.task.clone());
    let Some(task) = view.world.render_tasks.get(&name) else {
        return (if bound { Stage::Held } else { Stage::Preparing }, None);
    };
    if own::is_orphan(view, task) || (own::is_own_task(view, task) && task.meta.terminating) {
        return (Stage::Preparing, None);
    }
    if !own::is_own_task(view, task) {
        return (collision(view, artifact, chart, &Stranger::Task), None);
    }
    let artifact = view.world.render_artifacts.get(artifact);
    let same = *task.coordinates == chart.coordinates && task.content == chart.content;
    match pushed(task, artifact.map(AsRef::as_ref)) {
        Some(digest) if same && bound => (Stage::Rendered { digest }, None),
        Some(_) if same => (Stage::Preparing, None),
        None if same && task.registry.as_ref() == Some(&chart.registry) => (running(task, bound), None),
        // Its spec cannot be changed, so another one takes its name.
        _ => (Stage::Preparing, Some(task.clone())),
    }
}

/// The digest under which the task's chart can be pulled: the task made it, and the tag held it after its artifact
/// existed.
fn pushed(task: &RenderTaskRecord, artifact: Option<&RenderArtifactRecord>) -> Option<String> {
    let status = task.status.get();
    let succeeded = condition::is_true(&status.conditions, reason::JOB_SUCCEEDED);
    let digest = status.digest.filter(|digest| succeeded && !digest.is_empty())?;
    (artifact?.status.get().digest.as_ref() == Some(&digest)).then_some(digest)
}

fn running(task: &RenderTaskRecord, bound: bool) -> Stage {
    let status = task.status.get();
    let failed = condition::find(&status.conditions, reason::JOB_FAILED);
    match failed.filter(|failed| failed.status == condition::Status::True.as_str()) {
        Some(failed) => Stage::Failed { message: failed.message.clone() },
        None if bound => Stage::Rendering,
        None => Stage::Preparing,
    }
}
