//! A small cluster and registry in which plans are carried out. It checks as it goes what must never happen.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference, Time};
use kube::Resource;
use solar_api as api;
use solar_api::names::{REGISTRY_REF_FINALIZER, RENDER_REQUEST_ANNOTATION, TARGET_FINALIZER};
use solar_core::hash::{PayloadHash, sha256_hex};
use solar_core::object::{Meta, ObjectName};
use solar_core::record::{
    ComponentVersionRecord, GrantRecord, RegistryBindingRecord, RegistryRecord, ReleaseBindingRecord,
    ReleaseRecord, RenderArtifactRecord, RenderBindingRecord, RenderTaskRecord, TargetRecord,
};
use solar_core::target::{
    BindAnswer, BindOrder, BootstrapHistory, BootstrapTaskOrder, Coordinates, ReleaseTaskOrder, Stranger,
    TargetMemory, TargetOptions, TargetPlan, TargetStep, decide,
};
use solar_core::world::{Kept, World};
use solar_core::{content, host, layout, names};

use crate::support::{self, at};

type Objects<T> = BTreeMap<ObjectName, T>;

#[derive(Clone)]
pub struct Model {
    pub targets: Objects<api::Target>,
    pub releases: Objects<api::Release>,
    pub release_bindings: Objects<api::ReleaseBinding>,
    pub versions: Objects<api::ComponentVersion>,
    pub registries: Objects<api::Registry>,
    pub registry_bindings: Objects<api::RegistryBinding>,
    pub grants: Objects<api::ReferenceGrant>,
    pub tasks: Objects<api::RenderTask>,
    pub artifacts: Objects<api::RenderArtifact>,
    pub bindings: Objects<api::RenderBinding>,
    /// Digests by tag.
    pub tags: BTreeMap<Coordinates, String>,
    pub memory: Objects<TargetMemory>,
    pub options: TargetOptions,
    pub seconds: i64,
    pub events: Vec<String>,
    /// Names of Releases and Targets whose tasks fail, with the message.
    pub failing: BTreeMap<String, String>,
    /// Artifacts that are being cleaned up.
    pub terminating: BTreeSet<String>,
    /// What every bootstrap version was given, for as long as something of it exists.
    given: BTreeMap<(ObjectName, i64), PayloadHash>,
    serial: u64,
    pub status_writes: usize,
    /// What the watches of tasks, artifacts and bindings show, while they lag behind.
    shown: Option<Box<Shown>>,
}

type Shown = (Objects<api::RenderTask>, Objects<api::RenderArtifact>, Objects<api::RenderBinding>);

impl Default for Model {
    fn default() -> Self {
        Self {
            targets: Objects::new(),
            releases: Objects::new(),
            release_bindings: Objects::new(),
            versions: Objects::new(),
            registries: Objects::new(),
            registry_bindings: Objects::new(),
            grants: Objects::new(),
            tasks: Objects::new(),
            artifacts: Objects::new(),
            bindings: Objects::new(),
            tags: BTreeMap::new(),
            memory: Objects::new(),
            options: TargetOptions { strict: false, stale_grace: std::time::Duration::ZERO, watched: None },
            seconds: 1_000,
            events: Vec::new(),
            failing: BTreeMap::new(),
            terminating: BTreeSet::new(),
            given: BTreeMap::new(),
            serial: 0,
            status_writes: 0,
            shown: None,
        }
    }
}

pub fn name(text: &str) -> ObjectName {
    let (namespace, name) = text.split_once('/').unwrap();
    ObjectName::new(namespace, name)
}

fn key<T: Resource<DynamicType = ()>>(object: &T) -> ObjectName {
    let meta = object.meta();
    ObjectName::new(meta.namespace.as_deref().unwrap(), meta.name.as_deref().unwrap())
}

/// Puts `object` into `objects` under its name.
pub fn put<T: Resource<DynamicType = ()>>(objects: &mut Objects<T>, object: T) {
    objects.insert(key(&object), object);
}

fn fill<O, R: Kept + for<'a> From<&'a O>>(world: &mut World, objects: &Objects<O>) {
    for object in objects.values() {
        world.insert(R::from(object));
    }
}

impl Model {
    /// Target edge/berlin with the releases web and db, and the Registry edge/reg.
    pub fn scene() -> Self {
        let mut model = Self::default();
        let mut registry = support::registry("edge", "reg", "registry.example.com");
        registry.spec.target_pull_secret_name = Some("pull".into());
        put(&mut model.registries, registry);
        put(&mut model.targets, support::target("edge", "berlin", "reg"));
        for component in ["db", "web"] {
            model.bind_release("edge", component, "edge/berlin");
        }
        model
    }

    /// A ComponentVersion, Release and ReleaseBinding named after `component` in `namespace`.
    pub fn bind_release(&mut self, namespace: &str, component: &str, target: &str) {
        put(&mut self.versions, support::component_version(namespace, component, component));
        put(&mut self.releases, support::release(namespace, component, component));
        let binding = format!("{}-{component}", name(target).name);
        put(&mut self.release_bindings, support::release_binding(namespace, &binding, target, component));
    }

    pub fn world(&self) -> World {
        let mut world = World::default();
        fill::<_, TargetRecord>(&mut world, &self.targets);
        fill::<_, ReleaseRecord>(&mut world, &self.releases);
        fill::<_, ReleaseBindingRecord>(&mut world, &self.release_bindings);
        fill::<_, ComponentVersionRecord>(&mut world, &self.versions);
        fill::<_, RegistryRecord>(&mut world, &self.registries);
        fill::<_, RegistryBindingRecord>(&mut world, &self.registry_bindings);
        fill::<_, GrantRecord>(&mut world, &self.grants);
        let (tasks, artifacts, bindings) = match self.shown.as_deref() {
            Some((tasks, artifacts, bindings)) => (tasks, artifacts, bindings),
            None => (&self.tasks, &self.artifacts, &self.bindings),
        };
        fill::<_, RenderTaskRecord>(&mut world, tasks);
        fill::<_, RenderArtifactRecord>(&mut world, artifacts);
        fill::<_, RenderBindingRecord>(&mut world, bindings);
        world
    }

    /// From now on the watches of tasks, artifacts and bindings show nothing new.
    pub fn freeze(&mut self) {
        self.shown = Some(Box::new((self.tasks.clone(), self.artifacts.clone(), self.bindings.clone())));
    }

    /// The watches have caught up.
    pub fn thaw(&mut self) {
        self.shown = None;
    }

    pub fn plan(&self, target: &str) -> TargetPlan {
        let name = name(target);
        let world = self.world();
        let record = world.targets.get(&name).expect("the Target exists").clone();
        let memory = self.memory.get(&name).cloned().unwrap_or_default();
        let plan = decide(&world, &record, &memory, &self.options, at(self.seconds));
        let writes = plan.steps.iter().filter(|step| matches!(step, TargetStep::WriteStatus(_))).count();
        assert!(writes <= 1, "at most one status write: {plan:?}");
        plan
    }

    /// Decides and carries out once; whether there was anything to do.
    pub fn pass(&mut self, target: &str) -> bool {
        let plan = self.plan(target);
        self.carry_out(target, &plan);
        !plan.steps.is_empty()
    }

    /// Passes and renders until nothing is left to do for any Target.
    pub fn settle(&mut self) {
        self.thaw();
        for _ in 0..60 {
            let mut busy = false;
            for target in self.targets.keys().cloned().collect::<Vec<_>>() {
                busy |= self.pass(&target.to_string());
            }
            let before = (self.tasks.clone(), self.artifacts.clone());
            self.render();
            if !busy && before == (self.tasks.clone(), self.artifacts.clone()) {
                self.seconds += 1;
                for target in self.targets.keys() {
                    assert_eq!(self.plan(&target.to_string()).steps, [], "{target} has nothing left to do");
                }
                return;
            }
        }
        let plans: Vec<_> = self.targets.keys().map(|target| self.plan(&target.to_string())).collect();
        panic!("no end: {plans:#?}");
    }

    pub fn carry_out(&mut self, target: &str, plan: &TargetPlan) {
        let target = name(target);
        if self.shown.is_none() {
            // The watches have caught up, so earlier answers are forgotten.
            self.memory.entry(target.clone()).or_default().answers.clear();
        }
        for step in &plan.steps {
            self.step(&target, step);
        }
        self.seconds += 1;
    }

    fn step(&mut self, target: &ObjectName, step: &TargetStep) {
        match step {
            TargetStep::AddFinalizer => add_finalizer(self.meta(target), TARGET_FINALIZER),
            TargetStep::ProtectRegistry(registry) => {
                add_finalizer(
                    &mut self.registries.get_mut(registry).unwrap().metadata,
                    REGISTRY_REF_FINALIZER,
                );
            }
            TargetStep::Bind(order) => self.bind(target, order),
            TargetStep::CreateReleaseTask(order) => self.create_release_task(target, order),
            TargetStep::WriteStatus(status) => self.write_status(target, status),
            TargetStep::LookUpBootstrapHistory { repository, .. } => self.look_up(target, repository),
            TargetStep::CreateBootstrapTask(order) => self.create_bootstrap_task(target, order),
            TargetStep::Unbind { artifact } => self.unbind(target, artifact),
            TargetStep::RequestRender { name, request, .. } => {
                let task = self.tasks.get_mut(&target.sibling(name.clone())).unwrap();
                let annotations = task.metadata.annotations.get_or_insert_default();
                annotations.insert(RENDER_REQUEST_ANNOTATION.to_owned(), request.to_string());
            }
            TargetStep::DeleteTask { name, uid } => {
                let name = target.sibling(name.clone());
                let there =
                    self.tasks.get(&name).is_some_and(|t| t.metadata.uid.as_deref() == Some(uid.as_ref()));
                assert!(there || self.shown.is_some(), "the task exists");
                if there {
                    self.tasks.remove(&name);
                }
            }
            TargetStep::RemoveFinalizer => {
                let uid = self.uid(target);
                let left = self.bindings.values().any(|b| owned(&b.metadata, &uid));
                if self.shown.is_some() && (left || self.tasks.values().any(|t| owned(&t.metadata, &uid))) {
                    return; // The read by API found some.
                }
                assert!(!self.tasks.values().any(|task| owned(&task.metadata, &uid)), "tasks are left");
                assert!(
                    !self.bindings.values().any(|binding| owned(&binding.metadata, &uid)),
                    "bindings are left"
                );
                self.targets.remove(target);
            }
            TargetStep::Emit(event) => self.events.push(format!("{}: {}", event.reason, event.note)),
        }
    }

    fn meta(&mut self, target: &ObjectName) -> &mut ObjectMeta {
        &mut self.targets.get_mut(target).unwrap().metadata
    }

    fn uid(&self, target: &ObjectName) -> String {
        self.targets[target].metadata.uid.clone().unwrap()
    }

    fn owned_meta(&mut self, target: &ObjectName, name: &str) -> ObjectMeta {
        self.serial += 1;
        ObjectMeta {
            uid: Some(format!("made-{}", self.serial)),
            owner_references: Some(vec![OwnerReference {
                api_version: "solar.opendefense.cloud/v1alpha1".into(),
                kind: "Target".into(),
                name: target.name.to_string(),
                uid: self.uid(target),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..support::meta(&target.namespace, name)
        }
    }

    fn bind(&mut self, target: &ObjectName, order: &BindOrder) {
        let artifact = target.sibling(order.artifact.clone());
        let answer = self.answer(&artifact, order);
        if answer == BindAnswer::Bound {
            let binding = names::binding(&order.artifact, &target.name);
            let spec = api::RenderBindingSpec {
                render_artifact_ref: api::LocalReference { name: order.artifact.to_string() },
                owner_kind: "Target".into(),
                owner_name: target.name.to_string(),
                owner_namespace: target.namespace.to_string(),
                registry_ref: Some(order.registry.reference()),
            };
            let metadata = self.owned_meta(target, &binding);
            put(&mut self.bindings, api::RenderBinding { metadata, spec });
            let spec = api::RenderArtifactSpec {
                base_url: order.coordinates.base_url.to_string(),
                repository: order.coordinates.repository.to_string(),
                tag: order.coordinates.tag.to_string(),
                render_task_ref: order.render_task.to_string(),
                registry_ref: Some(order.registry.reference()),
            };
            let metadata = support::meta(&target.namespace, &order.artifact);
            self.artifacts.entry(artifact).or_insert(api::RenderArtifact { metadata, spec, status: None });
        }
        self.memory.entry(target.clone()).or_default().answers.insert(order.artifact.clone(), answer);
    }

    fn answer(&self, artifact: &ObjectName, order: &BindOrder) -> BindAnswer {
        let existing =
            self.artifacts.get(artifact).map(|a| Coordinates::of_artifact(&RenderArtifactRecord::from(a)));
        match existing {
            Some(with) if with != order.coordinates => {
                BindAnswer::Collision { with: Stranger::Artifact(with) }
            }
            _ if self.terminating.contains(artifact.name.as_ref()) => BindAnswer::Terminating {
                retry_after: std::time::Duration::from_secs(7),
                cause: "the registry does not answer".into(),
            },
            _ => BindAnswer::Bound,
        }
    }

    fn create_release_task(&mut self, target: &ObjectName, order: &ReleaseTaskOrder) {
        let release = self.releases[&order.release].clone();
        let version = self.versions[&order.component_version].clone();
        assert_eq!(Meta::of(&release.metadata).revision(), order.release_revision);
        assert_eq!(Meta::of(&version.metadata).revision(), order.component_version_revision);
        let resources = version.spec.resources.into_iter().map(|(name, access)| {
            let (host, _) = host::split_repository(&access.repository);
            let secret = order.pull_secrets.get(host.as_str()).map(ToString::to_string);
            (name, api::ResolvedResourceAccess::new(access, secret))
        });
        let config = api::ReleaseConfig {
            chart: order.chart.clone(),
            input: api::ReleaseInput {
                component: version.spec.component_ref,
                resources: resources.collect(),
                entrypoint: version.spec.entrypoint,
            },
            target_namespace: release.spec.target_namespace.unwrap_or_default(),
            values: release.spec.values.unwrap_or_default(),
        };
        let mut spec = Self::task_spec(target, &order.coordinates, &order.registry);
        spec.release = Some(config);
        assert!(content::tag_matches_content(&spec), "the tag stands for the content: {order:?}");
        self.create_task(target, &order.name, spec);
    }

    fn create_bootstrap_task(&mut self, target: &ObjectName, order: &BootstrapTaskOrder) {
        let status = self.targets[target].status.clone().unwrap_or_default();
        assert_eq!(status.bootstrap_version, order.given.version, "the version is in the status first");
        self.memory.entry(target.clone()).or_default().given = Some(order.given);
        let before = self.given.insert((target.clone(), order.given.version), order.given.input);
        assert!(
            before.is_none_or(|input| input == order.given.input),
            "version {} again",
            order.given.version
        );
        let userdata = self.targets[target].spec.userdata.clone().unwrap_or_default();
        let input = api::BootstrapInput { releases: order.releases.clone(), userdata };
        let mut spec = Self::task_spec(target, &order.coordinates, &order.registry);
        spec.type_ = api::RenderTaskType::Bootstrap;
        spec.bootstrap = Some(api::BootstrapConfig { chart: order.chart.clone(), input });
        assert_eq!(content::of_task(&spec), order.given.input);
        self.create_task(target, &order.name, spec);
    }

    fn task_spec(
        target: &ObjectName,
        coordinates: &Coordinates,
        registry: &ObjectName,
    ) -> api::RenderTaskSpec {
        api::RenderTaskSpec {
            type_: api::RenderTaskType::Release,
            release: None,
            bootstrap: None,
            repository: coordinates.repository.to_string(),
            tag: coordinates.tag.to_string(),
            base_url: coordinates.base_url.to_string(),
            registry_ref: Some(registry.reference()),
            push_secret_ref: None,
            plain_http: false,
            failed_job_ttl: None,
            owner_kind: "Target".into(),
            owner_name: target.name.to_string(),
            owner_namespace: target.namespace.to_string(),
        }
    }

    fn create_task(&mut self, target: &ObjectName, task: &str, spec: api::RenderTaskSpec) {
        let metadata = self.owned_meta(target, task);
        let task = api::RenderTask { metadata, spec, status: None };
        assert!(self.held(&task) || self.shown.is_some(), "bound before its task is created");
        // A task of that name that is there already stays.
        self.tasks.entry(key(&task)).or_insert(task);
    }

    fn artifact_of(task: &api::RenderTask) -> ObjectName {
        RenderTaskRecord::from(task).artifact().clone()
    }

    /// Whether the Target of `task` holds its artifact.
    fn held(&self, task: &api::RenderTask) -> bool {
        let uid = &task.metadata.owner_references.as_ref().unwrap()[0].uid;
        let artifact = Self::artifact_of(task);
        self.artifacts.contains_key(&artifact)
            && self
                .bindings
                .values()
                .any(|b| b.spec.render_artifact_ref.name == artifact.name.as_ref() && owned(&b.metadata, uid))
    }

    fn write_status(&mut self, target: &ObjectName, status: &api::TargetStatus) {
        let stored = &mut self.targets.get_mut(target).unwrap().status;
        assert_ne!(stored.as_ref(), Some(status), "a write without a difference");
        *stored = Some(status.clone());
        self.status_writes += 1;
        if self.shown.is_none() && reason_of(status, "BootstrapReady") == "True/Ready" {
            self.assert_pullable(status.chart_url.as_deref().unwrap());
        }
    }

    /// Every chart that the status names was pushed after its artifact existed.
    fn assert_pullable(&self, url: &str) {
        let bootstrap = self
            .tasks
            .values()
            .find(|task| Coordinates::of_task(&RenderTaskRecord::from(*task)).chart_url() == url);
        let bootstrap = bootstrap.expect("the bootstrap's task exists");
        let digest = |task: &api::RenderTask| {
            self.tags.get(&Coordinates::of_task(&RenderTaskRecord::from(task))).cloned()
        };
        assert!(digest(bootstrap).is_some() && self.held(bootstrap), "{url} can be pulled");
        for release in bootstrap.spec.bootstrap.as_ref().unwrap().input.releases.values() {
            let (base_url, repository) = host::split_repository(&release.repository);
            let coordinates = Coordinates {
                base_url: base_url.into(),
                repository: repository.into(),
                tag: release.tag.as_str().into(),
            };
            assert_eq!(self.tags.get(&coordinates), Some(&release.digest), "{coordinates} can be pulled");
        }
    }

    fn look_up(&mut self, target: &ObjectName, repository: &str) {
        let of_target = self.artifacts.iter().filter(|(name, _)| name.namespace == target.namespace);
        let artifacts =
            of_target.filter(|(_, a)| a.spec.repository == repository).map(|(_, a)| a.spec.tag.clone());
        let tags =
            self.tags.keys().filter(|c| c.repository.as_ref() == repository).map(|c| c.tag.to_string());
        let versions = artifacts.chain(tags).filter_map(|tag| layout::parse_bootstrap_tag(&tag));
        let highest = versions.max().unwrap_or_default();
        self.memory.entry(target.clone()).or_default().history = Some(BootstrapHistory { highest });
    }

    fn unbind(&mut self, target: &ObjectName, artifact: &str) {
        let uid = self.uid(target);
        self.bindings.retain(|_, b| b.spec.render_artifact_ref.name != artifact || !owned(&b.metadata, &uid));
        self.collect();
    }

    /// Cleans up what no binding holds.
    pub fn collect(&mut self) {
        let bound: BTreeSet<&str> =
            self.bindings.values().map(|b| b.spec.render_artifact_ref.name.as_str()).collect();
        let gone: Vec<ObjectName> = self
            .artifacts
            .keys()
            .filter(|artifact| !bound.contains(artifact.name.as_ref()))
            .cloned()
            .collect();
        for artifact in gone {
            let record = RenderArtifactRecord::from(&self.artifacts.remove(&artifact).unwrap());
            self.tags.remove(&Coordinates::of_artifact(&record));
        }
    }

    /// Lets every task come to its result.
    pub fn render(&mut self) {
        let tasks: Vec<ObjectName> = self.tasks.keys().cloned().collect();
        for task in tasks {
            if self.held(&self.tasks[&task]) {
                self.run(&task);
            }
        }
    }

    fn run(&mut self, name: &ObjectName) {
        let task = self.tasks[name].clone();
        let of = task.spec.repository.rsplit('/').next().unwrap();
        let subject = of.strip_prefix("release-").or(of.strip_prefix("bootstrap-")).unwrap();
        let mut status = api::RenderTaskStatus::default();
        if let Some(message) = self.failing.get(subject) {
            status.conditions = vec![condition("JobFailed", message)];
        } else {
            let digest = format!(
                "sha256:{}",
                sha256_hex(format!("{}{:?}", task.spec.tag, content::of_task(&task.spec)).as_bytes())
            );
            let coordinates = Coordinates::of_task(&RenderTaskRecord::from(&task));
            let there = self.tags.entry(coordinates).or_insert_with(|| digest.clone());
            assert_eq!(*there, digest, "one tag never gets two contents");
            let artifact = self.artifacts.get_mut(&Self::artifact_of(&task)).unwrap();
            artifact.status.get_or_insert_default().digest = Some(digest.clone());
            status.conditions = vec![condition("JobSucceeded", "pushed")];
            status.digest = Some(digest);
        }
        self.tasks.get_mut(name).unwrap().status = Some(status);
    }

    /// Asks for the deletion of a Target.
    pub fn delete_target(&mut self, target: &str) {
        let seconds = self.seconds;
        let meta = self.meta(&name(target));
        meta.deletion_timestamp = Some(Time(at(seconds)));
        meta.generation = Some(meta.generation.unwrap() + 1);
    }

    pub fn status(&self, target: &str) -> api::TargetStatus {
        self.targets[&name(target)].status.clone().unwrap_or_default()
    }

    /// `<status>/<reason>` of a condition, as the next status would have it or as it is stored.
    pub fn verdict(&self, target: &str, type_: &str) -> String {
        reason_of(&self.next_status(target), type_)
    }

    pub fn message(&self, target: &str, type_: &str) -> String {
        let status = self.next_status(target);
        status.conditions.into_iter().find(|c| c.type_ == type_).expect("the condition is set").message
    }

    fn next_status(&self, target: &str) -> api::TargetStatus {
        let written = self.plan(target).steps.into_iter().find_map(|step| match step {
            TargetStep::WriteStatus(status) => Some(status),
            _ => None,
        });
        written.unwrap_or_else(|| self.status(target))
    }

    /// Repositories and tags, sorted.
    pub fn tag_names(&self) -> Vec<String> {
        self.tags.keys().map(|c| format!("{}:{}", c.repository, c.tag)).collect()
    }
}

pub fn reason_of(status: &api::TargetStatus, type_: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found
        .map_or_else(|| "absent".to_owned(), |condition| format!("{}/{}", condition.status, condition.reason))
}

pub fn condition(type_: &str, message: &str) -> Condition {
    Condition {
        last_transition_time: Time(at(0)),
        message: message.into(),
        observed_generation: Some(1),
        reason: type_.into(),
        status: "True".into(),
        type_: type_.into(),
    }
}

fn owned(meta: &ObjectMeta, uid: &str) -> bool {
    meta.owner_references.iter().flatten().any(|owner| owner.uid == uid)
}

fn add_finalizer(meta: &mut ObjectMeta, finalizer: &str) {
    let finalizers = meta.finalizers.get_or_insert_default();
    assert!(!finalizers.iter().any(|held| held == finalizer), "{finalizer} is there");
    finalizers.push(finalizer.to_owned());
}
