//! Answers to requests. Each is decided on a fresh view, inside the actor's one pass.

use std::sync::Arc;
use std::time::Duration;

use super::memory::{ArtifactMemory, CleanupProblem, Ticket};
use super::next::notice;
use super::view::{Bindings, View};
use crate::names;
use crate::object::ObjectName;
use crate::overlay::Moment;
use crate::record::{RenderArtifactRecord, RenderBindingRecord};
use crate::target::Coordinates;

/// A Target that wants to hold an artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The Target.
    pub target: ObjectName,
    /// Its uid.
    pub uid: Box<str>,
}

/// What serving a Bind takes.
#[derive(Clone, Debug, PartialEq)]
pub enum BindDecision {
    /// The name belongs to other coordinates; nothing is created.
    Collision {
        /// Whose name it is.
        with: Coordinates,
    },
    /// The artifact is being cleaned up; nothing is created.
    Terminating {
        /// When to ask again.
        retry_after: Duration,
        /// What the clean-up waits for.
        cause: String,
    },
    /// The registry does not delete the tag: look at it with the credentials of the Registry that the asker names, keep
    /// the [`Sighting`](super::Sighting), and decide again in the same pass. If the tag holds what was pushed for this
    /// artifact, it may stay and be bound again.
    LookFirst,
    /// Make the binding so, then the artifact if there is none.
    Proceed {
        /// What to do about the binding.
        binding: BindingChange,
        /// Whether the artifact has to be created.
        create_artifact: bool,
    },
}

/// What to do about a binding.
#[derive(Clone, Debug, PartialEq)]
pub enum BindingChange {
    /// It is right.
    None,
    /// It does not exist.
    Create,
    /// It belongs to an owner of the same name that is gone; it is deleted and made anew, never patched, because the
    /// garbage collector of older API servers deletes by uid alone.
    Recreate(Arc<RenderBindingRecord>),
    /// It names another Registry.
    Repoint(Arc<RenderBindingRecord>),
}

/// How soon a Target asks again that was answered Terminating.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Name of the binding by which `target` holds `artifact`.
pub fn binding_name(artifact: &str, target: &ObjectName) -> String {
    names::binding(artifact, &target.name)
}

/// Decides a Bind. Notes in `memory` the asker's Registry where the clean-up has no credentials of its own.
pub fn bind(
    view: &View<'_>,
    memory: &mut ArtifactMemory,
    artifact: &ObjectName,
    owner: &Owner,
    coordinates: &Coordinates,
    registry: &ObjectName,
    now: Moment,
) -> BindDecision {
    if let Some(existing) = &view.artifact {
        if let Some(with) = stranger(existing, coordinates) {
            return BindDecision::Collision { with };
        }
        let others = view.bindings.values().any(|binding| !binding.meta.terminating);
        if existing.meta.terminating
            && (!others || memory.is_cleaning_up())
            && let Some(wait) = cleaned_up(existing, memory, registry, now)
        {
            return wait;
        }
    }
    let name = binding_name(&artifact.name, &owner.target);
    let binding = match view.bindings.get(name.as_str()) {
        None => BindingChange::Create,
        Some(binding) if !belongs_to(binding, owner) || binding.meta.terminating => {
            BindingChange::Recreate(binding.clone())
        }
        Some(binding) if binding.registry.as_ref() != Some(registry) => {
            BindingChange::Repoint(binding.clone())
        }
        Some(_) => BindingChange::None,
    };
    BindDecision::Proceed { binding, create_artifact: view.artifact.is_none() }
}

/// What whoever binds to an artifact is told whose tag is to be deleted; `None`: the tag stays, was looked at, and may be
/// bound.
fn cleaned_up(
    artifact: &RenderArtifactRecord,
    memory: &mut ArtifactMemory,
    registry: &ObjectName,
    now: Moment,
) -> Option<BindDecision> {
    let mut cause = memory.cleanup.cause.clone().unwrap_or_else(|| "the old tag is being deleted".to_owned());
    match memory.cleanup.problem {
        Some(CleanupProblem::NoCredentials) => {
            memory.cleanup.lenders.insert(registry.clone());
        }
        Some(CleanupProblem::Refused) if may_stay(artifact, memory, now) => {
            let sighting = memory
                .sighting
                .as_ref()
                .filter(|seen| seen.uid == artifact.meta.uid && seen.registry == *registry);
            match sighting.map(|seen| &seen.found) {
                None => return Some(BindDecision::LookFirst),
                Some(Ok(found)) if *found == artifact.status.get().digest => {
                    memory.looked = Some(artifact.meta.uid.clone());
                    return None;
                }
                Some(Ok(found)) => {
                    let found = found.as_deref().unwrap_or("nothing");
                    cause = format!("{cause}; the tag now holds {found}");
                }
                Some(Err(problem)) => cause = format!("{cause}; looking at the tag: {problem}"),
            }
        }
        _ => {}
    }
    Some(BindDecision::Terminating { retry_after: ASK_AGAIN, cause })
}

/// Whether the tag of a terminating artifact could be bound again, if it is still there: nobody deletes it now, and
/// nothing that was sent may still do so.
fn may_stay(artifact: &RenderArtifactRecord, memory: &ArtifactMemory, now: Moment) -> bool {
    artifact.status.get().digest.is_some()
        && !memory.is_cleaning_up()
        && !memory.write_under_way(now)
        && now >= memory.quiet_until
}

/// What serving an Unbind takes, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnbindDecision {
    /// The Registry to pin the artifact to before the binding goes.
    pub repin: Option<ObjectName>,
    /// The bindings to delete.
    pub delete: Vec<Arc<RenderBindingRecord>>,
}

/// Decides an Unbind: the surviving bindings take over the artifact's Registry before the leaving ones go.
///
/// All go whose spec names the asker, whatever their own names, for the asker may be waiting until none is left; but not
/// those that another uid controls.
pub fn unbind(view: &View<'_>, memory: &mut ArtifactMemory, owner: &Owner, now: Moment) -> UnbindDecision {
    notice(view, memory, now);
    let leaving = view.bindings.of_owner(&owner.target).filter(|binding| match &binding.controller {
        Some(controller) => controller.uid == owner.uid,
        None => *binding.owner_kind == *"Target",
    });
    let decision = release(view, leaving.cloned().collect());
    // The pass may end without another look at what was there.
    memory.seen_bound |= !decision.delete.is_empty();
    decision
}

/// Decides how `leaving` go, whatever their names: the surviving bindings take over the artifact's Registry before.
pub fn release(view: &View<'_>, leaving: Vec<Arc<RenderBindingRecord>>) -> UnbindDecision {
    if leaving.is_empty() {
        return UnbindDecision::default();
    }
    let pinned = view.artifact.as_ref().and_then(|artifact| artifact.registry.clone());
    let goes = |binding: &RenderBindingRecord| leaving.iter().any(|it| it.meta.name == binding.meta.name);
    let repin = pin(&view.bindings, |binding| !goes(binding))
        .filter(|wanted| view.artifact.is_some() && Some(wanted) != pinned.as_ref());
    UnbindDecision { repin, delete: leaving }
}

/// The Registry that those `bindings` pin that `count`: that of the lowest name among those which name one.
pub fn pin(bindings: &Bindings<'_>, count: impl Fn(&RenderBindingRecord) -> bool) -> Option<ObjectName> {
    let first = bindings.first(|binding| binding.registry.is_some() && count(binding));
    first.and_then(|binding| binding.registry.clone())
}

/// A job that wants to push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushRequest {
    /// Where the chart goes.
    pub coordinates: Coordinates,
    /// The Target that owns the task; `None` for a task that no Target owns.
    pub owner: Option<Owner>,
    /// Digest of the manifest that would be pushed.
    pub digest: Option<String>,
}

/// Answer to an OpenPush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushDecision {
    /// Read artifact and bindings by API first: so far only the watch told of them.
    ReadFirst,
    /// Nobody holds the tag.
    NotBound,
    /// The tag is being deleted, or a request of an earlier incarnation may still delete it.
    Terminating,
    /// Another job holds the ticket.
    Busy,
    /// The tag is known to hold what would be pushed: there is nothing to push, and no ticket is needed.
    Known,
    /// Go on; the memory holds the open ticket.
    Granted {
        /// The ticket.
        ticket: Ticket,
        /// The digest that the tag is known to hold.
        known_digest: Option<String>,
    },
}

/// Decides an OpenPush, and opens the ticket where it is granted.
pub fn open_push(
    view: &View<'_>,
    memory: &mut ArtifactMemory,
    request: &PushRequest,
    now: Moment,
) -> PushDecision {
    notice(view, memory, now);
    let busy = memory.ticket.is_some();
    if !busy && !memory.trusted {
        return PushDecision::ReadFirst;
    }
    let terminating = view.artifact.as_ref().is_some_and(|artifact| artifact.meta.terminating);
    let early = now < memory.quiet_until && (terminating || memory.terminating_at_start);
    let under_way = terminating && memory.write_under_way(now);
    let going = terminating && (view.bindings.is_empty() || memory.is_cleaning_up());
    // A look at the tag of a living artifact takes nothing away, and what it shows is not believed after a push.
    let harmless = !terminating && !memory.cleaning;
    if early || under_way || (memory.errand && !harmless) || going {
        return if busy { PushDecision::Busy } else { PushDecision::Terminating };
    }
    if !holds(view, request) {
        return PushDecision::NotBound;
    }
    if request.digest.is_some() && known_digest(view, memory) == request.digest {
        return PushDecision::Known;
    }
    if busy {
        return PushDecision::Busy;
    }
    memory.last_ticket += 1;
    let ticket = Ticket {
        id: memory.last_ticket,
        artifact_uid: view.artifact.as_ref().map(|artifact| artifact.meta.uid.clone()),
    };
    memory.ticket = Some(ticket.clone());
    PushDecision::Granted { ticket, known_digest: known_digest(view, memory) }
}

/// Whether the asker may push: its Target holds the artifact, or no Target owns its task.
fn holds(view: &View<'_>, request: &PushRequest) -> bool {
    let fits = view.artifact.as_ref().map(|artifact| stranger(artifact, &request.coordinates).is_none());
    match &request.owner {
        None => fits.unwrap_or(true),
        Some(owner) => {
            let mut own = view.bindings.of_owner(&owner.target);
            let bound = own.any(|binding| belongs_to(binding, owner) && !binding.meta.terminating);
            bound && fits == Some(true)
        }
    }
}

/// The digest in the status, unless the artifact is terminating and its tag was not looked at since.
fn known_digest(view: &View<'_>, memory: &ArtifactMemory) -> Option<String> {
    let artifact = view.artifact.as_ref()?;
    if artifact.meta.terminating && memory.looked.as_ref() != Some(&artifact.meta.uid) {
        return None;
    }
    artifact.status.get().digest
}

/// The coordinates of `artifact` where they are not `wanted`.
fn stranger(artifact: &RenderArtifactRecord, wanted: &Coordinates) -> Option<Coordinates> {
    let has = &*artifact.coordinates;
    (has != wanted).then(|| has.clone())
}

fn belongs_to(binding: &RenderBindingRecord, owner: &Owner) -> bool {
    binding.controller.as_ref().is_some_and(|controller| controller.uid == owner.uid)
}
