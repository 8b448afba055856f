//! The actor of a RenderArtifact: the lock on one tag.
//!
//! It is the only writer of its artifact and of the artifact's bindings. Requests are served first, one after another,
//! then the steps that the core asks for; clean-ups and looks at the registry are errands, so that a slow registry holds
//! no pass.

mod errands;
mod own;
mod requests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use solar_api::conditions::oci_cleanup;
use solar_api::names::{REGISTRY_REF_FINALIZER, RENDER_ARTIFACT_FINALIZER};
use solar_api::{Registry, RenderArtifact, RenderArtifactStatus, RenderBinding, Target};
use solar_core::artifact::{self, ArtifactMemory, ArtifactStep, Owner, View, Written};
use solar_core::condition::Wanted;
use solar_core::grant;
use solar_core::object::ObjectName;
use solar_core::record::{RenderArtifactRecord, RenderBindingRecord};
use solar_core::routes::{ActorKind, RENDER_ARTIFACT};
use solar_core::schedule;
use solar_core::target::EventOrder;
use solar_core::world::World;

use super::access;
use super::finalizers::protect;
use super::object::{Pass, PassError, Reconcile};
use super::references::refer_to_registry;
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, Expect, Listed, Problem, add_finalizer, remove_finalizer};
use crate::adapters::oci::UntagProgress;
use crate::messages::render_artifact::{ArtifactRequest, OpenTicket};
pub use errands::{CleanupFailure, Finding};
use own::{emit, forget_binding, keep_artifact, keep_binding, keep_or_forget_artifact, write_status};

/// How often it is looked whether an open ticket is still in somebody's hands.
const TICKET_CHECK: Duration = Duration::from_secs(30);
/// Steps of one pass; a plan that never ends is a fault, and the actor goes on after a pause.
const MOST_STEPS: usize = 256;

/// RenderArtifacts.
pub struct RenderArtifactKind;

/// Kept between passes.
#[derive(Debug)]
pub struct Memory {
    core: ArtifactMemory,
    /// What earlier attempts to delete the tag leave behind; shared with the errand, which may be dropped.
    progress: Arc<Mutex<UntagProgress>>,
    /// The artifact's uid for which they were made.
    progress_uid: Box<str>,
    /// The hands in which the open ticket is.
    holder: Weak<Mutex<Option<OpenTicket>>>,
    /// Binds that wait for a look at the tag.
    waiting: Vec<ArtifactRequest>,
    /// Requests that the pass under way could not serve.
    unserved: Vec<ArtifactRequest>,
    /// What the status of the artifact with this uid has to say of the last attempt to delete the tag.
    owed_condition: Option<(Box<str>, Wanted)>,
}

impl Reconcile for RenderArtifactKind {
    const KIND: ActorKind = RENDER_ARTIFACT;
    type Request = ArtifactRequest;
    type Memory = Memory;
    type Finding = Finding;

    fn memory(shared: &Shared, restarted: bool) -> Memory {
        // An actor that died may have left a push or a deletion under way, and its tickets are forgotten.
        let quiet_until =
            if restarted { shared.clock.elapsed() + artifact::UNANSWERED_WRITE } else { Duration::ZERO };
        Memory {
            core: ArtifactMemory::new(quiet_until),
            progress: Arc::default(),
            progress_uid: Box::default(),
            holder: Weak::new(),
            waiting: Vec::new(),
            unserved: Vec::new(),
            owed_condition: None,
        }
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        {
            let quiet_until = pass.shared.quiet_until();
            let mut memory = pass.memory();
            memory.core.confirmed = false;
            // An actor may be older than the time in which this process leads.
            memory.core.quiet_until = memory.core.quiet_until.max(quiet_until);
        }
        // Each part is done although another fails: a request that cannot be served must not keep the status from being
        // written, nor the other way round. The first failure is told.
        let taken = errands::take_in(pass).await;
        let taken = read_if_outdated(pass, taken).await;
        let served = requests::serve_all(pass).await;
        // Not before: the word of its end is often among those requests, and says that no write may still land.
        close_lost_ticket(pass);
        pass.memory().core.sighting = None;
        let served = read_if_outdated(pass, served).await;
        let said = errands::write_owed_condition(pass).await;
        let said = read_if_outdated(pass, said).await;
        let settled = settle(pass).await;
        let settled = read_if_outdated(pass, settled).await;
        taken.and(served).and(said).and(settled)
    }

    /// The ends of tickets: there is one ticket at a time.
    fn must_be_heard(request: &ArtifactRequest) -> bool {
        matches!(request, ArtifactRequest::Pushed { .. } | ArtifactRequest::PushFailed { .. })
    }

    fn asker(request: &ArtifactRequest) -> Option<&Owner> {
        requests::owner_of(request)
    }

    fn is_done(shared: &Shared, name: &ObjectName, memory: &Memory) -> bool {
        let world = shared.cache.read();
        world.render_artifacts.get(name).is_none()
            && memory.core.is_idle(shared.clock.elapsed())
            && memory.core.own_artifact.is_none()
            && memory.core.own_bindings.is_empty()
            && memory.waiting.is_empty()
            && memory.unserved.is_empty()
    }

    fn is_dispensable(shared: &Shared, name: &ObjectName, memory: &mut Memory) -> bool {
        // Only frees what the watch has caught up with: no status says which tickets were given and when the tag was looked at.
        View::of(&shared.cache.read(), name, &mut memory.core);
        false
    }
}

/// Reads artifact and bindings where what was decided upon is not so any more. The watch may never tell: where an object
/// came and went between two passes, only the own write is left of it, and the same request would fail for ever.
async fn read_if_outdated<T>(
    pass: &Pass<RenderArtifactKind>,
    done: Result<T, PassError>,
) -> Result<T, PassError> {
    if let Err(PassError::Api(error)) = &done
        && matches!(error.problem, Problem::NotFound | Problem::Conflict | Problem::AlreadyExists)
    {
        read(pass).await?;
    }
    done
}

/// Takes the steps that the core asks for.
async fn settle(pass: &mut Pass<RenderArtifactKind>) -> Result<Option<Duration>, PassError> {
    for _ in 0..MOST_STEPS {
        let now = pass.now();
        let step = {
            let world = pass.shared.cache.read();
            let options = pass.shared.options.artifact;
            let mut memory = pass.memory();
            let view = View::of(&world, &pass.name, &mut memory.core);
            let lenders = memory.core.cleanup.lenders.clone();
            let around =
                view.artifact.as_ref().map(|artifact| cleanup_fingerprint(&world, artifact, &lenders));
            retry_if_changed(&mut memory.core, around);
            if let (Some(interval), Some(artifact)) = (options.check_interval, &view.artifact) {
                let wall = pass.shared.clock.wall_exact();
                let until_next = || {
                    let next = schedule::next_time(&artifact.meta.uid, wall, interval);
                    next.duration_since(wall).unsigned_abs()
                };
                memory.core.check_at.get_or_insert_with(|| now + until_next());
            }
            artifact::next(&world, &view, &mut memory.core, &options, now)
        };
        match step {
            ArtifactStep::Wait(until) => {
                protect_registry(pass).await?;
                let ticket = pass.memory().core.ticket.is_some().then_some(TICKET_CHECK);
                return Ok([until.map(|until| until.saturating_sub(now)), ticket]
                    .into_iter()
                    .flatten()
                    .min());
            }
            step => perform(pass, step).await?,
        }
    }
    Err(PassError::Endless(MOST_STEPS))
}

/// Holds the Registry whose credentials will delete the tag. One that the artifact may not use is not held.
async fn protect_registry(pass: &Pass<RenderArtifactKind>) -> Result<(), PassError> {
    let Some(artifact) = known(pass) else { return Ok(()) };
    if !artifact.meta.has_finalizer(RENDER_ARTIFACT_FINALIZER) {
        return Ok(());
    }
    let registry = {
        let world = pass.shared.cache.read();
        let registry = artifact.registry.as_ref().and_then(|name| world.registries.get(name));
        let usable = registry.filter(|registry| {
            let (own, theirs) = (&pass.name.namespace, &registry.meta.name.namespace);
            *registry.host == *artifact.coordinates.base_url
                && grant::allowed(&world, "RenderArtifact", own, "Registry", theirs)
        });
        usable.map(|registry| registry.meta.clone())
    };
    match registry {
        Some(registry) => protect::<Registry>(&pass.shared, &registry, REGISTRY_REF_FINALIZER).await,
        None => Ok(()),
    }
}

/// Closes a ticket that neither job nor pool has any more: the word of its end was lost, and its write may still land.
fn close_lost_ticket(pass: &Pass<RenderArtifactKind>) {
    let now = pass.now();
    let mut memory = pass.memory();
    if let Some(id) = memory.core.ticket.as_ref().map(|ticket| ticket.id)
        && memory.holder.strong_count() == 0
    {
        memory.core.close_ticket(id, Written::Unanswered(now));
    }
}

/// Looks at artifact and bindings, and at the memory beside them.
fn look<T>(pass: &Pass<RenderArtifactKind>, at: impl FnOnce(&View<'_>, &mut ArtifactMemory) -> T) -> T {
    let world = pass.shared.cache.read();
    let mut memory = pass.memory();
    let view = View::of(&world, &pass.name, &mut memory.core);
    at(&view, &mut memory.core)
}

/// The artifact.
fn known(pass: &Pass<RenderArtifactKind>) -> Option<Arc<RenderArtifactRecord>> {
    look(pass, |view, _| view.artifact.clone())
}

/// What a clean-up depends on besides the registry; a Secret is not watched.
fn cleanup_fingerprint(
    world: &World,
    artifact: &RenderArtifactRecord,
    lenders: &BTreeSet<ObjectName>,
) -> String {
    let namespace = &artifact.meta.name.namespace;
    let around = |registry| access::surroundings(world, "RenderArtifact", namespace, registry);
    let lent: Vec<String> = lenders.iter().map(|lender| around(Some(lender))).collect();
    format!("{} {:?} {lent:?}", around(artifact.registry.as_ref()), artifact.registry)
}

/// Ends the wait after a failed attempt when what that attempt depended on is not as it was when it began.
fn retry_if_changed(memory: &mut ArtifactMemory, fingerprint: Option<String>) {
    if memory.cleanup.retry_at.is_some() && memory.cleanup.fingerprint != fingerprint {
        memory.cleanup.retry_at = None;
    }
}

async fn perform(pass: &mut Pass<RenderArtifactKind>, step: ArtifactStep) -> Result<(), PassError> {
    let Some(artifact) = known(pass) else {
        return match step {
            ArtifactStep::CheckOwner(binding) => check_owner(pass, &binding).await,
            _ => read(pass).await.map(drop),
        };
    };
    match step {
        ArtifactStep::Wait(_) => Ok(()),
        ArtifactStep::Read => confirm(pass).await,
        ArtifactStep::CheckOwner(binding) => check_owner(pass, &binding).await,
        ArtifactStep::Repin(registry) => repin(pass, &registry).await,
        ArtifactStep::AddFinalizer => {
            let meta = &artifact.meta;
            let patch = add_finalizer(&meta.uid, &meta.finalizers, RENDER_ARTIFACT_FINALIZER);
            let patched = pass.shared.api.patch::<RenderArtifact>(&meta.name, &patch).await?;
            keep_artifact(pass, &patched);
            Ok(())
        }
        ArtifactStep::SetChartUrl(url) => {
            let wanted = RenderArtifactStatus { chart_url: Some(url), ..artifact.status.get() };
            write_status(pass, &artifact, &wanted).await
        }
        ArtifactStep::ForgetCleanupFailure => {
            let mut wanted = artifact.status.get();
            wanted.conditions.retain(|condition| condition.type_ != oci_cleanup::TYPE);
            write_status(pass, &artifact, &wanted).await
        }
        ArtifactStep::DeleteSelf => {
            let meta = &artifact.meta;
            let expect = Expect { uid: &meta.uid, resource_version: Some(&meta.resource_version) };
            let left = pass.shared.api.delete::<RenderArtifact>(&meta.name, expect).await?;
            keep_or_forget_artifact(pass, left.as_ref(), &meta.uid);
            Ok(())
        }
        ArtifactStep::AnnounceKept => {
            pass.memory().core.announced = Some(artifact.meta.uid.clone());
            let note = "the tag is kept: a RenderBinding still names this artifact".to_owned();
            emit(pass, &artifact, EventOrder { warning: false, reason: "OCICleanupSkipped", note });
            Ok(())
        }
        ArtifactStep::Look => {
            errands::send_look(pass, artifact);
            Ok(())
        }
        ArtifactStep::CleanUp => {
            errands::send_cleanup(pass, artifact);
            Ok(())
        }
        ArtifactStep::LetGo(fault) => {
            errands::let_go(pass, &artifact, &fault);
            Ok(())
        }
        ArtifactStep::Yield(twin) => {
            if !stays(pass, &twin).await? {
                // The watch is behind the API server; its next event wakes nobody here, so the retry looks again.
                return Err(PassError::Outdated(twin));
            }
            errands::yield_to(pass, &artifact, &twin);
            Ok(())
        }
        ArtifactStep::RemoveFinalizer => finish(pass, &artifact).await,
    }
}

/// Whether an artifact keeps its tag, by API read: it lives, or is bound.
async fn stays(pass: &Pass<RenderArtifactKind>, name: &ObjectName) -> Result<bool, PassError> {
    let Some(artifact) = pass.shared.api.get::<RenderArtifact>(name).await? else { return Ok(false) };
    if artifact.metadata.deletion_timestamp.is_none() {
        return Ok(true);
    }
    Ok(!bindings_of(&pass.shared, name).await?.is_empty())
}

/// As [`read`], for whoever lets the artifact go where nobody holds it: a binding that cannot be read is somebody's.
async fn confirm(pass: &Pass<RenderArtifactKind>) -> Result<(), PassError> {
    match read(pass).await? {
        Some(unreadable) if !pass.memory().core.confirmed => Err(unreadable.into()),
        _ => Ok(()),
    }
}

/// Reads artifact and bindings by API and keeps what is found. Answers what is wrong with a binding that cannot be read.
async fn read(pass: &Pass<RenderArtifactKind>) -> Result<Option<ApiError>, PassError> {
    let (known, bound) =
        look(pass, |view, _| (view.artifact.clone(), view.bindings.values().cloned().collect::<Vec<_>>()));
    let artifact = pass.shared.api.get::<RenderArtifact>(&pass.name).await?;
    let bindings = bindings_of(&pass.shared, &pass.name).await?;
    match (&artifact, &known) {
        (Some(found), _) => keep_artifact(pass, found),
        (None, Some(known)) => keep_or_forget_artifact(pass, None, &known.meta.uid),
        (None, None) => pass.memory().core.own_artifact = None,
    }
    let listed = |name: &str| bindings.iter().any(|binding| binding.meta.name.as_deref() == Some(name));
    for binding in bound.iter().filter(|binding| !listed(&binding.meta.name.name)) {
        forget_binding(pass, binding);
    }
    let mut readable = 0;
    let mut unreadable = None;
    for binding in bindings {
        match binding.whole() {
            Ok(binding) => {
                keep_binding(pass, &binding);
                readable += 1;
            }
            Err(error) => unreadable = Some(error),
        }
    }
    let mut memory = pass.memory();
    memory.core.trusted = true;
    memory.core.confirmed = unreadable.is_none() || readable > 0;
    Ok(unreadable)
}

/// The bindings of `artifact`, by API read.
async fn bindings_of(shared: &Shared, artifact: &ObjectName) -> Result<Vec<Listed<RenderBinding>>, ApiError> {
    shared
        .api
        .list_leniently_by(Some(&artifact.namespace), "spec.renderArtifactRef.name", &artifact.name)
        .await
}

/// Removes a binding whose owner is gone by API read, or is another of the same name.
async fn check_owner(
    pass: &Pass<RenderArtifactKind>,
    binding: &Arc<RenderBindingRecord>,
) -> Result<(), PassError> {
    let owner = pass.shared.api.get::<Target>(&binding.owner).await?;
    let uid = owner.and_then(|target| target.metadata.uid);
    let stands = match (&uid, &binding.controller) {
        (None, _) => false,
        (Some(uid), Some(controller)) => **uid == *controller.uid,
        (Some(_), None) => true,
    };
    if stands {
        // The watch is behind the API server; it will wake this actor when it has caught up.
        return Err(PassError::Outdated(binding.owner.clone()));
    }
    // Not by the name that a Target's binding has: whoever made this one may have called it anything.
    let decision = look(pass, |view, _| artifact::release(view, vec![binding.clone()]));
    requests::let_go(pass, decision).await
}

async fn repin(pass: &Pass<RenderArtifactKind>, registry: &ObjectName) -> Result<(), PassError> {
    let Some(artifact) = known(pass) else { return Ok(()) };
    let expect = Expect { uid: &artifact.meta.uid, resource_version: Some(&artifact.meta.resource_version) };
    let change = refer_to_registry(&pass.name.namespace, registry);
    let patched: RenderArtifact = pass.shared.api.merge(&pass.name, expect, change).await?;
    keep_artifact(pass, &patched);
    Ok(())
}

async fn delete_binding(
    pass: &Pass<RenderArtifactKind>,
    binding: &RenderBindingRecord,
) -> Result<(), PassError> {
    let expect = Expect { uid: &binding.meta.uid, resource_version: None };
    let left = pass.shared.api.delete::<RenderBinding>(&binding.meta.name, expect).await?;
    match left {
        // Somebody else's finalizer holds it: it counts until it is gone.
        Some(left) if left.metadata.deletion_timestamp.is_some() => keep_binding(pass, &left),
        _ => forget_binding(pass, binding),
    }
    Ok(())
}

/// Takes the finalizer off. A binding that somebody outside made meanwhile is told of; its owner binds and pushes again.
async fn finish(pass: &Pass<RenderArtifactKind>, artifact: &RenderArtifactRecord) -> Result<(), PassError> {
    let bindings = bindings_of(&pass.shared, &pass.name).await?;
    let meta = &artifact.meta;
    let patch = remove_finalizer(&meta.uid, &meta.finalizers, RENDER_ARTIFACT_FINALIZER, None);
    match pass.shared.api.patch::<RenderArtifact>(&meta.name, &patch).await {
        Ok(patched) if patched.metadata.finalizers.iter().flatten().next().is_some() => {
            keep_artifact(pass, &patched);
        }
        Ok(_) | Err(ApiError { problem: Problem::NotFound, .. }) => {
            keep_or_forget_artifact(pass, None, &meta.uid);
        }
        Err(error) => return Err(error.into()),
    }
    if let Some(binding) = bindings.first() {
        let name = binding.meta.name.as_deref().unwrap_or_default();
        let note = format!(
            "RenderBinding {name} appeared while the tag was deleted; its owner pushes the chart again"
        );
        emit(pass, artifact, EventOrder { warning: true, reason: "OCICleanupFailed", note });
    }
    Ok(())
}
