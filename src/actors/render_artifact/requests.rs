//! What an artifact's actor is asked: Bind, Unbind, OpenPush, Pushed, PushFailed, one after another.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kube::Resource as _;
use kube::api::ObjectMeta;
use solar_api::names::RENDER_ARTIFACT_FINALIZER;
use solar_api::{
    LocalReference, RenderArtifact, RenderArtifactSpec, RenderArtifactStatus, RenderBinding,
    RenderBindingSpec, Target,
};
use solar_core::artifact::{
    self, BindDecision, BindingChange, Owner, PushDecision, UnbindDecision, Written, binding_name,
};
use solar_core::object::ObjectName;
use solar_core::routes::ActorKey;
use solar_core::target::{BindAnswer, Coordinates, REFUSED_AGAIN, Stranger};
use tokio::sync::oneshot;

use super::own::{keep_artifact, keep_binding, write_status};
use super::{RenderArtifactKind, delete_binding, errands, known, look, read, repin};
use crate::actors::object::{Pass, PassError};
use crate::actors::references::{controlled_by, refer_to_registry, reference};
use crate::adapters::kubernetes::{ApiError, Expect, Problem};
use crate::messages::object::Answer;
use crate::messages::render_artifact::{ArtifactRequest, HeldTicket, OpenTicket, PushAnswer};

/// When a job that finds the tag terminating asks again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Requests that one pass serves: behind thousands of Binds a job would wait for its ticket, and the end for the pass.
const MOST_REQUESTS: usize = 64;

/// A request that was not served, and itself unless it is pointless to serve it again.
struct Unserved {
    error: PassError,
    request: Option<ArtifactRequest>,
}

/// Whether `later` is of the same owner, so that only it counts.
fn supersedes(later: &ArtifactRequest, earlier: &ArtifactRequest) -> bool {
    owner_of(later).is_some_and(|owner| Some(owner) == owner_of(earlier))
}

/// Whoever binds or unbinds: what it asks later makes what it asked earlier pointless.
pub(super) fn owner_of(request: &ArtifactRequest) -> Option<&Owner> {
    match request {
        ArtifactRequest::Bind { owner, .. } | ArtifactRequest::Unbind { owner, .. } => Some(owner),
        _ => None,
    }
}

/// Serves what is asked. One request that fails does not hold up the others, unless the API server does not answer: then
/// all wait for the next pass.
pub(super) async fn serve_all(pass: &mut Pass<RenderArtifactKind>) -> Result<(), PassError> {
    // What waited for a look is served in this pass, however much it is: what was found does not count in the next.
    let most = MOST_REQUESTS.max(take_back_waiting(pass));
    let mut first_error = None;
    for _ in 0..most {
        let Some(request) = pass.next_request() else { break };
        let Err(Unserved { error, request }) = serve(pass, request).await else { continue };
        // Kept in the memory until all are served: it survives this pass.
        pass.memory().unserved.extend(request);
        let is_away = error.is_away();
        first_error.get_or_insert(error);
        if is_away {
            break;
        }
    }
    let unserved = std::mem::take(&mut pass.memory().unserved);
    put_back(pass, unserved);
    first_error.map_or(Ok(()), Err)
}

/// What waited for a look is served first: what was found counts in this pass only.
fn take_back_waiting(pass: &Pass<RenderArtifactKind>) -> usize {
    let (waiting, unserved) = {
        let mut memory = pass.memory();
        let waiting = if memory.core.errand { Vec::new() } else { std::mem::take(&mut memory.waiting) };
        (waiting, std::mem::take(&mut memory.unserved))
    };
    let count = unserved.len() + waiting.len();
    put_back(pass, unserved);
    put_back(pass, waiting);
    count
}

/// Puts requests back to the front, in their order.
fn put_back(pass: &Pass<RenderArtifactKind>, requests: Vec<ArtifactRequest>) {
    for request in requests.into_iter().rev() {
        pass.put_back(request);
    }
}

/// Serves one request.
async fn serve(pass: &mut Pass<RenderArtifactKind>, request: ArtifactRequest) -> Result<(), Unserved> {
    {
        let mut memory = pass.memory();
        memory.core.confirmed = false;
        memory.waiting.retain(|earlier| !supersedes(&request, earlier));
    }
    match &request {
        ArtifactRequest::Bind { .. } => serve_bind(pass, request).await,
        ArtifactRequest::Unbind { owner, reply_to } => match unbind(pass, owner).await {
            Ok(()) => {
                reply(pass, reply_to, Answer::Unbound);
                Ok(())
            }
            // Who asked asks again.
            Err(error) if error.refusal().is_some() => Err(Unserved { error, request: None }),
            Err(error) => Err(Unserved { error, request: Some(request) }),
        },
        ArtifactRequest::OpenPush { .. } => serve_open_push(pass, request).await,
        ArtifactRequest::Pushed { ticket, digest, .. } => match pushed(pass, *ticket, digest).await {
            Ok(()) => {
                if let ArtifactRequest::Pushed { done, .. } = request {
                    tell(done);
                }
                Ok(())
            }
            Err(error) => Err(Unserved { error, request: Some(request) }),
        },
        ArtifactRequest::PushFailed { ticket, written } => {
            pass.memory().core.close_ticket(*ticket, *written);
            Ok(())
        }
    }
}

/// A job that no longer waits has been told that it is over.
fn tell(done: oneshot::Sender<()>) {
    let _ = done.send(());
}

async fn serve_bind(pass: &mut Pass<RenderArtifactKind>, request: ArtifactRequest) -> Result<(), Unserved> {
    let ArtifactRequest::Bind { owner, coordinates, registry, render_task, reply_to } = &request else {
        return Ok(());
    };
    let answer = match bind(pass, owner, coordinates, registry, render_task).await {
        Ok(Some(answer)) => answer,
        Ok(None) => {
            let registry = registry.clone();
            pass.memory().waiting.push(request);
            errands::send_sighting(pass, registry);
            return Ok(());
        }
        // Forbidden for good in a namespace that goes: the Target goes with it.
        Err(error) if is_namespace_terminating(&error) => {
            return Err(Unserved { error, request: None });
        }
        Err(error) => match error.refusal() {
            Some(cause) => BindAnswer::Refused { retry_after: REFUSED_AGAIN, cause },
            None => return Err(Unserved { error, request: Some(request) }),
        },
    };
    reply(pass, reply_to, Answer::Bind(answer));
    Ok(())
}

async fn serve_open_push(pass: &Pass<RenderArtifactKind>, request: ArtifactRequest) -> Result<(), Unserved> {
    let ArtifactRequest::OpenPush { request, held, reply } = request else { return Ok(()) };
    if reply.is_closed() {
        return Ok(());
    }
    match open_push(pass, &request).await {
        Ok(answer) => {
            hand_over(pass, &held, reply, answer);
            Ok(())
        }
        Err(error) => {
            Err(Unserved { error, request: Some(ArtifactRequest::OpenPush { request, held, reply }) })
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
    let put = |open| *held.lock().unwrap_or_else(PoisonError::into_inner) = open;
    if let PushAnswer::Granted { ticket } = &answer {
        put(Some(OpenTicket { artifact: pass.name.clone(), ticket: ticket.id, written: Written::Nothing }));
        pass.memory().holder = Arc::downgrade(held);
    }
    if let Err(PushAnswer::Granted { ticket }) = reply.send(answer) {
        // The job is gone, and whoever ended it may have looked for the ticket before it was there.
        put(None);
        pass.memory().core.close_ticket(ticket.id, Written::Nothing);
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

/// Serves a Bind; `None`: it waits for a look at the tag.
async fn bind(
    pass: &mut Pass<RenderArtifactKind>,
    owner: &Owner,
    coordinates: &Coordinates,
    registry: &ObjectName,
    render_task: &str,
) -> Result<Option<BindAnswer>, PassError> {
    let now = pass.now();
    let decision = look(pass, |view, memory| {
        artifact::bind(view, memory, &pass.name, owner, coordinates, registry, now)
    });
    let (binding, create_artifact) = match decision {
        BindDecision::Collision { with } => return Ok(Some(collision(with))),
        BindDecision::Terminating { retry_after, cause } => {
            return Ok(Some(BindAnswer::Terminating { retry_after, cause }));
        }
        BindDecision::LookFirst => return Ok(None),
        BindDecision::Proceed { binding, create_artifact } => (binding, create_artifact),
    };
    if !change_binding(pass, owner, registry, binding).await? {
        return Ok(Some(BindAnswer::Collision { with: Stranger::Binding }));
    }
    if create_artifact && let Some(with) = create(pass, coordinates, registry, render_task).await? {
        remove_own_binding(pass, owner).await?;
        return Ok(Some(collision(with)));
    }
    Ok(Some(BindAnswer::Bound))
}

fn collision(with: Coordinates) -> BindAnswer {
    BindAnswer::Collision { with: Stranger::Artifact(with) }
}

/// Makes the binding so; answers whether its name is not another one's.
async fn change_binding(
    pass: &Pass<RenderArtifactKind>,
    owner: &Owner,
    registry: &ObjectName,
    change: BindingChange,
) -> Result<bool, PassError> {
    match change {
        BindingChange::None => Ok(true),
        BindingChange::Repoint(old) => {
            let expect = Expect { uid: &old.meta.uid, resource_version: Some(&old.meta.resource_version) };
            let change = refer_to_registry(&pass.name.namespace, registry);
            let patched: RenderBinding = pass.shared.api.merge(&old.meta.name, expect, change).await?;
            keep_binding(pass, &patched);
            Ok(true)
        }
        BindingChange::Recreate(old) => {
            delete_binding(pass, &old).await?;
            create_binding(pass, owner, registry).await
        }
        BindingChange::Create => create_binding(pass, owner, registry).await,
    }
}

/// Creates the binding; answers whether its name is not another one's.
async fn create_binding(
    pass: &Pass<RenderArtifactKind>,
    owner: &Owner,
    registry: &ObjectName,
) -> Result<bool, PassError> {
    let binding = RenderBinding {
        metadata: ObjectMeta {
            name: Some(binding_name(&pass.name.name, &owner.target)),
            namespace: Some(pass.name.namespace.to_string()),
            owner_references: Some(vec![controlled_by::<Target>(&owner.target, &owner.uid)]),
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
            Ok(true)
        }
        Err(ApiError { problem: Problem::AlreadyExists, .. }) => {
            // The watch was behind; with what is there now the request is decided anew.
            read(pass).await?;
            let name = binding_name(&pass.name.name, &owner.target);
            if look(pass, |view, _| view.bindings.get(&name).is_some()) {
                return Err(PassError::Outdated(pass.name.clone()));
            }
            Ok(false)
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
            let now = pass.now();
            let mut memory = pass.memory();
            memory.core.trusted = true;
            memory.core.created(created.metadata.uid.as_deref().unwrap_or_default(), now);
            Ok(None)
        }
        Err(ApiError { problem: Problem::AlreadyExists, .. }) => {
            read(pass).await?;
            let found = known(pass).map(|artifact| Coordinates::of_artifact(&artifact));
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
    let binding = look(pass, |view, _| view.bindings.get(&name).cloned());
    match binding {
        Some(binding) => delete_binding(pass, &binding).await,
        None => Ok(()),
    }
}

async fn unbind(pass: &Pass<RenderArtifactKind>, owner: &Owner) -> Result<(), PassError> {
    let now = pass.now();
    let decision = look(pass, |view, memory| artifact::unbind(view, memory, owner, now));
    let_go(pass, decision).await
}

pub(super) async fn let_go(
    pass: &Pass<RenderArtifactKind>,
    decision: UnbindDecision,
) -> Result<(), PassError> {
    if let Some(registry) = decision.repin {
        repin(pass, &registry).await?;
    }
    for binding in &decision.delete {
        delete_binding(pass, binding).await?;
    }
    Ok(())
}

async fn open_push(
    pass: &Pass<RenderArtifactKind>,
    request: &artifact::PushRequest,
) -> Result<PushAnswer, PassError> {
    let decide = || {
        let now = pass.now();
        look(pass, |view, memory| artifact::open_push(view, memory, request, now))
    };
    let mut decision = decide();
    if decision == PushDecision::ReadFirst {
        read(pass).await?;
        decision = decide();
    }
    Ok(match decision {
        PushDecision::Granted { ticket, .. } => PushAnswer::Granted { ticket },
        PushDecision::NotBound => PushAnswer::NotBound,
        PushDecision::Busy => PushAnswer::Busy,
        PushDecision::Known => PushAnswer::Known,
        PushDecision::Terminating | PushDecision::ReadFirst => {
            PushAnswer::Terminating { retry_after: ASK_AGAIN }
        }
    })
}

/// Writes the digest into the status of the artifact that the ticket was given for, and no other.
async fn pushed(pass: &Pass<RenderArtifactKind>, ticket: u64, digest: &str) -> Result<(), PassError> {
    let open = pass.memory().core.ticket.clone().filter(|open| open.id == ticket);
    let Some(open) = open else { return Ok(()) };
    let artifact = known(pass).filter(|artifact| Some(&artifact.meta.uid) == open.artifact_uid.as_ref());
    if let Some(artifact) = artifact {
        let wanted = RenderArtifactStatus {
            digest: Some(digest.to_owned()),
            chart_url: Some(artifact.address()),
            ..artifact.status.get()
        };
        write_status(pass, &artifact, &wanted).await?;
        let mut memory = pass.memory();
        // The tag is wanted again: what an earlier clean-up was promised is void.
        memory.progress = Arc::default();
        if artifact.meta.terminating {
            memory.core.looked = Some(artifact.meta.uid.clone());
        }
    }
    pass.memory().core.close_ticket(ticket, Written::Answered);
    Ok(())
}
