//! The actor of a Target: takes the steps that the core plans.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource as _;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use solar_api::names::{REGISTRY_REF_FINALIZER, RENDER_REQUEST_ANNOTATION, TARGET_FINALIZER};
use solar_api::{
    BootstrapConfig, BootstrapInput, ComponentVersion, LocalReference, Registry, Release, ReleaseConfig,
    ReleaseInput, RenderArtifact, RenderBinding, RenderTask, RenderTaskSpec, RenderTaskType,
    ResolvedResourceAccess, Target,
};
use solar_core::artifact::Owner;
use solar_core::object::ObjectName;
use solar_core::overlay::{Moment, Own};
use solar_core::record::{RenderBindingRecord, TargetRecord};
use solar_core::render_task::{RETRY_BASE, RETRY_CAP};
use solar_core::routes::{ActorKey, ActorKind, RENDER_ARTIFACT, TARGET};
use solar_core::target::{
    self, BindAnswer, BindOrder, BootstrapHistory, BootstrapTaskOrder, Coordinates, GivenVersion,
    REFUSED_AGAIN, RefusedTask, ReleaseTaskOrder, TargetMemory, TargetStep,
};
use solar_core::world::{IndexKey, World};
use solar_core::{backoff, content, host, layout};

use super::access;
use super::finalizers::{ensure, protect, remove_own};
use super::object::{NoRequest, Pass, PassError, Reconcile};
use super::own::{self, OwnWrite};
use super::references::{controlled_by, reference};
use super::render_artifact::RenderArtifactKind;
use super::system::Shared;
use crate::adapters::kubernetes::{ApiError, Expect, Problem, Regarding};
use crate::messages::object::Answer;
use crate::messages::render_artifact::ArtifactRequest;

/// How long an answer is waited for, and an own deed believed that the watch does not show yet.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maps and lists inside each other in the spec of a task: a RenderTask in an answer of the API server has to be readable.
const MOST_LEVELS: usize = 120;

/// Targets.
pub struct TargetKind;

/// Kept between passes.
#[derive(Debug, Default)]
pub struct Memory {
    uid: Box<str>,
    own: Option<Own<TargetRecord>>,
    history: Option<History>,
    lookup: Option<FailedLookUp>,
    given: Option<GivenVersion>,
    /// The last answer to a Bind by artifact, with when it came. Kept here, so that a pass that fails forgets none.
    answers: BTreeMap<Arc<str>, (BindAnswer, Moment)>,
    /// Tasks that the API server did not let be made.
    refused: BTreeMap<Arc<str>, Refused>,
    /// Deeds that the watch may not show yet, and requests without an answer, with when they were done.
    done: BTreeMap<Deed, Moment>,
}

/// What a look-up of earlier bootstrap versions has found.
#[derive(Clone, Debug)]
pub struct History {
    /// The registry's host.
    host: Box<str>,
    found: BootstrapHistory,
}

/// A task that the API server did not let be made.
#[derive(Clone, Debug)]
struct Refused {
    /// Not tried again before this.
    until: Moment,
    /// What was refused and why.
    cause: String,
}

/// A look-up of earlier bootstrap versions that failed.
#[derive(Clone, Debug)]
struct FailedLookUp {
    /// Why.
    cause: String,
    /// Failures in a row.
    failures: u32,
    /// No other before this, unless the surroundings are others.
    until: Moment,
    /// Registry and grant as they were.
    surroundings: String,
}

/// What is not done twice within [`PATIENCE`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Bind(BindKey),
    Unbind(Arc<str>),
    Create(Arc<str>),
    Delete(Box<str>),
    RequestRender(Box<str>, Box<str>),
    Protect(ObjectName),
}

type BindKey = (Arc<str>, ObjectName);

impl OwnWrite<TargetRecord> for Memory {
    fn own(&mut self) -> &mut Option<Own<TargetRecord>> {
        &mut self.own
    }
}

impl Reconcile for TargetKind {
    const KIND: ActorKind = TARGET;
    type Request = NoRequest;
    type Memory = Memory;
    type Finding = Result<History, String>;

    fn memory(_: &Shared, _: bool) -> Memory {
        Memory::default()
    }

    async fn reconcile(pass: &mut Pass<Self>) -> Result<Option<Duration>, PassError> {
        own::catch_up::<_, _, Target>(pass).await?;
        let Some(target) = current(pass) else { return Ok(None) };
        take_in_finding(pass, &target);
        let plan = plan(pass, &target);
        if !plan.steps.iter().any(|step| matches!(step, TargetStep::LookUpBootstrapHistory { .. })) {
            pass.memory().lookup = None;
        }
        if take_steps(pass, target, plan.steps).await? {
            // What was refused has to be said.
            return Ok(Some(Duration::ZERO));
        }
        let patience = (!pass.memory().done.is_empty()).then_some(PATIENCE);
        // A look-up whose time has come is out, or is not wanted now: waiting for no time at all would be a busy loop.
        let now = pass.now();
        let until = pass.memory().lookup.as_ref().map(|failed| failed.until);
        let lookup = until.and_then(|until| until.checked_sub(now)).filter(|wait| !wait.is_zero());
        Ok([plan.wake_after, patience, lookup].into_iter().flatten().min())
    }

    fn is_done(shared: &Shared, name: &ObjectName, _: &Memory) -> bool {
        shared.cache.read().targets.get(name).is_none()
    }

    fn is_dispensable(shared: &Shared, name: &ObjectName, memory: &mut Memory) -> bool {
        // An empty map may still hold room for eleven.
        let Memory { answers, refused, done, .. } = memory;
        free_if_empty(answers);
        free_if_empty(refused);
        free_if_empty(done);
        own::has_caught_up(shared, name, &mut memory.own)
            && memory.given.is_none()
            && memory.lookup.is_none()
            && memory.answers.is_empty()
            && memory.refused.is_empty()
            && memory.done.is_empty()
    }
}

fn free_if_empty<K, V>(map: &mut BTreeMap<K, V>) {
    if map.is_empty() {
        *map = BTreeMap::new();
    }
}

/// The Target as it is now; another of the same name starts with an empty memory.
fn current(pass: &mut Pass<TargetKind>) -> Option<Arc<TargetRecord>> {
    let target = own::observe(pass)?;
    let mut memory = pass.memory();
    if memory.uid != target.meta.uid {
        let own = memory.own.take();
        *memory = Memory { own, uid: target.meta.uid.clone(), ..Memory::default() };
        drop(memory);
        pass.answers.clear();
    }
    Some(target)
}

fn take_in_finding(pass: &mut Pass<TargetKind>, target: &TargetRecord) {
    let surroundings = lookup_surroundings(pass, target);
    let now = pass.now();
    let jitter = pass.rng.f64();
    let finding = pass.finding.take();
    let mut memory = pass.memory();
    match finding {
        Some(Ok(history)) => {
            memory.history = Some(history);
            memory.lookup = None;
        }
        Some(Err(cause)) => {
            let failures = memory.lookup.as_ref().map_or(0, |failed| failed.failures);
            let wait = backoff::delay(failures, RETRY_BASE, RETRY_CAP, jitter);
            let failures = failures.saturating_add(1);
            memory.lookup = Some(FailedLookUp { cause, failures, until: now + wait, surroundings });
        }
        None if memory.lookup.as_ref().is_some_and(|failed| failed.surroundings != surroundings) => {
            memory.lookup = None;
        }
        None => {}
    }
}

/// What a look-up depends on besides Secret and registry.
fn lookup_surroundings(pass: &Pass<TargetKind>, target: &TargetRecord) -> String {
    let world = pass.shared.cache.read();
    access::surroundings(&world, "Target", &pass.name.namespace, Some(&target.registry))
}

fn plan(pass: &mut Pass<TargetKind>, target: &TargetRecord) -> target::TargetPlan {
    let now = pass.now();
    let wall = pass.shared.clock.wall();
    let shared = pass.shared.clone();
    let world = shared.cache.read();
    let came = std::mem::take(&mut pass.answers);
    let mut memory = pass.memory();
    let Memory { answers, refused, done, .. } = &mut *memory;
    answers.extend(came.into_iter().filter_map(|(from, (answer, since))| match answer {
        Answer::Bind(answer) => Some((from.object.name.clone(), (answer, since))),
        _ => None,
    }));
    answers.retain(|artifact, (answer, since)| match answer {
        BindAnswer::Bound => {
            now < *since + PATIENCE && !is_seen(&world, target, &target.meta.name.sibling(artifact.clone()))
        }
        BindAnswer::Collision { .. } => now < *since + PATIENCE,
        BindAnswer::Terminating { .. } | BindAnswer::Refused { .. } => true,
    });
    done.retain(|deed, since| now < *since + PATIENCE && !is_settled(&world, answers, target, deed, *since));
    let at = |moment: Moment| wall.saturating_add(moment.saturating_sub(now)).unwrap_or(wall);
    let ask_again =
        answers.iter().filter_map(|(artifact, answer)| Some((artifact.clone(), at(asked_again(answer)?))));
    let refusals = refused.iter().map(|(task, refused)| {
        (task.clone(), RefusedTask { until: at(refused.until), cause: refused.cause.clone() })
    });
    let core = TargetMemory {
        answers: answers.iter().map(|(artifact, (answer, _))| (artifact.clone(), answer.clone())).collect(),
        ask_again: ask_again.collect(),
        refused: refusals.collect(),
        history: history(&world, target, memory.history.as_ref()),
        history_failure: memory.lookup.as_ref().map(|failed| failed.cause.clone()),
        given: memory.given,
    };
    let plan = target::decide(&world, target, &core, &shared.options.target, wall);
    // What is asked for no more when its time has come is not needed any more.
    let Memory { answers, refused, .. } = &mut *memory;
    answers.retain(|artifact, answer| {
        asked_again(answer).is_none_or(|again| now < again)
            || plan
                .steps
                .iter()
                .any(|step| matches!(step, TargetStep::Bind(order) if order.artifact == *artifact))
    });
    refused.retain(|task, refused| now < refused.until || plan.steps.iter().any(|step| creates(step, task)));
    plan
}

/// When the question may be put again that was answered like this.
fn asked_again((answer, since): &(BindAnswer, Moment)) -> Option<Moment> {
    match answer {
        BindAnswer::Terminating { retry_after, .. } | BindAnswer::Refused { retry_after, .. } => {
            Some(*since + *retry_after)
        }
        BindAnswer::Bound | BindAnswer::Collision { .. } => None,
    }
}

fn creates(step: &TargetStep, task: &Arc<str>) -> bool {
    match step {
        TargetStep::CreateReleaseTask(order) => order.name == *task,
        TargetStep::CreateBootstrapTask(order) => order.name == *task,
        _ => false,
    }
}

/// What was found, if it was found where the Target renders to now.
fn history(world: &World, target: &TargetRecord, history: Option<&History>) -> Option<BootstrapHistory> {
    let host = world.registries.get(&target.registry).map(|registry| &registry.host);
    history.filter(|history| Some(&history.host) == host).map(|history| history.found.clone())
}

/// Whether the watch shows this Target's binding to the artifact.
fn is_seen(world: &World, target: &TargetRecord, artifact: &ObjectName) -> bool {
    world.render_artifacts.get(artifact).is_some()
        && bindings_to(world, target, artifact).any(|binding| {
            binding.controller.as_ref().is_some_and(|controller| controller.uid == target.meta.uid)
        })
}

/// Whether a deed is answered, or shown by the watch.
fn is_settled(
    world: &World,
    answers: &BTreeMap<Arc<str>, (BindAnswer, Moment)>,
    target: &TargetRecord,
    deed: &Deed,
    since: Moment,
) -> bool {
    let here = |name: &Arc<str>| target.meta.name.sibling(name.clone());
    match deed {
        // An answer that is not Bound has its own time for asking again.
        Deed::Bind((artifact, _)) => {
            answers.get(artifact).is_some_and(|(_, came)| *came >= since)
                || is_seen(world, target, &here(artifact))
        }
        Deed::Unbind(artifact) => !is_bound(world, target, &here(artifact)),
        Deed::Create(task) => world.render_tasks.get(&here(task)).is_some(),
        Deed::RequestRender(uid, request) => {
            let mut tasks = world.render_tasks.by(&IndexKey::Owner(target.meta.name.clone()));
            let is_behind =
                tasks.any(|task| task.meta.uid == *uid && task.render_request.as_ref() != Some(request));
            !is_behind
        }
        Deed::Delete(uid) => {
            let own = world
                .render_tasks
                .by(&IndexKey::Owner(target.meta.name.clone()))
                .any(|task| task.meta.uid == *uid);
            !own
        }
        Deed::Protect(registry) => world
            .registries
            .get(registry)
            .is_none_or(|registry| registry.meta.has_finalizer(REGISTRY_REF_FINALIZER)),
    }
}

fn is_bound(world: &World, target: &TargetRecord, artifact: &ObjectName) -> bool {
    bindings_to(world, target, artifact).next().is_some()
}

/// The Target's bindings to the artifact. By the Target: an artifact may have as many as there are Targets.
fn bindings_to<'w>(
    world: &'w World,
    target: &TargetRecord,
    artifact: &ObjectName,
) -> impl Iterator<Item = &'w Arc<RenderBindingRecord>> {
    let own = world.render_bindings.by(&IndexKey::Owner(target.meta.name.clone()));
    own.filter(move |binding| binding.artifact == *artifact)
}

/// Whether `deed` is to be done now: it was not, or so long ago that it is done again.
fn begin(pass: &Pass<TargetKind>, deed: Deed) -> bool {
    let now = pass.now();
    let mut memory = pass.memory();
    if memory.done.contains_key(&deed) {
        return false;
    }
    memory.done.insert(deed, now);
    true
}

/// What became of a step.
enum Done {
    /// It was taken before, and the watch does not show it yet.
    Before,
    /// It was taken.
    Now,
    /// It was taken, and this is the Target since then.
    Changed(Arc<TargetRecord>),
    /// The API server will not have it so; it is kept for the status.
    Refused,
}

/// Takes the steps in their order; answers whether something was refused. After one that failed the others are taken that
/// do not need it; while the API server is away, only the status is still written, so that people can read how far the
/// Target is.
async fn take_steps(
    pass: &mut Pass<TargetKind>,
    mut target: Arc<TargetRecord>,
    steps: Vec<TargetStep>,
) -> Result<bool, PassError> {
    let mut first_error = Ok(());
    let (mut is_away, mut is_refused) = (false, false);
    let mut failed: Vec<&TargetStep> = Vec::new();
    let mut is_news = false;
    for step in &steps {
        let needs_none = || failed.iter().all(|failed| step.goes_without(failed));
        let may_go_on = match step {
            // People are told of a step once, when it is taken.
            TargetStep::Emit(_) => is_news,
            TargetStep::WriteStatus(_) => needs_none(),
            _ => !is_away && needs_none(),
        };
        is_news = false;
        if !may_go_on {
            continue;
        }
        match perform(pass, &target, step).await {
            Ok(Done::Before) => {}
            Ok(Done::Now) => is_news = true,
            Ok(Done::Changed(changed)) => {
                target = changed;
                is_news = true;
            }
            Ok(Done::Refused) => is_refused = true,
            Err(error) => {
                failed.push(step);
                is_away |= error.is_away();
                first_error = first_error.and(Err(error));
            }
        }
    }
    first_error.map(|()| is_refused)
}

/// Takes one step.
async fn perform(
    pass: &mut Pass<TargetKind>,
    target: &TargetRecord,
    step: &TargetStep,
) -> Result<Done, PassError> {
    match step {
        TargetStep::AddFinalizer => {
            let held = ensure::<Target>(&pass.shared, &target.meta, TARGET_FINALIZER).await?;
            return Ok(held.map_or(Done::Now, |held| Done::Changed(keep(pass, &held))));
        }
        TargetStep::WriteStatus(status) => {
            let written = write_status(pass, target, status).await?;
            return Ok(written.map_or(Done::Now, Done::Changed));
        }
        TargetStep::ProtectRegistry(registry) => protect_registry(pass, registry).await?,
        TargetStep::Bind(order) => return bind(pass, target, order),
        TargetStep::Unbind { artifact } => unbind(pass, target, artifact)?,
        TargetStep::CreateReleaseTask(order) => return create_release_task(pass, target, order).await,
        TargetStep::CreateBootstrapTask(order) => return create_bootstrap_task(pass, target, order).await,
        TargetStep::LookUpBootstrapHistory { registry, repository } => {
            let now = pass.now();
            let too_early = pass.memory().lookup.as_ref().is_some_and(|failed| now < failed.until);
            if !pass.errand_out && !too_early {
                let host = pass.shared.cache.read().registries.get(registry).map(|found| found.host.clone());
                let errand =
                    look_up(pass.shared.clone(), pass.name.clone(), registry.clone(), repository.clone());
                pass.send_errand(host.as_deref().unwrap_or_default(), errand);
            }
        }
        TargetStep::RequestRender { name, uid, request } => {
            return request_render(pass, name, uid, request).await;
        }
        TargetStep::DeleteTask { name, uid } => return delete_task(pass, name, uid).await,
        TargetStep::RemoveFinalizer => remove_own_finalizer(pass, target).await?,
        TargetStep::Emit(order) => {
            pass.shared.events.emit(Regarding::new("Target", &target.meta), order.clone());
        }
    }
    Ok(Done::Now)
}

async fn write_status(
    pass: &Pass<TargetKind>,
    target: &TargetRecord,
    status: &solar_api::TargetStatus,
) -> Result<Option<Arc<TargetRecord>>, PassError> {
    let expect = Expect { uid: &target.meta.uid, resource_version: Some(&target.meta.resource_version) };
    let written = pass.write_status::<Target, _>(expect, &target.status.get(), status).await?;
    Ok(written.map(|written| keep(pass, &written)))
}

fn keep(pass: &Pass<TargetKind>, target: &Target) -> Arc<TargetRecord> {
    // The answer brings the userdata along, which is needed as soon as a bootstrap is wanted.
    pass.shared.payloads.keep(target.clone());
    own::keep(pass, target)
}

async fn protect_registry(pass: &Pass<TargetKind>, registry: &ObjectName) -> Result<(), PassError> {
    let deed = Deed::Protect(registry.clone());
    if pass.memory().done.contains_key(&deed) {
        return Ok(());
    }
    let meta = pass.shared.cache.read().registries.get(registry).map(|registry| registry.meta.clone());
    let Some(meta) = meta else { return Err(PassError::Outdated(registry.clone())) };
    protect::<Registry>(&pass.shared, &meta, REGISTRY_REF_FINALIZER).await?;
    begin(pass, deed);
    Ok(())
}

fn bind(pass: &Pass<TargetKind>, target: &TargetRecord, order: &BindOrder) -> Result<Done, PassError> {
    if !begin(pass, Deed::Bind((order.artifact.clone(), order.registry.clone()))) {
        return Ok(Done::Before);
    }
    let request = ArtifactRequest::Bind {
        owner: owner(target),
        coordinates: order.coordinates.clone(),
        registry: order.registry.clone(),
        render_task: order.render_task.to_string(),
        reply_to: pass.key(),
    };
    ask(pass, &order.artifact, request).map(|()| Done::Now)
}

fn unbind(pass: &Pass<TargetKind>, target: &TargetRecord, artifact: &Arc<str>) -> Result<(), PassError> {
    if !begin(pass, Deed::Unbind(artifact.clone())) {
        return Ok(());
    }
    ask(pass, artifact, ArtifactRequest::Unbind { owner: owner(target), reply_to: pass.key() })
}

fn owner(target: &TargetRecord) -> Owner {
    Owner { target: target.meta.name.clone(), uid: target.meta.uid.clone() }
}

fn ask(pass: &Pass<TargetKind>, artifact: &Arc<str>, request: ArtifactRequest) -> Result<(), PassError> {
    let to = ActorKey::new(RENDER_ARTIFACT, pass.name.sibling(artifact.clone()));
    pass.shared.request::<RenderArtifactKind>(&to, request).map_err(|(undelivered, _)| {
        let unasked = |deed: &Deed| match deed {
            Deed::Bind((asked, _)) | Deed::Unbind(asked) => asked == artifact,
            _ => false,
        };
        pass.memory().done.retain(|deed, _| !unasked(deed));
        PassError::Undelivered { to, undelivered }
    })
}

async fn create_release_task(
    pass: &Pass<TargetKind>,
    target: &TargetRecord,
    order: &ReleaseTaskOrder,
) -> Result<Done, PassError> {
    if !begin(pass, Deed::Create(order.name.clone())) {
        return Ok(Done::Before);
    }
    let made = async {
        let shared = &pass.shared;
        let release =
            shared.payloads.get::<Release>(&shared.api, &order.release, &order.release_revision).await?;
        let version = shared
            .payloads
            .get::<ComponentVersion>(&shared.api, &order.component_version, &order.component_version_revision)
            .await?;
        let config = release_config(order, &release, &version);
        let spec = spec(target, &order.coordinates, &order.registry, pass, Some(config), None);
        if !content::tag_matches_content(&spec) {
            // Release or ComponentVersion changed since it was decided upon; their own events wake this Target.
            return Err(PassError::Outdated(order.release.clone()));
        }
        create_task(pass, target, &order.name, spec).await
    }
    .await;
    note_created(pass, &order.name, made)
}

/// Keeps what came of the creation of `task`: one that was refused is not tried again at once.
fn note_created(
    pass: &Pass<TargetKind>,
    task: &Arc<str>,
    made: Result<Done, PassError>,
) -> Result<Done, PassError> {
    let until = pass.now() + REFUSED_AGAIN;
    let mut memory = pass.memory();
    let error = match made {
        Ok(done) => {
            memory.refused.remove(task);
            return Ok(done);
        }
        Err(error) => error,
    };
    memory.done.remove(&Deed::Create(task.clone()));
    let Some(cause) = error.refusal() else { return Err(error) };
    let before = memory.refused.insert(task.clone(), Refused { until, cause: cause.clone() });
    if before.is_none_or(|before| before.cause != cause) {
        tracing::warn!(target = %pass.name, %task, cause, "a RenderTask was refused");
    }
    Ok(Done::Refused)
}

fn release_config(order: &ReleaseTaskOrder, release: &Release, version: &ComponentVersion) -> ReleaseConfig {
    let resources = version.spec.resources.iter().map(|(name, access)| {
        let (host, _) = host::split_repository(&access.repository);
        let secret = order.pull_secrets.get(host.as_str()).map(ToString::to_string);
        (name.clone(), ResolvedResourceAccess::new(access.clone(), secret))
    });
    ReleaseConfig {
        chart: order.chart.clone(),
        input: ReleaseInput {
            component: LocalReference { name: version.spec.component_ref.name.clone() },
            resources: resources.collect(),
            entrypoint: version.spec.entrypoint.clone(),
        },
        target_namespace: release.spec.target_namespace.clone().unwrap_or_default(),
        values: release.spec.values.clone().unwrap_or_default(),
    }
}

async fn create_bootstrap_task(
    pass: &Pass<TargetKind>,
    target: &TargetRecord,
    order: &BootstrapTaskOrder,
) -> Result<Done, PassError> {
    pass.memory().given = Some(order.given);
    if !begin(pass, Deed::Create(order.name.clone())) {
        return Ok(Done::Before);
    }
    let made = async {
        let shared = &pass.shared;
        let whole = shared.payloads.get::<Target>(&shared.api, &pass.name, &target.meta.revision()).await?;
        let userdata = whole.spec.userdata.clone().unwrap_or_default();
        if solar_core::hash::PayloadHash::of_object(Some(&userdata)) != target.userdata {
            return Err(PassError::Outdated(pass.name.clone()));
        }
        let config = BootstrapConfig {
            chart: order.chart.clone(),
            input: BootstrapInput { releases: order.releases.clone(), userdata },
        };
        let spec = spec(target, &order.coordinates, &order.registry, pass, None, Some(config));
        create_task(pass, target, &order.name, spec).await
    }
    .await;
    note_created(pass, &order.name, made)
}

fn spec(
    target: &TargetRecord,
    coordinates: &Coordinates,
    registry: &ObjectName,
    pass: &Pass<TargetKind>,
    release: Option<ReleaseConfig>,
    bootstrap: Option<BootstrapConfig>,
) -> RenderTaskSpec {
    let plain_http =
        pass.shared.cache.read().registries.get(registry).is_some_and(|registry| registry.plain_http);
    let name = &target.meta.name;
    RenderTaskSpec {
        type_: if release.is_some() { RenderTaskType::Release } else { RenderTaskType::Bootstrap },
        release,
        bootstrap,
        repository: coordinates.repository.to_string(),
        tag: coordinates.tag.to_string(),
        base_url: coordinates.base_url.to_string(),
        registry_ref: Some(reference(&name.namespace, registry)),
        push_secret_ref: None,
        plain_http,
        failed_job_ttl: None,
        owner_kind: Target::kind(&()).into_owned(),
        owner_name: name.name.to_string(),
        owner_namespace: name.namespace.to_string(),
    }
}

/// Whether `spec` has more than `levels` maps and lists inside each other.
fn nests_deeper(spec: &RenderTaskSpec, levels: usize) -> bool {
    fn deeper(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels == 0 || items.iter().any(|value| deeper(value, levels - 1)),
            Value::Object(fields) => levels == 0 || fields.values().any(|value| deeper(value, levels - 1)),
            _ => false,
        }
    }
    // All else is flat. With how many levels each is inside, its own among them.
    let values = spec.release.iter().map(|release| (&release.values, 3));
    let userdata = spec.bootstrap.iter().map(|bootstrap| (&bootstrap.input.userdata, 4));
    values.chain(userdata).any(|(free, inside)| free.values().any(|value| deeper(value, levels - inside)))
}

async fn create_task(
    pass: &Pass<TargetKind>,
    target: &TargetRecord,
    name: &Arc<str>,
    spec: RenderTaskSpec,
) -> Result<Done, PassError> {
    let task = RenderTask {
        metadata: ObjectMeta {
            name: Some(name.to_string()),
            namespace: Some(pass.name.namespace.to_string()),
            owner_references: Some(vec![controlled_by::<Target>(&target.meta.name, &target.meta.uid)]),
            // Its first attempt is the one that was asked for.
            annotations: target
                .render_request
                .as_ref()
                .map(|request| BTreeMap::from([(RENDER_REQUEST_ANNOTATION.to_owned(), request.to_string())])),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    };
    if nests_deeper(&task.spec, MOST_LEVELS) {
        let problem = Problem::Invalid(format!(
            "spec nests deeper than {MOST_LEVELS} levels: spec.values of the Release or spec.userdata of the Target has \
             to be flatter"
        ));
        let name = pass.name.sibling(name.clone()).to_string();
        return Err(ApiError { verb: "create", kind: "RenderTask", name, problem }.into());
    }
    match pass.shared.api.create(&task).await {
        Ok(created) => {
            pass.shared.payloads.keep(created);
            Ok(Done::Now)
        }
        // The watch will show whose it is.
        Err(ApiError { problem: Problem::AlreadyExists, .. }) => Ok(Done::Before),
        Err(error) => Err(error.into()),
    }
}

async fn request_render(
    pass: &Pass<TargetKind>,
    name: &Arc<str>,
    uid: &str,
    request: &str,
) -> Result<Done, PassError> {
    let deed = Deed::RequestRender(uid.into(), request.into());
    if !begin(pass, deed.clone()) {
        return Ok(Done::Before);
    }
    let expect = Expect { uid, resource_version: None };
    let change = json!({ "metadata": { "annotations": { RENDER_REQUEST_ANNOTATION: request } } });
    match pass.shared.api.merge::<RenderTask>(&pass.name.sibling(name.clone()), expect, change).await {
        Ok(_) => Ok(Done::Now),
        Err(error) => {
            pass.memory().done.remove(&deed);
            Err(error.into())
        }
    }
}

async fn delete_task(pass: &Pass<TargetKind>, name: &Arc<str>, uid: &str) -> Result<Done, PassError> {
    if !begin(pass, Deed::Delete(uid.into())) {
        return Ok(Done::Before);
    }
    let expect = Expect { uid, resource_version: None };
    match pass.shared.api.delete_if_there::<RenderTask>(&pass.name.sibling(name.clone()), expect).await {
        Ok(true) => Ok(Done::Now),
        // It is gone already; on a conflict another task has the name by now.
        Ok(false) | Err(ApiError { problem: Problem::Conflict, .. }) => Ok(Done::Before),
        Err(error) => {
            pass.memory().done.remove(&Deed::Delete(uid.into()));
            Err(error.into())
        }
    }
}

/// Lets the Target go once API reads show nothing of it.
async fn remove_own_finalizer(pass: &Pass<TargetKind>, target: &TargetRecord) -> Result<(), PassError> {
    let api = &pass.shared.api;
    let (namespace, name) = (Some(&*pass.name.namespace), &*pass.name.name);
    let tasks = api.list_by::<RenderTask>(namespace, "spec.ownerName", name).await?;
    let owned = |owners: &Option<Vec<_>>| {
        let mut owners = owners.iter().flatten();
        owners.any(|owner: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| {
            *owner.uid == *target.meta.uid
        })
    };
    let task_left = tasks.iter().any(|task| owned(&task.metadata.owner_references));
    let bindings = api.list_by::<RenderBinding>(namespace, "spec.ownerName", name).await?;
    let binding_left = bindings.iter().any(|binding| {
        binding.spec.owner_kind == "Target" && binding.spec.owner_namespace == *pass.name.namespace
    });
    if task_left || binding_left {
        // The watch is behind the API server; its next event wakes this actor.
        return Err(PassError::Outdated(pass.name.clone()));
    }
    if let Some(let_go) = remove_own::<Target>(&pass.shared, &target.meta, TARGET_FINALIZER).await? {
        keep(pass, &let_go);
    }
    Ok(())
}

/// The highest bootstrap version that artifacts or tags in the Target's repository bear.
async fn look_up(
    shared: Arc<Shared>,
    target: ObjectName,
    registry: ObjectName,
    repository: Box<str>,
) -> Result<History, String> {
    let base_url = shared.cache.read().registries.get(&registry).map(|registry| registry.host.clone());
    let base_url = base_url.ok_or_else(|| format!("Registry {registry} does not exist"))?;
    let artifacts = shared
        .api
        .list_by::<RenderArtifact>(Some(&target.namespace), "spec.repository", &repository)
        .await
        .map_err(|error| error.to_string())?;
    let endpoint =
        access::endpoint(&shared, "Target", &target.namespace, Some(&registry), &base_url, &repository)
            .await
            .map_err(|error| error.to_string())?;
    let tags = shared.registry.tags(&endpoint, &repository).await.map_err(|error| error.to_string())?;
    let of_artifacts = artifacts.iter().map(|artifact| artifact.spec.tag.as_str());
    let versions =
        of_artifacts.chain(tags.iter().map(String::as_str)).filter_map(layout::parse_bootstrap_tag);
    let found = BootstrapHistory { highest: versions.max().unwrap_or(0) };
    Ok(History { host: base_url, found })
}
