//! Slim records: what decisions need of each kind, and no more.
//!
//! Payloads (values, userdata, resources) are left out; a record holds the SHA-256 of each, so that two objects can be
//! compared without fetching either. Each record is made from the object by `From`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use solar_api as api;
use solar_api::conditions::releases_rendered;

use crate::condition;
use crate::content;
use crate::hash::PayloadHash;
use crate::host;
use crate::interner::Interner;
use crate::names;
use crate::object::{ControllerRef, Meta, ObjectName};
use crate::packed::Packed;
use crate::profile;
use crate::target::Coordinates;
use crate::world::{IndexKey, Record};

/// A Target.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetRecord {
    /// Metadata.
    pub meta: Meta,
    /// Labels, for Profiles.
    pub labels: BTreeMap<String, String>,
    /// The Registry that charts are pushed to.
    pub registry: ObjectName,
    /// Hash of userdata.
    pub userdata: PayloadHash,
    /// Whether the suspend annotation is `"true"`.
    pub suspended: bool,
    /// Value of the reconcile annotation.
    pub reconcile_request: Option<Box<str>>,
    /// Value of the render request annotation.
    pub render_request: Option<Box<str>>,
    /// Status as stored.
    pub status: Packed<api::TargetStatus>,
}

impl From<&api::Target> for TargetRecord {
    fn from(target: &api::Target) -> Self {
        let meta = Meta::of(&target.metadata);
        Self {
            labels: target.metadata.labels.clone().unwrap_or_default(),
            registry: ObjectName::referred(&target.spec.render_registry_ref, &meta.name.namespace),
            userdata: PayloadHash::of_object(target.spec.userdata.as_ref()),
            suspended: annotation(&target.metadata, api::names::SUSPEND_ANNOTATION).as_deref()
                == Some("true"),
            reconcile_request: annotation(&target.metadata, api::names::RECONCILE_ANNOTATION),
            render_request: annotation(&target.metadata, api::names::RENDER_REQUEST_ANNOTATION),
            status: target.status.as_ref().map(Packed::of).unwrap_or_default(),
            meta,
        }
    }
}

impl Record for TargetRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        with.name(&mut self.meta.name);
        with.name(&mut self.registry);
    }
    fn index(&self) -> Vec<IndexKey> {
        let here = IndexKey::Namespace(self.meta.name.namespace.clone());
        let mut keys = vec![IndexKey::Registry(self.registry.clone()), here];
        keys.extend(into_another(&self.meta.name, Some(&self.registry)));
        let status = self.status.get();
        let rendered = condition::find(&status.conditions, releases_rendered::TYPE);
        if rendered.is_some_and(|rendered| rendered.reason == releases_rendered::NAME_COLLISION) {
            keys.push(IndexKey::Hindered(self.meta.name.namespace.clone()));
        }
        keys
    }
}

/// A Release.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseRecord {
    /// Metadata.
    pub meta: Meta,
    /// Labels, for anti-affinity.
    pub labels: BTreeMap<String, String>,
    /// The version to install.
    pub component_version: ObjectName,
    /// Namespace on the target cluster; empty when none is given.
    pub target_namespace: Box<str>,
    /// `spec.uniqueName`.
    pub unique_name: Option<Box<str>>,
    /// Releases that are not installed beside this one.
    pub anti_affinity: Option<LabelSelector>,
    /// Hash of values.
    pub values: PayloadHash,
    /// Highest wins.
    pub priority: i32,
    /// Status as stored.
    pub status: Packed<api::ReleaseStatus>,
}

impl From<&api::Release> for ReleaseRecord {
    fn from(release: &api::Release) -> Self {
        let meta = Meta::of(&release.metadata);
        let spec = &release.spec;
        Self {
            labels: release.metadata.labels.clone().unwrap_or_default(),
            component_version: ObjectName::referred(&spec.component_version_ref, &meta.name.namespace),
            target_namespace: spec.target_namespace.as_deref().unwrap_or_default().into(),
            unique_name: spec.unique_name.as_deref().map(Into::into),
            anti_affinity: spec.anti_affinity.clone(),
            values: PayloadHash::of_object(spec.values.as_ref()),
            priority: spec.priority,
            status: release.status.as_ref().map(Packed::of).unwrap_or_default(),
            meta,
        }
    }
}

impl Record for ReleaseRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        with.name(&mut self.meta.name);
        with.name(&mut self.component_version);
    }
    fn index(&self) -> Vec<IndexKey> {
        let mut keys = vec![IndexKey::ComponentVersion(self.component_version.clone())];
        keys.extend(into_another(&self.meta.name, Some(&self.component_version)));
        keys
    }
}

/// A ReleaseBinding.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseBindingRecord {
    /// Metadata.
    pub meta: Meta,
    /// The Target.
    pub target: ObjectName,
    /// The Release, in the binding's namespace.
    pub release: ObjectName,
    /// The Profile that made it, if one did.
    pub controller: Option<Arc<ControllerRef>>,
    /// Conditions as stored.
    pub conditions: Packed<Vec<Condition>>,
}

impl From<&api::ReleaseBinding> for ReleaseBindingRecord {
    fn from(binding: &api::ReleaseBinding) -> Self {
        let meta = Meta::of(&binding.metadata);
        Self {
            target: ObjectName::referred(&binding.spec.target_ref, &meta.name.namespace),
            release: meta.name.sibling(binding.spec.release_ref.name.as_str()),
            controller: ControllerRef::of(&binding.metadata).map(Arc::new),
            conditions: binding
                .status
                .as_ref()
                .map(|status| Packed::of(&status.conditions))
                .unwrap_or_default(),
            meta,
        }
    }
}

impl ReleaseBindingRecord {
    /// The Profile that owns it, by name and uid.
    pub fn profile(&self) -> Option<(ObjectName, &str)> {
        let owner = self.controller.as_ref().filter(|owner| *owner.kind == *"Profile")?;
        Some((self.meta.name.sibling(&*owner.name), &owner.uid))
    }
}

impl Record for ReleaseBindingRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        with.name(&mut self.target);
        with.name(&mut self.release);
        self.controller.iter_mut().for_each(|controller| with.controller(controller));
    }
    fn index(&self) -> Vec<IndexKey> {
        let mut keys = vec![IndexKey::Target(self.target.clone()), IndexKey::Release(self.release.clone())];
        keys.extend(into_another(&self.meta.name, Some(&self.target)));
        keys.extend(self.profile().map(|(profile, _)| IndexKey::Profile(profile)));
        keys
    }
}

/// A Component.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentRecord {
    /// Metadata.
    pub meta: Meta,
    /// Host of the component's registry, normalised.
    pub registry: Box<str>,
    /// Repository below the host.
    pub repository: Box<str>,
}

impl From<&api::Component> for ComponentRecord {
    fn from(component: &api::Component) -> Self {
        Self {
            meta: Meta::of(&component.metadata),
            registry: host::normalise(&component.spec.registry).into(),
            repository: component.spec.repository.as_str().into(),
        }
    }
}

impl Record for ComponentRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        with.name(&mut self.meta.name);
    }
    fn index(&self) -> Vec<IndexKey> {
        vec![IndexKey::host(&self.meta.name.namespace, &self.registry)]
    }
}

/// A ComponentVersion.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentVersionRecord {
    /// Metadata.
    pub meta: Meta,
    /// The component, in the version's namespace.
    pub component: ObjectName,
    /// Version tag.
    pub tag: Box<str>,
    /// Hash of resources.
    pub resources: PayloadHash,
    /// Each normalised host of a resource's repository, with the first resource that lies there.
    pub hosts: BTreeMap<Box<str>, Box<str>>,
    /// What is installed.
    pub entrypoint: api::Entrypoint,
    /// Where the component descriptor lies.
    pub descriptor: DescriptorRecord,
    /// Value of the availability recheck annotation.
    pub recheck: Option<Box<str>>,
    /// Status as stored.
    pub status: Packed<api::ComponentVersionStatus>,
}

/// Where a ComponentVersion says that its descriptor lies; what is empty counts as absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescriptorRecord {
    /// Host, normalised.
    pub registry: Option<Box<str>>,
    /// Repository in front of the descriptors, without slashes around it.
    pub namespace: Option<Box<str>>,
    /// Name behind `component-descriptors/`.
    pub component_name: Option<Box<str>>,
    /// Digest of the manifest.
    pub digest: Option<Box<str>>,
}

impl From<&api::ComponentVersionSpec> for DescriptorRecord {
    fn from(spec: &api::ComponentVersionSpec) -> Self {
        fn filled(text: Option<&str>) -> Option<&str> {
            text.map(str::trim).filter(|text| !text.is_empty())
        }
        fn path(text: Option<&str>) -> Option<&str> {
            filled(text).map(|text| text.trim_matches('/')).filter(|text| !text.is_empty())
        }
        Self {
            registry: filled(spec.registry.as_deref()).map(|host| host::normalise(host).into()),
            namespace: path(spec.namespace.as_deref()).map(Into::into),
            component_name: path(spec.component_name.as_deref()).map(Into::into),
            digest: filled(spec.digest.as_deref()).map(Into::into),
        }
    }
}

impl From<&api::ComponentVersion> for ComponentVersionRecord {
    fn from(version: &api::ComponentVersion) -> Self {
        let meta = Meta::of(&version.metadata);
        let spec = &version.spec;
        let mut hosts = BTreeMap::new();
        for (name, resource) in &spec.resources {
            let (host, _) = host::split_repository(&resource.repository);
            hosts.entry(Box::from(host)).or_insert_with(|| Box::from(name.as_str()));
        }
        Self {
            component: meta.name.sibling(spec.component_ref.name.as_str()),
            tag: spec.tag.as_str().into(),
            resources: PayloadHash::of(&spec.resources),
            hosts,
            entrypoint: spec.entrypoint.clone(),
            descriptor: DescriptorRecord::from(spec),
            recheck: annotation(&version.metadata, api::names::AVAILABILITY_RECHECK_ANNOTATION),
            status: version.status.as_ref().map(Packed::of).unwrap_or_default(),
            meta,
        }
    }
}

impl Record for ComponentVersionRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        with.name(&mut self.meta.name);
        with.name(&mut self.component);
    }
    fn index(&self) -> Vec<IndexKey> {
        let namespace = &self.meta.name.namespace;
        let mut keys =
            vec![IndexKey::Component(self.component.clone()), IndexKey::Namespace(namespace.clone())];
        // One that names no host of its own is found by its Component's.
        keys.extend(self.descriptor.registry.iter().map(|host| IndexKey::host(namespace, host)));
        keys
    }
}

/// A Registry.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryRecord {
    /// Metadata.
    pub meta: Meta,
    /// Normalised host.
    pub host: Box<str>,
    /// Whether plain HTTP is spoken.
    pub plain_http: bool,
    /// Secret with push credentials, in the Registry's namespace.
    pub solar_secret: Option<ObjectName>,
    /// Pull secret on target clusters; never empty.
    pub target_pull_secret: Option<Box<str>>,
}

impl From<&api::Registry> for RegistryRecord {
    fn from(registry: &api::Registry) -> Self {
        let meta = Meta::of(&registry.metadata);
        let spec = &registry.spec;
        Self {
            host: host::normalise(&spec.hostname).into(),
            plain_http: spec.plain_http,
            solar_secret: spec
                .solar_secret_ref
                .as_ref()
                .map(|secret| meta.name.sibling(secret.name.as_str())),
            target_pull_secret: spec
                .target_pull_secret_name
                .as_deref()
                .filter(|s| !s.is_empty())
                .map(Into::into),
            meta,
        }
    }
}

impl Record for RegistryRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        with.name(&mut self.meta.name);
        self.solar_secret.iter_mut().for_each(|name| with.name(name));
    }
    fn index(&self) -> Vec<IndexKey> {
        vec![
            IndexKey::host(&self.meta.name.namespace, &self.host),
            IndexKey::Namespace(self.meta.name.namespace.clone()),
        ]
    }
}

/// A RegistryBinding.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryBindingRecord {
    /// Metadata.
    pub meta: Meta,
    /// The Target.
    pub target: ObjectName,
    /// The Registry, in the binding's namespace.
    pub registry: ObjectName,
    /// Conditions as stored.
    pub conditions: Packed<Vec<Condition>>,
}

impl From<&api::RegistryBinding> for RegistryBindingRecord {
    fn from(binding: &api::RegistryBinding) -> Self {
        let meta = Meta::of(&binding.metadata);
        Self {
            target: ObjectName::referred(&binding.spec.target_ref, &meta.name.namespace),
            registry: meta.name.sibling(binding.spec.registry_ref.name.as_str()),
            conditions: binding
                .status
                .as_ref()
                .map(|status| Packed::of(&status.conditions))
                .unwrap_or_default(),
            meta,
        }
    }
}

impl Record for RegistryBindingRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        with.name(&mut self.target);
        with.name(&mut self.registry);
    }
    fn index(&self) -> Vec<IndexKey> {
        let mut keys = vec![IndexKey::Target(self.target.clone()), IndexKey::Registry(self.registry.clone())];
        keys.extend(into_another(&self.meta.name, Some(&self.target)));
        keys
    }
}

/// A Profile.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRecord {
    /// Metadata.
    pub meta: Meta,
    /// The Release, in the Profile's namespace.
    pub release: ObjectName,
    /// Which Targets are bound.
    pub selector: LabelSelector,
    /// Status as stored.
    pub status: Packed<api::ProfileStatus>,
}

impl From<&api::Profile> for ProfileRecord {
    fn from(profile: &api::Profile) -> Self {
        let meta = Meta::of(&profile.metadata);
        Self {
            release: meta.name.sibling(profile.spec.release_ref.name.as_str()),
            selector: profile.spec.target_selector.clone(),
            status: profile.status.as_ref().map(Packed::of).unwrap_or_default(),
            meta,
        }
    }
}

impl Record for ProfileRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        with.name(&mut self.meta.name);
        with.name(&mut self.release);
    }
    fn index(&self) -> Vec<IndexKey> {
        let here = self.meta.name.namespace.clone();
        let mut keys = vec![IndexKey::Release(self.release.clone()), IndexKey::Namespace(here.clone())];
        if profile::is_said_to_be_hindered(self) {
            keys.push(IndexKey::Hindered(here));
        }
        keys
    }
}

/// A ReferenceGrant.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantRecord {
    /// Metadata.
    pub meta: Meta,
    /// Who may refer.
    pub from: Vec<api::GrantFrom>,
    /// What may be referred to, in the grant's namespace.
    pub to: Vec<api::GrantTo>,
}

impl From<&api::ReferenceGrant> for GrantRecord {
    fn from(grant: &api::ReferenceGrant) -> Self {
        Self { meta: Meta::of(&grant.metadata), from: grant.spec.from.clone(), to: grant.spec.to.clone() }
    }
}

impl Record for GrantRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
    }
    fn index(&self) -> Vec<IndexKey> {
        let from: BTreeSet<&str> = self.from.iter().map(|from| from.namespace.as_str()).collect();
        let here = IndexKey::Namespace(self.meta.name.namespace.clone());
        from.into_iter().map(|namespace| IndexKey::From(namespace.into())).chain([here]).collect()
    }
}

/// A RenderTask.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderTaskRecord {
    /// Metadata.
    pub meta: Meta,
    /// The owner by ownerReference.
    pub controller: Option<Arc<ControllerRef>>,
    /// The owner by `spec.ownerKind`.
    pub owner_kind: Arc<str>,
    /// The owner by `spec.ownerNamespace` and `spec.ownerName`.
    pub owner: ObjectName,
    /// Which chart.
    pub type_: api::RenderTaskType,
    /// Where the chart goes.
    pub coordinates: Arc<Coordinates>,
    artifact: ObjectName,
    /// Hash of everything that decides the chart besides its version.
    pub content: PayloadHash,
    /// The Registry whose credentials push.
    pub registry: Option<ObjectName>,
    /// Secret that pushes where no Registry is named.
    pub push_secret: Option<ObjectName>,
    /// Whether plain HTTP is spoken where no Registry is named.
    pub plain_http: bool,
    /// Value of the render request annotation.
    pub render_request: Option<Box<str>>,
    /// Whether this process saw the task being created; set by the watch.
    pub seen_created: bool,
    /// Status as stored.
    pub status: Packed<api::RenderTaskStatus>,
}

impl RenderTaskRecord {
    /// Name of the artifact that this task pushes.
    pub fn artifact(&self) -> &ObjectName {
        &self.artifact
    }

    /// The Secret that pushes, where no Registry is named.
    pub fn pushes_by_secret(&self) -> Option<&ObjectName> {
        self.push_secret.as_ref().filter(|_| self.registry.is_none())
    }
}

impl From<&api::RenderTask> for RenderTaskRecord {
    fn from(task: &api::RenderTask) -> Self {
        let meta = Meta::of(&task.metadata);
        let spec = &task.spec;
        let namespace = &meta.name.namespace;
        let coordinates = coordinates(&spec.base_url, &spec.repository, &spec.tag);
        Self {
            controller: ControllerRef::of(&task.metadata).map(Arc::new),
            owner_kind: spec.owner_kind.as_str().into(),
            owner: ObjectName::new(spec.owner_namespace.as_str(), spec.owner_name.as_str()),
            type_: spec.type_,
            artifact: meta.name.sibling(names::artifact_at(namespace, &coordinates)),
            coordinates: Arc::new(coordinates),
            content: content::of_task(spec),
            registry: spec.registry_ref.as_ref().map(|reference| ObjectName::referred(reference, namespace)),
            push_secret: spec.push_secret_ref.as_ref().map(|secret| meta.name.sibling(secret.name.as_str())),
            plain_http: spec.plain_http,
            render_request: annotation(&task.metadata, api::names::RENDER_REQUEST_ANNOTATION),
            seen_created: false,
            status: task.status.as_ref().map(Packed::of).unwrap_or_default(),
            meta,
        }
    }
}

impl Record for RenderTaskRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        self.controller.iter_mut().for_each(|controller| with.controller(controller));
        with.text(&mut self.owner_kind);
        with.name(&mut self.owner);
        with.coordinates(&mut self.coordinates);
        with.name(&mut self.artifact);
        self.registry.iter_mut().for_each(|name| with.name(name));
        self.push_secret.iter_mut().for_each(|name| with.name(name));
    }
    fn index(&self) -> Vec<IndexKey> {
        let mut keys = vec![IndexKey::Owner(self.owner.clone()), IndexKey::Artifact(self.artifact.clone())];
        keys.extend(self.registry.clone().map(IndexKey::Registry));
        if self.pushes_by_secret().is_some() {
            keys.push(IndexKey::host(&self.meta.name.namespace, &self.coordinates.base_url));
        }
        keys.extend(into_another(&self.meta.name, self.registry.as_ref()));
        keys
    }
}

/// A RenderArtifact.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderArtifactRecord {
    /// Metadata.
    pub meta: Meta,
    /// Where the chart lies.
    pub coordinates: Arc<Coordinates>,
    /// Name of the task that pushed first.
    pub render_task: Box<str>,
    /// The Registry whose credentials delete.
    pub registry: Option<ObjectName>,
    /// Status as stored.
    pub status: Packed<api::RenderArtifactStatus>,
}

impl RenderArtifactRecord {
    /// The chart's address, as the status has to show it.
    pub fn address(&self) -> String {
        self.coordinates.chart_url()
    }

    /// Whether the status shows it.
    pub fn has_its_address(&self) -> bool {
        self.status.get().chart_url.as_deref() == Some(self.address().as_str())
    }
}

impl From<&api::RenderArtifact> for RenderArtifactRecord {
    fn from(artifact: &api::RenderArtifact) -> Self {
        let meta = Meta::of(&artifact.metadata);
        let spec = &artifact.spec;
        let namespace: &Arc<str> = &meta.name.namespace;
        let coordinates = coordinates(&spec.base_url, &spec.repository, &spec.tag);
        Self {
            coordinates: Arc::new(coordinates),
            render_task: spec.render_task_ref.as_str().into(),
            registry: spec.registry_ref.as_ref().map(|reference| ObjectName::referred(reference, namespace)),
            status: artifact.status.as_ref().map(Packed::of).unwrap_or_default(),
            meta,
        }
    }
}

impl Record for RenderArtifactRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        with.name(&mut self.meta.name);
        with.coordinates(&mut self.coordinates);
        self.registry.iter_mut().for_each(|name| with.name(name));
    }
    fn index(&self) -> Vec<IndexKey> {
        let lies = (self.meta.name.namespace.clone(), self.coordinates.repository.clone());
        let mut keys = vec![IndexKey::Repository(Box::new(lies))];
        keys.extend(self.registry.clone().map(IndexKey::Registry));
        keys.extend(into_another(&self.meta.name, self.registry.as_ref()));
        keys
    }
}

/// A RenderBinding.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderBindingRecord {
    /// Metadata.
    pub meta: Meta,
    /// The owner by ownerReference.
    pub controller: Option<Arc<ControllerRef>>,
    /// The artifact, in the binding's namespace.
    pub artifact: ObjectName,
    /// Kind of the consumer.
    pub owner_kind: Arc<str>,
    /// The consumer.
    pub owner: ObjectName,
    /// The Registry that the consumer resolves.
    pub registry: Option<ObjectName>,
}

impl From<&api::RenderBinding> for RenderBindingRecord {
    fn from(binding: &api::RenderBinding) -> Self {
        let meta = Meta::of(&binding.metadata);
        let spec = &binding.spec;
        let namespace = &meta.name.namespace;
        Self {
            controller: ControllerRef::of(&binding.metadata).map(Arc::new),
            artifact: meta.name.sibling(spec.render_artifact_ref.name.as_str()),
            owner_kind: spec.owner_kind.as_str().into(),
            owner: ObjectName::new(spec.owner_namespace.as_str(), spec.owner_name.as_str()),
            registry: spec.registry_ref.as_ref().map(|reference| ObjectName::referred(reference, namespace)),
            meta,
        }
    }
}

impl Record for RenderBindingRecord {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>) {
        with.meta(&mut self.meta, old);
        self.controller.iter_mut().for_each(|controller| with.controller(controller));
        with.name(&mut self.artifact);
        with.text(&mut self.owner_kind);
        with.name(&mut self.owner);
        self.registry.iter_mut().for_each(|name| with.name(name));
    }
    fn index(&self) -> Vec<IndexKey> {
        vec![IndexKey::Artifact(self.artifact.clone()), IndexKey::Owner(self.owner.clone())]
    }
}

/// The key of a reference from an object of `own` namespace into another one.
fn into_another(own: &ObjectName, referred: Option<&ObjectName>) -> Option<IndexKey> {
    let there = referred.map(|name| &name.namespace).filter(|there| **there != own.namespace)?;
    Some(IndexKey::Into(there.clone()))
}

fn coordinates(base_url: &str, repository: &str, tag: &str) -> Coordinates {
    Coordinates { base_url: host::normalise(base_url).into(), repository: repository.into(), tag: tag.into() }
}

fn annotation(
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    name: &str,
) -> Option<Box<str>> {
    meta.annotations.as_ref()?.get(name).map(|value| value.as_str().into())
}
