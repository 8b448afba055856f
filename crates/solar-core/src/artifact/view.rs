//! What an artifact's actor knows: watched records with its own writes laid over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::memory::ArtifactMemory;
use crate::object::ObjectName;
use crate::overlay::settle;
use crate::record::{RenderArtifactRecord, RenderBindingRecord};
use crate::world::{IndexKey, World};

/// One consistent look at an artifact and its bindings.
#[derive(Debug)]
pub struct View<'w> {
    /// The artifact.
    pub artifact: Option<Arc<RenderArtifactRecord>>,
    /// Its bindings, terminating ones included: they hold until they are gone.
    pub bindings: Bindings<'w>,
}

impl<'w> View<'w> {
    /// The view of `name`; drops from `memory` what the watch has caught up with. It costs as much as there are own
    /// writes, however many bindings there are.
    pub fn of(world: &'w World, name: &ObjectName, memory: &mut ArtifactMemory) -> Self {
        let artifact = settle(world.render_artifacts.get(name), &mut memory.own_artifact);
        let mut bindings = Bindings { world, artifact: name.clone(), own: BTreeMap::new() };
        for (binding, entry) in std::mem::take(&mut memory.own_bindings) {
            let mut entry = Some(entry);
            let settled = settle(bindings.watched(&binding), &mut entry);
            if let Some(entry) = entry {
                bindings.own.insert(binding.clone(), settled);
                memory.own_bindings.insert(binding, entry);
            }
        }
        Self { artifact, bindings }
    }
}

/// The bindings of one artifact. A chart that thousands of Targets share has as many: what is asked of them for each
/// request must not walk over all.
#[derive(Debug)]
pub struct Bindings<'w> {
    world: &'w World,
    artifact: ObjectName,
    /// Those that the watch does not know as they are; `None`: gone.
    own: BTreeMap<Arc<str>, Option<Arc<RenderBindingRecord>>>,
}

impl<'w> Bindings<'w> {
    fn watched(&self, name: &Arc<str>) -> Option<&'w Arc<RenderBindingRecord>> {
        let found = self.world.render_bindings.get(&self.artifact.sibling(name.clone()));
        found.filter(|binding| binding.artifact == self.artifact)
    }

    /// The binding of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<RenderBindingRecord>> {
        match self.own.get(name) {
            Some(own) => own.as_ref(),
            None => self.watched(&name.into()),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values().next().is_none()
    }

    /// All of them: the watched ones by name, then the own ones by name.
    pub fn values(&self) -> impl Iterator<Item = &Arc<RenderBindingRecord>> {
        self.under(&IndexKey::Artifact(self.artifact.clone())).chain(self.own.values().flatten())
    }

    /// Those whose spec names this consumer.
    pub fn of_owner(&self, owner: &ObjectName) -> impl Iterator<Item = &Arc<RenderBindingRecord>> {
        let watched = self.under(&IndexKey::Owner(owner.clone()));
        let all = watched.filter(|binding| binding.artifact == self.artifact);
        all.chain(self.own.values().flatten()).filter(move |binding| binding.owner == *owner)
    }

    /// Those that are [stray](World::is_stray). It costs as much as there are of them, and own writes.
    pub fn strays(&self) -> impl Iterator<Item = &Arc<RenderBindingRecord>> {
        let watched = self.world.strays(&self.artifact);
        let own = self.own.values().flatten().filter(|binding| self.world.is_stray(binding));
        watched.filter(|binding| !self.own.contains_key(&binding.meta.name.name)).chain(own)
    }

    /// The one with the lowest name that `is_it`.
    pub fn first(&self, is_it: impl Fn(&RenderBindingRecord) -> bool) -> Option<&Arc<RenderBindingRecord>> {
        let mut watched = self.under(&IndexKey::Artifact(self.artifact.clone()));
        let mut own = self.own.values().flatten();
        let lowest = [watched.find(|binding| is_it(binding)), own.find(|binding| is_it(binding))];
        lowest.into_iter().flatten().min_by(|a, b| a.meta.name.cmp(&b.meta.name))
    }

    /// The watched ones of which nothing else is known.
    fn under<'s>(
        &'s self,
        key: &IndexKey,
    ) -> impl Iterator<Item = &'s Arc<RenderBindingRecord>> + use<'s, 'w> {
        self.world.render_bindings.by(key).filter(|binding| !self.own.contains_key(&binding.meta.name.name))
    }
}
