//! The actor of a RenderArtifact: the lock on one tag.
//!
//! It is the only writer of its artifact and of the artifact's bindings. Requests are served first, one after another,
//! then the steps that the core asks for; clean-ups and looks at the registry are errands, so that a slow registry holds
//! no pass.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use kube::api::ObjectMeta;
use serde_json::json;
use solar_api::conditions::oci_cleanup;
use solar_api::names::RENDER_ARTIFACT_FINALIZER;
use solar_api::{
    LocalReference, RenderArtifact, RenderArtifactSpec, RenderArtifactStatus, RenderBinding,
    RenderBindingSpec, Target,
};
use solar_core::artifact::{
    self, ArtifactMemory, ArtifactStep, BindDecision, BindingChange, Owner, PushDecision, View, binding_name,
};
use solar_core::backoff;
use solar_core::condition::{self, Wanted};
use solar_core::object::ObjectName;
use solar_core::overlay::{Moment, Own};
use solar_core::record::{RenderArtifactRecord, RenderBindingRecord};
use solar_core::routes::{ActorKey, ActorKind, RENDER_ARTIFACT};
use solar_core::target::{BindAnswer, Coordinates, EventOrder};
use solar_core::world::World;
use tokio::sync::oneshot;

use super::access::{self, AccessError};
use super::object::{Pass, PassError, Reconcile};
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, Expect, Problem, Regarding, add_finalizer, remove_finalizer};
use crate::adapters::oci::{Digest, Reference, UntagError, UntagOutcome, UntagProgress, UntagRequest, untag};
use crate::messages::object::Answer;
use crate::messages::render_artifact::{ArtifactRequest, HeldTicket, OpenTicket, PushAnswer};

/// Bounds one attempt to delete a tag as a whole.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);
/// First wait after an attempt that failed.
const RETRY_BASE: Duration = Duration::from_secs(1);
/// Longest wait after an attempt that failed.
const RETRY_CAP: Duration = Duration::from_secs(300);
/// How often it is looked whether an open ticket is still in somebody's hands.
const TICKET_CHECK: Duration = Duration::from_secs(30);
/// When a job that finds the tag terminating asks again.
const ASK_AGAIN: Duration = Duration::from_secs(5);
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
}

/// What an errand brings back.
#[derive(Debug)]
pub enum Finding {
    /// A look at the tag.
    Looked {
        /// The artifact's uid.
        uid: Box<str>,
        /// What the tag holds, or why that is not known.
        found: Result<Option<String>, String>,
    },
    /// An attempt to delete the tag.
    CleanedUp {
        /// The artifact's uid.
        uid: Box<str>,
        /// How it ended.
        result: Result<UntagOutcome, CleanupFailure>,
    },
}

/// Why a tag was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum CleanupFailure {
    /// Registry, grant or Secret.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The registry.
    #[error(transparent)]
    Untag(#[from] UntagError),
    /// The artifact names what no registry can hold.
    #[error("{0}")]
    Invalid(String),
    /// The attempt took too long.
    #[error("the attempt did not end within {} s", CLEANUP_TIMEOUT.as_secs())]
    TimedOut,
}

impl Reconcile for RenderArtifactKind {
    const KIND: ActorKind = RENDER_ARTIFACT;
    type Request = ArtifactRequest;
    type Memory = Memory;
    type Finding = Finding;

    /// The ends of tickets: there is one ticket at a time.
    fn must_be_heard(request: &ArtifactRequest) -> bool {
        matches!(request, ArtifactRequest::Pushed { .. } | ArtifactRequest::PushFailed { .. })
    }

    fn memory(shared: &Shared, restarted: bool) -> Memory {
        // An actor that died may have left a push or a deletion under way, and its tickets are forgotten.
        let quiet_until = if restarted {
            shared.clock.elapsed() + artifact::UNANSWERED_WRITE
        } else {
            shared.options.takeover_wait
        };
        Memory {
            core: ArtifactMemory::new(quiet_until),
            progress: Arc::default(),
            progress_uid: Box::default(),
            holder: Weak::new(),
        }
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        let done = serve_and_settle(pass).await;
        if let Err(PassError::Api(error)) = &done
            && matches!(error.problem, Problem::NotFound | Problem::Conflict | Problem::AlreadyExists)
        {
            // What was decided upon is not so any more. The watch may never tell: where an object came and went between
            // two passes, only the own write is left of it, and the same request would fail for ever.
            read(pass).await?;
        }
        done
    }

    fn is_done(shared: &Shared, name: &ObjectName, memory: &Memory) -> bool {
        let world = shared.cache.read();
        world.render_artifacts.get(name).is_none()
            && memory.core.is_idle(shared.clock.elapsed())
            && memory.core.own_artifact.is_none()
            && memory.core.own_bindings.is_empty()
    }
}

/// Serves what is asked, then takes the steps that are left.
async fn serve_and_settle(pass: &mut Pass<RenderArtifactKind>) -> Result<Option<Duration>, PassError> {
    pass.memory().core.confirmed = false;
    close_lost_ticket(pass);
    take_in_finding(pass).await?;
    while let Some(request) = pass.next_request() {
        serve(pass, request).await?;
    }
    for _ in 0..MOST_STEPS {
        let now = pass.now();
        let step = {
            let world = pass.shared.cache.read();
            let options = pass.shared.options.artifact;
            let mut memory = pass.memory();
            let view = View::of(&world, &pass.name, &mut memory.core);
            let key = cleanup_fingerprint(&world, pass, &view);
            retry_if_changed(&mut memory.core, key);
            artifact::next(&view, &mut memory.core, &options, now)
        };
        match step {
            ArtifactStep::Wait(until) => {
                let ticket = pass.memory().core.ticket.is_some().then_some(TICKET_CHECK);
                return Ok([until.map(|until| until.saturating_sub(now)), ticket]
                    .into_iter()
                    .flatten()
                    .min());
            }
            step => perform(pass, step).await?,
        }
    }
    Err(PassError::Other(format!("more than {MOST_STEPS} steps without an end")))
}

/// Closes a ticket that neither job nor pool has any more: the word of its end was lost, and its write may still land.
fn close_lost_ticket(pass: &Pass<RenderArtifactKind>) {
    let now = pass.now();
    let mut memory = pass.memory();
    if let Some(id) = memory.core.ticket.as_ref().map(|ticket| ticket.id)
        && memory.holder.strong_count() == 0
    {
        memory.core.close_ticket(id, Some(now));
    }
}

fn view(pass: &Pass<RenderArtifactKind>) -> View {
    let world = pass.shared.cache.read();
    View::of(&world, &pass.name, &mut pass.memory().core)
}

/// What a clean-up depends on besides the registry; a Secret is not watched.
fn cleanup_fingerprint(world: &World, pass: &Pass<RenderArtifactKind>, view: &View) -> Option<String> {
    let artifact = view.artifact.as_ref()?;
    let namespace = &pass.name.namespace;
    let around = access::surroundings(world, "RenderArtifact", namespace, artifact.registry.as_ref());
    Some(format!("{around} {:?}", artifact.registry))
}

fn retry_if_changed(memory: &mut ArtifactMemory, fingerprint: Option<String>) {
    if memory.cleanup.retry_at.is_some() && memory.cleanup.fingerprint != fingerprint {
        memory.cleanup.retry_at = None;
    }
    memory.cleanup.fingerprint = fingerprint;
}

// ---- requests ----

/// Serves one request. What fails for want of the API server is put back and served by the next pass.
async fn serve(pass: &mut Pass<RenderArtifactKind>, request: ArtifactRequest) -> Result<(), PassError> {
    pass.memory().core.confirmed = false;
    match request {
        ArtifactRequest::Bind { owner, coordinates, registry, render_task, reply_to } => {
            match bind(pass, &owner, &coordinates, &registry, &render_task).await {
                Ok(answer) => {
                    reply(pass, &reply_to, Answer::Bind(answer));
                    Ok(())
                }
                Err(error) => {
                    // Forbidden for good in a namespace that goes: the Target goes with it.
                    if !is_namespace_terminating(&error) {
                        pass.put_back(ArtifactRequest::Bind {
                            owner,
                            coordinates,
                            registry,
                            render_task,
                            reply_to,
                        });
                    }
                    Err(error)
                }
            }
        }
        ArtifactRequest::Unbind { owner, reply_to } => match unbind(pass, &owner).await {
            Ok(()) => {
                reply(pass, &reply_to, Answer::Unbound);
                Ok(())
            }
            Err(error) => {
                pass.put_back(ArtifactRequest::Unbind { owner, reply_to });
                Err(error)
            }
        },
        ArtifactRequest::OpenPush { request, held, reply } => match open_push(pass, &request).await {
            Ok(answer) => {
                hand_over(pass, &held, reply, answer);
                Ok(())
            }
            Err(error) => {
                pass.put_back(ArtifactRequest::OpenPush { request, held, reply });
                Err(error)
            }
        },
        ArtifactRequest::Pushed { ticket, digest, done } => pushed(pass, ticket, digest, done).await,
        ArtifactRequest::PushFailed { ticket, unanswered_since } => {
            pass.memory().core.close_ticket(ticket, unanswered_since);
            Ok(())
        }
    }
}

/// Answers a job. The ticket is in the job's hands before the word of it is, so that it is found there whenever the job
/// is ended.
fn hand_over(
    pass: &Pass<RenderArtifactKind>,
    held: &HeldTicket,
    reply: oneshot::Sender<PushAnswer>,
    answer: PushAnswer,
) {
    if let PushAnswer::Granted { ticket, .. } = &answer {
        let open = OpenTicket { artifact: pass.name.clone(), ticket: ticket.id, unanswered_since: None };
        *lock(held) = Some(open);
        pass.memory().holder = Arc::downgrade(held);
    }
    if let Err(PushAnswer::Granted { ticket, .. }) = reply.send(answer) {
        // The job is gone, and whoever ended it may have looked for the ticket before it was there.
        *lock(held) = None;
        pass.memory().core.close_ticket(ticket.id, None);
    }
}

fn is_namespace_terminating(error: &PassError) -> bool {
    matches!(error, PassError::Api(ApiError { problem: Problem::NamespaceTerminating, .. }))
}

fn reply(pass: &Pass<RenderArtifactKind>, to: &ActorKey, answer: Answer) {
    // An asker that cannot be told asks again.
    if let Err(undelivered) = pass.shared.answer(to, pass.key(), answer) {
        tracing::debug!(%to, %undelivered, "an answer was not delivered");
    }
}

async fn bind(
    pass: &mut Pass<RenderArtifactKind>,
    owner: &Owner,
    coordinates: &Coordinates,
    registry: &ObjectName,
    render_task: &str,
) -> Result<BindAnswer, PassError> {
    let decision = {
        let view = view(pass);
        artifact::bind(&view, &pass.memory().core, &pass.name, owner, coordinates, registry)
    };
    let (binding, create_artifact) = match decision {
        BindDecision::Collision { with } => return Ok(BindAnswer::Collision { with }),
        BindDecision::Terminating { retry_after, cause } => {
            return Ok(BindAnswer::Terminating { retry_after, cause });
        }
        BindDecision::Proceed { binding, create_artifact } => (binding, create_artifact),
    };
    change_binding(pass, owner, registry, binding).await?;
    if create_artifact && let Some(with) = create(pass, coordinates, registry, render_task).await? {
        remove_own_binding(pass, owner).await?;
        return Ok(BindAnswer::Collision { with });
    }
    Ok(BindAnswer::Bound)
}

async fn change_binding(
    pass: &Pass<RenderArtifactKind>,
    owner: &Owner,
    registry: &ObjectName,
    change: BindingChange,
) -> Result<(), PassError> {
    match change {
        BindingChange::None => Ok(()),
        BindingChange::Repoint(old) => {
            let expect = Expect { uid: &old.meta.uid, resource_version: Some(&old.meta.resource_version) };
            let reference = reference(&pass.name.namespace, registry);
            let patched: RenderBinding = pass
                .shared
                .api
                .merge(&old.meta.name, expect, json!({ "spec": { "registryRef": reference } }))
                .await?;
            keep_binding(pass, &patched);
            Ok(())
        }
        BindingChange::Recreate(old) => {
            delete_binding(pass, &old).await?;
            create_binding(pass, owner, registry).await
        }
        BindingChange::Create => create_binding(pass, owner, registry).await,
    }
}

async fn create_binding(
    pass: &Pass<RenderArtifactKind>,
    owner: &Owner,
    registry: &ObjectName,
) -> Result<(), PassError> {
    let binding = RenderBinding {
        metadata: ObjectMeta {
            name: Some(binding_name(&pass.name.name, &owner.target)),
            namespace: Some(pass.name.namespace.to_string()),
            owner_references: Some(vec![owned_by_target(&owner.target, &owner.uid)]),
            ..ObjectMeta::default()
        },
        spec: RenderBindingSpec {
            render_artifact_ref: LocalReference { name: pass.name.name.to_string() },
            owner_kind: Target::kind(&()).into_owned(),
            owner_name: owner.target.name.to_string(),
            owner_namespace: owner.target.namespace.to_string(),
            registry_ref: Some(reference(&pass.name.namespace, registry)),
        },
    };
    match pass.shared.api.create(&binding).await {
        Ok(created) => {
            keep_binding(pass, &created);
            Ok(())
        }
        Err(ApiError { problem: Problem::AlreadyExists, .. }) => {
            // The watch was behind; with what is there now the request is decided anew.
            read(pass).await?;
            Err(PassError::Outdated(pass.name.clone()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates the artifact. Answers whose coordinates have its name when they are others.
async fn create(
    pass: &Pass<RenderArtifactKind>,
    coordinates: &Coordinates,
    registry: &ObjectName,
    render_task: &str,
) -> Result<Option<Coordinates>, PassError> {
    let artifact = RenderArtifact {
        metadata: ObjectMeta {
            name: Some(pass.name.name.to_string()),
            namespace: Some(pass.name.namespace.to_string()),
            finalizers: Some(vec![RENDER_ARTIFACT_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: RenderArtifactSpec {
            base_url: coordinates.base_url.to_string(),
            repository: coordinates.repository.to_string(),
            tag: coordinates.tag.to_string(),
            render_task_ref: render_task.to_owned(),
            registry_ref: Some(reference(&pass.name.namespace, registry)),
        },
        status: None,
    };
    match pass.shared.api.create(&artifact).await {
        Ok(created) => {
            keep_artifact(pass, &created);
            pass.memory().core.trusted = true;
            Ok(None)
        }
        Err(ApiError { problem: Problem::AlreadyExists, .. }) => {
            read(pass).await?;
            let view = view(pass);
            let found = view.artifact.as_ref().map(|artifact| Coordinates {
                base_url: artifact.base_url.clone(),
                repository: artifact.repository.clone(),
                tag: artifact.tag.clone(),
            });
            match found {
                None => Err(PassError::Outdated(pass.name.clone())),
                Some(found) => Ok((found != *coordinates).then_some(found)),
            }
        }
        Err(error) => Err(error.into()),
    }
}

async fn remove_own_binding(pass: &Pass<RenderArtifactKind>, owner: &Owner) -> Result<(), PassError> {
    let name = binding_name(&pass.name.name, &owner.target);
    let binding = view(pass).bindings.get(name.as_str()).cloned();
    match binding {
        Some(binding) => delete_binding(pass, &binding).await,
        None => Ok(()),
    }
}

async fn unbind(pass: &Pass<RenderArtifactKind>, owner: &Owner) -> Result<(), PassError> {
    let decision = artifact::unbind(&view(pass), &pass.name, owner);
    if let Some(registry) = decision.repin {
        repin(pass, &registry).await?;
    }
    match decision.delete {
        Some(binding) => delete_binding(pass, &binding).await,
        None => Ok(()),
    }
}

async fn open_push(
    pass: &Pass<RenderArtifactKind>,
    request: &artifact::PushRequest,
) -> Result<PushAnswer, PassError> {
    let decide = || {
        let view = view(pass);
        let now = pass.now();
        artifact::open_push(&view, &mut pass.memory().core, request, now)
    };
    let mut decision = decide();
    if decision == PushDecision::ReadFirst {
        read(pass).await?;
        decision = decide();
    }
    Ok(match decision {
        PushDecision::Granted { ticket, known_digest } => PushAnswer::Granted { ticket, known_digest },
        PushDecision::NotBound => PushAnswer::NotBound,
        PushDecision::Busy => PushAnswer::Busy,
        PushDecision::Terminating | PushDecision::ReadFirst => {
            PushAnswer::Terminating { retry_after: ASK_AGAIN }
        }
    })
}

/// Writes the digest into the status of the artifact that the ticket was given for, and no other.
async fn pushed(
    pass: &Pass<RenderArtifactKind>,
    ticket: u64,
    digest: String,
    done: oneshot::Sender<()>,
) -> Result<(), PassError> {
    let open = pass.memory().core.ticket.clone().filter(|open| open.id == ticket);
    let Some(open) = open else { return Ok(()) };
    let artifact =
        view(pass).artifact.filter(|artifact| Some(&artifact.meta.uid) == open.artifact_uid.as_ref());
    if let Some(artifact) = artifact {
        let url = solar_core::layout::chart_url(&artifact.base_url, &artifact.repository, &artifact.tag);
        let wanted = RenderArtifactStatus {
            digest: Some(digest.clone()),
            chart_url: Some(url),
            ..artifact.status.clone()
        };
        if let Err(error) = write_status(pass, &artifact, &wanted).await {
            pass.put_back(ArtifactRequest::Pushed { ticket, digest, done });
            return Err(error);
        }
        let mut memory = pass.memory();
        // The tag is wanted again: what an earlier clean-up was promised is void.
        memory.progress = Arc::default();
        if artifact.meta.terminating {
            memory.core.looked = Some(artifact.meta.uid.clone());
        }
    }
    pass.memory().core.close_ticket(ticket, None);
    // A job that no longer waits has been told that it is over.
    let _ = done.send(());
    Ok(())
}

// ---- steps ----

async fn perform(pass: &mut Pass<RenderArtifactKind>, step: ArtifactStep) -> Result<(), PassError> {
    let Some(artifact) = view(pass).artifact else {
        return match step {
            ArtifactStep::CheckOwner(binding) => check_owner(pass, &binding).await,
            _ => read(pass).await,
        };
    };
    match step {
        ArtifactStep::Wait(_) => Ok(()),
        ArtifactStep::Read => read(pass).await,
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
            let wanted = RenderArtifactStatus { chart_url: Some(url), ..artifact.status.clone() };
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
            pass.memory().core.errand = true;
            let errand = look(pass.shared.clone(), artifact);
            pass.send_errand(errand);
            Ok(())
        }
        ArtifactStep::CleanUp => {
            let progress = {
                let mut memory = pass.memory();
                memory.core.errand = true;
                if memory.progress_uid != artifact.meta.uid {
                    memory.progress_uid = artifact.meta.uid.clone();
                    memory.progress = Arc::default();
                }
                memory.progress.clone()
            };
            let errand = clean_up(pass.shared.clone(), artifact, progress);
            pass.send_errand(errand);
            Ok(())
        }
        ArtifactStep::RemoveFinalizer => finish(pass, &artifact).await,
    }
}

/// Reads artifact and bindings by API and keeps what is found.
async fn read(pass: &Pass<RenderArtifactKind>) -> Result<(), PassError> {
    let before = view(pass);
    let artifact = pass.shared.api.get::<RenderArtifact>(&pass.name).await?;
    let bindings = pass
        .shared
        .api
        .list_by::<RenderBinding>(Some(&pass.name.namespace), "spec.renderArtifactRef.name", &pass.name.name)
        .await?;
    match (&artifact, &before.artifact) {
        (Some(found), _) => keep_artifact(pass, found),
        (None, Some(known)) => keep_or_forget_artifact(pass, None, &known.meta.uid),
        (None, None) => pass.memory().core.own_artifact = None,
    }
    for binding in &bindings {
        keep_binding(pass, binding);
    }
    let listed = |name: &str| bindings.iter().any(|binding| binding.metadata.name.as_deref() == Some(name));
    for (name, known) in &before.bindings {
        if !listed(name) {
            forget_binding(pass, known);
        }
    }
    let mut memory = pass.memory();
    memory.core.trusted = true;
    memory.core.confirmed = true;
    Ok(())
}

/// Removes a binding whose owner is gone by API read, or is another of the same name.
async fn check_owner(
    pass: &Pass<RenderArtifactKind>,
    binding: &RenderBindingRecord,
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
    let owner = Owner {
        target: binding.owner.clone(),
        uid: binding.controller.as_ref().map(|controller| controller.uid.clone()).unwrap_or_default(),
    };
    unbind(pass, &owner).await
}

async fn repin(pass: &Pass<RenderArtifactKind>, registry: &ObjectName) -> Result<(), PassError> {
    let Some(artifact) = view(pass).artifact else { return Ok(()) };
    let expect = Expect { uid: &artifact.meta.uid, resource_version: Some(&artifact.meta.resource_version) };
    let change = json!({ "spec": { "registryRef": reference(&pass.name.namespace, registry) } });
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
    let bindings = pass
        .shared
        .api
        .list_by::<RenderBinding>(Some(&pass.name.namespace), "spec.renderArtifactRef.name", &pass.name.name)
        .await?;
    if let Some(binding) = bindings.first() {
        let name = binding.metadata.name.as_deref().unwrap_or_default();
        let note = format!(
            "RenderBinding {name} appeared while the tag was deleted; its owner pushes the chart again"
        );
        emit(pass, artifact, EventOrder { warning: true, reason: "OCICleanupFailed", note });
    }
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
    Ok(())
}

// ---- errands ----

async fn look(shared: Arc<Shared>, artifact: Arc<RenderArtifactRecord>) -> Finding {
    let uid = artifact.meta.uid.clone();
    let found = async {
        let endpoint = access::endpoint(
            &shared,
            "RenderArtifact",
            &artifact.meta.name.namespace,
            artifact.registry.as_ref(),
            &artifact.base_url,
            &artifact.repository,
        )
        .await
        .map_err(|error| error.to_string())?;
        let tag = Reference::tag(artifact.tag.to_string());
        let found = shared.registry.head(&endpoint, &artifact.repository, &tag).await;
        found.map(|digest| digest.map(|digest| digest.as_str().to_owned())).map_err(|error| error.to_string())
    }
    .await;
    Finding::Looked { uid, found }
}

async fn clean_up(
    shared: Arc<Shared>,
    artifact: Arc<RenderArtifactRecord>,
    progress: Arc<Mutex<UntagProgress>>,
) -> Finding {
    let uid = artifact.meta.uid.clone();
    // What is known is taken along, and put back whatever happens: also when this errand is dropped in mid-air.
    let known = lock(&progress).clone();
    let mut carried = Carried { progress: known, home: progress };
    let attempt = delete_tag(&shared, &artifact, &mut carried.progress);
    let result = match tokio::time::timeout(CLEANUP_TIMEOUT, attempt).await {
        Ok(result) => result,
        Err(_) => Err(CleanupFailure::TimedOut),
    };
    Finding::CleanedUp { uid, result }
}

struct Carried {
    progress: UntagProgress,
    home: Arc<Mutex<UntagProgress>>,
}

impl Drop for Carried {
    fn drop(&mut self) {
        *lock(&self.home) = self.progress.clone();
    }
}

async fn delete_tag(
    shared: &Shared,
    artifact: &RenderArtifactRecord,
    progress: &mut UntagProgress,
) -> Result<UntagOutcome, CleanupFailure> {
    let endpoint = access::endpoint(
        shared,
        "RenderArtifact",
        &artifact.meta.name.namespace,
        artifact.registry.as_ref(),
        &artifact.base_url,
        &artifact.repository,
    )
    .await?;
    let expected = artifact.status.digest.as_deref().map(str::parse::<Digest>).transpose();
    let expected = expected.map_err(|error| CleanupFailure::Invalid(format!("status.digest: {error}")))?;
    let request = UntagRequest {
        endpoint: &endpoint,
        repository: &artifact.repository,
        tag: &artifact.tag,
        expected: expected.as_ref(),
    };
    Ok(untag(shared.registry.as_ref(), &request, progress).await?)
}

/// Keeps what an errand brought back.
async fn take_in_finding(pass: &mut Pass<RenderArtifactKind>) -> Result<(), PassError> {
    let Some(finding) = pass.finding.take() else {
        // No finding although an errand was out: it died. What it wrote may still land.
        let now = pass.now();
        let out = pass.errand_out;
        let mut memory = pass.memory();
        if memory.core.errand && !out {
            memory.core.errand = false;
            memory.core.under_way_until = Some(now + artifact::UNANSWERED_WRITE);
            fail_cleanup(&mut memory.core, "the attempt was cut short".to_owned(), now, 0.5);
        }
        return Ok(());
    };
    pass.memory().core.errand = false;
    let artifact = view(pass).artifact;
    match finding {
        Finding::Looked { uid, found } => match artifact.filter(|artifact| artifact.meta.uid == uid) {
            Some(artifact) => looked(pass, &artifact, found).await,
            None => Ok(()),
        },
        Finding::CleanedUp { uid, result } => match artifact.filter(|artifact| artifact.meta.uid == uid) {
            Some(artifact) => cleaned_up(pass, &artifact, result).await,
            None => Ok(()),
        },
    }
}

async fn looked(
    pass: &mut Pass<RenderArtifactKind>,
    artifact: &RenderArtifactRecord,
    found: Result<Option<String>, String>,
) -> Result<(), PassError> {
    match found {
        Ok(found) => {
            if found.is_none() || found != artifact.status.digest {
                // Only now it counts as looked at: the owners learn that their chart has to be pushed again.
                let wanted = RenderArtifactStatus { digest: None, ..artifact.status.clone() };
                write_status(pass, artifact, &wanted).await?;
            }
            let mut memory = pass.memory();
            memory.core.look_failures = 0;
            memory.core.looked = Some(artifact.meta.uid.clone());
        }
        Err(error) => {
            let jitter = pass.rng.f64();
            let now = pass.now();
            let mut memory = pass.memory();
            let wait = backoff::delay(memory.core.look_failures, RETRY_BASE, RETRY_CAP, jitter);
            memory.core.look_failures += 1;
            memory.core.look_at = Some(now + wait);
            tracing::info!(artifact = %artifact.meta.name, error, "a look at a kept tag failed");
        }
    }
    Ok(())
}

async fn cleaned_up(
    pass: &mut Pass<RenderArtifactKind>,
    artifact: &RenderArtifactRecord,
    result: Result<UntagOutcome, CleanupFailure>,
) -> Result<(), PassError> {
    note_unanswered(pass);
    let failure = match result {
        Ok(outcome) => {
            metrics::counter!("solar_tag_deletions_total", "result" => "success").increment(1);
            let order = match &outcome {
                UntagOutcome::Deleted => event("OCICleanupSucceeded", "the tag was deleted"),
                UntagOutcome::AlreadyGone => event("OCICleanupSucceeded", "the tag was already gone"),
                UntagOutcome::Foreign { found, expected } => EventOrder {
                    warning: true,
                    reason: "OCICleanupFailed",
                    note: format!(
                        "the tag holds {found}, not {expected} that was pushed for this artifact: it is somebody else's \
                         and stays"
                    ),
                },
            };
            emit(pass, artifact, order);
            let mut memory = pass.memory();
            memory.core.cleanup = artifact::Cleanup { done: true, ..artifact::Cleanup::default() };
            *lock(&memory.progress) = UntagProgress::default();
            return Ok(());
        }
        Err(failure) => failure,
    };
    metrics::counter!("solar_tag_deletions_total", "result" => "failure").increment(1);
    let jitter = pass.rng.f64();
    let now = pass.now();
    let message =
        format!("{}/{}:{} was not deleted: {failure}", artifact.base_url, artifact.repository, artifact.tag);
    fail_cleanup(&mut pass.memory().core, message.clone(), now, jitter);
    let reason = match &failure {
        CleanupFailure::Access(_) => oci_cleanup::AUTH_FAILED,
        _ => oci_cleanup::DELETE_FAILED,
    };
    let mut wanted = artifact.status.clone();
    let condition = Wanted::no(oci_cleanup::TYPE, reason, message.clone());
    condition::set(&mut wanted.conditions, &condition, artifact.meta.generation, pass.shared.clock.wall());
    emit(pass, artifact, EventOrder { warning: true, reason: "OCICleanupFailed", note: message });
    if condition::same(&wanted.conditions, &artifact.status.conditions) {
        return Ok(());
    }
    write_status(pass, artifact, &wanted).await
}

/// A deletion whose answer never came may still take effect.
fn note_unanswered(pass: &Pass<RenderArtifactKind>) {
    let now = pass.now();
    let mut memory = pass.memory();
    let unanswered = lock(&memory.progress).unanswered_write();
    if let Some(at) = unanswered {
        let until = (now + artifact::UNANSWERED_WRITE).saturating_sub(at.elapsed());
        memory.core.under_way_until = memory.core.under_way_until.max(Some(until));
    }
}

fn fail_cleanup(memory: &mut ArtifactMemory, cause: String, now: Moment, jitter: f64) {
    let wait = backoff::delay(memory.cleanup.failures, RETRY_BASE, RETRY_CAP, jitter);
    memory.cleanup.failures += 1;
    memory.cleanup.retry_at = Some(now + wait);
    memory.cleanup.cause = Some(cause);
}

// ---- what this actor wrote or read ----

async fn write_status(
    pass: &Pass<RenderArtifactKind>,
    artifact: &RenderArtifactRecord,
    wanted: &RenderArtifactStatus,
) -> Result<(), PassError> {
    let expect = Expect { uid: &artifact.meta.uid, resource_version: Some(&artifact.meta.resource_version) };
    let written = pass
        .shared
        .api
        .write_status::<RenderArtifact, _>(&artifact.meta.name, expect, &artifact.status, wanted)
        .await;
    match written {
        Ok(Some(written)) => keep_artifact(pass, &written),
        Ok(None) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn keep_artifact(pass: &Pass<RenderArtifactKind>, artifact: &RenderArtifact) {
    let record = Arc::new(RenderArtifactRecord::from(artifact));
    let since = pass.now();
    pass.memory().core.own_artifact = Some(Own::Present { record, since });
}

fn keep_or_forget_artifact(pass: &Pass<RenderArtifactKind>, left: Option<&RenderArtifact>, uid: &str) {
    match left {
        Some(left) if left.metadata.uid.as_deref() == Some(uid) => keep_artifact(pass, left),
        _ => pass.memory().core.own_artifact = Some(Own::Gone { uid: uid.into() }),
    }
}

fn keep_binding(pass: &Pass<RenderArtifactKind>, binding: &RenderBinding) {
    let record = Arc::new(RenderBindingRecord::from(binding));
    let since = pass.now();
    let name = record.meta.name.name.clone();
    pass.memory().core.own_bindings.insert(name, Own::Present { record, since });
}

fn forget_binding(pass: &Pass<RenderArtifactKind>, binding: &RenderBindingRecord) {
    let gone = Own::Gone { uid: binding.meta.uid.clone() };
    pass.memory().core.own_bindings.insert(binding.meta.name.name.clone(), gone);
}

fn emit(pass: &Pass<RenderArtifactKind>, artifact: &RenderArtifactRecord, order: EventOrder) {
    pass.shared.events.emit(Regarding::new("RenderArtifact", &artifact.meta), order);
}

fn event(reason: &'static str, note: &str) -> EventOrder {
    EventOrder { warning: false, reason, note: note.to_owned() }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `name` as a reference from an object of namespace `own`.
pub(super) fn reference(own: &str, name: &ObjectName) -> solar_api::ObjectReference {
    solar_api::ObjectReference {
        name: name.name.to_string(),
        namespace: (*name.namespace != *own).then(|| name.namespace.to_string()),
    }
}

/// An ownerReference to a Target, as its controller.
pub(super) fn owned_by_target(target: &ObjectName, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: Target::api_version(&()).into_owned(),
        kind: Target::kind(&()).into_owned(),
        name: target.name.to_string(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
