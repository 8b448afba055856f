//! Everything that is known, as tables of records with indexes by reference.
//!
//! The watches write it, passes read it. No lookup walks a table: what refers to an object is found by [`IndexKey`], and
//! the RenderBindings whose owner is amiss by [`World::strays`].

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::interner::Interner;
use crate::object::{Meta, ObjectName};
use crate::record::{
    ComponentRecord, ComponentVersionRecord, GrantRecord, ProfileRecord, RegistryBindingRecord,
    RegistryRecord, ReleaseBindingRecord, ReleaseRecord, RenderArtifactRecord, RenderBindingRecord,
    RenderTaskRecord, TargetRecord,
};

/// A slim copy of an object.
pub trait Record: Send + Sync + 'static {
    /// The object's metadata.
    fn meta(&self) -> &Meta;
    /// The keys under which the object is found besides its name.
    fn index(&self) -> Vec<IndexKey>;
    /// Has the record keep what others have as well in one place with them. `old` is what was known of the object before.
    fn share(&mut self, with: &mut Interner, old: Option<&Meta>);
}

/// What a record can be found by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexKey {
    /// Refers to this Registry.
    Registry(ObjectName),
    /// Refers to this Target.
    Target(ObjectName),
    /// Refers to this Release.
    Release(ObjectName),
    /// Refers to this ComponentVersion.
    ComponentVersion(ObjectName),
    /// Refers to this Component.
    Component(ObjectName),
    /// Refers to this RenderArtifact, or pushes to its coordinates.
    Artifact(ObjectName),
    /// Is owned by this Target, by name.
    Owner(ObjectName),
    /// Lies in this repository (namespace of the record, repository).
    Repository(Box<(Arc<str>, Arc<str>)>),
    /// Was made by this Profile, by name.
    Profile(ObjectName),
    /// Allows objects of this namespace something.
    From(Arc<str>),
    /// Lies in another namespace and refers into this one, so that a grant there has a say.
    Into(Arc<str>),
    /// Names this normalised registry host (namespace of the record, host).
    Host(Box<(Arc<str>, Arc<str>)>),
    /// Says that something else has a name that it needs in this namespace.
    Hindered(Arc<str>),
    /// Lies in this namespace; only kinds that are looked up so.
    Namespace(Arc<str>),
}

impl IndexKey {
    /// [`Self::Repository`].
    pub fn repository(namespace: &Arc<str>, repository: &str) -> Self {
        Self::Repository(Box::new((namespace.clone(), repository.into())))
    }

    /// [`Self::Host`].
    pub fn host(namespace: &Arc<str>, host: &str) -> Self {
        Self::Host(Box::new((namespace.clone(), host.into())))
    }
}

/// Records of one kind; written by [`World::insert`] and [`World::remove`].
#[derive(Debug)]
pub struct Table<R> {
    // Both for lookups by key only; nothing is taken out of them in their own order.
    rows: HashSet<ByName<R>>,
    index: HashMap<IndexKey, Group<R>>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { rows: HashSet::new(), index: HashMap::new() }
    }
}

impl<R: Record> Table<R> {
    /// The record of `name`.
    pub fn get(&self, name: &ObjectName) -> Option<&Arc<R>> {
        self.rows.get(name).map(|ByName(record)| record)
    }

    /// The records under `key`, by name.
    pub fn by<'a>(&'a self, key: &IndexKey) -> impl Iterator<Item = &'a Arc<R>> + use<'a, R> {
        self.index.get(key).into_iter().flat_map(Group::iter)
    }

    /// How many records are under `key`.
    pub fn count(&self, key: &IndexKey) -> usize {
        self.index.get(key).map_or(0, Group::len)
    }

    /// All records, by name. For starts and sweeps only, never for a wake.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<R>> {
        let mut all: Vec<_> = self.rows.iter().map(|ByName(record)| record).collect();
        all.sort_unstable_by(|a, b| a.meta().name.cmp(&b.meta().name));
        all.into_iter()
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn insert(&mut self, record: Arc<R>) -> Option<Arc<R>> {
        let old = self.rows.replace(ByName(record.clone())).map(|ByName(old)| old);
        let keys = record.index();
        if let Some(old) = &old {
            // A key that stays gets the new record below.
            for key in old.index().into_iter().filter(|key| !keys.contains(key)) {
                self.unindex(&key, &old.meta().name);
            }
        }
        for key in keys {
            self.index.entry(key).or_default().insert(record.clone());
        }
        old
    }

    fn remove(&mut self, name: &ObjectName) -> Option<Arc<R>> {
        let ByName(old) = self.rows.take(name)?;
        for key in old.index() {
            self.unindex(&key, name);
        }
        Some(old)
    }

    fn unindex(&mut self, key: &IndexKey, name: &ObjectName) {
        if let Some(group) = self.index.get_mut(key) {
            group.remove(name);
            if group.len() == 0 {
                self.index.remove(key);
            }
        }
    }
}

/// A record that is hashed, ordered and found by its name, which is kept nowhere else.
#[derive(Debug)]
struct ByName<R>(Arc<R>);

impl<R: Record> Borrow<ObjectName> for ByName<R> {
    fn borrow(&self) -> &ObjectName {
        &self.0.meta().name
    }
}

impl<R: Record> PartialEq for ByName<R> {
    fn eq(&self, other: &Self) -> bool {
        self.0.meta().name == other.0.meta().name
    }
}

impl<R: Record> Eq for ByName<R> {}

impl<R: Record> PartialOrd for ByName<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Record> Ord for ByName<R> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.meta().name.cmp(&other.0.meta().name)
    }
}

impl<R: Record> Hash for ByName<R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.meta().name.hash(state);
    }
}

/// How many records a group has at most as a list; what most groups have, one to four, is a few words so.
const FEW: usize = 16;

/// The records under one key, by name. Two words: there are about as many groups as objects.
#[derive(Debug)]
enum Group<R> {
    Few(Box<[Arc<R>]>),
    #[expect(clippy::box_collection, reason = "a set is three words, and few groups have one")]
    Many(Box<BTreeSet<ByName<R>>>),
}

impl<R> Default for Group<R> {
    fn default() -> Self {
        Self::Few(Box::default())
    }
}

impl<R: Record> Group<R> {
    fn len(&self) -> usize {
        match self {
            Self::Few(records) => records.len(),
            Self::Many(records) => records.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<R>> {
        let (few, many) = match self {
            Self::Few(records) => (Some(records), None),
            Self::Many(records) => (None, Some(records)),
        };
        let many = many.into_iter().flat_map(|records| records.iter()).map(|ByName(record)| record);
        few.into_iter().flat_map(|records| records.iter()).chain(many)
    }

    fn insert(&mut self, record: Arc<R>) {
        match self {
            Self::Many(records) => {
                records.replace(ByName(record));
            }
            Self::Few(records) => match place(records, &record.meta().name) {
                Ok(at) => records[at] = record,
                Err(at) => {
                    let mut all = std::mem::take(records).into_vec();
                    if all.len() < FEW {
                        all.reserve_exact(1);
                        all.insert(at, record);
                        *records = all.into();
                    } else {
                        *self = Self::Many(Box::new(all.into_iter().chain([record]).map(ByName).collect()));
                    }
                }
            },
        }
    }

    fn remove(&mut self, name: &ObjectName) {
        match self {
            Self::Few(records) => {
                if let Ok(at) = place(records, name) {
                    let mut all = std::mem::take(records).into_vec();
                    all.remove(at);
                    *records = all.into();
                }
            }
            Self::Many(records) => {
                records.remove(name);
            }
        }
    }
}

/// Where the record of `name` is, or has to be put.
fn place<R: Record>(records: &[Arc<R>], name: &ObjectName) -> Result<usize, usize> {
    records.binary_search_by(|record| record.meta().name.cmp(name))
}

/// The tables of all kinds.
#[derive(Debug, Default)]
pub struct World {
    /// Targets.
    pub targets: Table<TargetRecord>,
    /// Releases.
    pub releases: Table<ReleaseRecord>,
    /// ReleaseBindings.
    pub release_bindings: Table<ReleaseBindingRecord>,
    /// Components.
    pub components: Table<ComponentRecord>,
    /// ComponentVersions.
    pub component_versions: Table<ComponentVersionRecord>,
    /// Registries.
    pub registries: Table<RegistryRecord>,
    /// RegistryBindings.
    pub registry_bindings: Table<RegistryBindingRecord>,
    /// Profiles.
    pub profiles: Table<ProfileRecord>,
    /// ReferenceGrants.
    pub grants: Table<GrantRecord>,
    /// RenderTasks.
    pub render_tasks: Table<RenderTaskRecord>,
    /// RenderArtifacts.
    pub render_artifacts: Table<RenderArtifactRecord>,
    /// RenderBindings.
    pub render_bindings: Table<RenderBindingRecord>,
    strays: Strays,
    interner: Interner,
}

impl World {
    /// Puts `record` in the place of the one of its name, which is returned.
    pub fn insert<R: Kept>(&mut self, mut record: R) -> Option<Arc<R>> {
        let old = R::table(self).get(&record.meta().name).cloned();
        record.share(&mut self.interner, old.as_deref().map(Record::meta));
        self.interner.changed();
        let record = Arc::new(record);
        let old = R::table_mut(self).insert(record.clone());
        R::changed(self, old.as_deref(), Some(&record));
        old
    }

    /// Takes out the record of `name`.
    pub fn remove<R: Kept>(&mut self, name: &ObjectName) -> Option<Arc<R>> {
        let old = R::table_mut(self).remove(name)?;
        self.interner.changed();
        R::changed(self, Some(&old), None);
        Some(old)
    }

    /// How many values are kept that records share. It follows what the records say with some delay.
    pub fn shared_values(&self) -> usize {
        self.interner.kept()
    }

    /// The RenderBindings of `artifact` that are stray, by name. It costs as much as there are of them, however many
    /// bindings there are.
    pub fn strays(&self, artifact: &ObjectName) -> impl Iterator<Item = &Arc<RenderBindingRecord>> {
        let names = self.strays.0.get(artifact).into_iter().flatten();
        names.filter_map(|name| self.render_bindings.get(name))
    }

    /// Whether the Target that owns `binding` is not known, or is another one of the same name.
    pub fn is_stray(&self, binding: &RenderBindingRecord) -> bool {
        if binding.owner_kind.as_ref() != "Target" {
            return false;
        }
        match (self.targets.get(&binding.owner), &binding.controller) {
            (None, _) => true,
            (Some(owner), Some(controller)) => controller.uid != owner.meta.uid,
            (Some(_), None) => false,
        }
    }
}

/// The stray RenderBindings of each RenderArtifact that has any.
#[derive(Debug, Default)]
struct Strays(BTreeMap<ObjectName, BTreeSet<ObjectName>>);

impl Strays {
    fn add(&mut self, binding: &RenderBindingRecord) {
        self.0.entry(binding.artifact.clone()).or_default().insert(binding.meta.name.clone());
    }

    fn drop(&mut self, binding: &RenderBindingRecord) {
        if let Some(names) = self.0.get_mut(&binding.artifact) {
            names.remove(&binding.meta.name);
            if names.is_empty() {
                self.0.remove(&binding.artifact);
            }
        }
    }
}

/// Gives the table of a record's kind, so that code can be generic over kinds.
pub trait Kept: Record + Clone + Debug + sealed::Written {
    /// The kind's table in `world`.
    fn table(world: &World) -> &Table<Self>;
}

mod sealed {
    use super::{Table, World};

    /// Keeps writing to [`World::insert`](super::World::insert) and [`World::remove`](super::World::remove), so that
    /// nothing that is derived from several tables falls behind.
    pub trait Written: Sized {
        /// The kind's table in `world`.
        fn table_mut(world: &mut World) -> &mut Table<Self>;
        /// Called after each change, with `world` as it is now.
        fn changed(world: &mut World, old: Option<&Self>, new: Option<&Self>);
    }
}

fn target_changed(world: &mut World, old: Option<&TargetRecord>, new: Option<&TargetRecord>) {
    if old.map(|target| &target.meta.uid) == new.map(|target| &target.meta.uid) {
        return;
    }
    let Some(target) = new.or(old) else { return };
    let owned = world.render_bindings.by(&IndexKey::Owner(target.meta.name.clone()));
    let owned: Vec<_> = owned.map(|binding| (binding.clone(), world.is_stray(binding))).collect();
    for (binding, stray) in owned {
        if stray { world.strays.add(&binding) } else { world.strays.drop(&binding) }
    }
}

fn render_binding_changed(
    world: &mut World,
    old: Option<&RenderBindingRecord>,
    new: Option<&RenderBindingRecord>,
) {
    if let Some(old) = old {
        world.strays.drop(old);
    }
    if let Some(new) = new.filter(|new| world.is_stray(new)) {
        world.strays.add(new);
    }
}

macro_rules! kept {
    ($($record:ty => $table:ident $(, then $changed:ident)?);* $(;)?) => {
        $(impl Kept for $record {
            fn table(world: &World) -> &Table<Self> {
                &world.$table
            }
        }
        impl sealed::Written for $record {
            fn table_mut(world: &mut World) -> &mut Table<Self> {
                &mut world.$table
            }
            fn changed(_world: &mut World, _old: Option<&Self>, _new: Option<&Self>) {
                $($changed(_world, _old, _new);)?
            }
        })*
    };
}

kept! {
    TargetRecord => targets, then target_changed;
    ReleaseRecord => releases;
    ReleaseBindingRecord => release_bindings;
    ComponentRecord => components;
    ComponentVersionRecord => component_versions;
    RegistryRecord => registries;
    RegistryBindingRecord => registry_bindings;
    ProfileRecord => profiles;
    GrantRecord => grants;
    RenderTaskRecord => render_tasks;
    RenderArtifactRecord => render_artifacts;
    RenderBindingRecord => render_bindings, then render_binding_changed;
}
