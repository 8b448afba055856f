//! Every row of a Target's condition table, its order of steps, its versions, what it keeps and what it gives up.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use serde_json::json;
use solar_api as api;
use solar_api::names::{
    COMPONENT_VERSION_REF_FINALIZER, REGISTRY_REF_FINALIZER, RENDER_REQUEST_ANNOTATION, SUSPEND_ANNOTATION,
    TARGET_FINALIZER,
};
use solar_core::layout::MAX_BOOTSTRAP_VERSION;
use solar_core::target::{BindAnswer, RefusedTask, Stranger, TargetPlan, TargetStep};

use crate::model::{Model, condition, name, put};
use crate::support::{self, at, labels};

const BERLIN: &str = "edge/berlin";

fn ready() -> Model {
    let mut model = Model::scene();
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    model
}

/// One word for each step.
fn words(plan: &TargetPlan) -> Vec<&'static str> {
    plan.steps
        .iter()
        .map(|step| match step {
            TargetStep::AddFinalizer => "AddFinalizer",
            TargetStep::ProtectRegistry(_) => "ProtectRegistry",
            TargetStep::Bind(_) => "Bind",
            TargetStep::CreateReleaseTask(_) => "CreateReleaseTask",
            TargetStep::WriteStatus(_) => "WriteStatus",
            TargetStep::LookUpBootstrapHistory { .. } => "LookUpBootstrapHistory",
            TargetStep::CreateBootstrapTask(_) => "CreateBootstrapTask",
            TargetStep::Unbind { .. } => "Unbind",
            TargetStep::DeleteTask { .. } => "DeleteTask",
            TargetStep::RequestRender { .. } => "RequestRender",
            TargetStep::RemoveFinalizer => "RemoveFinalizer",
            TargetStep::Emit(event) => event.reason,
        })
        .collect()
}

fn terminating(meta: &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) {
    meta.deletion_timestamp = Some(Time(at(1)));
}

fn touch_values(model: &mut Model, release: &str, value: i64) {
    let release = model.releases.get_mut(&name(release)).unwrap();
    release.spec.values = Some(support::object(&json!({"replicas": value})));
    let generation = release.metadata.generation.unwrap() + 1;
    release.metadata.generation = Some(generation);
    release.metadata.resource_version = Some(format!("{generation}"));
}

// ---- the whole way ----

#[test]
fn a_target_becomes_ready_step_by_step_and_then_has_nothing_left_to_do() {
    let mut model = Model::scene();
    let mut passes = Vec::new();
    loop {
        let plan = model.plan(BERLIN);
        if plan.steps.is_empty() {
            break;
        }
        passes.push(words(&plan));
        model.carry_out(BERLIN, &plan);
        if !passes.last().unwrap().contains(&"Bind") {
            model.render();
        }
    }
    let expected: [&[&str]; 6] = [
        &["AddFinalizer", "ProtectRegistry", "Bind", "Bind", "WriteStatus"],
        &["CreateReleaseTask", "Created", "CreateReleaseTask", "Created"],
        &["WriteStatus", "LookUpBootstrapHistory"],
        &["Bind"],
        &["WriteStatus", "CreateBootstrapTask", "Created"],
        &["WriteStatus", "BootstrapReady"],
    ];
    assert_eq!(passes, expected);
    let status = model.status(BERLIN);
    assert_eq!(status.bootstrap_version, 1);
    assert_eq!(status.chart_url.as_deref(), Some("oci://registry.example.com/edge/bootstrap-berlin:v0.0.1"));
    assert_eq!(status.observed_generation, 1);
    let verdicts: Vec<String> =
        ["RegistryResolved", "ReleasesResolved", "ReleasesRendered", "BootstrapReady", "Ready"]
            .map(|type_| model.verdict(BERLIN, type_))
            .into();
    assert_eq!(
        verdicts,
        ["True/Resolved", "True/NoConflicts", "True/AllRendered", "True/Ready", "True/Ready"]
    );
    assert!(status.conditions.iter().all(|c| c.observed_generation == Some(1)));
    assert_eq!(model.plan(BERLIN).wake_after, None);
}

#[test]
fn the_bootstrap_input_names_each_chart_with_tag_digest_secret_and_transport() {
    let mut model = Model::scene();
    model.registries.get_mut(&name("edge/reg")).unwrap().spec.plain_http = true;
    model.settle();
    let task = &model.tasks[&name("edge/render-tgt-berlin-1")];
    let input = &task.spec.bootstrap.as_ref().unwrap().input;
    assert_eq!(input.releases.keys().collect::<Vec<_>>(), ["db", "web"]);
    let web = &input.releases["web"];
    assert_eq!(web.repository, "registry.example.com/edge/edge/release-web");
    assert_eq!((web.insecure, web.pull_secret_name.as_deref()), (true, Some("pull")));
    assert!(model.tag_names().contains(&format!("edge/edge/release-web:{}", web.tag)));
    assert_eq!(task.spec.bootstrap.as_ref().unwrap().chart.name, "bootstrap-berlin");
    assert_eq!(task.spec.bootstrap.as_ref().unwrap().chart.version, "v0.0.1");
}

// ---- RegistryResolved ----

#[test]
fn registry_resolved_not_found_when_the_registry_does_not_exist() {
    let mut model = Model::scene();
    model.registries.clear();
    assert_eq!(model.verdict(BERLIN, "RegistryResolved"), "False/NotFound");
    assert_eq!(
        model.message(BERLIN, "RegistryResolved"),
        "Registry edge/reg does not exist: create it, or correct spec.renderRegistryRef"
    );
}

#[test]
fn registry_resolved_not_found_when_the_registry_goes_and_nothing_protects_it() {
    let mut model = Model::scene();
    let registry = model.registries.get_mut(&name("edge/reg")).unwrap();
    terminating(&mut registry.metadata);
    assert_eq!(model.verdict(BERLIN, "RegistryResolved"), "False/NotFound");
    assert!(
        !words(&model.plan(BERLIN)).contains(&"ProtectRegistry"),
        "no new finalizer on a terminating object"
    );
    model.registries.get_mut(&name("edge/reg")).unwrap().metadata.finalizers =
        Some(vec![REGISTRY_REF_FINALIZER.into()]);
    assert_eq!(model.verdict(BERLIN, "RegistryResolved"), "True/Resolved");
}

#[test]
fn registry_resolved_not_granted_from_another_namespace_without_a_grant() {
    let mut model = Model::scene();
    put(&mut model.registries, support::registry("infra", "reg", "registry.example.com"));
    model.targets.get_mut(&name(BERLIN)).unwrap().spec.render_registry_ref.namespace = Some("infra".into());
    assert_eq!(model.verdict(BERLIN, "RegistryResolved"), "False/NotGranted");
    assert!(!words(&model.plan(BERLIN)).contains(&"ProtectRegistry"));
    put(&mut model.grants, support::grant("infra", "g", &[("Target", "edge")], &["Registry"]));
    assert_eq!(model.verdict(BERLIN, "RegistryResolved"), "True/Resolved");
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    model.grants.clear();
    assert_eq!(model.verdict(BERLIN, "Ready"), "False/NotGranted", "revoking works at the next pass");
    model.pass(BERLIN);
    assert_eq!(model.tags.len(), 3, "charts stay");
}

#[test]
fn registry_resolved_not_watched_outside_the_watched_namespaces() {
    let mut model = Model::scene();
    model.options.watched = Some(vec!["edge".into()]);
    model.targets.get_mut(&name(BERLIN)).unwrap().spec.render_registry_ref.namespace = Some("infra".into());
    assert_eq!(model.verdict(BERLIN, "RegistryResolved"), "False/NotWatched");
    assert_eq!(model.plan(BERLIN).wake_after, None, "only a restart changes that");
}

#[test]
fn registry_resolved_missing_solar_secret_ref_and_still_protected() {
    let mut model = Model::scene();
    model.registries.get_mut(&name("edge/reg")).unwrap().spec.solar_secret_ref = None;
    assert_eq!(model.verdict(BERLIN, "RegistryResolved"), "False/MissingSolarSecretRef");
    assert_eq!(words(&model.plan(BERLIN)), ["AddFinalizer", "ProtectRegistry", "WriteStatus"]);
}

#[test]
fn registry_resolved_resolved() {
    assert_eq!(Model::scene().verdict(BERLIN, "RegistryResolved"), "True/Resolved");
}

#[test]
fn without_a_registry_releases_are_resolved_and_nothing_is_rendered() {
    let mut model = Model::scene();
    model.registries.clear();
    assert_eq!(model.verdict(BERLIN, "ReleasesResolved"), "True/NoConflicts");
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/Pending");
    assert_eq!(model.message(BERLIN, "ReleasesRendered"), "Waits for Registry edge/reg to be resolved");
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "False/Waiting");
    assert_eq!(model.verdict(BERLIN, "Ready"), "False/NotFound");
    assert_eq!(words(&model.plan(BERLIN)), ["AddFinalizer", "WriteStatus"]);
}

// ---- ReleasesResolved ----

#[test]
fn releases_resolved_no_conflicts() {
    assert_eq!(Model::scene().verdict(BERLIN, "ReleasesResolved"), "True/NoConflicts");
}

#[test]
fn releases_resolved_resolved_lists_the_filtered_bindings() {
    let mut model = Model::scene();
    model.bind_release("edge", "web-old", BERLIN);
    model.releases.get_mut(&name("edge/web-old")).unwrap().spec.unique_name = Some("web".into());
    model.releases.get_mut(&name("edge/web-old")).unwrap().spec.priority = -1;
    assert_eq!(model.verdict(BERLIN, "ReleasesResolved"), "True/Resolved");
    assert_eq!(
        model.message(BERLIN, "ReleasesResolved"),
        "Filtered: ReleaseBinding edge/berlin-web-old: Release edge/web has the unique name web by \
         ReleaseBinding edge/berlin-web"
    );
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert!(
        !model.tag_names().iter().any(|tag| tag.contains("web-old")),
        "a filtered release is not rendered"
    );
}

#[test]
fn releases_resolved_no_release_bindings() {
    let mut model = Model::scene();
    model.release_bindings.clear();
    assert_eq!(model.verdict(BERLIN, "ReleasesResolved"), "False/NoReleaseBindings");
}

#[test]
fn a_binding_of_another_namespace_is_invisible_without_a_grant() {
    let mut model = Model::scene();
    model.release_bindings.clear();
    model.bind_release("team", "web", BERLIN);
    assert_eq!(model.verdict(BERLIN, "ReleasesResolved"), "False/NoReleaseBindings");
    put(&mut model.grants, support::grant("edge", "g", &[("ReleaseBinding", "team")], &["Target"]));
    assert_eq!(model.verdict(BERLIN, "ReleasesResolved"), "True/NoConflicts");
    model.settle();
    assert!(model.tag_names().iter().any(|tag| tag.starts_with("edge/team/release-web:")));
}

#[test]
fn terminating_bindings_and_releases_count_until_they_are_gone() {
    let mut model = Model::scene();
    terminating(&mut model.release_bindings.get_mut(&name("edge/berlin-web")).unwrap().metadata);
    terminating(&mut model.releases.get_mut(&name("edge/db")).unwrap().metadata);
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert_eq!(model.tags.len(), 3);
}

// ---- ReleasesRendered ----

#[test]
fn releases_rendered_no_release_bindings() {
    let mut model = Model::scene();
    model.release_bindings.clear();
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/NoReleaseBindings");
    assert_eq!(model.verdict(BERLIN, "Ready"), "False/NoReleaseBindings");
}

#[test]
fn releases_rendered_all_release_bindings_filtered() {
    let mut model = Model::scene();
    for release in model.releases.values_mut() {
        release.spec.unique_name = Some("Not.A.Label".into());
    }
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/AllReleaseBindingsFiltered");
    assert_eq!(model.verdict(BERLIN, "ReleasesResolved"), "True/Resolved");
}

fn conflicting(model: &mut Model) {
    for (registry, secret) in [("one", "a"), ("two", "b")] {
        let mut object = support::registry("edge", registry, "ghcr.io");
        object.spec.target_pull_secret_name = Some(secret.into());
        put(&mut model.registries, object);
        put(&mut model.registry_bindings, support::registry_binding("edge", registry, BERLIN, registry));
    }
}

#[test]
fn releases_rendered_registry_binding_conflict_renders_nothing() {
    let mut model = Model::scene();
    conflicting(&mut model);
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/RegistryBindingConflict");
    assert_eq!(
        model.message(BERLIN, "ReleasesRendered"),
        "Nothing is rendered: RegistryBindings edge/one and edge/two give host ghcr.io different pull secrets (a and \
         b). Delete one of the bindings, or let their Registries name one pull secret"
    );
    assert!(!words(&model.plan(BERLIN)).contains(&"Bind"));
}

#[test]
fn releases_rendered_missing_dependencies_lists_each_object_and_renders_the_rest() {
    let mut model = Model::scene();
    model.releases.remove(&name("edge/db"));
    model.bind_release("edge", "mail", BERLIN);
    model.versions.remove(&name("edge/mail"));
    model.bind_release("edge", "chat", BERLIN);
    model.releases.get_mut(&name("edge/chat")).unwrap().spec.component_version_ref.namespace =
        Some("shared".into());
    put(&mut model.versions, support::component_version("shared", "chat", "chat"));
    model.settle();
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/MissingDependencies");
    assert_eq!(
        model.message(BERLIN, "ReleasesRendered"),
        "Missing: ComponentVersion shared/chat of Release edge/chat is not granted by a ReferenceGrant in its \
         namespace; Release edge/db of ReleaseBinding edge/berlin-db does not exist; ComponentVersion edge/mail of \
         Release edge/mail does not exist"
    );
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "False/Waiting");
    assert_eq!(model.tags.len(), 1, "web is rendered meanwhile");
    put(&mut model.grants, support::grant("shared", "g", &[("Release", "edge")], &["ComponentVersion"]));
    assert!(!model.message(BERLIN, "ReleasesRendered").contains("shared/chat"));
}

#[test]
fn a_component_version_that_goes_unprotected_is_missing() {
    let mut model = Model::scene();
    terminating(&mut model.versions.get_mut(&name("edge/web")).unwrap().metadata);
    assert_eq!(
        model.message(BERLIN, "ReleasesRendered"),
        "Missing: ComponentVersion edge/web of Release edge/web is being deleted"
    );
    model.versions.get_mut(&name("edge/web")).unwrap().metadata.finalizers =
        Some(vec![COMPONENT_VERSION_REF_FINALIZER.into()]);
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/Pending");
}

#[test]
fn a_registry_binding_without_its_registry_holds_back_what_may_need_it() {
    let mut model = Model::scene();
    model.versions.get_mut(&name("edge/db")).unwrap().spec.resources.get_mut("chart").unwrap().repository =
        "quay.io/acme/db".into();
    let mut quay = support::registry("edge", "quay", "quay.io");
    quay.spec.target_pull_secret_name = Some("quay-pull".into());
    put(&mut model.registries, quay);
    put(&mut model.registry_bindings, support::registry_binding("edge", "quay", BERLIN, "quay"));
    put(&mut model.registry_bindings, support::registry_binding("edge", "ghcr", BERLIN, "ghcr"));
    model.settle();
    assert_eq!(
        model.message(BERLIN, "ReleasesRendered"),
        "Missing: Registry edge/ghcr of RegistryBinding edge/ghcr does not exist"
    );
    assert_eq!(model.tags.len(), 1, "{:?}", model.tag_names());
    assert!(model.tag_names()[0].starts_with("edge/edge/release-db:"));
}

#[test]
fn releases_rendered_missing_registry_binding_in_strict_mode_names_host_and_resource() {
    let mut model = Model::scene();
    model.options.strict = true;
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/MissingRegistryBinding");
    assert_eq!(
        model.message(BERLIN, "ReleasesRendered"),
        "No RegistryBinding of this Target serves host ghcr.io of resource chart of Release edge/db; host ghcr.io of \
         resource chart of Release edge/web: bind a Registry with that host"
    );
    put(&mut model.registries, support::registry("edge", "ghcr", "ghcr.io"));
    put(&mut model.registry_bindings, support::registry_binding("edge", "ghcr", BERLIN, "ghcr"));
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready", "bound to anonymous pull is bound");
}

#[test]
fn in_relaxed_mode_an_unmatched_host_is_pulled_anonymously() {
    let mut model = ready();
    let secret = |model: &Model| {
        let tasks = model.tasks.values().filter_map(|task| task.spec.release.as_ref());
        tasks.map(|config| config.input.resources["chart"].pull_secret_name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(secret(&model), [None, None]);
    let mut ghcr = support::registry("edge", "ghcr", "GHCR.io");
    ghcr.spec.target_pull_secret_name = Some("ghcr-pull".into());
    put(&mut model.registries, ghcr);
    put(&mut model.registry_bindings, support::registry_binding("edge", "ghcr", BERLIN, "ghcr"));
    model.settle();
    assert_eq!(secret(&model), [Some("ghcr-pull".to_owned()), Some("ghcr-pull".to_owned())]);
    assert_eq!(model.status(BERLIN).bootstrap_version, 2);
}

fn stranger(model: &mut Model, artifact: &str) {
    let mut object = api::RenderArtifact::new(
        artifact,
        api::RenderArtifactSpec {
            base_url: "registry.example.com".into(),
            repository: "somebody/else".into(),
            tag: "v1".into(),
            render_task_ref: "t".into(),
            registry_ref: None,
        },
    );
    object.metadata = support::meta("edge", artifact);
    put(&mut model.artifacts, object);
}

fn bound_artifacts(plan: &TargetPlan) -> Vec<String> {
    let binds = plan.steps.iter().filter_map(|step| match step {
        TargetStep::Bind(order) => Some(order.artifact.to_string()),
        _ => None,
    });
    binds.collect()
}

#[test]
fn releases_rendered_name_collision_names_both_and_creates_nothing() {
    let mut model = Model::scene();
    let artifact = bound_artifacts(&model.plan(BERLIN))[0].clone();
    stranger(&mut model, &artifact);
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/NameCollision");
    let message = model.message(BERLIN, "ReleasesRendered");
    assert!(
        message.starts_with(&format!(
            "RenderArtifact edge/{artifact} is needed for registry.example.com/edge/edge/release-db:v0.0.1-"
        )),
        "{message}"
    );
    assert!(
        message.ends_with(
            "and stands for registry.example.com/somebody/else:v1: delete it if it was made by hand, which deletes its \
             tag too, or change Release edge/db"
        ),
        "{message}"
    );
    assert_eq!(
        words(&model.plan(BERLIN)),
        ["AddFinalizer", "ProtectRegistry", "Bind", "WriteStatus", "NameCollision"]
    );
}

#[test]
fn a_collision_that_only_the_artifacts_actor_knows_of_counts_too() {
    let mut model = Model::scene();
    let artifact = bound_artifacts(&model.plan(BERLIN))[0].clone();
    let with =
        solar_core::target::Coordinates { base_url: "h".into(), repository: "r".into(), tag: "t".into() };
    model
        .memory
        .entry(name(BERLIN))
        .or_default()
        .answers
        .insert(artifact.as_str().into(), BindAnswer::Collision { with: Stranger::Artifact(with) });
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/NameCollision");
    let memory = model.memory.get_mut(&name(BERLIN)).unwrap();
    memory.answers.insert(artifact.as_str().into(), BindAnswer::Collision { with: Stranger::Binding });
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/NameCollision");
    assert!(model.message(BERLIN, "ReleasesRendered").starts_with("RenderBinding edge/render-bind-"));
}

/// A binding of another artifact, or a task, that was made by hand, and whose words about it name it and the mend.
#[test]
fn a_binding_or_a_task_of_a_stranger_is_a_collision_and_the_message_names_it_and_the_mend() {
    let model = Model::scene();
    let artifact = bound_artifacts(&model.plan(BERLIN))[0].clone();
    let binding = solar_core::names::binding(&artifact, "berlin");
    let chart = "is needed for registry.example.com/edge/edge/release-db:v0.0.1-";
    let mend = ": delete it if it was made by hand, or change Release edge/db";

    let mut taken = model.clone();
    strange_binding(&mut taken, &binding);
    assert_eq!(taken.verdict(BERLIN, "ReleasesRendered"), "False/NameCollision");
    let message = taken.message(BERLIN, "ReleasesRendered");
    assert!(message.starts_with(&format!("RenderBinding edge/{binding} {chart}")), "{message}");
    assert!(message.ends_with(&format!(" and holds another artifact{mend}")), "{message}");
    assert!(!bound_artifacts(&taken.plan(BERLIN)).contains(&artifact), "it is not asked for in vain");
    // The artifact's actor has seen it go, the watch has not.
    let answers = &mut taken.memory.entry(name(BERLIN)).or_default().answers;
    answers.insert(artifact.as_str().into(), BindAnswer::Bound);
    assert_ne!(taken.verdict(BERLIN, "ReleasesRendered"), "False/NameCollision");

    let mut taken = model;
    taken.pass(BERLIN);
    taken.pass(BERLIN);
    let mut task = taken.tasks.values().find(|task| task.spec.repository.ends_with("-db")).unwrap().clone();
    let named = task.metadata.name.clone().unwrap();
    task.metadata = support::meta("edge", &named);
    put(&mut taken.tasks, task);
    assert_eq!(taken.verdict(BERLIN, "ReleasesRendered"), "False/NameCollision");
    let message = taken.message(BERLIN, "ReleasesRendered");
    assert!(message.starts_with(&format!("RenderTask edge/{named} {chart}")), "{message}");
    assert!(message.ends_with(&format!(" and is not this Target's{mend}")), "{message}");
}

fn strange_binding(model: &mut Model, binding: &str) {
    let spec = api::RenderBindingSpec {
        render_artifact_ref: api::LocalReference { name: "theirs".into() },
        owner_kind: "Person".into(),
        owner_name: "me".into(),
        owner_namespace: "edge".into(),
        registry_ref: None,
    };
    put(&mut model.bindings, api::RenderBinding { metadata: support::meta("edge", binding), spec });
}

#[test]
fn releases_rendered_release_failed_names_the_release_and_the_tasks_message() {
    let mut model = Model::scene();
    model.failing.insert("web".into(), "entrypoint \"x\" is not in resources".into());
    model.settle();
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/ReleaseFailed");
    assert_eq!(model.message(BERLIN, "Ready"), "Release edge/web: entrypoint \"x\" is not in resources");
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "False/Waiting");
}

#[test]
fn releases_rendered_pending_says_the_same_before_and_after_the_task_exists() {
    let mut model = Model::scene();
    model.pass(BERLIN);
    let message = model.message(BERLIN, "ReleasesRendered");
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/Pending");
    assert!(
        message.starts_with("Waits for release charts, among them RenderTask render-rel-web-"),
        "{message}"
    );
    assert!(message.ends_with(" of Release edge/web"), "{message}");
    model.pass(BERLIN);
    assert_eq!(model.plan(BERLIN).steps, [], "nothing is written while tasks run");
    assert_eq!(model.status_writes, 1);
}

#[test]
fn releases_rendered_pending_names_the_artifact_that_is_cleaned_up_and_asks_again_in_time() {
    let mut model = Model::scene();
    let artifact = bound_artifacts(&model.plan(BERLIN))[0].clone();
    model.terminating.insert(artifact.clone());
    model.pass(BERLIN);
    assert_eq!(
        model.message(BERLIN, "ReleasesRendered"),
        format!("Waits for RenderArtifact {artifact} to be cleaned up: the registry does not answer")
    );
    assert_eq!(model.plan(BERLIN).wake_after, Some(Duration::from_secs(7)));
    assert_eq!(bound_artifacts(&model.plan(BERLIN)), std::slice::from_ref(&artifact));
    let until = at(model.seconds + 3);
    model.memory.get_mut(&name(BERLIN)).unwrap().ask_again.insert(artifact.as_str().into(), until);
    let plan = model.plan(BERLIN);
    assert_eq!(plan.wake_after, Some(Duration::from_secs(3)));
    assert_eq!(bound_artifacts(&plan), [""; 0], "not before the time has come");
    assert_eq!(words(&plan), ["CreateReleaseTask", "Created", "WriteStatus"], "the other release goes on");
    model.seconds += 3;
    assert_eq!(bound_artifacts(&model.plan(BERLIN)), [artifact]);
}

#[test]
fn a_refused_bind_is_said_as_the_releases_failure_and_asked_again_when_it_was_told_to() {
    let mut model = Model::scene();
    let artifact = bound_artifacts(&model.plan(BERLIN))[0].clone();
    let cause = "create RenderBinding edge/x: forbidden: no role".to_owned();
    let refused = BindAnswer::Refused { retry_after: Duration::from_secs(30), cause };
    let memory = model.memory.entry(name(BERLIN)).or_default();
    memory.answers.insert(artifact.as_str().into(), refused);
    let until = at(model.seconds + 30);
    model.memory.get_mut(&name(BERLIN)).unwrap().ask_again.insert(artifact.as_str().into(), until);
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/ReleaseFailed");
    assert!(
        model
            .message(BERLIN, "ReleasesRendered")
            .ends_with("create RenderBinding edge/x: forbidden: no role")
    );
    let plan = model.plan(BERLIN);
    assert_eq!(plan.wake_after, Some(Duration::from_secs(30)));
    assert!(!bound_artifacts(&plan).contains(&artifact), "not before the time has come");
    model.seconds += 30;
    assert!(bound_artifacts(&model.plan(BERLIN)).contains(&artifact));
}

fn refuse(model: &mut Model, task: &str, seconds: i64) {
    let refused =
        RefusedTask { until: at(model.seconds + seconds), cause: format!("create RenderTask {task}: no") };
    model.memory.entry(name(BERLIN)).or_default().refused.insert(task.into(), refused);
}

fn created(plan: &TargetPlan) -> Vec<String> {
    let creates = plan.steps.iter().filter_map(|step| match step {
        TargetStep::CreateReleaseTask(order) => Some(order.name.to_string()),
        TargetStep::CreateBootstrapTask(order) => Some(order.name.to_string()),
        _ => None,
    });
    creates.collect()
}

#[test]
fn a_refused_task_is_said_as_the_releases_failure_and_made_when_its_time_has_come() {
    let mut model = Model::scene();
    model.pass(BERLIN);
    let tasks = created(&model.plan(BERLIN));
    assert_eq!(tasks.len(), 2);
    refuse(&mut model, &tasks[1], 30);
    let plan = model.plan(BERLIN);
    assert_eq!(created(&plan), tasks[..1], "the other release goes on, and nothing is tried before its time");
    assert_eq!(plan.wake_after, Some(Duration::from_secs(30)));
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/ReleaseFailed");
    let said = format!("Release edge/web: create RenderTask {}: no", tasks[1]);
    assert_eq!(model.message(BERLIN, "ReleasesRendered"), said);
    model.carry_out(BERLIN, &plan);
    model.seconds += 30;
    let plan = model.plan(BERLIN);
    assert_eq!(created(&plan), tasks[1..]);
    assert_eq!(model.message(BERLIN, "ReleasesRendered"), said, "the same is said until it is made");
    model.memory.get_mut(&name(BERLIN)).unwrap().refused.clear();
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
}

#[test]
fn a_refused_bootstrap_task_is_said_and_keeps_its_version() {
    let mut model = Model::scene();
    let plan = loop {
        let plan = model.plan(BERLIN);
        if created(&plan) == ["render-tgt-berlin-1"] {
            break plan;
        }
        model.carry_out(BERLIN, &plan);
        model.render();
    };
    let written = plan.steps.iter().find_map(|step| match step {
        TargetStep::WriteStatus(status) => Some(status.clone()),
        _ => None,
    });
    model.targets.get_mut(&name(BERLIN)).unwrap().status = written;
    let given = plan.steps.iter().find_map(|step| match step {
        TargetStep::CreateBootstrapTask(order) => Some(order.given),
        _ => None,
    });
    model.memory.get_mut(&name(BERLIN)).unwrap().given = given;
    refuse(&mut model, "render-tgt-berlin-1", 30);
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "False/Failed");
    assert_eq!(model.message(BERLIN, "BootstrapReady"), "create RenderTask render-tgt-berlin-1: no");
    assert_eq!(created(&model.plan(BERLIN)), [""; 0]);
    assert_eq!(model.plan(BERLIN).wake_after, Some(Duration::from_secs(30)));
    model.seconds += 30;
    let plan = model.plan(BERLIN);
    assert_eq!(created(&plan), ["render-tgt-berlin-1"]);
    model.carry_out(BERLIN, &plan);
    assert_eq!(model.status(BERLIN).bootstrap_version, 1);
}

#[test]
fn what_failed_holds_up_what_needs_it_and_nothing_else() {
    let mut model = Model::scene();
    let first = model.plan(BERLIN);
    model.carry_out(BERLIN, &first);
    let second = model.plan(BERLIN);
    let of = |plan: &TargetPlan, word: &str| {
        let index = words(plan).iter().position(|found| *found == word).unwrap();
        plan.steps[index].clone()
    };
    let (finalizer, protect) = (of(&first, "AddFinalizer"), of(&first, "ProtectRegistry"));
    let (bind, write) = (of(&first, "Bind"), of(&first, "WriteStatus"));
    let create = of(&second, "CreateReleaseTask");
    let unbind = TargetStep::Unbind { artifact: "a".into() };
    let delete = |name: &str| TargetStep::DeleteTask { name: name.into(), uid: "u".into() };
    let request = TargetStep::RequestRender { name: "t".into(), uid: "u".into(), request: "r".into() };
    let let_go = TargetStep::RemoveFinalizer;
    let rows = [
        (&finalizer, &protect, false),
        (&finalizer, &bind, false),
        (&finalizer, &create, false),
        (&finalizer, &write, true),
        (&protect, &bind, false),
        (&protect, &create, false),
        (&protect, &write, true),
        (&bind, &bind, true),
        (&bind, &create, true),
        (&bind, &write, true),
        (&create, &create, true),
        (&create, &write, true),
        (&create, &unbind, true),
        (&request, &create, true),
        (&write, &create, false),
        (&write, &unbind, false),
        (&write, &delete("a"), false),
        (&delete("a"), &delete("b"), true),
        (&delete("a"), &bind, true),
        (&delete("a"), &write, true),
        (&delete("a"), &unbind, false),
        (&delete("a"), &let_go, false),
        (&unbind, &unbind, true),
    ];
    for (failed, step, goes) in rows {
        assert_eq!(step.goes_without(failed), goes, "{step:?} after {failed:?} failed");
    }
}

#[test]
fn a_version_that_is_left_out_is_told_of_when_the_next_is_asked_for_first_and_not_again() {
    let mut model = Model::scene();
    let taken =
        solar_core::names::artifact("edge", "registry.example.com", "edge/bootstrap-berlin", "v0.0.1");
    stranger(&mut model, &taken);
    let next = solar_core::names::artifact("edge", "registry.example.com", "edge/bootstrap-berlin", "v0.0.2");
    model.terminating.insert(next.clone());
    let told = |model: &Model| model.events.iter().filter(|event| event.starts_with("NameCollision")).count();
    while !bound_artifacts(&model.plan(BERLIN)).contains(&next) {
        model.pass(BERLIN);
        model.render();
    }
    for _ in 0..3 {
        let plan = model.plan(BERLIN);
        assert!(bound_artifacts(&plan).contains(&next), "asked in each pass: {plan:?}");
        // The actor keeps the answer.
        let answers = model.memory[&name(BERLIN)].answers.clone();
        model.carry_out(BERLIN, &plan);
        let memory = model.memory.get_mut(&name(BERLIN)).unwrap();
        for (artifact, answer) in answers {
            memory.answers.entry(artifact).or_insert(answer);
        }
    }
    assert_eq!(told(&model), 1, "{:?}", model.events);
}

#[test]
fn releases_rendered_all_rendered() {
    assert_eq!(ready().verdict(BERLIN, "ReleasesRendered"), "True/AllRendered");
}

#[test]
fn causes_come_in_their_order() {
    let mut model = Model::scene();
    model.options.strict = true;
    model.releases.remove(&name("edge/db"));
    conflicting(&mut model);
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/RegistryBindingConflict");
    model.registry_bindings.clear();
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/MissingDependencies");
    model.release_bindings.remove(&name("edge/berlin-db"));
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/MissingRegistryBinding");
    model.options.strict = false;
    model.bind_release("edge", "db", BERLIN);
    let artifacts = bound_artifacts(&model.plan(BERLIN));
    model.failing.insert("db".into(), "no".into());
    model.settle();
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/ReleaseFailed");
    model.bindings.clear();
    model.artifacts.clear();
    stranger(&mut model, &artifacts[1]);
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/NameCollision");
    model.release_bindings.clear();
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/NoReleaseBindings");
}

// ---- rendered means pullable ----

#[test]
fn a_succeeded_task_counts_once_its_artifact_has_the_same_digest() {
    let mut model = Model::scene();
    model.pass(BERLIN);
    model.pass(BERLIN);
    model.render();
    for digest in [None, Some("sha256:other".to_owned())] {
        let mut lost = model.clone();
        let artifact = lost.artifacts.values_mut().next().unwrap();
        artifact.status.as_mut().unwrap().digest = digest;
        assert_eq!(lost.verdict(BERLIN, "ReleasesRendered"), "False/Pending");
    }
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "True/AllRendered");
}

#[test]
fn a_tag_that_is_lost_outside_makes_the_bootstrap_wait_and_come_back() {
    let mut model = ready();
    let lost = model.artifacts.values_mut().find(|a| a.spec.repository.ends_with("release-web")).unwrap();
    lost.status.as_mut().unwrap().digest = None;
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "False/Waiting");
    model.pass(BERLIN);
    assert!(model.status(BERLIN).chart_url.is_some(), "the earlier address stays");
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert_eq!(model.status(BERLIN).bootstrap_version, 1);
}

#[test]
fn nothing_is_created_for_an_artifact_that_is_not_held() {
    let mut model = Model::scene();
    let plan = model.plan(BERLIN);
    model.carry_out(BERLIN, &plan);
    model.bindings.clear();
    model.memory.clear();
    let words = words(&model.plan(BERLIN));
    assert_eq!(words, ["Bind", "Bind"]);
}

#[test]
fn a_chart_that_another_target_holds_is_not_rendered_for_this_one() {
    let mut model = ready();
    put(&mut model.targets, support::target("edge", "bonn", "reg"));
    put(&mut model.release_bindings, support::release_binding("edge", "bonn-web", "edge/bonn", "web"));
    model.settle();
    let lost = solar_core::names::binding(&web_artifact(&model), "berlin");
    model.bindings.remove(&name(&format!("edge/{lost}"))).unwrap();
    model.memory.clear();
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/Pending");
    assert_eq!(bound_artifacts(&model.plan(BERLIN)), [web_artifact(&model)]);
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
}

#[test]
fn an_answer_counts_before_the_watch_shows_the_binding() {
    let mut model = Model::scene();
    model.pass(BERLIN);
    let mut blind = model.clone();
    blind.bindings.clear();
    blind.artifacts.clear();
    let words = words(&blind.plan(BERLIN));
    assert_eq!(words.iter().filter(|word| **word == "CreateReleaseTask").count(), 2);
    assert!(!words.contains(&"Bind"));
}

// ---- BootstrapReady ----

#[test]
fn bootstrap_ready_rendering_keeps_the_earlier_chart() {
    let mut model = ready();
    touch_values(&mut model, "edge/web", 2);
    for _ in 0..20 {
        if model.verdict(BERLIN, "BootstrapReady") == "False/Rendering" {
            break;
        }
        model.pass(BERLIN);
        model.render();
    }
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "False/Rendering");
    let url = "oci://registry.example.com/edge/bootstrap-berlin:v0.0.1";
    assert_eq!(model.status(BERLIN).chart_url.as_deref(), Some(url));
    assert!(model.tag_names().contains(&"edge/bootstrap-berlin:v0.0.1".to_owned()));
}

#[test]
fn bootstrap_ready_failed_gives_the_cause_and_keeps_the_earlier_chart() {
    let mut model = ready();
    touch_values(&mut model, "edge/web", 2);
    model.failing.insert("berlin".into(), "too large".into());
    // Only the new task fails.
    for _ in 0..20 {
        model.pass(BERLIN);
        let old = model.tasks.get(&name("edge/render-tgt-berlin-1")).cloned();
        model.render();
        if let Some(old) = old {
            put(&mut model.tasks, old);
        }
    }
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "False/Failed");
    assert_eq!(model.message(BERLIN, "BootstrapReady"), "RenderTask render-tgt-berlin-2 failed: too large");
    assert_eq!(model.status(BERLIN).bootstrap_version, 2);
    assert!(model.status(BERLIN).chart_url.unwrap().ends_with("v0.0.1"));
    assert!(
        model.tasks.contains_key(&name("edge/render-tgt-berlin-1")),
        "old and new stand beside each other"
    );
}

#[test]
fn bootstrap_ready_ready_stays_when_nothing_of_the_input_changed() {
    let mut model = ready();
    let release = model.releases.get_mut(&name("edge/web")).unwrap();
    release.metadata.generation = Some(9);
    release.spec.priority = 5;
    model.targets.get_mut(&name(BERLIN)).unwrap().metadata.labels = Some(labels(&[("zone", "a")]));
    assert_eq!(model.plan(BERLIN).steps, [], "no new task, tag or bootstrap");
}

#[test]
fn userdata_is_part_of_the_bootstrap_only() {
    let mut model = ready();
    let before = model.tag_names();
    model.targets.get_mut(&name(BERLIN)).unwrap().spec.userdata =
        Some(support::object(&json!({"site": "b"})));
    model.settle();
    let changed: Vec<String> = model.tag_names().into_iter().filter(|tag| !before.contains(tag)).collect();
    assert_eq!(changed, ["edge/bootstrap-berlin:v0.0.2"]);
}

// ---- Ready, suspension ----

#[test]
fn a_suspended_target_does_nothing_and_keeps_its_other_conditions() {
    let mut model = ready();
    touch_values(&mut model, "edge/web", 2);
    let annotations = &mut model.targets.get_mut(&name(BERLIN)).unwrap().metadata.annotations;
    *annotations = Some([(SUSPEND_ANNOTATION.to_owned(), "true".to_owned())].into());
    assert_eq!(words(&model.plan(BERLIN)), ["WriteStatus"]);
    model.pass(BERLIN);
    assert_eq!(model.verdict(BERLIN, "Ready"), "False/Suspended");
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "True/Ready");
    assert_eq!(model.plan(BERLIN).steps, []);
    model.delete_target(BERLIN);
    model.settle();
    assert!(model.targets.is_empty(), "deletion goes on");
}

#[test]
fn only_the_text_true_suspends() {
    for (text, suspends) in
        [("true", true), ("false", false), ("True", false), ("yes", false), ("", false), (" true", false)]
    {
        let mut model = Model::scene();
        let target = model.targets.get_mut(&name(BERLIN)).unwrap();
        target.metadata.annotations = Some([(SUSPEND_ANNOTATION.to_owned(), text.to_owned())].into());
        assert_eq!(model.verdict(BERLIN, "Ready") == "False/Suspended", suspends, "{text:?}");
    }
}

#[test]
fn conditions_of_others_survive() {
    let mut model = Model::scene();
    let status = api::TargetStatus { conditions: vec![condition("Foreign", "mine")], ..Default::default() };
    model.targets.get_mut(&name(BERLIN)).unwrap().status = Some(status.clone());
    model.settle();
    assert_eq!(model.status(BERLIN).conditions[0], status.conditions[0]);
}

#[test]
fn a_new_generation_alone_is_written_once() {
    let mut model = ready();
    model.targets.get_mut(&name(BERLIN)).unwrap().metadata.generation = Some(2);
    assert_eq!(words(&model.plan(BERLIN)), ["WriteStatus"]);
    model.settle();
    assert_eq!(model.status(BERLIN).observed_generation, 2);
    assert!(model.status(BERLIN).conditions.iter().all(|c| c.observed_generation == Some(2)));
}

// ---- timers ----

#[test]
fn while_something_is_missing_a_timer_backs_up_the_watches() {
    let mut model = Model::scene();
    model.releases.remove(&name("edge/db"));
    model.settle();
    let since = model
        .status(BERLIN)
        .conditions
        .iter()
        .find(|c| c.type_ == "ReleasesRendered")
        .unwrap()
        .last_transition_time
        .0;
    for (elapsed, at_least, at_most) in
        [(0, 5_000, 6_250), (4, 1_000, 2_250), (5, 10_000, 12_500), (615, 300_000, 375_000)]
    {
        model.seconds = since.as_second() + elapsed;
        let wait = model.plan(BERLIN).wake_after.unwrap().as_millis();
        assert!((at_least..=at_most).contains(&wait), "{wait} ms after {elapsed} s");
    }
    let mut other = Model::scene();
    other.registries.clear();
    assert!(other.plan(BERLIN).wake_after.is_some());
    assert_eq!(ready().plan(BERLIN).wake_after, None);
}

// ---- content decides ----

#[test]
fn only_new_content_takes_the_current_generation() {
    let mut model = ready();
    let tag = |model: &Model| {
        model.tag_names().into_iter().find(|tag| tag.starts_with("edge/edge/release-web:")).unwrap()
    };
    assert!(tag(&model).starts_with("edge/edge/release-web:v0.0.1-"));
    touch_values(&mut model, "edge/web", 2);
    model.settle();
    assert!(tag(&model).starts_with("edge/edge/release-web:v0.0.2-"));
    assert_eq!(model.status(BERLIN).bootstrap_version, 2);
    assert_eq!(model.tags.len(), 3, "what is stale is gone: {:?}", model.tag_names());
}

#[test]
fn a_second_target_takes_the_tag_under_which_the_content_was_rendered_first() {
    let mut model = ready();
    model.releases.get_mut(&name("edge/web")).unwrap().metadata.generation = Some(7);
    put(&mut model.targets, support::target("edge", "bonn", "reg"));
    put(&mut model.release_bindings, support::release_binding("edge", "bonn-web", "edge/bonn", "web"));
    model.settle();
    assert_eq!(model.tag_names().iter().filter(|tag| tag.contains("release-web")).count(), 1);
    let web =
        model.artifacts.values().filter(|artifact| artifact.spec.repository.ends_with("release-web")).count();
    let holders =
        model.bindings.values().filter(|b| b.spec.render_artifact_ref.name == web_artifact(&model)).count();
    assert_eq!((web, holders), (1, 2), "one artifact, two bindings");
    let tasks = model.tasks.values().filter(|task| task.spec.repository.ends_with("release-web")).count();
    assert_eq!(tasks, 2, "each Target has its own task");
}

fn web_artifact(model: &Model) -> String {
    let artifact =
        model.artifacts.values().find(|artifact| artifact.spec.repository.ends_with("release-web"));
    artifact.unwrap().metadata.name.clone().unwrap()
}

#[test]
fn of_several_tags_the_one_that_is_held_is_lent_and_else_the_highest() {
    let mut model = Model::scene();
    model.release_bindings.remove(&name("edge/berlin-db"));
    let tag = |model: &Model| {
        let plan = model.plan(BERLIN);
        let bind = plan.steps.iter().find_map(|step| match step {
            TargetStep::Bind(order) => Some(order.coordinates.tag.to_string()),
            _ => None,
        });
        bind.unwrap()
    };
    let hash = tag(&model).split_once('-').unwrap().1.to_owned();
    for generation in [4, 12, 9] {
        let artifact = format!("other-{generation}");
        stranger(&mut model, &artifact);
        let spec = &mut model.artifacts.get_mut(&name(&format!("edge/{artifact}"))).unwrap().spec;
        spec.repository = "edge/edge/release-web".into();
        spec.tag = format!("v0.0.{generation}-{hash}");
    }
    assert_eq!(tag(&model), format!("v0.0.12-{hash}"));
    terminating(&mut model.artifacts.get_mut(&name("edge/other-12")).unwrap().metadata);
    assert_eq!(tag(&model), format!("v0.0.9-{hash}"), "what is being deleted lends nothing");
    model.artifacts.clear();
    model.pass(BERLIN);
    stranger(&mut model, "other-20");
    let spec = &mut model.artifacts.get_mut(&name("edge/other-20")).unwrap().spec;
    spec.repository = "edge/edge/release-web".into();
    spec.tag = format!("v0.0.20-{hash}");
    model.settle();
    assert!(
        model.tag_names().contains(&format!("edge/edge/release-web:v0.0.1-{hash}")),
        "{:?}",
        model.tag_names()
    );
}

#[test]
fn a_registry_that_moves_to_another_host_gets_every_chart_under_the_same_tag() {
    let mut model = ready();
    let before = model.tag_names();
    model.registries.get_mut(&name("edge/reg")).unwrap().spec.hostname =
        "https://Other.example.com:443/".into();
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert!(model.tags.keys().all(|c| c.base_url.as_ref() == "other.example.com"), "{:?}", model.tags);
    let releases =
        |tags: &[String]| tags.iter().filter(|tag| tag.contains("release-")).cloned().collect::<Vec<_>>();
    assert_eq!(releases(&model.tag_names()), releases(&before));
    assert_eq!(model.status(BERLIN).bootstrap_version, 2);
}

#[test]
fn another_registry_with_the_same_host_corrects_the_bindings_and_renders_nothing() {
    let mut model = ready();
    let mut other = support::registry("edge", "reg2", "registry.example.com");
    other.spec.target_pull_secret_name = Some("pull".into());
    put(&mut model.registries, other);
    model.targets.get_mut(&name(BERLIN)).unwrap().spec.render_registry_ref.name = "reg2".into();
    let plan = model.plan(BERLIN);
    assert_eq!(words(&plan), ["ProtectRegistry", "Bind", "Bind", "Bind", "WriteStatus"]);
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert_eq!(model.status(BERLIN).bootstrap_version, 1);
    assert!(model.bindings.values().all(|b| b.spec.registry_ref.as_ref().unwrap().name == "reg2"));
}

#[test]
fn a_failed_task_of_another_registry_makes_room_for_one_of_the_right_registry() {
    let mut model = Model::scene();
    model.failing.insert("web".into(), "401".into());
    model.settle();
    model.failing.clear();
    let mut other = support::registry("edge", "reg2", "registry.example.com");
    other.spec.target_pull_secret_name = Some("pull".into());
    put(&mut model.registries, other);
    model.targets.get_mut(&name(BERLIN)).unwrap().spec.render_registry_ref.name = "reg2".into();
    model.pass(BERLIN);
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
}

// ---- bootstrap versions ----

#[test]
fn the_first_version_is_one_and_follows_what_is_known_of_earlier_ones() {
    for (tag, version) in [(None, 1), (Some("v0.0.6"), 7), (Some("v0.0.6-1a2b3c4d"), 1), (Some("latest"), 1)]
    {
        let mut model = Model::scene();
        if let Some(tag) = tag {
            let coordinates = solar_core::target::Coordinates {
                base_url: "registry.example.com".into(),
                repository: "edge/bootstrap-berlin".into(),
                tag: tag.into(),
            };
            model.tags.insert(coordinates, "sha256:old".into());
        }
        model.settle();
        assert_eq!(model.status(BERLIN).bootstrap_version, version, "{tag:?}");
    }
}

#[test]
fn a_version_of_an_artifact_is_never_given_to_other_content() {
    let mut model = ready();
    stranger(&mut model, "old");
    let spec = &mut model.artifacts.get_mut(&name("edge/old")).unwrap().spec;
    spec.repository = "edge/bootstrap-berlin".into();
    spec.tag = "v0.0.41".into();
    touch_values(&mut model, "edge/web", 2);
    model.settle();
    assert_eq!(model.status(BERLIN).bootstrap_version, 42);
}

#[test]
fn a_version_whose_task_is_gone_is_not_made_again() {
    let mut model = ready();
    model.tasks.remove(&name("edge/render-tgt-berlin-1"));
    model.memory.clear();
    model.settle();
    assert_eq!(model.status(BERLIN).bootstrap_version, 2);
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert!(!model.tag_names().contains(&"edge/bootstrap-berlin:v0.0.1".to_owned()));
}

#[test]
fn a_version_that_was_just_given_is_not_passed_over_while_the_watch_lags() {
    let mut model = ready();
    touch_values(&mut model, "edge/web", 2);
    while !model.tasks.contains_key(&name("edge/render-tgt-berlin-2")) {
        model.pass(BERLIN);
        model.render();
    }
    let mut lagging = model.clone();
    lagging.tasks.remove(&name("edge/render-tgt-berlin-2"));
    let created = |model: &Model| {
        model.plan(BERLIN).steps.into_iter().find_map(|step| match step {
            TargetStep::CreateBootstrapTask(order) => Some(order.given.version),
            _ => None,
        })
    };
    assert_eq!(created(&lagging), Some(2), "the same once more, which changes nothing");
    touch_values(&mut lagging, "edge/web", 3);
    lagging.settle();
    assert_eq!(lagging.status(BERLIN).bootstrap_version, 3, "other content gets another version");
}

#[test]
fn a_prepared_version_is_used_and_not_passed_over() {
    let mut model = Model::scene();
    while !model.artifacts.values().any(|a| a.spec.repository == "edge/bootstrap-berlin") {
        model.pass(BERLIN);
        model.render();
    }
    for answered in [true, false] {
        let mut next = model.clone();
        if !answered {
            next.memory.get_mut(&name(BERLIN)).unwrap().answers.clear();
        }
        next.settle();
        assert_eq!(next.status(BERLIN).bootstrap_version, 1);
    }
}

/// Somebody wrote the version into the status. Up to the last one but one it is believed.
#[test]
fn a_version_that_cannot_have_been_given_is_not_believed_and_the_next_is_found_out() {
    let last = MAX_BOOTSTRAP_VERSION;
    // What somebody writes, the version then, and after a change of the content.
    let rows = [(-7, 1, 2), (i64::MIN, 1, 2), (i64::MAX, 1, 2), (last + 1, 1, 2), (last, 1, 2), (41, 42, 43)];
    for (written, now, next) in rows {
        for restarted in [false, true] {
            let mut model = ready();
            let set = |model: &mut Model| {
                model.targets.get_mut(&name(BERLIN)).unwrap().status.as_mut().unwrap().bootstrap_version =
                    written;
                if restarted {
                    model.memory.clear();
                }
            };
            let mut changed = model.clone();
            set(&mut model);
            model.settle();
            assert_eq!(model.status(BERLIN).bootstrap_version, now, "{written} {restarted}");
            assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready", "{written} {restarted}");
            touch_values(&mut model, "edge/web", 2);
            model.settle();
            assert_eq!(model.status(BERLIN).bootstrap_version, next, "{written} {restarted}");
            let tag = format!("edge/bootstrap-berlin:v0.0.{next}");
            assert!(model.tag_names().contains(&tag), "{:?}", model.tag_names());
            // The content changes before the Target has looked.
            set(&mut changed);
            touch_values(&mut changed, "edge/web", 2);
            changed.settle();
            let then = if written == 41 { 42 } else { 2 };
            assert_eq!(changed.status(BERLIN).bootstrap_version, then, "{written} {restarted}");
        }
    }
}

#[test]
fn where_the_last_version_is_used_the_target_says_so_and_goes_on_when_it_is_free() {
    let mut model = ready();
    stranger(&mut model, "old");
    let spec = &mut model.artifacts.get_mut(&name("edge/old")).unwrap().spec;
    spec.repository = "edge/bootstrap-berlin".into();
    spec.tag = format!("v0.0.{MAX_BOOTSTRAP_VERSION}");
    touch_values(&mut model, "edge/web", 2);
    model.settle();
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "False/Failed");
    let said = model.message(BERLIN, "BootstrapReady");
    let wanted =
        "Version 9007199254740991 of edge/bootstrap-berlin is used and none can follow: delete the tag";
    assert!(said.starts_with(wanted), "{said}");
    assert!(model.tag_names().contains(&"edge/bootstrap-berlin:v0.0.1".to_owned()), "the old chart stays");
    model.artifacts.remove(&name("edge/old"));
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert_eq!(model.status(BERLIN).bootstrap_version, 2);
}

#[test]
fn a_bootstrap_version_whose_names_are_taken_is_left_out_and_told_of() {
    let mut model = Model::scene();
    let artifact =
        solar_core::names::artifact("edge", "registry.example.com", "edge/bootstrap-berlin", "v0.0.1");
    stranger(&mut model, &artifact);
    let mut task = api::RenderTask::new("render-tgt-berlin-2", support::bootstrap_task_spec());
    task.metadata = support::meta("edge", "render-tgt-berlin-2");
    task.spec.owner_name = "somebody".into();
    task.spec.tag = "v9".into();
    put(&mut model.tasks, task);
    let third =
        solar_core::names::artifact("edge", "registry.example.com", "edge/bootstrap-berlin", "v0.0.3");
    strange_binding(&mut model, &solar_core::names::binding(&third, "berlin"));
    let mut passes = 0;
    while model.status(BERLIN).bootstrap_version == 0 {
        model.pass(BERLIN);
        if passes > 1 {
            render_own(&mut model);
        }
        passes += 1;
        assert!(passes < 20);
    }
    assert_eq!(model.status(BERLIN).bootstrap_version, 4);
    assert_eq!(model.events.iter().filter(|event| event.starts_with("NameCollision")).count(), 3);
}

/// Where the artifact is gone, the Target's own task still says under which tag its content was rendered.
#[test]
fn an_own_task_lends_its_tag_when_its_artifact_is_gone_and_the_generation_rose() {
    let mut model = ready();
    let before = model.tag_names();
    model.artifacts.clear();
    model.bindings.clear();
    let release = model.releases.get_mut(&name("edge/web")).unwrap();
    release.spec.priority = 7;
    release.metadata.generation = Some(9);
    release.metadata.resource_version = Some("9".into());
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert_eq!(model.tag_names(), before);
}

/// Renders, with the task that nobody owns out of the way.
fn render_own(model: &mut Model) {
    let foreign = model.tasks.remove(&name("edge/render-tgt-berlin-2"));
    model.render();
    if let Some(foreign) = foreign {
        put(&mut model.tasks, foreign);
    }
}

// ---- events ----

#[test]
fn each_change_is_told_once() {
    let mut model = Model::scene();
    model.failing.insert("web".into(), "no entrypoint".into());
    model.settle();
    let count =
        |model: &Model, start: &str| model.events.iter().filter(|event| event.starts_with(start)).count();
    assert_eq!(count(&model, "RenderFailed: Release edge/web: no entrypoint"), 1);
    model.failing.clear();
    model.settle();
    assert_eq!(count(&model, "BootstrapReady: Bootstrap version 1 is ready, digest sha256:"), 1);
    assert_eq!(count(&model, "Created: Created RenderTask "), 3);
    conflicting(&mut model);
    model.settle();
    model.settle();
    assert_eq!(count(&model, "RegistryBindingConflict"), 1);
    model.release_bindings.clear();
    model.registry_bindings.clear();
    model.settle();
    assert_eq!(count(&model, "Deleted: Deleted RenderTask "), 3);
}

// ---- what goes, and when ----

#[test]
fn old_charts_stand_beside_new_ones_until_the_new_bootstrap_has_been_ready_for_the_grace_period() {
    let mut model = ready();
    model.options.stale_grace = Duration::from_mins(1);
    touch_values(&mut model, "edge/web", 2);
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert_eq!(model.tags.len(), 5, "{:?}", model.tag_names());
    let plan = model.plan(BERLIN);
    let left = plan.wake_after.expect("it looks again by itself");
    assert!(left <= Duration::from_mins(1));
    model.seconds += i64::try_from(left.as_secs()).unwrap() - 1;
    assert_eq!(model.plan(BERLIN).steps, []);
    model.seconds += 1;
    let words = words(&model.plan(BERLIN));
    assert_eq!(words, ["DeleteTask", "Deleted", "Unbind", "DeleteTask", "Deleted", "Unbind"]);
    model.settle();
    assert_eq!(model.tags.len(), 3);
    assert_eq!(model.plan(BERLIN).wake_after, None);
}

/// A time in a status is somebody's word. What clocks differ by is waited for, a year is not.
#[test]
fn a_transition_in_the_far_future_keeps_no_old_chart_for_ever() {
    for (ahead, goes) in [(59, false), (61, true), (31_536_000, true)] {
        let mut model = ready();
        model.options.stale_grace = Duration::from_mins(1);
        touch_values(&mut model, "edge/web", 2);
        model.settle();
        let since = at(model.seconds + ahead);
        let status = model.targets.get_mut(&name(BERLIN)).unwrap().status.as_mut().unwrap();
        let ready = status.conditions.iter_mut().find(|it| it.type_ == "BootstrapReady").unwrap();
        ready.last_transition_time = Time(since);
        assert_eq!(words(&model.plan(BERLIN)).contains(&"DeleteTask"), goes, "{ahead} s ahead");
    }
}

#[test]
fn a_filtered_release_is_given_up_once_the_new_bootstrap_is_ready() {
    let mut model = ready();
    let selector = LabelSelector { match_labels: Some(labels(&[("app", "web")])), match_expressions: None };
    model.releases.get_mut(&name("edge/web")).unwrap().metadata.labels = Some(labels(&[("app", "web")]));
    let db = model.releases.get_mut(&name("edge/db")).unwrap();
    db.spec.anti_affinity = Some(selector);
    db.spec.priority = 1;
    model.settle();
    let tags = model.tag_names();
    assert_eq!(tags.len(), 2, "{tags:?}");
    assert!(
        tags[0].starts_with("edge/bootstrap-berlin:v0.0.2") && tags[1].starts_with("edge/edge/release-db:")
    );
}

#[test]
fn without_bindings_everything_goes_and_the_bootstrap_last() {
    let mut model = ready();
    model.release_bindings.clear();
    let plan = model.plan(BERLIN);
    let order: Vec<String> = plan
        .steps
        .iter()
        .filter_map(|step| match step {
            TargetStep::DeleteTask { name, .. } => Some(name[..10].to_owned()),
            TargetStep::Unbind { .. } => Some("unbind".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["render-rel", "render-rel", "unbind", "unbind", "render-tgt", "unbind"]);
    model.settle();
    assert!(model.tags.is_empty() && model.tasks.is_empty() && model.bindings.is_empty());
    assert_eq!(model.status(BERLIN).chart_url, None);
    assert_eq!(model.status(BERLIN).bootstrap_version, 1, "versions only go up");
    model.bind_release("edge", "web", BERLIN);
    model.settle();
    assert_eq!(model.status(BERLIN).bootstrap_version, 2);
}

#[test]
fn when_all_are_filtered_everything_goes_too() {
    let mut model = ready();
    for release in model.releases.values_mut() {
        release.spec.unique_name = Some("Not.A.Label".into());
    }
    model.settle();
    assert!(model.tags.is_empty());
    assert_eq!(model.status(BERLIN).chart_url, None);
}

#[test]
fn a_binding_that_lost_its_grant_cleans_up_nothing() {
    let mut model = Model::scene();
    model.release_bindings.clear();
    model.bind_release("team", "web", BERLIN);
    put(&mut model.grants, support::grant("edge", "g", &[("ReleaseBinding", "team")], &["Target"]));
    model.settle();
    let tags = model.tag_names();
    model.grants.clear();
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "False/NoReleaseBindings");
    assert_eq!(model.tag_names(), tags);
    assert!(model.status(BERLIN).chart_url.is_some());
    model.release_bindings.clear();
    model.settle();
    assert!(model.tags.is_empty());
}

#[test]
fn beside_other_releases_the_chart_of_a_binding_that_lost_its_grant_stays() {
    let mut model = Model::scene();
    model.bind_release("team", "mail", BERLIN);
    put(&mut model.grants, support::grant("edge", "g", &[("ReleaseBinding", "team")], &["Target"]));
    model.settle();
    model.grants.clear();
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert!(model.tag_names().iter().any(|tag| tag.starts_with("edge/team/release-mail:")));
    assert_eq!(model.status(BERLIN).bootstrap_version, 2);
    model.release_bindings.remove(&name("team/berlin-mail"));
    model.settle();
    assert_eq!(model.tags.len(), 3, "{:?}", model.tag_names());
}

#[test]
fn a_binding_that_never_had_a_grant_holds_nothing_up() {
    let mut model = ready();
    model.release_bindings.clear();
    model.bind_release("team", "mail", BERLIN);
    model.settle();
    assert!(model.tags.is_empty());
}

#[test]
fn a_release_deleted_while_it_is_bound_keeps_its_chart() {
    let mut model = ready();
    let tags = model.tag_names();
    model.releases.remove(&name("edge/web"));
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "False/MissingDependencies");
    assert_eq!(model.tag_names(), tags);
}

// ---- deletion, sharing, successors ----

#[test]
fn a_deleted_target_gives_up_tasks_then_bindings_then_its_finalizer() {
    let mut model = ready();
    model.delete_target(BERLIN);
    let plan = model.plan(BERLIN);
    let expected = [
        "DeleteTask",
        "Deleted",
        "DeleteTask",
        "Deleted",
        "DeleteTask",
        "Deleted",
        "Unbind",
        "Unbind",
        "Unbind",
    ];
    assert_eq!(words(&plan), expected);
    model.carry_out(BERLIN, &plan);
    assert_eq!(words(&model.plan(BERLIN)), ["RemoveFinalizer"]);
    model.settle();
    assert!(model.targets.is_empty() && model.tags.is_empty() && model.artifacts.is_empty());
}

#[test]
fn a_deleted_target_waits_for_tasks_that_are_still_there() {
    let mut model = ready();
    model.delete_target(BERLIN);
    for task in model.tasks.values_mut() {
        terminating(&mut task.metadata);
    }
    model.bindings.clear();
    assert_eq!(model.plan(BERLIN).steps, []);
}

#[test]
fn a_target_deleted_before_anything_was_made_goes_at_once() {
    let mut model = Model::scene();
    model.targets.get_mut(&name(BERLIN)).unwrap().metadata.finalizers = Some(vec![TARGET_FINALIZER.into()]);
    model.delete_target(BERLIN);
    assert_eq!(words(&model.plan(BERLIN)), ["RemoveFinalizer"]);
    model.targets.get_mut(&name(BERLIN)).unwrap().metadata.finalizers = Some(vec!["other/finalizer".into()]);
    assert_eq!(model.plan(BERLIN).steps, []);
}

#[test]
fn of_two_targets_that_share_a_release_the_last_takes_the_tag_with_it() {
    let mut model = ready();
    put(&mut model.targets, support::target("edge", "bonn", "reg"));
    for release in ["web", "db"] {
        let binding = support::release_binding("edge", &format!("bonn-{release}"), "edge/bonn", release);
        put(&mut model.release_bindings, binding);
    }
    model.settle();
    assert_eq!(model.tags.len(), 4);
    model.delete_target(BERLIN);
    model.settle();
    assert_eq!(model.tags.len(), 3, "{:?}", model.tag_names());
    assert_eq!(model.verdict("edge/bonn", "Ready"), "True/Ready");
    model.delete_target("edge/bonn");
    model.settle();
    assert!(model.tags.is_empty());
}

#[test]
fn a_target_made_again_under_its_name_adopts_nothing() {
    let mut model = ready();
    let mut again = support::target("edge", "berlin", "reg");
    again.metadata.uid = Some("uid-second".into());
    put(&mut model.targets, again);
    model.memory.clear();
    let plan = model.plan(BERLIN);
    assert_eq!(words(&plan).iter().filter(|word| **word == "DeleteTask").count(), 3);
    assert_eq!(
        words(&plan).iter().filter(|word| **word == "Bind").count(),
        2,
        "held by another uid is not held"
    );
    assert_eq!(model.verdict(BERLIN, "BootstrapReady"), "False/Waiting");
    model.settle();
    assert_eq!(model.verdict(BERLIN, "Ready"), "True/Ready");
    assert!(model.bindings.values().filter(|b| !b.spec.render_artifact_ref.name.is_empty()).count() >= 3);
    assert!(
        model.tasks.values().all(|t| t.metadata.owner_references.as_ref().unwrap()[0].uid == "uid-second")
    );
    assert_eq!(model.status(BERLIN).bootstrap_version, 2, "the old chart's version is not used again");
}

#[test]
fn a_task_whose_content_was_changed_makes_room() {
    let mut model = ready();
    let task = model.tasks.values_mut().find(|task| task.spec.release.is_some()).unwrap();
    task.spec.release.as_mut().unwrap().values = support::object(&json!({"renamed": 1}));
    assert!(words(&model.plan(BERLIN)).contains(&"DeleteTask"));
    assert_eq!(model.verdict(BERLIN, "ReleasesRendered"), "False/Pending");
}

#[test]
fn names_at_their_limits_work() {
    let mut model = Model::default();
    let long = "a".repeat(253);
    put(&mut model.registries, support::registry("edge", &long, "[2001:DB8::1]:5000"));
    put(&mut model.targets, support::target("edge", &long, &long));
    let target = format!("edge/{long}");
    put(&mut model.versions, support::component_version("edge", &long, "web"));
    put(&mut model.releases, support::release("edge", &long, &long));
    put(&mut model.release_bindings, support::release_binding("edge", &long, &target, &long));
    model.settle();
    assert_eq!(model.verdict(&target, "Ready"), "True/Ready");
    assert!(model.tasks.keys().all(|task| task.name.len() <= 253));
    assert!(
        model.tags.keys().all(|c| c.repository.len() <= 255 && c.base_url.as_ref() == "[2001:db8::1]:5000")
    );
}

// ---- render requests ----

#[test]
fn a_render_request_is_handed_to_each_task_once_and_told_of() {
    let mut model = ready();
    let annotations =
        std::collections::BTreeMap::from([(RENDER_REQUEST_ANNOTATION.to_owned(), "again".to_owned())]);
    model.targets.get_mut(&name(BERLIN)).unwrap().metadata.annotations = Some(annotations);
    let plan = model.plan(BERLIN);
    let handed = ["RequestRender", "Updated"];
    assert_eq!(words(&plan), [handed, handed, handed].concat(), "two releases and the bootstrap");
    model.carry_out(BERLIN, &plan);
    assert_eq!(words(&model.plan(BERLIN)), [""; 0]);
}
