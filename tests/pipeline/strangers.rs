//! Objects under our names or of our kinds that others made: adopted, left alone or told of, never overwritten.

use std::time::Duration;

use kube_embedded::{Fault, FaultRule, Verb, WatchFault};
use serde_json::{Value, json};
use solar_controller::dev::registry::RegistryOperation;

use crate::artifacts::{by_hand, held_by_a_person};
use crate::scene::{
    HERE, RELEASE, delete_target, install_platform, install_target, is_ready, kill_and_start, pass, ready,
    tag, until_all_gone,
};
use crate::support::{REGISTRY, Simulation, on_paused_time, options};

fn named(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn release_artifact(sim: &Simulation) -> Value {
    sim.server.objects("RenderArtifact").find(|artifact| artifact["spec"]["repository"] == RELEASE).unwrap()
}

fn binding_of(sim: &Simulation, artifact: &str) -> Value {
    sim.server
        .objects("RenderBinding")
        .find(|binding| binding["spec"]["renderArtifactRef"]["name"] == artifact)
        .unwrap()
}

/// What the Target says of its releases.
fn rendered(sim: &Simulation, target: &str) -> String {
    let said = sim.condition("Target", "fleet", target, "ReleasesRendered");
    said.map(|(status, reason, message)| format!("{status} {reason} {message}")).unwrap_or_default()
}

/// Name of the release chart's artifact and of its binding by the Target `one`: the same in every run.
async fn our_names() -> (String, String, String) {
    let sim = ready().await;
    let artifact = named(&release_artifact(&sim));
    let names = (artifact.clone(), named(&binding_of(&sim, &artifact)), tag(&sim).unwrap());
    sim.shut_down().await;
    names
}

/// Sooner than any timer.
async fn until_ready_at_once(sim: &Simulation) {
    let began = tokio::time::Instant::now();
    sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
    assert!(began.elapsed() < Duration::from_secs(3), "it is woken: {:?}", began.elapsed());
}

// ---- under our name, but not ours ----

#[test]
fn an_artifact_under_our_name_with_other_coordinates_is_told_of_and_never_overwritten() {
    on_paused_time(|| async {
        let (artifact, ..) = our_names().await;
        let sim = Simulation::new();
        install_platform(&sim);
        sim.server.install(by_hand(&artifact, REGISTRY, "team/app", "v1")).unwrap();
        sim.server.install(held_by_a_person("held", &artifact)).unwrap();
        install_target(&sim, "one", "charts");
        let says = |sim: &Simulation| {
            let said = rendered(sim, "one");
            let mend =
                "delete it if it was made by hand, which deletes its tag too, or change Release fleet/web";
            said.starts_with("False NameCollision")
                && said.contains("team/app")
                && said.contains(&artifact)
                && said.ends_with(mend)
        };
        sim.until("the Target names the stranger", says).await;
        let stranger = sim.server.get_object("RenderArtifact", "fleet", &artifact).unwrap();
        pass(Duration::from_secs(3_600)).await;
        let now = sim.server.get_object("RenderArtifact", "fleet", &artifact).unwrap();
        assert_eq!(now["metadata"]["uid"], stranger["metadata"]["uid"]);
        assert_eq!(now["spec"], stranger["spec"]);
        assert_eq!(sim.server.count("RenderBinding"), 1, "no share: {}", sim.describe());
        assert_eq!(sim.tags().len(), 0, "and no push");
        assert!(says(&sim), "{}", rendered(&sim, "one"));
        sim.delete(&format!("{HERE}/renderbindings/held")).await;
        sim.until("the stranger is gone", |sim| {
            let there = sim.server.get_object("RenderArtifact", "fleet", &artifact);
            there.is_none_or(|there| there["metadata"]["uid"] != stranger["metadata"]["uid"])
        })
        .await;
        until_ready_at_once(&sim).await;
        sim.shut_down().await;
    });
}

#[test]
fn a_binding_under_our_name_for_another_artifact_is_told_of_and_never_overwritten() {
    on_paused_time(|| async {
        let (_, binding, _) = our_names().await;
        let sim = Simulation::new();
        install_platform(&sim);
        sim.server.install(by_hand("theirs", REGISTRY, "team/app", "v1")).unwrap();
        sim.server.install(held_by_a_person(&binding, "theirs")).unwrap();
        install_target(&sim, "one", "charts");
        let begins =
            format!("False NameCollision RenderBinding fleet/{binding} is needed for {REGISTRY}/{RELEASE}:");
        let mend = "holds another artifact: delete it if it was made by hand, or change Release fleet/web";
        sim.until("the Target names it", |sim| {
            let said = rendered(sim, "one");
            said.starts_with(&begins) && said.ends_with(mend)
        })
        .await;
        pass(Duration::from_secs(3_600)).await;
        let kept = sim.server.get_object("RenderBinding", "fleet", &binding).unwrap();
        assert_eq!(kept["spec"]["ownerKind"], "Person");
        assert_eq!(sim.server.count("RenderArtifact"), 1, "theirs lives: {}", sim.describe());
        sim.delete(&format!("{HERE}/renderbindings/{binding}")).await;
        until_ready_at_once(&sim).await;
        sim.shut_down().await;
    });
}

// ---- the Go manager's, and an older version's ----

/// What an earlier manager may have left differently, per kind.
type Differs = fn(&mut Value);

fn differences() -> Vec<(&'static str, Differs)> {
    fn artifacts(object: &mut Value) -> bool {
        object["kind"] == "RenderArtifact"
    }
    fn bindings(object: &mut Value) -> bool {
        object["kind"] == "RenderBinding"
    }
    vec![
        ("no digest", |object| {
            if artifacts(object) {
                object["status"].as_object_mut().unwrap().remove("digest");
            }
        }),
        ("no status", |object| {
            if artifacts(object) {
                object.as_object_mut().unwrap().remove("status");
            }
        }),
        ("no finalizer", |object| {
            if artifacts(object) {
                object["metadata"].as_object_mut().unwrap().remove("finalizers");
            }
        }),
        ("no registry in the artifact", |object| {
            if artifacts(object) {
                object["spec"].as_object_mut().unwrap().remove("registryRef");
            }
        }),
        ("no registry in the binding", |object| {
            if bindings(object) {
                object["spec"].as_object_mut().unwrap().remove("registryRef");
            }
        }),
        ("no registry at all", |object| {
            if artifacts(object) || bindings(object) {
                object["spec"].as_object_mut().unwrap().remove("registryRef");
            }
        }),
        ("a registry with its namespace", |object| {
            if artifacts(object) || bindings(object) {
                object["spec"]["registryRef"] = json!({ "name": "charts", "namespace": "fleet" });
            }
        }),
        ("an owner that is no controller", |object| {
            if bindings(object) {
                let owner = &mut object["metadata"]["ownerReferences"][0];
                owner["controller"] = json!(false);
                owner.as_object_mut().unwrap().remove("blockOwnerDeletion");
            }
        }),
        ("no owner", |object| {
            if bindings(object) {
                object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
            }
        }),
        ("another task", |object| {
            if artifacts(object) {
                object["spec"]["renderTaskRef"] = json!("render-of-an-older-version");
            }
        }),
        ("labels and annotations", |object| {
            if artifacts(object) || bindings(object) {
                object["metadata"]["labels"] = json!({ "app.kubernetes.io/managed-by": "solar" });
                object["metadata"]["annotations"] = json!({ "kept": "yes" });
            }
        }),
    ]
}

#[test]
fn what_another_manager_or_an_older_version_left_is_adopted_without_a_push_and_without_a_deletion() {
    for row in 0..differences().len() {
        on_paused_time(move || async move {
            let (context, differs) = differences()[row];
            let mut sim = ready().await;
            let (tags, before) = (sim.store.all_tags(), release_artifact(&sim));
            sim.server.fence("controller");
            sim.store.fence("controller");
            for kind in ["RenderArtifact", "RenderBinding"] {
                for mut object in sim.server.objects(kind).collect::<Vec<_>>() {
                    differs(&mut object);
                    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
                    sim.server.install(object).unwrap();
                }
            }
            let left = release_artifact(&sim);
            sim.store.clear_log();
            kill_and_start(&mut sim, "controller", "next", options());
            pass(Duration::from_secs(1_200)).await;
            assert!(is_ready(&sim, "one"), "{context}: {}", sim.describe());
            assert_eq!(sim.store.all_tags(), tags, "{context}");
            assert_eq!(sim.store.count(RegistryOperation::PutManifest), 0, "{context}");
            assert_eq!(sim.store.count(RegistryOperation::DeleteTag), 0, "{context}");
            let now = release_artifact(&sim);
            assert_eq!(now["metadata"]["uid"], left["metadata"]["uid"], "{context}: it is the same object");
            assert_eq!(now["status"]["digest"], before["status"]["digest"], "{context}");
            assert_eq!(now["status"]["chartURL"], before["status"]["chartURL"], "{context}");
            assert_eq!(now["metadata"]["finalizers"], before["metadata"]["finalizers"], "{context}");
            assert_eq!(now["spec"]["registryRef"]["name"], "charts", "{context}");
            assert_eq!(
                now["metadata"]["labels"], left["metadata"]["labels"],
                "{context}: what others put on stays"
            );
            delete_target(&sim, "one").await;
            until_all_gone(&sim).await;
            sim.shut_down().await;
        });
    }
}

/// The tag is one, and each artifact that stands for it may be the last.
/// While the watch is behind, each of them is told of the other as of one that stays. What the API server says counts:
/// else each leaves the tag to the other.
#[test]
fn two_artifacts_of_one_tag_that_go_together_leave_no_orphan() {
    on_paused_time(|| async {
        let sim = ready().await;
        sim.server.install(by_hand("twin", REGISTRY, RELEASE, &tag(&sim).unwrap())).unwrap();
        sim.server.install(held_by_a_person("held", "twin")).unwrap();
        pass(Duration::from_secs(10)).await;
        // Its binding is seen to go at once; that the artifacts are being deleted is not.
        let late = WatchFault { delay: Some(Duration::from_secs(60)), ..WatchFault::default() };
        let late = FaultRule::new(Fault::Watch(late)).actor("controller").verb(Verb::Watch);
        sim.server.add_fault(late.resource("renderartifacts"));
        sim.server.cut_watches(|request| &*request.resource == "renderartifacts");
        pass(Duration::from_secs(120)).await;
        sim.delete(&format!("{HERE}/renderbindings/held")).await;
        delete_target(&sim, "one").await;
        until_all_gone(&sim).await;
        sim.shut_down().await;
    });
}

#[test]
fn an_artifact_whose_host_an_earlier_manager_spelt_otherwise_goes_without_the_tag() {
    for base_url in [format!("oci://{REGISTRY}"), format!("http://{REGISTRY}/"), format!("{REGISTRY}/")] {
        on_paused_time(move || async move {
            let mut sim = ready().await;
            let tags = sim.store.all_tags();
            sim.server.fence("controller");
            sim.store.fence("controller");
            // Its artifact and binding in the place of ours, under the names that they have with that spelling.
            let mut artifact = release_artifact(&sim);
            let ours = named(&artifact);
            let (repository, tag) = (artifact["spec"]["repository"].clone(), artifact["spec"]["tag"].clone());
            let theirs = solar_core::names::artifact(
                "fleet",
                &base_url,
                repository.as_str().unwrap(),
                tag.as_str().unwrap(),
            );
            assert_ne!(ours, theirs);
            let named_binding = |it: &Value| it["spec"]["renderArtifactRef"]["name"] == *ours;
            let mut binding = sim.server.objects("RenderBinding").find(named_binding).unwrap();
            for path in [format!("renderbindings/{}", named(&binding)), format!("renderartifacts/{ours}")] {
                let none = json!({ "metadata": { "finalizers": null } });
                let (plural, name) = path.split_once('/').unwrap();
                sim.patch(plural, "fleet", name, none).await;
                sim.delete(&format!("{HERE}/{path}")).await;
            }
            for object in [&mut artifact, &mut binding] {
                for field in ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"] {
                    object["metadata"].as_object_mut().unwrap().remove(field);
                }
            }
            artifact["metadata"]["name"] = json!(theirs);
            artifact["spec"]["baseURL"] = json!(base_url);
            binding["metadata"]["name"] = json!(solar_core::names::binding(&theirs, "one"));
            binding["spec"]["renderArtifactRef"]["name"] = json!(theirs);
            sim.server.install(artifact).unwrap();
            sim.server.install(binding).unwrap();
            sim.store.clear_log();
            kill_and_start(&mut sim, "controller", "next", options());
            sim.until("theirs has gone", |sim| {
                sim.server.get_object("RenderArtifact", "fleet", &theirs).is_none()
            })
            .await;
            pass(Duration::from_secs(1_200)).await;
            assert!(is_ready(&sim, "one"), "{base_url}: {}", sim.describe());
            assert_eq!(sim.store.all_tags(), tags, "{base_url}");
            assert_eq!(sim.store.count(RegistryOperation::PutManifest), 0, "{base_url}");
            assert_eq!(sim.store.count(RegistryOperation::DeleteTag), 0, "{base_url}");
            assert!(sim.server.get_object("RenderArtifact", "fleet", &ours).is_some(), "{base_url}");
            delete_target(&sim, "one").await;
            until_all_gone(&sim).await;
            sim.shut_down().await;
        });
    }
}

// ---- made by a person ----

#[test]
fn a_persons_artifact_that_a_person_holds_is_left_alone_but_for_what_protects_it() {
    on_paused_time(|| async {
        let sim = ready().await;
        let requests = sim.store.log().len();
        sim.server.install(by_hand("by-hand", REGISTRY, "team/app", "v1")).unwrap();
        sim.server.install(held_by_a_person("held", "by-hand")).unwrap();
        let made = sim.server.get_object("RenderArtifact", "fleet", "by-hand").unwrap();
        pass(Duration::from_secs(3_600)).await;
        let now = sim.server.get_object("RenderArtifact", "fleet", "by-hand").unwrap();
        assert_eq!(now["spec"], made["spec"]);
        assert_eq!(now["metadata"]["finalizers"], json!([solar_api::names::RENDER_ARTIFACT_FINALIZER]));
        assert_eq!(now["status"]["chartURL"], format!("oci://{REGISTRY}/team/app:v1"));
        assert_eq!(sim.store.log().len(), requests, "no request for it");
        let held = sim.server.get_object("RenderBinding", "fleet", "held").unwrap();
        assert_eq!(held["metadata"]["finalizers"], Value::Null);
        sim.shut_down().await;
    });
}

#[test]
fn a_persons_binding_holds_a_targets_tag_and_its_end_lets_the_tag_go() {
    on_paused_time(|| async {
        let sim = ready().await;
        let artifact = named(&release_artifact(&sim));
        sim.server.install(held_by_a_person("held", &artifact)).unwrap();
        pass(Duration::from_secs(10)).await;
        delete_target(&sim, "one").await;
        pass(Duration::from_secs(3_600)).await;
        assert!(tag(&sim).is_some(), "it is held: {}", sim.describe());
        assert_eq!(sim.server.count("RenderArtifact"), 1, "the bootstrap chart's is gone");
        sim.delete(&format!("{HERE}/renderbindings/held")).await;
        until_all_gone(&sim).await;
        sim.shut_down().await;
    });
}

/// A binding of a Target that is not there, by API read, holds nothing; one that is, holds.
#[test]
fn a_persons_binding_for_a_target_that_is_not_there_is_removed_and_its_artifact_goes() {
    on_paused_time(|| async {
        let sim = ready().await;
        let dangling = |name: &str, owner: &str, namespace: &str| {
            let mut binding = held_by_a_person(name, "by-hand");
            binding["spec"]["ownerKind"] = json!("Target");
            binding["spec"]["ownerName"] = json!(owner);
            binding["spec"]["ownerNamespace"] = json!(namespace);
            binding
        };
        sim.server.install(by_hand("by-hand", REGISTRY, "team/app", "v1")).unwrap();
        // The last ones are names that no object can have: nothing is asked for them.
        let owners =
            [("nobody", "fleet"), ("../../secrets/push", "fleet"), ("one?x=", "fleet"), ("one", "../fleet")];
        for (index, (owner, namespace)) in owners.iter().enumerate() {
            sim.server.install(dangling(&format!("dangling-{index}"), owner, namespace)).unwrap();
        }
        pass(Duration::from_secs(1_200)).await;
        let left = |sim: &Simulation| {
            sim.server.objects("RenderBinding").filter(|it| named(it).starts_with("dangling")).count()
        };
        assert_eq!(left(&sim), 0, "{}", sim.describe());
        assert!(sim.server.get_object("RenderArtifact", "fleet", "by-hand").is_none(), "{}", sim.describe());
        assert!(is_ready(&sim, "one"));
        sim.shut_down().await;
    });
}
