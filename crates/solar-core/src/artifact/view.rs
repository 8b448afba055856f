//! What an artifact's actor knows: watched records with its own writes laid over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::memory::{ArtifactMemory, Moment};
use crate::object::{Meta, ObjectName};
use crate::record::{RenderArtifactRecord, RenderBindingRecord};
use crate::world::{IndexKey, Record, World};

/// What this actor last wrote or read of an object, kept until the watch has caught up.
#[derive(Clone, Debug, PartialEq)]
pub enum Own<R> {
    /// The object is like this.
    Present {
        /// The object.
        record: Arc<R>,
        /// When it was written or read.
        since: Moment,
    },
    /// The object with this uid is gone.
    Gone {
        /// Uid of the deleted object.
        uid: Box<str>,
    },
}

/// One consistent look at an artifact and its bindings.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The artifact.
    pub artifact: Option<Arc<RenderArtifactRecord>>,
    /// Its bindings by name, terminating ones included: they hold until they are gone.
    pub bindings: BTreeMap<Arc<str>, Arc<RenderBindingRecord>>,
    /// Uid of each owner of a binding as far as the watch knows; `None` for one that it does not know.
    pub owners: BTreeMap<ObjectName, Option<Box<str>>>,
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
        let owners = bindings
            .values()
            .map(|binding| {
                let owner = world.targets.get(&binding.owner);
                (binding.owner.clone(), owner.map(|target| target.meta.uid.clone()))
            })
            .collect();
        Self { artifact, bindings, owners }
    }
}

/// The newer of what is watched and what is known by own deed; forgets the latter once the watch has it.
fn settle<R: Record>(watched: Option<&Arc<R>>, own: &mut Option<Own<R>>) -> Option<Arc<R>> {
    match (watched, own.as_ref()) {
        (watched, None) => watched.cloned(),
        (None, Some(Own::Present { record, .. })) => Some(record.clone()),
        (None, Some(Own::Gone { .. })) => {
            *own = None;
            None
        }
        (Some(watched), Some(Own::Present { record, .. })) => {
            if caught_up(watched.meta(), record.meta()) {
                *own = None;
                Some(watched.clone())
            } else {
                Some(record.clone())
            }
        }
        (Some(watched), Some(Own::Gone { uid })) => {
            if watched.meta().uid == *uid {
                None
            } else {
                *own = None;
                Some(watched.clone())
            }
        }
    }
}

/// Whether `watched` is at least as new as `own`.
///
/// Resource versions are numbers on every API server that exists; where they are not, only equality proves anything.
fn caught_up(watched: &Meta, own: &Meta) -> bool {
    match (watched.resource_version.parse::<u64>(), own.resource_version.parse::<u64>()) {
        (Ok(watched), Ok(own)) => watched >= own,
        _ => watched.resource_version == own.resource_version,
    }
}
