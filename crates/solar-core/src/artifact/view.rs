//! What an artifact's actor knows: watched records with its own writes laid over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::memory::ArtifactMemory;
use crate::object::ObjectName;
use crate::overlay::settle;
use crate::record::{RenderArtifactRecord, RenderBindingRecord};
use crate::world::{IndexKey, World};

/// One consistent look at an artifact and its bindings.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The artifact.
    pub artifact: Option<Arc<RenderArtifactRecord>>,
    /// Its bindings by name, terminating ones included: they hold until they are gone.
    pub bindings: BTreeMap<Arc<str>, Arc<RenderBindingRecord>>,
}

impl View {
    /// The view of `name`; drops from `memory` what the watch has caught up with.
    pub fn of(world: &World, name: &ObjectName, memory: &mut ArtifactMemory) -> Self {
        let watched = world.render_artifacts.get(name);
        let artifact = settle(watched, &mut memory.own_artifact);
        let mut bindings: BTreeMap<_, _> = world
            .render_bindings
            .by(&IndexKey::Artifact(name.clone()))
            .map(|binding| (binding.meta.name.name.clone(), binding.clone()))
            .collect();
        let own = std::mem::take(&mut memory.own_bindings);
        for (binding, entry) in own {
            let mut entry = Some(entry);
            let settled = settle(bindings.get(&binding), &mut entry);
            match settled {
                Some(record) => bindings.insert(binding.clone(), record),
                None => bindings.remove(&binding),
            };
            if let Some(entry) = entry {
                memory.own_bindings.insert(binding, entry);
            }
        }
        Self { artifact, bindings }
    }
}
