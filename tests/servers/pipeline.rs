//! What users see of the pipeline: the same on both API servers.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::{Log, Program};
use crate::world::{Kind, World, is_ready, name};

/// The kinds that users delete, in the order in which nothing keeps them.
const USERS: [&str; 6] =
    ["profiles", "releasebindings", "targets", "releases", "componentversions", "components"];
/// The kinds that the controller makes.
const MADE: [&str; 3] = ["rendertasks", "renderbindings", "renderartifacts"];

/// A world where a process has made all Targets ready.
fn ready(kind: Kind, case: &str) -> Option<(World, Program)> {
    let world = World::new(kind, case)?;
    world.install_examples();
    let program = world.run("run", &[]);
    settled(&world, &program.log);
    Some((world, program))
}

/// Waits until all Targets are ready and nothing is left to clean up.
pub fn settled(world: &World, log: &Log) {
    world.until("all Targets are ready, and the registry holds what the artifacts say", Some(log), || {
        world.all_ready() && world.agrees()
    });
}

/// Changes a value of a Release.
pub fn touch(world: &World, release: &str, replicas: u64) {
    let patch = json!({ "spec": { "values": { "replicaCount": replicas } } });
    world.patch(&world.fleet(&format!("releases/{release}")), &patch);
}

/// Deletes everything that users made, and waits until nothing is left of it.
pub fn delete_everything(world: &World, log: &Log) {
    for plural in USERS {
        world.delete_all(plural);
    }
    world.until("everything is gone", Some(log), || {
        USERS.iter().chain(&MADE).all(|plural| world.list(plural).is_empty())
    });
    let registry = world.solar("platform", "registries/charts");
    world.until("the Registry is let go", Some(log), || {
        world.get(&registry).is_some_and(|it| it["metadata"]["finalizers"].is_null())
    });
    assert_eq!(world.tags(), BTreeSet::new());
}

pub fn targets_become_ready_and_then_nobody_asks_for_anything(kind: Kind) {
    let Some((world, program)) = ready(kind, "silent") else { return };
    let asked = || world.asked("run").len();
    assert!(world.writes("run") > 0);
    // Its last events may still be on their way.
    let mut before = 0;
    world.until("the requests have come to an end", Some(&program.log), || {
        let last = std::mem::replace(&mut before, asked());
        world.pause(Duration::from_secs(1));
        last == before
    });
    let pushes = world.store.log().len();
    world.pause(Duration::from_secs(3));
    let after = world.asked("run");
    assert_eq!(after.len(), before, "{:?}", &after[before..]);
    assert_eq!(world.store.log().len(), pushes);
}

pub fn changed_values_reach_the_targets_that_are_bound_and_no_others(kind: Kind) {
    let Some((world, program)) = ready(kind, "changed") else { return };
    let (tags, artifacts) = (world.tags(), world.artifacts());
    touch(&world, "web-next", 5);
    world.until("both have another bootstrap", Some(&program.log), || {
        world.is_at("staging", 2) && world.is_at("lab", 2)
    });
    settled(&world, &program.log);
    let versions = world
        .list("targets")
        .into_iter()
        .map(|it| (name(&it).to_owned(), it["status"]["bootstrapVersion"].as_i64().unwrap()));
    let versions: Vec<_> = versions.collect();
    let expected = [("edge-1", 1), ("edge-2", 1), ("lab", 2), ("staging", 2)];
    assert_eq!(versions, expected.map(|(name, version)| (name.to_owned(), version)));
    world.until("what was replaced is gone", Some(&program.log), || {
        world.tags().len() == tags.len() && world.agrees()
    });
    // Three are new: the release's chart and two bootstraps.
    assert_eq!(world.tags().difference(&tags).count(), 3);
    let kept = world.artifacts().into_iter().filter(|(tag, _)| tags.contains(tag));
    assert!(kept.into_iter().all(|(tag, digest)| artifacts[&tag] == digest), "a tag was moved");
}

pub fn a_shared_tag_outlives_the_first_of_its_targets(kind: Kind) {
    let Some((world, program)) = ready(kind, "shared") else { return };
    let tags = world.tags();
    world.delete(&world.fleet("targets/edge-1"), "Background");
    world.until("one tag has gone", Some(&program.log), || {
        world.is_gone(&world.fleet("targets/edge-1"))
            && world.tags().len() == tags.len() - 1
            && world.agrees()
    });
    let gone: Vec<_> = tags.difference(&world.tags()).cloned().collect();
    assert!(gone[0].contains("edge-1"), "{gone:?}");
    assert!(world.all_ready());
    world.delete(&world.fleet("targets/edge-2"), "Background");
    // The releases that only those two had go with it; staging prefers another to web-stable.
    world.until("its own tag and those of both releases have gone", Some(&program.log), || {
        world.is_gone(&world.fleet("targets/edge-2"))
            && world.tags().len() == tags.len() - 4
            && world.agrees()
    });
    assert!(world.all_ready());
}

pub fn deletion_leaves_nothing(kind: Kind) {
    let Some((world, program)) = ready(kind, "nothing") else { return };
    assert!(!world.tags().is_empty());
    delete_everything(&world, &program.log);
}

pub fn a_profile_follows_labels(kind: Kind) {
    let Some((world, program)) = ready(kind, "labels") else { return };
    let bindings = || -> BTreeSet<String> {
        let all = world.list("releasebindings").into_iter();
        let own = all.filter(|it| it["spec"]["releaseRef"]["name"] == "probe");
        own.map(|it| it["spec"]["targetRef"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let these = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(bindings(), these(&["edge-1", "edge-2"]));
    let lab = world.fleet("targets/lab");
    world.patch(&lab, &json!({ "metadata": { "labels": { "ring": "edge" } } }));
    world.until("lab has it too", Some(&program.log), || world.is_at("lab", 2));
    assert_eq!(bindings(), these(&["edge-1", "edge-2", "lab"]));
    world.patch(&lab, &json!({ "metadata": { "labels": { "ring": "inner" } } }));
    world.until("lab has it no longer", Some(&program.log), || world.is_at("lab", 3));
    assert_eq!(bindings(), these(&["edge-1", "edge-2"]));
    settled(&world, &program.log);
}

/// Names of the objects of a kind that `owner` controls and blocks.
fn owned(world: &World, plural: &str, owner: &Value) -> Vec<String> {
    let objects = world.list(plural).into_iter().filter(|it| {
        it["metadata"]["ownerReferences"].as_array().is_some_and(|owners| {
            owners.iter().any(|it| it["uid"] == owner["metadata"]["uid"] && it["controller"] == true)
        })
    });
    objects.map(|it| name(&it).to_owned()).collect()
}

pub fn owners_go_in_the_foreground_and_in_the_background_with_all_that_they_own(kind: Kind) {
    let Some((world, program)) = ready(kind, "owners") else { return };
    for (target, propagation) in [("edge-1", "Foreground"), ("lab", "Background")] {
        let path = world.fleet(&format!("targets/{target}"));
        let object = world.get(&path).unwrap();
        let [bindings, tasks] =
            ["renderbindings", "rendertasks"].map(|plural| (plural, owned(&world, plural, &object)));
        assert!(!bindings.1.is_empty(), "{bindings:?}");
        world.delete(&path, propagation);
        world.until("it is gone with all that it owned", Some(&program.log), || {
            let gone = |(plural, names): &(&str, Vec<String>)| {
                names.iter().all(|name| world.is_gone(&world.fleet(&format!("{plural}/{name}"))))
            };
            // The artifacts are nobody's: each goes, with its tag, when it has seen its last binding go.
            let tagged = || world.tags().iter().any(|tag| tag.contains(target));
            world.is_gone(&path) && gone(&bindings) && gone(&tasks) && !tagged() && world.agrees()
        });
        assert!(world.all_ready());
    }
    let path = world.fleet("profiles/probe");
    let bindings = owned(&world, "releasebindings", &world.get(&path).unwrap());
    assert_eq!(bindings.len(), 1, "of edge-2");
    world.delete(&path, "Foreground");
    world.until(
        "the Profile is gone with its binding, and its Target goes on without",
        Some(&program.log),
        || {
            world.is_gone(&path)
                && world.is_gone(&world.fleet(&format!("releasebindings/{}", bindings[0])))
                && world.is_at("edge-2", 2)
                && world.agrees()
        },
    );
}

fn fleet_path(world: &World) -> String {
    format!("/api/v1/namespaces/{}", world.namespace("fleet"))
}

pub fn a_namespace_whose_credentials_lie_elsewhere_goes_whole_with_its_tags(kind: Kind) {
    let Some((world, program)) = ready(kind, "whole") else { return };
    assert!(!world.tags().is_empty());
    world.delete(&fleet_path(&world), "Background");
    world.until("the namespace is gone", Some(&program.log), || world.is_gone(&fleet_path(&world)));
    assert_eq!(world.tags(), BTreeSet::new());
}

pub fn a_namespace_whose_secret_went_first_keeps_its_artifacts_which_say_why(kind: Kind) {
    let Some(world) = World::new(kind, "secret") else { return };
    let (fleet, platform) = (world.namespace("fleet"), world.namespace("platform"));
    // The Registry and its Secret are in the namespace as well, and Targets use those.
    for (collection, mut object) in world.examples() {
        world.ensure(&collection, &object);
        if ["Registry", "Secret"].contains(&object["kind"].as_str().unwrap()) {
            object["metadata"]["namespace"] = json!(fleet);
            world.ensure(&collection.replace(&platform, &fleet), &object);
        }
    }
    for target in world.list("targets") {
        let patch = json!({ "spec": { "renderRegistryRef": { "name": "charts", "namespace": fleet } } });
        world.patch(&world.fleet(&format!("targets/{}", name(&target))), &patch);
    }
    let program = world.run("run", &[]);
    settled(&world, &program.log);
    let tags = world.tags();
    assert!(world.list("targets").iter().all(is_ready) && !tags.is_empty());
    world.delete(&format!("{}/secrets/charts-push", fleet_path(&world)), "Background");
    world.delete(&fleet_path(&world), "Background");
    world.until("only artifacts are left, and each says why", Some(&program.log), || {
        let gone = USERS.iter().chain(&["rendertasks", "renderbindings"]);
        let artifacts = world.list("renderartifacts");
        gone.into_iter().all(|plural| world.list(plural).is_empty())
            && artifacts.len() == tags.len()
            && artifacts.iter().all(|it| {
                let path = format!("renderartifacts/{}", name(it));
                world.condition(&path, "OCICleanup").is_some_and(|[_, reason, message]| {
                    reason == "AuthFailed" && message.contains("charts-push does not exist")
                })
            })
    });
    assert_eq!(world.tags(), tags);
    // Nothing can be created in a namespace that goes, so the mend is a Registry elsewhere.
    for artifact in world.list("renderartifacts") {
        let patch = json!({ "spec": { "registryRef": { "name": "charts", "namespace": platform } } });
        world.patch(&world.fleet(&format!("renderartifacts/{}", name(&artifact))), &patch);
    }
    world.until("the namespace is gone", Some(&program.log), || world.is_gone(&fleet_path(&world)));
    assert_eq!(world.tags(), BTreeSet::new());
}
