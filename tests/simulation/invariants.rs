//! What must hold at every moment, and at the end.

use std::collections::BTreeSet;

use serde_json::Value;
use solar_controller::adapters::oci::Digest;
use solar_controller::dev::registry::{Presented, RegistryStore};
use solar_core::names;

use crate::fleet::{self, OWN_KINDS, USER_KINDS};
use crate::story::World;

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn name_of(object: &Value) -> (&str, &str) {
    (text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn objects(world: &World, kind: &str) -> Vec<Value> {
    world.server.objects(kind).collect()
}

/// Panics when an invariant does not hold now.
pub fn hold(world: &World) {
    let mut broken = world.broken.lock().unwrap().clone();
    broken.extend(world.descriptors.lock().unwrap().look(objects(world, "ComponentVersion")));
    broken.extend(orphans(world));
    broken.extend(lost_tags(world));
    broken.extend(misdirected_credentials(world));
    assert!(broken.is_empty(), "{}\n{}", broken.join("\n"), describe(world));
}

/// A tag is bound, or its artifact exists, or it is gone.
fn orphans(world: &World) -> Vec<String> {
    let known: BTreeSet<(String, String)> = objects(world, "RenderArtifact")
        .iter()
        .map(|artifact| {
            let (namespace, name) = name_of(artifact);
            (namespace.to_owned(), name.to_owned())
        })
        .chain(objects(world, "RenderBinding").iter().map(|binding| {
            (name_of(binding).0.to_owned(), text(binding, "/spec/renderArtifactRef/name").to_owned())
        }))
        .collect();
    let mut orphans = Vec::new();
    for (host, store) in &world.registries.stores {
        for (repository, tag) in store.all_tags().keys() {
            let namespace = repository.split('/').next().unwrap_or_default();
            let artifact = names::artifact(namespace, host, repository, tag);
            if !known.contains(&(namespace.to_owned(), artifact)) {
                orphans.push(format!("{host}/{repository}:{tag} is an orphan"));
            }
        }
    }
    orphans
}

/// A tag that is bound and was pushed holds what was pushed.
fn lost_tags(world: &World) -> Vec<String> {
    let bound = bound_artifacts(world);
    let mut lost = Vec::new();
    for artifact in objects(world, "RenderArtifact") {
        let (namespace, name) = name_of(&artifact);
        let digest = text(&artifact, "/status/digest");
        if digest.is_empty() || !bound.contains(&(namespace.to_owned(), name.to_owned())) {
            continue;
        }
        let (host, repository, tag) = (
            text(&artifact, "/spec/baseURL"),
            text(&artifact, "/spec/repository"),
            text(&artifact, "/spec/tag"),
        );
        let Some(store) = world.registries.stores.get(host) else { continue };
        let held = store.all_tags().get(&(repository.to_owned(), tag.to_owned())).cloned();
        if held.as_ref().map(Digest::as_str) != Some(digest) {
            lost.push(format!(
                "{host}/{repository}:{tag} is bound and should hold {digest}, but holds {held:?}"
            ));
        }
    }
    lost
}

fn bound_artifacts(world: &World) -> BTreeSet<(String, String)> {
    objects(world, "RenderBinding")
        .iter()
        .filter(|binding| !is_terminating(binding))
        .map(|binding| {
            (name_of(binding).0.to_owned(), text(binding, "/spec/renderArtifactRef/name").to_owned())
        })
        .collect()
}

/// Credentials go only to the host that they are for, and no request to a host for which there are none.
fn misdirected_credentials(world: &World) -> Option<String> {
    if let Some(request) = world.registries.elsewhere.log().first() {
        return Some(format!("a request left for {}", request.host));
    }
    world.registries.stores.iter().find_map(|(host, store)| {
        let astray = store.log().into_iter().find(|request| match &request.presented {
            Presented::Nothing => false,
            Presented::Basic(user) => *user != fleet::user(host),
            Presented::Bearer | Presented::Other => true,
        });
        astray.map(|request| format!("{host} was shown {:?}", request.presented))
    })
}

/// Notes when a tag is to be deleted that is bound: called before the deletion has an effect.
pub fn may_delete(world: &World, host: &str, repository: &str, tag: &str) {
    let namespace = repository.split('/').next().unwrap_or_default();
    let artifact = names::artifact(namespace, host, repository, tag);
    let bound = objects(world, "RenderBinding").into_iter().find(|binding| {
        name_of(binding).0 == namespace && text(binding, "/spec/renderArtifactRef/name") == artifact
    });
    if let Some(binding) = bound {
        let what = format!("{host}/{repository}:{tag} is deleted while {:?} holds it", name_of(&binding));
        world.broken.lock().unwrap().push(what);
    }
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// Every living Target is Ready, or says why not; what is Ready can be pulled.
pub fn explained(world: &World) -> Result<(), String> {
    for target in objects(world, "Target") {
        let who = format!("Target {:?}", name_of(&target));
        if is_terminating(&target) {
            return Err(format!("{who} is still terminating"));
        }
        let Some(ready) = condition(&target, "Ready") else { return Err(format!("{who} has no condition")) };
        match (text(ready, "/status"), text(ready, "/reason")) {
            ("True", _) => can_be_pulled(world, &target)?,
            (_, "Suspended") if suspended(&target) => {}
            (_, reason) => is_a_reason(world, &target, reason, text(ready, "/message"))?,
        }
    }
    versions_say_what_is_true(world)?;
    tags_are_the_artifacts(world)?;
    profiles_bind_what_they_select(world)
}

/// ComponentVersions whose grace period runs.
pub fn pending(world: &World) -> Vec<Value> {
    let mut versions = objects(world, "ComponentVersion");
    versions.retain(|version| {
        condition(version, "Available").is_some_and(|c| text(c, "/reason") == "DescriptorMissingPending")
    });
    versions
}

/// Every living ComponentVersion says whether its descriptor is there, and is held; so is its Component.
fn versions_say_what_is_true(world: &World) -> Result<(), String> {
    for version in objects(world, "ComponentVersion").iter().filter(|version| !is_terminating(version)) {
        let (namespace, name) = name_of(version);
        let registry = objects(world, "Registry").iter().any(|registry| {
            name_of(registry).0 == namespace
                && text(registry, "/spec/hostname") == text(version, "/spec/registry")
        });
        world.descriptors.lock().unwrap().is_true(version, registry)?;
        let component = text(version, "/spec/componentRef/name");
        let component = world.server.get_object("Component", namespace, component);
        let component = component.filter(|component| !is_terminating(component));
        if !is_held(version, "componentversion-finalizer")
            || component.is_some_and(|component| !is_held(&component, "component-ref"))
        {
            return Err(format!("ComponentVersion {namespace}/{name} or its Component is not held"));
        }
    }
    Ok(())
}

fn suspended(target: &Value) -> bool {
    target["metadata"]["annotations"]["solar.opendefense.cloud/suspend"] == "true"
}

/// What a Ready Target names is in the registry: its bootstrap chart as its task made it, and each release chart with the
/// digest that the bootstrap chart gives.
fn can_be_pulled(world: &World, target: &Value) -> Result<(), String> {
    let url = text(target, "/status/chartURL");
    let Some((host, rest)) = url.trim_start_matches("oci://").split_once('/') else {
        return Err(format!("Target {:?} is ready without a chart", name_of(target)));
    };
    let (repository, tag) = rest.rsplit_once(':').unwrap_or_default();
    let (namespace, _) = name_of(target);
    let task = objects(world, "RenderTask").into_iter().find(|task| {
        name_of(task).0 == namespace
            && text(task, "/spec/baseURL") == host
            && text(task, "/spec/repository") == repository
            && text(task, "/spec/tag") == tag
    });
    let Some(task) = task else { return Err(format!("{url} has no task")) };
    holds(world, host, repository, tag, text(&task, "/status/digest"))?;
    let releases = task.pointer("/spec/bootstrap/input/releases").and_then(Value::as_object);
    for release in releases.into_iter().flat_map(|releases| releases.values()) {
        let (host, repository) = text(release, "/repository").split_once('/').unwrap_or_default();
        holds(world, host, repository, text(release, "/tag"), text(release, "/digest"))?;
    }
    Ok(())
}

/// Whether the registry's tag has this digest.
fn holds(world: &World, host: &str, repository: &str, tag: &str, digest: &str) -> Result<(), String> {
    let tags = world.registries.stores.get(host).map(RegistryStore::all_tags).unwrap_or_default();
    match tags.get(&(repository.to_owned(), tag.to_owned())) {
        Some(found) if found.as_str() == digest => Ok(()),
        Some(found) => Err(format!("{host}/{repository}:{tag} holds {} and not {digest:?}", found.as_str())),
        None => Err(format!("{host}/{repository}:{tag} is not in the registry")),
    }
}

/// Whether somebody else has to do something before the Target can be Ready, and the Target says just that.
fn is_a_reason(world: &World, target: &Value, reason: &str, message: &str) -> Result<(), String> {
    let causes = causes(world, target);
    let is_said = |cause: &Cause| {
        cause.reasons.contains(&reason) && cause.says.iter().all(|word| message.contains(word))
    };
    if causes.iter().any(is_said) {
        Ok(())
    } else {
        Err(format!("Target {:?} says {reason}: {message}, which is none of {causes:?}", name_of(target)))
    }
}

/// What keeps a Target from being Ready, and how it says so.
#[derive(Debug)]
struct Cause {
    reasons: &'static [&'static str],
    says: Vec<String>,
}

/// The causes for which this Target may not be Ready. The first that keeps everything else from being done is the only
/// one.
fn causes(world: &World, target: &Value) -> Vec<Cause> {
    let only = |reasons, says: Vec<String>| vec![Cause { reasons, says }];
    let (namespace, name) = name_of(target);
    let (registry_namespace, registry) = referred(target, "/spec/renderRegistryRef");
    if registry_namespace != namespace
        && !exists(world, "ReferenceGrant", registry_namespace, "teams-use-charts")
    {
        let says = [
            format!("Namespace {registry_namespace} does not grant Targets of namespace {namespace}"),
            format!("its Registry {registry}:"),
        ];
        return only(&["NotGranted"], says.into());
    }
    if !is_usable(world, "Registry", registry_namespace, registry, "registry-ref") {
        return only(&["NotFound"], vec![format!("{registry_namespace}/{registry}")]);
    }
    let bindings: Vec<_> = objects(world, "ReleaseBinding")
        .into_iter()
        .filter(|binding| name_of(binding).0 == namespace && text(binding, "/spec/targetRef/name") == name)
        .collect();
    if bindings.is_empty() {
        return only(&["NoReleaseBindings"], vec!["No ReleaseBinding names this Target".to_owned()]);
    }
    let mut missing: Vec<_> =
        bindings.iter().filter_map(|binding| missing_of_release(world, binding)).collect();
    missing.extend(
        objects(world, "RegistryBinding")
            .iter()
            .filter(|binding| {
                name_of(binding).0 == namespace && text(binding, "/spec/targetRef/name") == name
            })
            .map(|binding| text(binding, "/spec/registryRef/name"))
            .filter(|registry| !is_usable(world, "Registry", namespace, registry, "registry-ref"))
            .map(|registry| format!("Registry {namespace}/{registry} of RegistryBinding")),
    );
    if !missing.is_empty() {
        return only(&["MissingDependencies"], missing);
    }
    // Whatever ends the process three times is not tried a fourth time: a person has to ask.
    let given_up = "attempts ended without a result".to_owned();
    only(&["ReleaseFailed", "Failed"], vec![given_up])
}

/// What a ReleaseBinding misses, in the Target's words.
fn missing_of_release(world: &World, binding: &Value) -> Option<String> {
    let (namespace, release) = (name_of(binding).0, text(binding, "/spec/releaseRef/name"));
    let Some(found) = world.server.get_object("Release", namespace, release) else {
        return Some(format!("Release {namespace}/{release} of ReleaseBinding"));
    };
    let (there, version) = referred(&found, "/spec/componentVersionRef");
    let granted = there == namespace || exists(world, "ReferenceGrant", there, "team-a-uses-versions");
    let usable = is_usable(world, "ComponentVersion", there, version, "componentversion-ref");
    (!granted || !usable)
        .then(|| format!("ComponentVersion {there}/{version} of Release {namespace}/{release}"))
}

/// Namespace and name that a reference of `object` stands for.
fn referred<'a>(object: &'a Value, path: &str) -> (&'a str, &'a str) {
    let reference = object.pointer(path).unwrap_or(&Value::Null);
    match text(reference, "/namespace") {
        "" => (name_of(object).0, text(reference, "/name")),
        named => (named, text(reference, "/name")),
    }
}

fn exists(world: &World, kind: &str, namespace: &str, name: &str) -> bool {
    world.server.get_object(kind, namespace, name).is_some_and(|object| !is_terminating(&object))
}

/// Whether an object can be depended on: one that is on its way out serves until it is gone, if it is held.
fn is_usable(world: &World, kind: &str, namespace: &str, name: &str, finalizer: &str) -> bool {
    let object = world.server.get_object(kind, namespace, name);
    object.is_some_and(|object| !is_terminating(&object) || is_held(&object, finalizer))
}

fn is_held(object: &Value, finalizer: &str) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|held| {
        held.iter().any(|held| held.as_str().is_some_and(|held| held.ends_with(finalizer)))
    })
}

/// Whether the task that the artifact names says why its chart is not pushed.
fn has_failed(world: &World, artifact: &Value) -> bool {
    let namespace = text(artifact, "/metadata/namespace");
    let task = world.server.get_object("RenderTask", namespace, text(artifact, "/spec/renderTaskRef"));
    task.is_some_and(|task| condition(&task, "JobFailed").is_some_and(|it| it["status"] == "True"))
}

/// The tags of the registries are those that the artifacts state, with the digests that they state. An artifact whose
/// chart was never pushed states none; it may hold a tag whose digest was never written, for the process was killed, where
/// no attempt follows: it is on its way out, or its task says why there is none. One on its way out that says why it cannot
/// go may have asked for the deletion of its tag before it could not any more.
fn tags_are_the_artifacts(world: &World) -> Result<(), String> {
    let mut stated = BTreeSet::new();
    let mut may_be_gone = BTreeSet::new();
    let mut may_be_there = BTreeSet::new();
    for artifact in objects(world, "RenderArtifact") {
        let part = |path| text(&artifact, path);
        let (host, repository, tag) = (part("/spec/baseURL"), part("/spec/repository"), part("/spec/tag"));
        let chart = (format!("{host}/{repository}:{tag}"), part("/status/digest").to_owned());
        let cleanup = condition(&artifact, "OCICleanup");
        let is_stuck = is_terminating(&artifact) && cleanup.is_some_and(|it| it["status"] == "False");
        if chart.1.is_empty() {
            let rests = is_terminating(&artifact) || has_failed(world, &artifact);
            may_be_there.extend(rests.then_some(chart.0));
            continue;
        }
        if is_stuck {
            may_be_gone.insert(chart.clone());
            // Or what was put in its place, to be deleted by its digest.
            may_be_there.insert(chart.0.clone());
        }
        stated.insert(chart);
    }
    let stores = world.registries.stores.iter();
    let held = stores.flat_map(|(host, store)| {
        store.all_tags().into_iter().map(move |((repository, tag), digest)| {
            (format!("{host}/{repository}:{tag}"), digest.as_str().to_owned())
        })
    });
    let held: BTreeSet<_> = held.collect();
    let tags: Vec<_> = held.difference(&stated).filter(|(tag, _)| !may_be_there.contains(tag)).collect();
    let artifacts: Vec<_> = stated.difference(&held).filter(|chart| !may_be_gone.contains(chart)).collect();
    if tags.is_empty() && artifacts.is_empty() {
        return Ok(());
    }
    Err(format!("tags that no artifact states: {tags:?}; artifacts without their tag: {artifacts:?}"))
}

/// Finalizers of ours on objects that nobody refers to any more.
pub fn idle_finalizers(world: &World) -> Vec<String> {
    let mut idle = Vec::new();
    for (kind, finalizer, referrers) in [
        (
            "Registry",
            "registry-ref",
            &[
                ("Target", "/spec/renderRegistryRef"),
                ("RegistryBinding", "/spec/registryRef"),
                ("RenderArtifact", "/spec/registryRef"),
            ][..],
        ),
        (
            "Release",
            "release-ref",
            &[("ReleaseBinding", "/spec/releaseRef"), ("Profile", "/spec/releaseRef")],
        ),
        ("ComponentVersion", "componentversion-ref", &[("Release", "/spec/componentVersionRef")]),
        ("Component", "component-ref", &[("ComponentVersion", "/spec/componentRef")]),
    ] {
        let referred: BTreeSet<(String, String)> = referrers
            .iter()
            .flat_map(|(kind, path)| objects(world, kind).into_iter().map(move |object| (object, path)))
            .map(|(object, path)| {
                let own = name_of(&object).0;
                let named = text(&object, &format!("{path}/namespace"));
                let namespace = if named.is_empty() { own } else { named };
                (namespace.to_owned(), text(&object, &format!("{path}/name")).to_owned())
            })
            .collect();
        idle.extend(objects(world, kind).iter().filter_map(|object| {
            let (namespace, name) = name_of(object);
            let is_idle =
                is_held(object, finalizer) && !referred.contains(&(namespace.to_owned(), name.to_owned()));
            is_idle.then(|| format!("{finalizer} on {kind} {namespace}/{name}"))
        }));
    }
    idle
}

/// Every Profile has bound the Targets that it selects, and no other.
pub fn profiles_bind_what_they_select(world: &World) -> Result<(), String> {
    for profile in objects(world, "Profile") {
        let (namespace, name) = name_of(&profile);
        let wanted =
            profile["spec"]["targetSelector"]["matchLabels"].as_object().cloned().unwrap_or_default();
        let selected: BTreeSet<String> = objects(world, "Target")
            .iter()
            .filter(|target| name_of(target).0 == namespace)
            .filter(|target| wanted.iter().all(|(key, value)| target["metadata"]["labels"][key] == *value))
            .map(|target| name_of(target).1.to_owned())
            .collect();
        let release = text(&profile, "/spec/releaseRef/name");
        let exists = objects(world, "Release").iter().any(|it| name_of(it) == (namespace, release));
        let bound: BTreeSet<String> = objects(world, "ReleaseBinding")
            .iter()
            .filter(|binding| binding["metadata"]["ownerReferences"][0]["uid"] == profile["metadata"]["uid"])
            .filter(|binding| !exists || text(binding, "/spec/releaseRef/name") == release)
            .map(|binding| text(binding, "/spec/targetRef/name").to_owned())
            .collect();
        // Without its Release a Profile binds nobody else, and leaves those that it has bound.
        if bound != selected && (exists || !bound.is_subset(&selected)) {
            return Err(format!("Profile {namespace}/{name} selects {selected:?} and has bound {bound:?}"));
        }
        let matched = profile["status"]["matchedTargets"].as_u64().unwrap_or_default();
        if matched != bound.len() as u64 {
            return Err(format!("Profile {namespace}/{name} counts {matched} of {bound:?}"));
        }
    }
    Ok(())
}

/// Every Target is Ready, and nothing is there that nobody wants.
pub fn all_ready(world: &World) -> Result<(), String> {
    profiles_bind_what_they_select(world)?;
    for target in objects(world, "Target") {
        let ready = condition(&target, "Ready");
        if ready.is_none_or(|ready| text(ready, "/status") != "True") {
            return Err(format!("{:?}: {ready:?}", name_of(&target)));
        }
        can_be_pulled(world, &target)?;
    }
    let bound = bound_artifacts(world);
    for artifact in objects(world, "RenderArtifact") {
        let (namespace, name) = name_of(&artifact);
        if is_terminating(&artifact) || !bound.contains(&(namespace.to_owned(), name.to_owned())) {
            return Err(format!("RenderArtifact {namespace}/{name} is there for nobody"));
        }
    }
    tags_are_the_artifacts(world)
}

/// No object of ours, no tag.
pub fn nothing_is_left(world: &World) -> Result<(), String> {
    for (kind, _) in USER_KINDS.iter().chain(&OWN_KINDS).filter(|(kind, _)| *kind != "ReferenceGrant") {
        if let Some(left) = objects(world, kind).first() {
            return Err(format!("{kind} {:?} is left", name_of(left)));
        }
    }
    let tags: Vec<_> =
        world.registries.stores.values().flat_map(|store| store.all_tags().into_keys()).collect();
    if tags.is_empty() { Ok(()) } else { Err(format!("tags are left: {tags:?}")) }
}

/// Everything that is there, for messages.
pub fn describe(world: &World) -> String {
    let mut lines = Vec::new();
    for (kind, _) in USER_KINDS.iter().chain(&OWN_KINDS) {
        for object in objects(world, kind) {
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let conditions: Vec<_> = conditions
                .iter()
                .map(|c| format!("{}={}/{}: {}", c["type"], c["status"], c["reason"], c["message"]))
                .collect();
            lines.push(format!(
                "{kind} {:?} deletion={} finalizers={} spec={} digest={} {}",
                name_of(&object),
                object["metadata"]["deletionTimestamp"],
                object["metadata"]["finalizers"],
                object["spec"],
                object["status"]["digest"],
                conditions.join("; ")
            ));
        }
    }
    for (host, store) in &world.registries.stores {
        lines.extend(
            store
                .all_tags()
                .iter()
                .map(|((repository, tag), digest)| format!("{host}/{repository}:{tag} {}", digest.as_str())),
        );
    }
    lines.push(format!(
        "the last requests: {:#?}",
        world.server.requests().iter().rev().take(5).collect::<Vec<_>>()
    ));
    lines.join("\n")
}
