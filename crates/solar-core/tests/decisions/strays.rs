//! The RenderBindings whose owner is amiss are known without a walk.

use std::sync::Arc;

use proptest::prelude::*;
use solar_api as api;
use solar_core::artifact::{ArtifactMemory, View};
use solar_core::object::ObjectName;
use solar_core::overlay::Own;
use solar_core::record::{RenderBindingRecord, TargetRecord};
use solar_core::world::{IndexKey, World};

use crate::artifacts::{a_binding, seconds};
use crate::support::target;

const TARGETS: [&str; 2] = ["berlin", "hamburg"];
const ARTIFACTS: [&str; 2] = ["one", "two"];
const UIDS: [&str; 2] = ["first", "second"];
const BINDINGS: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Change {
    Target { name: &'static str, uid: Option<&'static str> },
    Binding { name: &'static str, to: Option<Bound> },
}

#[derive(Clone, Debug)]
struct Bound {
    artifact: &'static str,
    kind: &'static str,
    owner: &'static str,
    controller: Option<&'static str>,
}

fn bounds() -> impl Strategy<Value = Bound> {
    let controller = prop::option::of(prop::sample::select(&UIDS[..]));
    let kind = prop::sample::select(vec!["Target", "Target", "Target", "Deployment"]);
    (prop::sample::select(&ARTIFACTS[..]), kind, prop::sample::select(&TARGETS[..]), controller)
        .prop_map(|(artifact, kind, owner, controller)| Bound { artifact, kind, owner, controller })
}

fn changes() -> impl Strategy<Value = Change> {
    let target = (prop::sample::select(&TARGETS[..]), prop::option::of(prop::sample::select(&UIDS[..])));
    let binding = (prop::sample::select(&BINDINGS[..]), prop::option::of(bounds()));
    prop_oneof![
        target.prop_map(|(name, uid)| Change::Target { name, uid }),
        binding.prop_map(|(name, to)| Change::Binding { name, to }),
    ]
}

fn record(name: &str, bound: &Bound) -> RenderBindingRecord {
    let mut binding: api::RenderBinding = a_binding(bound.owner, "charts");
    binding.metadata.name = Some(name.into());
    binding.spec.render_artifact_ref.name = bound.artifact.into();
    binding.spec.owner_kind = bound.kind.into();
    match bound.controller {
        Some(uid) => binding.metadata.owner_references.as_mut().unwrap()[0].uid = uid.into(),
        None => binding.metadata.owner_references = None,
    }
    RenderBindingRecord::from(&binding)
}

fn apply(world: &mut World, change: &Change) {
    match change {
        Change::Target { name, uid: Some(uid) } => {
            let mut record = TargetRecord::from(&target("edge", name, "charts"));
            record.meta.uid = (*uid).into();
            world.insert(record);
        }
        Change::Target { name, uid: None } => {
            world.remove::<TargetRecord>(&ObjectName::new("edge", *name));
        }
        Change::Binding { name, to: Some(bound) } => {
            world.insert(record(name, bound));
        }
        Change::Binding { name, to: None } => {
            world.remove::<RenderBindingRecord>(&ObjectName::new("edge", *name));
        }
    }
}

/// What `of` is by its word alone: a Target's, and that Target is not there or has another uid.
fn stray(world: &World, of: &RenderBindingRecord) -> bool {
    let uid = world.targets.get(&of.owner).map(|owner| &owner.meta.uid);
    let held = of.controller.as_ref().map(|controller| &controller.uid);
    &*of.owner_kind == "Target" && (uid.is_none() || held.is_some() && held != uid)
}

type Listed = Vec<Arc<RenderBindingRecord>>;

fn walked(world: &World, artifact: &ObjectName) -> Listed {
    let all = world.render_bindings.by(&IndexKey::Artifact(artifact.clone()));
    all.filter(|binding| stray(world, binding)).cloned().collect()
}

proptest! {
    /// After every change the index names what a walk over all bindings finds, also with own writes laid over them.
    #[test]
    fn the_index_of_strays_equals_a_walk(
        changes in prop::collection::vec(changes(), 1..40),
        own in (prop::sample::select(&BINDINGS[..]), bounds()),
    ) {
        let mut world = World::default();
        for change in &changes {
            apply(&mut world, change);
            for artifact in ARTIFACTS {
                let artifact = ObjectName::new("edge", artifact);
                let indexed: Listed = world.strays(&artifact).cloned().collect();
                prop_assert_eq!(indexed, walked(&world, &artifact), "after {:?}", change);
            }
        }
        let artifact = ObjectName::new("edge", own.1.artifact);
        let mut written = record(own.0, &own.1);
        written.meta.resource_version = "99".into();
        let mut memory = ArtifactMemory::default();
        let entry = Own::Present { record: Arc::new(written), since: seconds(0) };
        memory.own_bindings.insert(own.0.into(), entry);
        let view = View::of(&world, &artifact, &mut memory);
        let laid: Listed = view.bindings.strays().cloned().collect();
        let all: Listed = view.bindings.values().filter(|binding| stray(&world, binding)).cloned().collect();
        prop_assert_eq!(laid, all);
    }
}
