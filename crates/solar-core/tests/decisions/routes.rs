//! Who is concerned by a change: old and new side, and nobody else.

use std::sync::Arc;

use solar_api::{self as api};
use solar_core::object::{ControllerRef, ObjectName};
use solar_core::record::{
    ComponentRecord, ComponentVersionRecord, GrantRecord, ProfileRecord, RegistryBindingRecord,
    RegistryRecord, ReleaseBindingRecord, ReleaseRecord, RenderArtifactRecord, RenderBindingRecord,
    RenderTaskRecord, TargetRecord,
};
use solar_core::routes::{Concerned, Routed, keeper_of_status};
use solar_core::world::World;

use crate::support::{
    bootstrap_task_spec, component_version, edit, grant, meta, registry, registry_binding, release,
    release_binding, target,
};

/// Two Targets with a release each, of one version, on one registry of another namespace.
fn world() -> World {
    let mut world = World::default();
    for name in ["berlin", "hamburg"] {
        world.insert(TargetRecord::from(&target("edge", name, "platform/charts")));
    }
    world.insert(RegistryRecord::from(&registry("platform", "charts", "registry.example.com")));
    world.insert(ComponentVersionRecord::from(&component_version("edge", "web-1", "web")));
    for (name, bound_to) in [("web", "berlin"), ("probe", "hamburg")] {
        world.insert(ReleaseRecord::from(&release("edge", name, "web-1")));
        let binding = release_binding("edge", &format!("{bound_to}-{name}"), bound_to, name);
        world.insert(ReleaseBindingRecord::from(&binding));
    }
    world
}

fn concerned<R: Routed>(world: &World, old: Option<&R>, new: Option<&R>) -> Vec<String> {
    let mut to = Concerned::new();
    R::concerned(world, old, new, &mut to);
    to.iter().map(ToString::to_string).collect()
}

#[test]
fn a_binding_that_moves_concerns_both_targets_and_itself() {
    let world = world();
    let mut moved = release_binding("edge", "berlin-web", "hamburg", "web");
    moved.metadata.generation = Some(2);
    let old = ReleaseBindingRecord::from(&release_binding("edge", "berlin-web", "berlin", "web"));
    let found = concerned(&world, Some(&old), Some(&ReleaseBindingRecord::from(&moved)));
    assert_eq!(found, ["ReleaseBinding edge/berlin-web", "Target edge/berlin", "Target edge/hamburg"]);
}

#[test]
fn a_binding_that_names_another_release_concerns_the_protection_of_both() {
    let world = world();
    let mut changed = release_binding("edge", "berlin-web", "berlin", "probe");
    changed.metadata.generation = Some(2);
    let old = ReleaseBindingRecord::from(&release_binding("edge", "berlin-web", "berlin", "web"));
    let found = concerned(&world, Some(&old), Some(&ReleaseBindingRecord::from(&changed)));
    let wanted = [
        "ReleaseBinding edge/berlin-web",
        "ReleaseProtection edge/probe",
        "ReleaseProtection edge/web",
        "Target edge/berlin",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_release_concerns_only_the_targets_that_it_is_bound_to() {
    let world = world();
    let old = ReleaseRecord::from(&release("edge", "web", "web-1"));
    let mut changed = release("edge", "web", "web-1");
    changed.metadata.generation = Some(2);
    let found = concerned(&world, Some(&old), Some(&ReleaseRecord::from(&changed)));
    let wanted = [
        "Release edge/web",
        "ReleaseBinding edge/berlin-web",
        "ReleaseProtection edge/web",
        "Target edge/berlin",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_version_concerns_the_releases_that_name_it_and_their_targets() {
    let world = world();
    let old = ComponentVersionRecord::from(&component_version("edge", "web-1", "web"));
    let mut changed = component_version("edge", "web-1", "web");
    changed.metadata.generation = Some(2);
    let found = concerned(&world, Some(&old), Some(&ComponentVersionRecord::from(&changed)));
    let wanted = [
        "ComponentVersion edge/web-1",
        "ComponentVersionProtection edge/web-1",
        "Release edge/probe",
        "Release edge/web",
        "Target edge/berlin",
        "Target edge/hamburg",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_registry_concerns_the_targets_that_render_to_it() {
    let world = world();
    let found =
        concerned(&world, None, Some(&RegistryRecord::from(&registry("platform", "charts", "other"))));
    assert_eq!(found, ["RegistryProtection platform/charts", "Target edge/berlin", "Target edge/hamburg"]);
}

#[test]
fn a_target_that_moves_concerns_the_protection_of_both_registries() {
    let world = world();
    let old = TargetRecord::from(&target("edge", "berlin", "platform/charts"));
    let mut moved = target("edge", "berlin", "platform/other");
    moved.metadata.generation = Some(2);
    let found = concerned(&world, Some(&old), Some(&TargetRecord::from(&moved)));
    let wanted =
        ["RegistryProtection platform/charts", "RegistryProtection platform/other", "Target edge/berlin"];
    assert_eq!(found, wanted);
}

#[test]
fn a_target_is_not_concerned_by_its_own_status_or_added_finalizer() {
    let world = world();
    let old = TargetRecord::from(&target("edge", "berlin", "platform/charts"));
    let mut written = target("edge", "berlin", "platform/charts");
    written.status = Some(api::TargetStatus { bootstrap_version: 3, ..Default::default() });
    written.metadata.finalizers = Some(vec!["solar.opendefense.cloud/target-finalizer".into()]);
    let written = TargetRecord::from(&written);
    assert_eq!(concerned(&world, Some(&old), Some(&written)), Vec::<String>::new());
    let found = concerned(&world, Some(&written), Some(&old));
    assert_eq!(found, ["Target edge/berlin"], "a finalizer that somebody took is put back");
}

#[test]
fn a_grant_concerns_those_whose_references_it_allows_and_nobody_else() {
    let world = world();
    let fits = GrantRecord::from(&grant("platform", "g", &[("Target", "edge")], &["Registry"]));
    assert_eq!(concerned(&world, None, Some(&fits)), ["Target edge/berlin", "Target edge/hamburg"]);
    assert_eq!(concerned(&world, Some(&fits), None), ["Target edge/berlin", "Target edge/hamburg"]);
    for other in [
        grant("platform", "g", &[("Target", "elsewhere")], &["Registry"]),
        grant("elsewhere", "g", &[("Target", "edge")], &["Registry"]),
        grant("platform", "g", &[("Profile", "edge")], &["Registry"]),
    ] {
        assert_eq!(concerned(&world, None, Some(&GrantRecord::from(&other))), Vec::<String>::new());
    }
}

// ---- The pipeline's own kinds ----

const NOBODY: [&str; 0] = [];

/// The bootstrap task of Target edge/berlin.
fn task() -> RenderTaskRecord {
    let mut spec = bootstrap_task_spec();
    spec.registry_ref =
        Some(api::ObjectReference { name: "charts".into(), namespace: Some("platform".into()) });
    RenderTaskRecord::from(&api::RenderTask { metadata: meta("edge", "task"), spec, status: None })
}

/// The artifact that [`task`] pushes.
fn artifact() -> RenderArtifactRecord {
    let spec = api::RenderArtifactSpec {
        base_url: "registry.example.com".into(),
        repository: "edge/bootstrap-berlin".into(),
        tag: "v0.0.1".into(),
        render_task_ref: "task".into(),
        registry_ref: Some(api::ObjectReference {
            name: "charts".into(),
            namespace: Some("platform".into()),
        }),
    };
    let metadata = meta("edge", &task().artifact().name);
    RenderArtifactRecord::from(&api::RenderArtifact { metadata, spec, status: None })
}

/// The binding by which Target edge/berlin holds [`artifact`].
fn binding() -> RenderBindingRecord {
    let spec = api::RenderBindingSpec {
        render_artifact_ref: api::LocalReference { name: task().artifact().name.to_string() },
        owner_kind: "Target".into(),
        owner_name: "berlin".into(),
        owner_namespace: "edge".into(),
        registry_ref: None,
    };
    RenderBindingRecord::from(&api::RenderBinding { metadata: meta("edge", "binding"), spec })
}

/// The world with task, artifact and binding of berlin in it.
fn rendered() -> World {
    let mut world = world();
    world.insert(task());
    world.insert(artifact());
    world.insert(binding());
    world
}

/// What [`artifact`]'s actor is called.
fn artifact_actor() -> String {
    format!("RenderArtifact {}", artifact().meta.name)
}

/// The record with this done to it.
fn with<R: Clone>(record: &R, change: impl FnOnce(&mut R)) -> R {
    let mut record = record.clone();
    change(&mut record);
    record
}

fn berlin() -> Arc<ControllerRef> {
    Arc::new(ControllerRef { kind: "Target".into(), name: "berlin".into(), uid: "uid-edge-berlin".into() })
}

#[test]
fn a_tasks_status_concerns_its_target_and_not_itself() {
    let done =
        with(&task(), |task| edit(&mut task.status, |status| status.digest = Some("sha256:aa".into())));
    assert_eq!(concerned(&rendered(), Some(&task()), Some(&done)), ["Target edge/berlin"]);
    let of_nobody = |task: &RenderTaskRecord| with(task, |task| task.owner_kind = "".into());
    let found = concerned(&rendered(), Some(&of_nobody(&task())), Some(&of_nobody(&done)));
    assert_eq!(found, NOBODY);
}

#[test]
fn a_task_that_comes_goes_or_changes_hands_concerns_itself_and_its_target() {
    let both = ["RenderTask edge/task", "Target edge/berlin"];
    let world = rendered();
    assert_eq!(concerned(&world, None, Some(&task())), both);
    assert_eq!(concerned(&world, Some(&task()), None), both);
    let going = with(&task(), |task| task.meta.terminating = true);
    assert_eq!(concerned(&world, Some(&task()), Some(&going)), both);
    let other = with(&task(), |task| task.meta.uid = "another".into());
    assert_eq!(concerned(&world, Some(&task()), Some(&other)), both);
    let adopted = with(&task(), |task| task.controller = Some(berlin()));
    assert_eq!(concerned(&world, Some(&task()), Some(&adopted)), both);
    let asked = with(&task(), |task| task.render_request = Some("again".into()));
    assert_eq!(concerned(&world, Some(&task()), Some(&asked)), ["RenderTask edge/task"]);
}

#[test]
fn a_task_was_seen_created_if_the_watch_told_of_it_and_no_list() {
    let entered = |old: Option<&RenderTaskRecord>, live: bool| {
        let mut task = task();
        task.entering(old, live);
        task
    };
    assert!(entered(None, true).seen_created);
    assert!(!entered(None, false).seen_created);
    let listed = entered(None, false);
    assert!(!entered(Some(&listed), true).seen_created, "a later change does not make it new");
    let created = entered(None, true);
    assert!(entered(Some(&created), false).seen_created, "a later list does not make it old");
    let earlier = with(&listed, |task| task.meta.uid = "earlier".into());
    assert!(entered(Some(&earlier), true).seen_created, "another task of the name");
}

#[test]
fn an_artifacts_digest_concerns_those_who_hold_it_and_its_task_and_not_itself() {
    let pushed = with(&artifact(), |artifact| {
        edit(&mut artifact.status, |status| status.digest = Some("sha256:aa".into()));
    });
    let found = concerned(&rendered(), Some(&artifact()), Some(&pushed));
    assert_eq!(found, ["RenderTask edge/task", "Target edge/berlin"]);
    let url = artifact().address();
    let told =
        with(&artifact(), |artifact| edit(&mut artifact.status, |status| status.chart_url = Some(url)));
    assert_eq!(concerned(&rendered(), Some(&artifact()), Some(&told)), NOBODY);

    let mut world = rendered();
    world.insert(with(&binding(), |binding| binding.owner_kind = "Deployment".into()));
    let found = concerned(&world, Some(&artifact()), Some(&pushed));
    assert_eq!(found, ["RenderTask edge/task"], "who holds it is no Target");
}

#[test]
fn an_artifact_that_goes_concerns_itself_its_holders_its_task_and_its_registry() {
    let itself = artifact_actor();
    let found = concerned(&rendered(), Some(&artifact()), None);
    let wanted =
        ["RegistryProtection platform/charts", itself.as_str(), "RenderTask edge/task", "Target edge/berlin"];
    assert_eq!(found, wanted);
    let going = with(&artifact(), |artifact| artifact.meta.terminating = true);
    let found = concerned(&rendered(), Some(&artifact()), Some(&going));
    assert_eq!(found, wanted[1..], "the Registry is needed until it is gone");
}

#[test]
fn an_artifact_that_lost_its_finalizer_or_was_pinned_anew_concerns_itself() {
    let protected = with(&artifact(), |artifact| artifact.meta.finalizers = ["f".into()].into());
    let itself = artifact_actor();
    let found = concerned(&rendered(), Some(&protected), Some(&artifact()));
    assert_eq!(found, [itself.as_str(), "RenderTask edge/task", "Target edge/berlin"]);
    assert_eq!(concerned(&rendered(), Some(&artifact()), Some(&protected)), NOBODY);

    let moved = with(&artifact(), |artifact| {
        artifact.meta.generation = 2;
        artifact.registry = Some(ObjectName::new("platform", "other"));
    });
    let found = concerned(&rendered(), Some(&artifact()), Some(&moved));
    assert_eq!(found[..2], ["RegistryProtection platform/charts", "RegistryProtection platform/other"]);
    assert!(found.contains(&itself));
}

#[test]
fn a_render_binding_concerns_its_artifact_its_owner_and_the_task() {
    let itself = artifact_actor();
    let wanted = [itself.as_str(), "RenderTask edge/task", "Target edge/berlin"];
    let world = rendered();
    assert_eq!(concerned(&world, None, Some(&binding())), wanted);
    assert_eq!(concerned(&world, Some(&binding()), None), wanted);
    let repointed = with(&binding(), |binding| binding.meta.generation = 2);
    assert_eq!(concerned(&world, Some(&binding()), Some(&repointed)), wanted);
    let owned = with(&binding(), |binding| binding.controller = Some(berlin()));
    assert_eq!(concerned(&world, Some(&binding()), Some(&owned)), wanted);
    assert_eq!(concerned(&world, Some(&binding()), Some(&binding())), NOBODY);
    let foreign = with(&binding(), |binding| binding.owner_kind = "Deployment".into());
    assert_eq!(concerned(&world, None, Some(&foreign)), wanted[..2]);
}

#[test]
fn a_target_that_comes_or_goes_concerns_the_artifacts_and_bindings_that_name_it() {
    let berlin = TargetRecord::from(&target("edge", "berlin", "platform/charts"));
    let itself = artifact_actor();
    let world = rendered();
    let wanted = [
        "RegistryProtection platform/charts",
        "ReleaseBinding edge/berlin-web",
        itself.as_str(),
        "Target edge/berlin",
    ];
    assert_eq!(concerned(&world, Some(&berlin), None), wanted);
    assert_eq!(concerned(&world, None, Some(&berlin)), wanted);
    let other = with(&berlin, |target| target.meta.uid = "another".into());
    assert_eq!(concerned(&world, Some(&berlin), Some(&other)), wanted[1..]);
}

#[test]
fn a_targets_labels_and_annotations_concern_it() {
    let berlin = TargetRecord::from(&target("edge", "berlin", "platform/charts"));
    let changes: [fn(&mut TargetRecord); 4] = [
        |target| drop(target.labels.insert("tier".into(), "edge".into())),
        |target| target.suspended = true,
        |target| target.reconcile_request = Some("now".into()),
        |target| target.render_request = Some("now".into()),
    ];
    for change in changes {
        let changed = with(&berlin, change);
        assert_eq!(concerned(&rendered(), Some(&berlin), Some(&changed)), ["Target edge/berlin"]);
    }
}

#[test]
fn a_registry_concerns_targets_artifacts_tasks_and_those_it_is_bound_to_but_its_status_only_its_protection() {
    let mut world = rendered();
    let bound = registry_binding("platform", "rb", "edge/bremen", "charts");
    world.insert(RegistryBindingRecord::from(&bound));
    let old = RegistryRecord::from(&registry("platform", "charts", "registry.example.com"));
    let moved = with(&old, |registry| registry.meta.generation = 2);
    let itself = artifact_actor();
    let wanted = [
        "RegistryBinding platform/rb",
        "RegistryProtection platform/charts",
        itself.as_str(),
        "RenderTask edge/task",
        "Target edge/berlin",
        "Target edge/bremen",
        "Target edge/hamburg",
    ];
    assert_eq!(concerned(&world, Some(&old), Some(&moved)), wanted);
    let touched = with(&old, |registry| registry.meta.resource_version = "2".into());
    assert_eq!(concerned(&world, Some(&old), Some(&touched)), ["RegistryProtection platform/charts"]);
}

#[test]
fn a_registry_binding_that_moves_concerns_both_targets_and_both_registries() {
    let binding = |target: &str, registry: &str, generation| {
        let mut binding = registry_binding("platform", "rb", target, registry);
        binding.metadata.generation = Some(generation);
        RegistryBindingRecord::from(&binding)
    };
    let (old, new) = (binding("edge/berlin", "charts", 1), binding("edge/hamburg", "images", 2));
    let wanted = [
        "RegistryBinding platform/rb",
        "RegistryProtection platform/charts",
        "RegistryProtection platform/images",
        "Target edge/berlin",
        "Target edge/hamburg",
    ];
    assert_eq!(concerned(&world(), Some(&old), Some(&new)), wanted);
    let judged = with(&old, |binding| binding.meta.resource_version = "2".into());
    assert_eq!(concerned(&world(), Some(&old), Some(&judged)), NOBODY);
}

#[test]
fn a_release_that_names_another_version_concerns_the_protection_of_both() {
    let old = ReleaseRecord::from(&release("edge", "web", "web-1"));
    let mut changed = release("edge", "web", "web-2");
    changed.metadata.generation = Some(2);
    let found = concerned(&world(), Some(&old), Some(&ReleaseRecord::from(&changed)));
    assert_eq!(
        found[..2],
        ["ComponentVersionProtection edge/web-1", "ComponentVersionProtection edge/web-2"]
    );
}

#[test]
fn a_releases_status_concerns_nobody_and_a_finalizer_that_was_added_only_its_protection() {
    let old = ReleaseRecord::from(&release("edge", "web", "web-1"));
    let told = with(&old, |release| {
        edit(&mut release.status, |status| status.effective_unique_name = Some("web".into()));
    });
    assert_eq!(concerned(&world(), Some(&old), Some(&told)), NOBODY);
    let held = with(&old, |release| release.meta.finalizers = ["f".into()].into());
    assert_eq!(concerned(&world(), Some(&old), Some(&held)), ["ReleaseProtection edge/web"]);
    let labelled = with(&old, |release| drop(release.labels.insert("tier".into(), "edge".into())));
    let found = concerned(&world(), Some(&old), Some(&labelled));
    assert!(found.contains(&"Target edge/berlin".to_owned()), "anti-affinity selects by label: {found:?}");
}

#[test]
fn a_versions_status_concerns_nobody_and_a_finalizer_that_was_added_only_its_protection() {
    let old = ComponentVersionRecord::from(&component_version("edge", "web-1", "web"));
    let told = with(&old, |version| {
        version.meta.resource_version = "2".into();
        edit(&mut version.status, |status| status.observed_recheck = Some("1".into()));
    });
    assert_eq!(concerned(&world(), Some(&old), Some(&told)), NOBODY);
    let held = with(&old, |version| version.meta.finalizers = ["f".into()].into());
    assert_eq!(concerned(&world(), Some(&old), Some(&held)), ["ComponentVersionProtection edge/web-1"]);
    let bare = concerned(&world(), Some(&held), Some(&old));
    assert!(bare.contains(&"ComponentVersion edge/web-1".to_owned()), "who lost its finalizer: {bare:?}");
}

#[test]
fn a_version_that_is_asked_for_a_check_wakes_itself_alone() {
    let old = ComponentVersionRecord::from(&component_version("edge", "web-1", "web"));
    let asked = with(&old, |version| version.recheck = Some("1".into()));
    assert_eq!(concerned(&world(), Some(&old), Some(&asked)), ["ComponentVersion edge/web-1"]);
}

#[test]
fn a_version_that_moves_concerns_the_protection_of_both_components() {
    let old = ComponentVersionRecord::from(&component_version("edge", "web-1", "web"));
    let moved = with(&old, |version| {
        version.meta.generation = 2;
        version.component = ObjectName::new("edge", "shop");
    });
    let found = concerned(&world(), Some(&old), Some(&moved));
    assert_eq!(found[..2], ["ComponentProtection edge/shop", "ComponentProtection edge/web"]);
}

/// The versions among those that a Registry concerns.
fn versions(found: &[String]) -> Vec<&str> {
    found.iter().filter_map(|who| who.strip_prefix("ComponentVersion ")).collect()
}

#[test]
fn a_registry_concerns_the_versions_whose_descriptors_lie_on_its_old_and_its_new_host() {
    let mut world = World::default();
    let spec = |registry: &str| api::ComponentSpec { registry: registry.into(), ..Default::default() };
    for (namespace, component, host) in
        [("edge", "web", "old.example"), ("edge", "db", "third.example"), ("team", "web", "old.example")]
    {
        let component = api::Component { metadata: meta(namespace, component), spec: spec(host) };
        world.insert(ComponentRecord::from(&component));
    }
    for (namespace, name, component, registry) in [
        ("edge", "by-component", "web", None),
        ("edge", "named-old", "db", Some("https://OLD.example/")),
        ("edge", "named-new", "db", Some("new.example")),
        ("edge", "named-elsewhere", "web", Some("third.example")),
        ("edge", "third-by-component", "db", None),
        ("team", "other-namespace", "web", None),
    ] {
        let mut version = component_version(namespace, name, component);
        version.spec.registry = registry.map(ToOwned::to_owned);
        world.insert(ComponentVersionRecord::from(&version));
    }
    let old = RegistryRecord::from(&registry("edge", "r", "old.example"));
    let moved = with(&old, |registry| {
        registry.meta.generation = 2;
        registry.host = "new.example".into();
    });
    let here = ["edge/by-component", "edge/named-old"];
    assert_eq!(versions(&concerned(&world, None, Some(&old))), here, "it appears");
    assert_eq!(versions(&concerned(&world, Some(&old), None)), here, "it goes");
    let both = ["edge/by-component", "edge/named-new", "edge/named-old"];
    assert_eq!(versions(&concerned(&world, Some(&old), Some(&moved))), both, "it moves");
    let told = with(&old, |registry| registry.meta.resource_version = "2".into());
    assert!(versions(&concerned(&world, Some(&old), Some(&told))).is_empty(), "its status");
}

#[test]
fn a_component_concerns_its_protection_and_its_versions() {
    let spec = api::ComponentSpec { registry: "r.io".into(), repository: "web".into(), ..Default::default() };
    let component = ComponentRecord::from(&api::Component { metadata: meta("edge", "web"), spec });
    let wanted = ["ComponentProtection edge/web", "ComponentVersion edge/web-1"];
    assert_eq!(concerned(&world(), None, Some(&component)), wanted);
    assert_eq!(concerned(&world(), Some(&component), None), wanted);
    let held = with(&component, |component| component.meta.finalizers = ["f".into()].into());
    assert_eq!(concerned(&world(), Some(&component), Some(&held)), ["ComponentProtection edge/web"]);
}

#[test]
fn each_pair_of_a_grant_concerns_those_whose_reference_it_speaks_of() {
    let mut world = rendered();
    world.insert(ComponentVersionRecord::from(&component_version("team", "db-1", "db")));
    world.insert(ReleaseRecord::from(&release("edge", "db", "team/db-1")));
    let binding = release_binding("edge", "berlin-db", "berlin", "db");
    world.insert(ReleaseBindingRecord::from(&binding));
    let binding = release_binding("team", "hamburg-db", "edge/hamburg", "db");
    world.insert(ReleaseBindingRecord::from(&binding));
    let binding = registry_binding("platform", "rb", "edge/berlin", "charts");
    world.insert(RegistryBindingRecord::from(&binding));
    let artifact = artifact_actor();
    let users = [artifact.as_str(), "RenderTask edge/task", "Target edge/berlin", "Target edge/hamburg"];
    let rows: [(&str, &str, &str, &str, &[&str]); 7] = [
        ("platform", "Target", "edge", "Registry", &users),
        ("platform", "RenderArtifact", "edge", "Registry", &users),
        ("platform", "RenderTask", "edge", "Registry", &users),
        ("team", "Release", "edge", "ComponentVersion", &["Release edge/db", "Target edge/berlin"]),
        (
            "edge",
            "ReleaseBinding",
            "team",
            "Target",
            &["ReleaseBinding team/hamburg-db", "Target edge/hamburg"],
        ),
        (
            "edge",
            "RegistryBinding",
            "platform",
            "Target",
            &["RegistryBinding platform/rb", "Target edge/berlin"],
        ),
        ("edge", "RegistryBinding", "team", "Registry", &[]),
    ];
    for (namespace, from, from_namespace, to, wanted) in rows {
        let grant = GrantRecord::from(&grant(namespace, "g", &[(from, from_namespace)], &[to]));
        assert_eq!(concerned(&world, None, Some(&grant)), wanted, "{from} to {to}");
        let nothing = with(&grant, |grant| grant.to.clear());
        assert_eq!(concerned(&world, Some(&grant), Some(&nothing)), wanted, "{from} to {to} revoked");
        let touched = with(&grant, |grant| grant.meta.resource_version = "2".into());
        assert_eq!(concerned(&world, Some(&grant), Some(&touched)), NOBODY, "nothing was granted or revoked");
        let foreign = with(&grant, |grant| grant.from[0].group = "example.com".into());
        assert_eq!(concerned(&world, None, Some(&foreign)), NOBODY);
    }
}

#[test]
fn a_status_is_told_to_who_keeps_it_and_nothing_else_is() {
    fn keeper<R: Routed + Clone>(record: &R, change: impl FnOnce(&mut R)) -> Option<String> {
        keeper_of_status(Some(record), &with(record, change)).map(|keeper| keeper.to_string())
    }
    let condition = || k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(crate::support::at(0)),
        message: String::new(),
        observed_generation: None,
        reason: "Odd".into(),
        status: "True".into(),
        type_: "Odd".into(),
    };
    let berlin = TargetRecord::from(&target("edge", "berlin", "platform/charts"));
    let web = ReleaseRecord::from(&release("edge", "web", "web-1"));
    let release_bound = ReleaseBindingRecord::from(&release_binding("edge", "b", "berlin", "web"));
    let registry_bound = RegistryBindingRecord::from(&registry_binding("edge", "b", "berlin", "charts"));
    let mut all = api::Profile {
        metadata: meta("edge", "all"),
        ..api::Profile::new("all", api::ProfileSpec::default())
    };
    all.spec.release_ref.name = "web".into();
    let all = ProfileRecord::from(&all);
    let found = [
        keeper(&berlin, |target| edit(&mut target.status, |status| status.conditions.push(condition()))),
        keeper(&web, |release| edit(&mut release.status, |status| status.conditions.push(condition()))),
        keeper(&release_bound, |binding| {
            edit(&mut binding.conditions, |conditions| conditions.push(condition()));
        }),
        keeper(&registry_bound, |binding| {
            edit(&mut binding.conditions, |conditions| conditions.push(condition()));
        }),
        keeper(&all, |profile| edit(&mut profile.status, |status| status.matched_targets = 7)),
        keeper(&task(), |task| edit(&mut task.status, |status| status.attempts = Some(7))),
        keeper(&artifact(), |artifact| {
            edit(&mut artifact.status, |status| status.chart_url = Some("oci://elsewhere".into()));
        }),
    ];
    let wanted = [
        "Target edge/berlin",
        "Release edge/web",
        "ReleaseBinding edge/b",
        "RegistryBinding edge/b",
        "Profile edge/all",
        "RenderTask edge/task",
        &artifact_actor(),
    ];
    assert_eq!(found, wanted.map(|keeper| Some(keeper.to_owned())));

    assert_eq!(keeper(&berlin, |target| target.meta.generation = 7), None, "no status");
    let another = keeper(&berlin, |target| {
        target.meta.uid = "another".into();
        edit(&mut target.status, |status| status.bootstrap_version = 7);
    });
    assert_eq!(another, None, "another object of the name");
    assert_eq!(keeper_of_status(None, &berlin), None, "a new object");
    let version = ComponentVersionRecord::from(&component_version("edge", "web-1", "web"));
    let edited = keeper(&version, |version| {
        edit(&mut version.status, |status| status.observed_recheck = Some("1".into()));
    });
    assert_eq!(edited, None, "what was seen of a descriptor is not said anew for an edit");
}

/// What it was in the way of stands in nothing but its name: whoever says that a name is taken looks again.
#[test]
fn the_end_of_a_task_a_binding_or_an_artifact_concerns_those_who_say_that_a_name_is_taken() {
    let mut world = world();
    let says = |namespace: &str, name: &str, reason: &str| {
        let mut target = target(namespace, name, "platform/charts");
        let mut said = crate::model::condition("ReleasesRendered", "said");
        said.status = "False".into();
        said.reason = reason.into();
        target.status = Some(api::TargetStatus { conditions: vec![said], ..Default::default() });
        TargetRecord::from(&target)
    };
    world.insert(says("edge", "berlin", "NameCollision"));
    world.insert(says("edge", "hamburg", "ReleaseFailed"));
    world.insert(says("elsewhere", "bonn", "NameCollision"));
    let task = |uid: &str| {
        let mut spec = bootstrap_task_spec();
        spec.owner_kind = "Person".into();
        let mut task = api::RenderTask { metadata: meta("edge", "task"), spec, status: None };
        task.metadata.uid = Some(uid.into());
        RenderTaskRecord::from(&task)
    };
    let (old, new) = (task("1"), task("2"));
    let waiting =
        |found: Vec<String>| found.iter().filter(|it| it.starts_with("Target")).cloned().collect::<Vec<_>>();
    assert_eq!(waiting(concerned(&world, Some(&old), None)), ["Target edge/berlin"]);
    assert_eq!(
        waiting(concerned(&world, Some(&old), Some(&new))),
        ["Target edge/berlin"],
        "another of its name"
    );
    assert_eq!(waiting(concerned(&world, None, Some(&old))), [""; 0], "it appears");
    assert_eq!(waiting(concerned(&world, Some(&old), Some(&old))), [""; 0], "it stays");
    let artifact = crate::artifacts::an_artifact();
    let artifact = RenderArtifactRecord::from(&artifact);
    assert_eq!(waiting(concerned(&world, Some(&artifact), None)), ["Target edge/berlin"]);
    let mut binding = crate::artifacts::a_binding("somebody", "charts");
    binding.spec.owner_kind = "Person".into();
    let binding = RenderBindingRecord::from(&binding);
    assert_eq!(waiting(concerned(&world, Some(&binding), None)), ["Target edge/berlin"]);
    // It says something else by now.
    world.insert(says("edge", "berlin", "AllRendered"));
    assert_eq!(waiting(concerned(&world, Some(&binding), None)), [""; 0]);
}

#[test]
fn a_registry_concerns_the_tasks_beside_it_that_push_to_its_host_by_a_secret_of_their_own() {
    let mut world = World::default();
    for (namespace, name, secret, registry) in [
        ("edge", "by-secret", Some("own"), None),
        ("edge", "by-registry", Some("own"), Some("other")),
        ("edge", "by-nothing", None, None),
        ("elsewhere", "by-secret", Some("own"), None),
    ] {
        let mut spec = bootstrap_task_spec();
        spec.push_secret_ref = secret.map(|name| api::LocalReference { name: name.into() });
        spec.registry_ref = registry.map(|name| api::ObjectReference { name: name.into(), namespace: None });
        let task = api::RenderTask { metadata: meta(namespace, name), spec, status: None };
        world.insert(RenderTaskRecord::from(&task));
    }
    let at = |host: &str, generation: i64| {
        let mut registry = registry("edge", "charts", host);
        registry.metadata.generation = Some(generation);
        RegistryRecord::from(&registry)
    };
    let (here, away) = (at("Registry.Example.com:443", 1), at("other.example", 2));
    let wanted = ["RegistryProtection edge/charts", "RenderTask edge/by-secret"];
    for (old, new) in
        [(None, Some(&here)), (Some(&here), None), (Some(&here), Some(&away)), (Some(&away), Some(&here))]
    {
        assert_eq!(concerned(&world, old, new), wanted);
    }
    assert_eq!(concerned(&world, None, Some(&away)), wanted[..1]);
}
