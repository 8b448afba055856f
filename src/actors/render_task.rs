//! The actor of a RenderTask: submits its chart to the render pool, and writes what became of it.

use std::sync::Arc;
use std::time::Duration;

use solar_api::RenderTask;
use solar_core::artifact::binding_name;
use solar_core::credential;
use solar_core::object::ObjectName;
use solar_core::overlay::Own;
use solar_core::record::RenderTaskRecord;
use solar_core::render_task::{self, TaskMemory, TaskStep, TaskView, is_owned_by_target};
use solar_core::routes::{ActorKind, RENDER_TASK};
use solar_core::target::EventOrder;
use solar_core::world::World;

use super::access;
use super::object::{NoRequest, Pass, PassError, Reconcile};
use super::own::{OwnWrite, catch_up, has_caught_up, observe};
use super::render_pool;
use super::system::Shared;
use crate::adapters::kubernetes::{Expect, Regarding};
use crate::messages::object::Answer;
use crate::messages::render_pool::{Admission, Submission, Submit, Withdraw};

/// Steps of one pass: at most a result, a count and a submission.
const MOST_STEPS: usize = 8;
/// How soon a submission is tried again that the pool had no room for.
const RESUBMIT: Duration = Duration::from_millis(500);

/// RenderTasks.
pub struct RenderTaskKind;

/// Kept between passes.
#[derive(Debug, Default)]
pub struct Memory {
    core: TaskMemory,
    own: Option<Own<RenderTaskRecord>>,
    uid: Box<str>,
}

impl OwnWrite<RenderTaskRecord> for Memory {
    fn own(&mut self) -> &mut Option<Own<RenderTaskRecord>> {
        &mut self.own
    }
}

impl Reconcile for RenderTaskKind {
    const KIND: ActorKind = RENDER_TASK;
    type Request = NoRequest;
    type Memory = Memory;
    type Finding = ();

    fn memory(_: &Shared, _: bool) -> Memory {
        Memory::default()
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        catch_up::<_, _, RenderTask>(pass).await?;
        if current(pass).is_some() {
            take_in_answers(pass);
        }
        for _ in 0..MOST_STEPS {
            let now = pass.now();
            let wall = pass.shared.clock.wall();
            let jitter = pass.rng.f64();
            let Some(task) = current(pass) else {
                withdraw(pass);
                return Ok(None);
            };
            if task.meta.terminating {
                withdraw(pass);
            }
            let step = {
                let world = pass.shared.cache.read();
                let around = surroundings(&world, &task);
                let artifact = world.render_artifacts.get(task.artifact()).cloned();
                let view = TaskView {
                    artifact: artifact.as_deref(),
                    bound: is_bound(&world, &task),
                    seen_created: task.seen_created,
                    surroundings: &around,
                };
                render_task::next(&task, &view, &mut pass.memory().core, now, wall, jitter)
            };
            tracing::debug!(?step, "the next step");
            match step {
                TaskStep::Wait(until) => return Ok(until.map(|until| until.saturating_sub(now))),
                TaskStep::WriteStatus(status, event) => write_status(pass, &task, &status, event).await?,
                TaskStep::Submit => submit(pass, &task),
            }
        }
        Err(PassError::Endless(MOST_STEPS))
    }

    fn is_done(shared: &Shared, name: &ObjectName, memory: &Memory) -> bool {
        shared.cache.read().render_tasks.get(name).is_none() && !memory.core.submitted
    }

    fn is_dispensable(shared: &Shared, name: &ObjectName, memory: &mut Memory) -> bool {
        let task = shared.cache.read().render_tasks.get(name).cloned();
        has_caught_up(shared, name, &mut memory.own)
            && task.is_some_and(|task| memory.core.is_dispensable(&task, shared.clock.elapsed()))
    }
}

/// The task as it is now; another of the same name starts with an empty memory.
fn current(pass: &Pass<RenderTaskKind>) -> Option<Arc<RenderTaskRecord>> {
    let task = observe(pass)?;
    let mut memory = pass.memory();
    if memory.uid != task.meta.uid {
        let own = memory.own.take();
        *memory = Memory { core: TaskMemory::default(), own, uid: task.meta.uid.clone() };
    }
    Some(task)
}

/// Whether the task may push: its Target holds the artifact, or no Target owns it.
fn is_bound(world: &World, task: &RenderTaskRecord) -> bool {
    let Some(owner) = task.controller.as_ref().filter(|_| is_owned_by_target(task)) else { return true };
    let target = task.meta.name.sibling(&*owner.name);
    let binding = task.meta.name.sibling(binding_name(&task.artifact().name, &target));
    world
        .render_bindings
        .get(&binding)
        .is_some_and(|binding| binding.controller.as_ref().is_some_and(|holder| holder.uid == owner.uid))
}

fn surroundings(world: &World, task: &RenderTaskRecord) -> String {
    if let Some(secret) = task.pushes_by_secret() {
        return format!("{secret} {}", credential::is_named_for(world, secret, &task.coordinates.base_url));
    }
    // A Target's grant counts for the tasks that it owns.
    let kind = if is_owned_by_target(task) { "Target" } else { "RenderTask" };
    access::surroundings(world, kind, &task.meta.name.namespace, task.registry.as_ref())
}

fn take_in_answers(pass: &mut Pass<RenderTaskKind>) {
    let now = pass.now();
    let admission = pass.answers.remove(&render_pool::key());
    let job = pass.answers.remove(&render_pool::jobs_key());
    let mut memory = pass.memory();
    match admission {
        Some((Answer::Admission(Admission::Full { retry_after }), _)) => {
            memory.core.submitted = false;
            memory.core.refused_until = Some(now + retry_after);
        }
        Some((Answer::Admission(Admission::Admitted), _)) => memory.core.refused_until = None,
        // It may have pushed out the word that none was free: either way nothing is out.
        Some((Answer::Admission(Admission::SlotFree), _)) => {
            memory.core.submitted = false;
            memory.core.refused_until = None;
        }
        _ => {}
    }
    if let Some((Answer::Job { uid, outcome }, _)) = job {
        memory.core.submitted = false;
        // What became of an earlier task of this name says nothing about this one.
        memory.core.outcome = (uid == memory.uid).then_some(outcome);
    }
}

fn submit(pass: &Pass<RenderTaskKind>, task: &RenderTaskRecord) {
    let submission = Submission {
        task: pass.name.clone(),
        uid: task.meta.uid.clone(),
        generation: task.meta.generation,
        render_request: task.render_request.clone(),
        look: pass.memory().core.again,
        content_key: format!("{} {}", task.artifact(), task.content.to_hex()),
    };
    let now = pass.now();
    let sent = pass.shared.pool.get().is_some_and(|pool| pool.try_send(Submit { submission }).is_ok());
    let mut memory = pass.memory();
    if sent {
        memory.core.submitted = true;
    } else {
        memory.core.refused_until = Some(now + RESUBMIT);
    }
}

fn withdraw(pass: &Pass<RenderTaskKind>) {
    let mut memory = pass.memory();
    if !memory.core.submitted && memory.core.refused_until.is_none() {
        return;
    }
    let withdrawn =
        pass.shared.pool.get().is_none_or(|pool| pool.try_send(Withdraw { task: pass.name.clone() }).is_ok());
    if withdrawn {
        memory.core.submitted = false;
        memory.core.refused_until = None;
    }
}

async fn write_status(
    pass: &Pass<RenderTaskKind>,
    task: &RenderTaskRecord,
    status: &solar_api::RenderTaskStatus,
    event: Option<EventOrder>,
) -> Result<(), PassError> {
    let expect = Expect { uid: &task.meta.uid, resource_version: Some(&task.meta.resource_version) };
    let written = pass.write_status::<RenderTask, _>(expect, &task.status.get(), status).await?;
    if let Some(written) = written {
        let mut record = RenderTaskRecord::from(&written);
        record.seen_created = task.seen_created;
        pass.shared.payloads.keep(written);
        let since = pass.now();
        pass.memory().own = Some(Own::Present { record: Arc::new(record), since });
        if let Some(event) = event {
            pass.shared.events.emit(Regarding::new("RenderTask", &task.meta), event);
        }
    }
    Ok(())
}
