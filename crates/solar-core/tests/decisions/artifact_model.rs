//! The artifact protocol against a small API server and registry, with lag, lost answers, restarts and kills.
//!
//! Three things must hold after every step: no clean-up begins while a binding exists and none is made during it; a tag
//! is bound or has an artifact; a chart that counts as pushed is there. And whatever happened, once faults stop the
//! wanted end is reached.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use solar_api::names::RENDER_ARTIFACT_FINALIZER;
use solar_core::artifact::{
    self, ArtifactMemory, ArtifactStep, BindDecision, BindingChange, CleanupProblem, Owner, PushDecision,
    PushRequest, Sighting, UNANSWERED_WRITE, View, Written,
};
use solar_core::object::ObjectName;
use solar_core::overlay::Own;
use solar_core::packed::Packed;
use solar_core::record::{RenderArtifactRecord, RenderBindingRecord, TargetRecord};
use solar_core::world::World;

use crate::artifacts::{OPTIONS, a_binding, an_artifact, coordinates, name, registry, seconds};
use crate::support::{edit, target};

const TARGETS: [&str; 2] = ["berlin", "hamburg"];
const DIGEST: &str = "sha256:aa";
const CALM: [Deed; 8] = [
    Deed::Ask(0),
    Deed::Pass,
    Deed::Ask(1),
    Deed::Pass,
    Deed::Job(Push::Answered),
    Deed::Watch(0, usize::MAX),
    Deed::Watch(1, usize::MAX),
    Deed::Pass,
];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Deed {
    /// A Target wants the chart, or no longer.
    Want(usize, bool),
    /// A Target asks for what it lacks.
    Ask(usize),
    /// A Target is gone from one moment to the next, or there is one of its name again.
    DropTarget(usize),
    MakeTarget(usize),
    /// The garbage collector removes bindings whose owner is gone.
    Collect,
    /// Somebody deletes the artifact.
    Delete,
    /// Somebody makes a binding for a Target, past the actor.
    Restore(usize),
    /// A while in which nothing goes wrong and no errand ends.
    Calm,
    Pass,
    /// The watch tells of the next states: of the artifact, the bindings.
    Watch(usize, usize),
    /// What is on its way to the registry goes on.
    Job(Push),
    Errand(Attempt),
    /// A write without an answer takes effect.
    Land(usize),
    Tick(u64),
    /// The API request after so many others fails, with or without effect.
    Fault(u8, bool),
    /// The process is killed and started again.
    Restart,
    /// Root retires the actor if it says that it may.
    Retire,
}

/// How a job ends that finds no chart.
#[derive(Clone, Copy, Debug)]
enum Push {
    Answered,
    Unanswered,
    Refused,
    /// The registry was not found, for instance.
    NotBegun,
}

/// How an attempt to delete the tag ends.
#[derive(Clone, Copy, Debug)]
enum Attempt {
    Deleted,
    /// The tag is gone, but an earlier DELETE of the attempt got no answer.
    DeletedTwice,
    Unanswered,
    Refused,
    NoCredentials,
    /// The errand dies.
    Cut,
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Put,
    Delete,
}

#[derive(Clone, Debug)]
enum Request {
    Bind(Owner),
    Unbind(Owner),
    OpenPush(Owner),
    Pushed(u64),
    PushFailed(u64, Written),
}

#[derive(Clone, Debug)]
struct Job {
    ticket: u64,
    known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Errand {
    Look,
    CleanUp,
    /// A look with the credentials of a Target that wants to bind.
    Sight,
}

/// A request that failed; the pass ends.
struct Failed;

type Bindings = BTreeMap<Arc<str>, RenderBindingRecord>;

struct Model {
    now: Duration,
    counter: u64,
    wants: BTreeMap<&'static str, bool>,
    uids: BTreeMap<&'static str, String>,
    /// Every state of the API server, and how far the watch is.
    artifacts: Vec<Option<RenderArtifactRecord>>,
    bindings: Vec<Bindings>,
    seen: [usize; 2],
    world: World,
    fault: Option<(u8, bool)>,
    /// Whether the tag holds the chart, and what may still happen to it until when.
    tag: bool,
    in_flight: Vec<(Write, Duration)>,
    memory: ArtifactMemory,
    started: Duration,
    requests: VecDeque<Request>,
    job: Option<Job>,
    errand: Option<Errand>,
    attempt: Option<Attempt>,
    /// Requests that wait for a look.
    waiting: Vec<Request>,
}

impl Model {
    fn new() -> Self {
        let mut model = Self {
            now: Duration::ZERO,
            counter: 0,
            wants: TARGETS.map(|target| (target, false)).into(),
            uids: BTreeMap::new(),
            artifacts: vec![None],
            bindings: vec![Bindings::new()],
            seen: [0, 0],
            world: World::default(),
            fault: None,
            tag: false,
            in_flight: Vec::new(),
            memory: ArtifactMemory::default(),
            started: Duration::ZERO,
            requests: VecDeque::new(),
            job: None,
            errand: None,
            attempt: None,
            waiting: Vec::new(),
        };
        for target in TARGETS {
            model.make_target(target);
        }
        model
    }

    fn count(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }

    // ---- Targets: the watch shows them at once ----

    fn make_target(&mut self, name: &'static str) {
        if self.uids.contains_key(name) {
            return;
        }
        let uid = format!("uid-{}", self.count());
        let mut record = TargetRecord::from(&target("edge", name, "charts"));
        record.meta.uid = uid.as_str().into();
        self.world.insert(record);
        self.uids.insert(name, uid);
    }

    fn drop_target(&mut self, name: &'static str) {
        self.uids.remove(name);
        self.wants.insert(name, false);
        self.world.remove::<TargetRecord>(&ObjectName::new("edge", name));
    }

    fn ask(&mut self, name: &'static str) {
        let Some(uid) = self.uids.get(name) else { return };
        let owner = Owner { target: ObjectName::new("edge", name), uid: uid.as_str().into() };
        let bound = self.bindings().values().any(|binding| binding.owner == owner.target);
        let request = match (self.wants[name], bound && self.artifact().is_some()) {
            (true, true)
                if self.artifact().is_some_and(|artifact| artifact.status.get().digest.is_some()) =>
            {
                return;
            }
            (true, true) if !self.holds(&owner) => Request::Bind(owner),
            (true, true) if self.job.is_some() => return,
            (true, true) => Request::OpenPush(owner),
            (true, false) => Request::Bind(owner),
            (false, _) if bound => Request::Unbind(owner),
            (false, _) => return,
        };
        self.requests.push_back(request);
    }

    fn holds(&self, owner: &Owner) -> bool {
        let mut bindings = self.bindings().values();
        bindings.any(|binding| binding.controller.as_ref().is_some_and(|c| c.uid == owner.uid))
    }

    // ---- The API server ----

    fn artifact(&self) -> Option<&RenderArtifactRecord> {
        self.artifacts.last().and_then(Option::as_ref)
    }

    fn bindings(&self) -> &Bindings {
        self.bindings.last().expect("there is always a state")
    }

    /// Carries out a request, unless it is the one that fails.
    fn request<T>(&mut self, effect: impl FnOnce(&mut Self) -> T) -> Result<T, Failed> {
        match self.fault {
            Some((0, with_effect)) => {
                self.fault = None;
                if with_effect {
                    effect(self);
                }
                return Err(Failed);
            }
            Some((left, with_effect)) => self.fault = Some((left - 1, with_effect)),
            None => {}
        }
        Ok(effect(self))
    }

    fn store_artifact(&mut self, artifact: Option<RenderArtifactRecord>) -> Option<RenderArtifactRecord> {
        let version = self.count();
        let artifact = artifact.map(|mut artifact| {
            artifact.meta.resource_version = version.into();
            artifact
        });
        let artifact = artifact.filter(|it| !it.meta.terminating || !it.meta.finalizers.is_empty());
        self.artifacts.push(artifact.clone());
        artifact
    }

    fn store_bindings(&mut self, change: impl FnOnce(&mut Bindings)) {
        let mut bindings = self.bindings().clone();
        change(&mut bindings);
        self.bindings.push(bindings);
    }

    /// Changes the artifact if it is the one that is meant.
    fn patch(&mut self, uid: &str, change: impl FnOnce(&mut RenderArtifactRecord)) -> Result<(), Failed> {
        let patched = self.request(|api| {
            let mut artifact = api.artifact().filter(|artifact| *artifact.meta.uid == *uid)?.clone();
            change(&mut artifact);
            let left = api.store_artifact(Some(artifact));
            Some(left)
        })?;
        match patched {
            None => {
                self.read()?;
                Err(Failed)
            }
            Some(Some(left)) => {
                self.keep_artifact(left);
                Ok(())
            }
            Some(None) => {
                self.memory.own_artifact = Some(Own::Gone { uid: uid.into() });
                Ok(())
            }
        }
    }

    // ---- The actor ----

    fn artifact_known(&mut self) -> Option<Arc<RenderArtifactRecord>> {
        View::of(&self.world, &name(), &mut self.memory).artifact
    }

    fn keep_artifact(&mut self, artifact: RenderArtifactRecord) {
        self.memory.own_artifact = Some(Own::Present { record: Arc::new(artifact), since: self.now });
    }

    fn keep_binding(&mut self, binding: RenderBindingRecord) {
        let key = binding.meta.name.name.clone();
        let own = Own::Present { record: Arc::new(binding), since: self.now };
        self.memory.own_bindings.insert(key, own);
    }

    fn read(&mut self) -> Result<(), Failed> {
        let (known, bound) = {
            let view = View::of(&self.world, &name(), &mut self.memory);
            (view.artifact.clone(), view.bindings.values().cloned().collect::<Vec<_>>())
        };
        let (artifact, bindings) = self.request(|api| (api.artifact().cloned(), api.bindings().clone()))?;
        match (artifact, known) {
            (Some(found), _) => self.keep_artifact(found),
            (None, Some(known)) => {
                self.memory.own_artifact = Some(Own::Gone { uid: known.meta.uid.clone() });
            }
            (None, None) => self.memory.own_artifact = None,
        }
        for known in bound {
            let key = known.meta.name.name.clone();
            if !bindings.contains_key(&key) {
                self.memory.own_bindings.insert(key, Own::Gone { uid: known.meta.uid.clone() });
            }
        }
        for binding in bindings.into_values() {
            self.keep_binding(binding);
        }
        self.memory.trusted = true;
        self.memory.confirmed = true;
        Ok(())
    }

    fn pass(&mut self) {
        let _ = self.reconcile();
    }

    fn reconcile(&mut self) -> Result<(), Failed> {
        self.memory.confirmed = false;
        self.take_in_attempt()?;
        if self.errand.is_none() {
            for request in std::mem::take(&mut self.waiting) {
                self.requests.push_front(request);
            }
        }
        let served = self.serve_all();
        self.memory.sighting = None;
        served?;
        self.settle_steps()
    }

    fn serve_all(&mut self) -> Result<(), Failed> {
        while let Some(request) = self.requests.pop_front() {
            self.memory.confirmed = false;
            if let Err(failed) = self.serve(&request) {
                self.requests.push_front(request);
                return Err(failed);
            }
        }
        Ok(())
    }

    fn settle_steps(&mut self) -> Result<(), Failed> {
        for _ in 0..50 {
            let view = View::of(&self.world, &name(), &mut self.memory);
            let uid = view.artifact.as_ref().map(|artifact| artifact.meta.uid.clone()).unwrap_or_default();
            match artifact::next(&self.world, &view, &mut self.memory, &OPTIONS, self.now) {
                ArtifactStep::Wait(_) => return Ok(()),
                step => self.perform(step, uid)?,
            }
        }
        panic!("the steps have no end");
    }

    fn serve(&mut self, request: &Request) -> Result<(), Failed> {
        match request {
            Request::Bind(owner) => self.bind(owner),
            Request::Unbind(owner) => self.unbind(owner),
            Request::OpenPush(owner) => self.open_push(owner),
            Request::Pushed(ticket) => self.pushed(*ticket),
            Request::PushFailed(ticket, written) => {
                self.memory.close_ticket(*ticket, *written);
                Ok(())
            }
        }
    }

    fn bind(&mut self, owner: &Owner) -> Result<(), Failed> {
        let view = View::of(&self.world, &name(), &mut self.memory);
        let registry = registry("charts");
        let decision =
            artifact::bind(&view, &mut self.memory, &name(), owner, &coordinates(), &registry, self.now);
        if decision == BindDecision::LookFirst {
            self.waiting.push(Request::Bind(owner.clone()));
            if self.errand.is_none() {
                self.send(Errand::Sight);
            }
        }
        let BindDecision::Proceed { binding, create_artifact } = decision else { return Ok(()) };
        match binding {
            BindingChange::None => {}
            BindingChange::Repoint(_) => unreachable!("there is one Registry"),
            BindingChange::Create => self.create_binding(owner)?,
            BindingChange::Recreate(old) => {
                self.delete_binding(&old)?;
                self.create_binding(owner)?;
            }
        }
        if create_artifact { self.create_artifact() } else { Ok(()) }
    }

    fn create_binding(&mut self, owner: &Owner) -> Result<(), Failed> {
        assert!(self.errand != Some(Errand::CleanUp), "a binding appears during a clean-up");
        let owner_name = owner.target.name.clone();
        let created = self.request(|api| {
            let mut binding = RenderBindingRecord::from(&a_binding(&owner_name, "charts"));
            let key = binding.meta.name.name.clone();
            if api.bindings().contains_key(&key) {
                return None;
            }
            binding.meta.uid = format!("uid-{}", api.count()).into();
            binding.meta.resource_version = api.count().into();
            Arc::make_mut(binding.controller.as_mut()?).uid = owner.uid.clone();
            api.store_bindings(|bindings| drop(bindings.insert(key, binding.clone())));
            Some(binding)
        })?;
        let Some(created) = created else {
            self.read()?;
            return Err(Failed);
        };
        self.keep_binding(created);
        Ok(())
    }

    fn restore(&mut self, target: &'static str) {
        let Some(uid) = self.uids.get(target).cloned() else { return };
        let mut binding = RenderBindingRecord::from(&a_binding(target, "charts"));
        let key = binding.meta.name.name.clone();
        if self.bindings().contains_key(&key) {
            return;
        }
        binding.meta.uid = format!("uid-{}", self.count()).into();
        binding.meta.resource_version = self.count().into();
        if let Some(controller) = &mut binding.controller {
            Arc::make_mut(controller).uid = uid.into();
        }
        self.store_bindings(|bindings| drop(bindings.insert(key, binding)));
    }

    fn create_artifact(&mut self) -> Result<(), Failed> {
        let created = self.request(|api| {
            if api.artifact().is_some() {
                return None;
            }
            let mut artifact = RenderArtifactRecord::from(&an_artifact());
            artifact.meta.uid = format!("uid-{}", api.count()).into();
            artifact.status = Packed::default();
            api.store_artifact(Some(artifact))
        })?;
        match created {
            Some(created) => {
                let uid = created.meta.uid.clone();
                self.keep_artifact(created);
                self.memory.trusted = true;
                self.memory.created(&uid, self.now);
                Ok(())
            }
            None => self.read(),
        }
    }

    fn delete_binding(&mut self, binding: &RenderBindingRecord) -> Result<(), Failed> {
        let key = binding.meta.name.name.clone();
        self.request(|api| {
            api.store_bindings(|bindings| {
                if bindings.get(&key).is_some_and(|there| there.meta.uid == binding.meta.uid) {
                    bindings.remove(&key);
                }
            });
        })?;
        self.memory.own_bindings.insert(key, Own::Gone { uid: binding.meta.uid.clone() });
        Ok(())
    }

    fn unbind(&mut self, owner: &Owner) -> Result<(), Failed> {
        let view = View::of(&self.world, &name(), &mut self.memory);
        let decision = artifact::unbind(&view, &mut self.memory, owner, self.now);
        assert_eq!(decision.repin, None, "there is one Registry");
        decision.delete.iter().try_for_each(|binding| self.delete_binding(binding))
    }

    fn open_push(&mut self, owner: &Owner) -> Result<(), Failed> {
        let request = PushRequest { coordinates: coordinates(), owner: Some(owner.clone()), digest: None };
        let decide = |model: &mut Self| {
            let view = View::of(&model.world, &name(), &mut model.memory);
            artifact::open_push(&view, &mut model.memory, &request, model.now)
        };
        let mut decision = decide(self);
        if decision == PushDecision::ReadFirst {
            self.read()?;
            decision = decide(self);
        }
        if let PushDecision::Granted { ticket, known_digest } = decision {
            self.job = Some(Job { ticket: ticket.id, known: known_digest.is_some() });
        }
        Ok(())
    }

    fn pushed(&mut self, ticket: u64) -> Result<(), Failed> {
        let Some(open) = self.memory.ticket.clone().filter(|open| open.id == ticket) else { return Ok(()) };
        let artifact =
            self.artifact_known().filter(|artifact| Some(&artifact.meta.uid) == open.artifact_uid.as_ref());
        if let Some(artifact) = artifact {
            self.patch(&artifact.meta.uid, |artifact| {
                edit(&mut artifact.status, |status| status.digest = Some(DIGEST.into()));
            })?;
            if artifact.meta.terminating {
                self.memory.looked = Some(artifact.meta.uid.clone());
            }
        }
        self.memory.close_ticket(ticket, Written::Answered);
        Ok(())
    }

    fn perform(&mut self, step: ArtifactStep, uid: Box<str>) -> Result<(), Failed> {
        match step {
            ArtifactStep::Wait(_) => Ok(()),
            ArtifactStep::Read => self.read(),
            ArtifactStep::AddFinalizer
            | ArtifactStep::ForgetCleanupFailure
            | ArtifactStep::Repin(_)
            | ArtifactStep::LetGo(_)
            | ArtifactStep::Yield(_) => {
                unreachable!("nobody changed it")
            }
            ArtifactStep::SetChartUrl(url) => {
                self.patch(&uid, |artifact| edit(&mut artifact.status, |status| status.chart_url = Some(url)))
            }
            ArtifactStep::CheckOwner(binding) => self.check_owner(&binding),
            ArtifactStep::DeleteSelf => self.patch(&uid, |artifact| artifact.meta.terminating = true),
            ArtifactStep::AnnounceKept => {
                self.memory.announced = Some(uid);
                Ok(())
            }
            ArtifactStep::Look => {
                self.send(Errand::Look);
                Ok(())
            }
            ArtifactStep::CleanUp => {
                assert!(self.bindings().is_empty(), "a clean-up begins while a binding exists");
                self.send(Errand::CleanUp);
                Ok(())
            }
            ArtifactStep::RemoveFinalizer => self.patch(&uid, |artifact| {
                artifact.meta.finalizers = artifact
                    .meta
                    .finalizers
                    .iter()
                    .filter(|f| ***f != *RENDER_ARTIFACT_FINALIZER)
                    .cloned()
                    .collect();
            }),
        }
    }

    fn send(&mut self, errand: Errand) {
        assert!(self.errand.is_none(), "two errands at once");
        self.memory.errand = true;
        self.errand = Some(errand);
    }

    fn check_owner(&mut self, binding: &RenderBindingRecord) -> Result<(), Failed> {
        let uid = self.uids.get(&*binding.owner.name).cloned();
        let holder = binding.controller.as_ref().map(|controller| controller.uid.clone()).unwrap_or_default();
        if uid.is_some_and(|uid| *uid == *holder) {
            return Err(Failed);
        }
        self.unbind(&Owner { target: binding.owner.clone(), uid: holder })
    }

    // ---- What goes to the registry ----

    fn write(&mut self, write: Write) {
        self.tag = matches!(write, Write::Put);
    }

    fn lose(&mut self, write: Write) {
        self.in_flight.push((write, self.now + UNANSWERED_WRITE));
    }

    fn go_on_with_job(&mut self, push: Push) {
        let Some(job) = self.job.take() else { return };
        let request = if job.known || self.tag {
            Request::Pushed(job.ticket)
        } else {
            match push {
                Push::Answered => {
                    self.write(Write::Put);
                    Request::Pushed(job.ticket)
                }
                Push::Unanswered => {
                    self.lose(Write::Put);
                    Request::PushFailed(job.ticket, Written::Unanswered(self.now))
                }
                Push::Refused => Request::PushFailed(job.ticket, Written::Answered),
                Push::NotBegun => Request::PushFailed(job.ticket, Written::Nothing),
            }
        };
        self.requests.push_back(request);
    }

    fn end_errand(&mut self, attempt: Attempt) {
        if self.errand == Some(Errand::CleanUp) && self.tag {
            match attempt {
                Attempt::Deleted => self.write(Write::Delete),
                Attempt::DeletedTwice => {
                    self.write(Write::Delete);
                    self.lose(Write::Delete);
                }
                Attempt::Unanswered | Attempt::Cut => self.lose(Write::Delete),
                Attempt::Refused | Attempt::NoCredentials => {}
            }
        }
        if self.errand.is_some() {
            self.attempt = Some(attempt);
        }
    }

    fn take_in_attempt(&mut self) -> Result<(), Failed> {
        let Some(attempt) = self.attempt.take() else { return Ok(()) };
        let Some(errand) = self.errand.take() else { return Ok(()) };
        self.memory.errand = false;
        let later = self.now + seconds(1);
        match (errand, attempt) {
            (Errand::Look, Attempt::Deleted | Attempt::DeletedTwice) => {
                let Some(artifact) = self.artifact_known() else { return Ok(()) };
                if !self.tag {
                    self.patch(&artifact.meta.uid, |artifact| {
                        edit(&mut artifact.status, |status| status.digest = None);
                    })?;
                }
                self.memory.looked = Some(artifact.meta.uid.clone());
            }
            (Errand::Look, _) => self.memory.look_at = Some(later),
            (Errand::Sight, attempt) => {
                let Some(artifact) = self.artifact_known() else { return Ok(()) };
                let found = match attempt {
                    Attempt::Deleted | Attempt::DeletedTwice => Ok(self.tag.then(|| DIGEST.to_owned())),
                    _ => Err("no answer".to_owned()),
                };
                self.memory.sighting =
                    Some(Sighting { uid: artifact.meta.uid.clone(), registry: registry("charts"), found });
            }
            (Errand::CleanUp, Attempt::NoCredentials) => {
                let Some(artifact) = self.artifact_known() else { return Ok(()) };
                if self.memory.has_nothing_to_delete(&artifact) {
                    self.memory.cleanup.done = true;
                } else {
                    self.memory.cleanup.retry_at = Some(later);
                    self.memory.cleanup.problem = Some(CleanupProblem::NoCredentials);
                }
            }
            (Errand::CleanUp, Attempt::Refused) => {
                self.memory.untouched = None;
                self.memory.cleanup.retry_at = Some(later);
                self.memory.cleanup.problem = Some(CleanupProblem::Refused);
            }
            (Errand::CleanUp, Attempt::Unanswered | Attempt::Cut) => {
                self.memory.untouched = None;
                self.memory.cleanup.problem = Some(CleanupProblem::Other);
                self.memory.under_way_until = Some(self.now + UNANSWERED_WRITE);
                self.memory.cleanup.retry_at = Some(later);
            }
            (Errand::CleanUp, Attempt::Deleted) => self.memory.cleanup.done = true,
            (Errand::CleanUp, Attempt::DeletedTwice) => {
                self.memory.under_way_until = Some(self.now + UNANSWERED_WRITE);
                self.memory.cleanup.done = true;
            }
        }
        Ok(())
    }

    // ---- The rest of the world ----

    fn watch(&mut self, kind: usize, states: usize) {
        for _ in 0..states {
            let known = [self.artifacts.len(), self.bindings.len()][kind];
            if self.seen[kind] + 1 >= known {
                return;
            }
            self.seen[kind] += 1;
            self.show(kind);
        }
    }

    fn show(&mut self, kind: usize) {
        if kind == 0 {
            match &self.artifacts[self.seen[0]] {
                Some(artifact) => drop(self.world.insert(artifact.clone())),
                None => drop(self.world.remove::<RenderArtifactRecord>(&name())),
            }
            return;
        }
        for target in TARGETS {
            let binding = ObjectName::new(
                "edge",
                artifact::binding_name(&name().name, &ObjectName::new("edge", target)),
            );
            match self.bindings[self.seen[1]].get(&binding.name) {
                Some(record) => drop(self.world.insert(record.clone())),
                None => drop(self.world.remove::<RenderBindingRecord>(&binding)),
            }
        }
    }

    fn restart(&mut self) {
        if self.errand == Some(Errand::CleanUp) && self.attempt.is_none() && self.tag {
            self.lose(Write::Delete);
        }
        if self.job.take().is_some_and(|job| !job.known) && !self.tag {
            self.lose(Write::Put);
        }
        self.started = self.now;
        self.memory = ArtifactMemory::new(self.now + UNANSWERED_WRITE);
        self.requests.clear();
        self.waiting.clear();
        self.errand = None;
        self.attempt = None;
        self.fault = None;
        self.watch(0, usize::MAX);
        self.watch(1, usize::MAX);
    }

    fn retire(&mut self) {
        let idle = self.world.render_artifacts.get(&name()).is_none()
            && self.memory.is_idle(self.now)
            && self.memory.own_artifact.is_none()
            && self.memory.own_bindings.is_empty()
            && self.requests.is_empty();
        if idle {
            let last_ticket = self.memory.last_ticket;
            self.memory = ArtifactMemory::new(self.started + UNANSWERED_WRITE);
            self.memory.last_ticket = last_ticket;
        }
    }

    fn apply(&mut self, deed: &Deed) {
        match *deed {
            Deed::Want(target, wanted) => {
                let wanted = wanted && self.uids.contains_key(TARGETS[target]);
                self.wants.insert(TARGETS[target], wanted);
            }
            Deed::Ask(target) => self.ask(TARGETS[target]),
            Deed::DropTarget(target) => self.drop_target(TARGETS[target]),
            Deed::MakeTarget(target) => self.make_target(TARGETS[target]),
            Deed::Collect => {
                let living: Vec<String> = self.uids.values().cloned().collect();
                let owned = |binding: &RenderBindingRecord| {
                    let holder = binding.controller.as_ref();
                    holder.is_some_and(|holder| living.iter().any(|uid| **uid == *holder.uid))
                };
                self.store_bindings(|bindings| bindings.retain(|_, binding| owned(binding)));
            }
            Deed::Delete => {
                if let Some(mut artifact) = self.artifact().cloned() {
                    artifact.meta.terminating = true;
                    self.store_artifact(Some(artifact));
                }
            }
            Deed::Restore(target) => self.restore(TARGETS[target]),
            Deed::Calm => {
                for deed in CALM {
                    self.apply(&deed);
                }
            }
            Deed::Pass => self.pass(),
            Deed::Watch(kind, states) => self.watch(kind, states),
            Deed::Job(push) => self.go_on_with_job(push),
            Deed::Errand(attempt) if self.attempt.is_none() => self.end_errand(attempt),
            Deed::Land(which) if which < self.in_flight.len() => {
                let (write, _) = self.in_flight.remove(which);
                self.write(write);
            }
            Deed::Errand(_) | Deed::Land(_) => {}
            Deed::Tick(by) => {
                self.now += seconds(by);
                let now = self.now;
                self.in_flight.retain(|(_, until)| now < *until);
            }
            Deed::Fault(after, with_effect) => self.fault = Some((after, with_effect)),
            Deed::Restart => self.restart(),
            Deed::Retire => self.retire(),
        }
        self.check();
    }

    fn check(&self) {
        let artifact = self.artifact();
        let held = artifact.is_some() || !self.bindings().is_empty();
        assert!(!self.tag || held, "the tag is nobody's");
        let Some(artifact) = artifact.filter(|artifact| artifact.status.get().digest.is_some()) else {
            return;
        };
        let counts = !artifact.meta.terminating || self.memory.looked.as_ref() == Some(&artifact.meta.uid);
        assert!(!counts || self.tag, "a chart that counts as pushed is gone");
    }

    /// No more faults: everybody does what is left to do.
    fn settle(&mut self) {
        self.fault = None;
        // Grace, waits and the look that follows a start are over well within this.
        for _ in 0..150 {
            for deed in [Deed::Calm, Deed::Errand(Attempt::Deleted), Deed::Pass, Deed::Tick(5)] {
                self.apply(&deed);
            }
            if self.end() == self.wanted_end() {
                return;
            }
        }
        assert_eq!(self.end(), self.wanted_end());
    }

    /// Who holds the artifact, whether it exists, and whether its tag does.
    fn end(&self) -> (Vec<String>, bool, bool) {
        let holders = self.bindings().values().map(|binding| binding.owner.name.to_string());
        (holders.collect(), self.artifact().is_some(), self.tag)
    }

    fn wanted_end(&self) -> (Vec<String>, bool, bool) {
        let mut wanted: Vec<_> = TARGETS.into_iter().filter(|target| self.wants[target]).collect();
        wanted.sort_by_key(|target| artifact::binding_name(&name().name, &ObjectName::new("edge", *target)));
        let any = !wanted.is_empty();
        (wanted.into_iter().map(Into::into).collect(), any, any)
    }
}

fn deed() -> impl Strategy<Value = Deed> {
    let target = || 0..TARGETS.len();
    prop_oneof![
        3 => (target(), any::<bool>()).prop_map(|(target, wanted)| Deed::Want(target, wanted)),
        8 => target().prop_map(Deed::Ask),
        1 => target().prop_map(Deed::DropTarget),
        1 => target().prop_map(Deed::MakeTarget),
        1 => Just(Deed::Collect),
        1 => Just(Deed::Delete),
        1 => target().prop_map(Deed::Restore),
        4 => Just(Deed::Calm),
        12 => Just(Deed::Pass),
        5 => (0..2_usize, 1..4_usize).prop_map(|(kind, states)| Deed::Watch(kind, states)),
        6 => prop_oneof![
            3 => Just(Push::Answered),
            2 => Just(Push::Unanswered),
            1 => Just(Push::Refused),
            1 => Just(Push::NotBegun),
        ].prop_map(Deed::Job),
        6 => prop_oneof![
            3 => Just(Attempt::Deleted),
            1 => Just(Attempt::DeletedTwice),
            1 => Just(Attempt::Unanswered),
            1 => Just(Attempt::Refused),
            1 => Just(Attempt::NoCredentials),
            1 => Just(Attempt::Cut),
        ].prop_map(Deed::Errand),
        3 => (0..3_usize).prop_map(Deed::Land),
        3 => (1..40_u64).prop_map(Deed::Tick),
        2 => (0..4_u8, any::<bool>()).prop_map(|(after, effect)| Deed::Fault(after, effect)),
        1 => Just(Deed::Restart),
        1 => Just(Deed::Retire),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_requests_faults_and_restarts_loses_or_orphans_a_tag(
        deeds in prop::collection::vec(deed(), 1..120),
    ) {
        let mut model = Model::new();
        for deed in &deeds {
            model.apply(deed);
        }
        model.settle();
    }
}
