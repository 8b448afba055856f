//! What a job finds when it is about to push: its task changed, or the tag is not what it was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, FaultRule, Verb};
use serde_json::{Value, json};
use solar_api::names::{RENDER_REQUEST_ANNOTATION, SUSPEND_ANNOTATION};
use solar_controller::adapters::oci::{Artifact, Digest, Endpoint, OciRegistry as _, Reference};
use solar_controller::dev::registry::{Access, Fault, RegistryOperation};

use crate::scene::{
    HERE, RELEASE, Traffic, failure, install_platform, install_target, is_ready, object, pass, ready,
    ready_looking_every, registry, secret, succeeded, tag, task, until_failed,
};
use crate::support::{REGISTRY, Simulation, on_paused_time, options};

/// Where the chart of a task by hand goes.
const BY_HAND: &str = "fleet/by-hand/by-hand";
const TAG: &str = "v1.0.0";
/// Longer than a job needs.
const LATE: Duration = Duration::from_secs(10);

fn open_scene() -> Simulation {
    let sim = Simulation::new();
    sim.store.set_access(Access::Open);
    install_platform(&sim);
    sim
}

fn endpoint() -> Endpoint {
    Endpoint::anonymous(REGISTRY, true)
}

async fn push_by_hand(sim: &Simulation, repository: &str, tag: &str, artifact: &Artifact) -> Digest {
    sim.store.handle("a person").push(&endpoint(), repository, tag, artifact).await.unwrap()
}

fn theirs() -> Artifact {
    Artifact::chart(&b"{}"[..], &b"theirs"[..], &BTreeMap::new())
}

fn held_by(sim: &Simulation, repository: &str, tag: &str) -> Option<Digest> {
    sim.store.resolve(repository, &Reference::tag(tag))
}

/// The controller's requests of this operation that came from now on.
fn count(traffic: &Traffic, operation: RegistryOperation, repository: &str) -> usize {
    let seen = traffic.seen();
    seen.iter().filter(|it| it.info.operation == operation && it.info.repository == repository).count()
}

// ---- the task changes while it renders ----

/// The last word before a push is the API server's, and it comes late: meanwhile the task changes.
async fn while_it_renders(change: impl AsyncFnOnce(&Simulation)) -> (Simulation, Traffic) {
    let sim = open_scene();
    let traffic = Traffic::with_faults(&sim, |_| Fault::None);
    let late = FaultRule::new(ApiFault::Delay(LATE)).actor("controller").verb(Verb::Get);
    sim.server.add_fault(late.resource("rendertasks").times(1));
    sim.server.install(task("by-hand", |_| {})).unwrap();
    sim.until("the task is read for the last time", |sim| {
        sim.server
            .requests()
            .iter()
            .any(|it| it.verb == Verb::Get && &*it.resource == "rendertasks" && it.code == 0)
    })
    .await;
    assert_eq!(traffic.seen().len(), 0, "nothing is asked of the registry before");
    change(&sim).await;
    pass(LATE * 6).await;
    (sim, traffic)
}

#[test]
fn the_chart_of_a_task_that_is_deleted_while_it_renders_is_not_pushed() {
    on_paused_time(|| async {
        let (sim, traffic) = while_it_renders(async |sim: &Simulation| {
            sim.delete(&format!("{HERE}/rendertasks/by-hand")).await;
        })
        .await;
        assert_eq!(sim.server.count("RenderTask"), 0);
        assert_eq!(traffic.seen().len(), 0, "{:?}", traffic.seen());
        sim.shut_down().await;
    });
}

#[test]
fn the_chart_of_a_task_that_is_made_again_while_it_renders_is_pushed_for_the_new_one_only() {
    on_paused_time(|| async {
        let (sim, traffic) = while_it_renders(async |sim: &Simulation| {
            sim.delete(&format!("{HERE}/rendertasks/by-hand")).await;
            let again = task("by-hand", |spec| spec["release"]["values"] = json!({ "replicaCount": 9 }));
            sim.server.install(again).unwrap();
        })
        .await;
        assert!(succeeded(&sim, "by-hand"), "{}", sim.describe());
        assert_eq!(count(&traffic, RegistryOperation::PutManifest, BY_HAND), 1, "one chart only");
        let told =
            sim.server.get_object("RenderTask", "fleet", "by-hand").unwrap()["status"]["digest"].clone();
        assert_eq!(told, json!(held_by(&sim, BY_HAND, TAG).unwrap().as_str()));
        sim.shut_down().await;
    });
}

#[test]
fn a_task_that_is_asked_for_again_while_it_renders_is_looked_at_and_pushed_once() {
    on_paused_time(|| async {
        let (sim, traffic) = while_it_renders(async |sim: &Simulation| {
            let annotations =
                json!({ "metadata": { "annotations": { RENDER_REQUEST_ANNOTATION: "again" } } });
            sim.patch("rendertasks", "fleet", "by-hand", annotations).await;
        })
        .await;
        assert!(succeeded(&sim, "by-hand"), "{}", sim.describe());
        // A chart that the first job had pushed would be looked at a second time.
        assert_eq!(count(&traffic, RegistryOperation::PutManifest, BY_HAND), 1);
        assert_eq!(count(&traffic, RegistryOperation::HeadManifest, BY_HAND), 1);
        sim.shut_down().await;
    });
}

// ---- what the tag holds ----

#[test]
fn a_tag_that_somebody_else_pushed_is_told_of_with_both_digests_and_never_overwritten() {
    on_paused_time(|| async {
        let sim = open_scene();
        sim.server.install(task("by-hand", |_| {})).unwrap();
        sim.until("the task has succeeded", |sim| succeeded(sim, "by-hand")).await;
        let ours = held_by(&sim, BY_HAND, TAG).unwrap();
        sim.delete(&format!("{HERE}/rendertasks/by-hand")).await;
        sim.store.remove_tag(BY_HAND, TAG);
        let foreign = push_by_hand(&sim, BY_HAND, TAG, &theirs()).await;
        let traffic = Traffic::with_faults(&sim, |_| Fault::None);
        sim.server.install(task("by-hand", |_| {})).unwrap();
        let message = until_failed(&sim, "by-hand").await;
        for part in [foreign.as_str(), ours.as_str(), "delete that tag", RENDER_REQUEST_ANNOTATION] {
            assert!(message.contains(part), "{part}: {message}");
        }
        pass(Duration::from_secs(1_200)).await;
        assert_eq!(held_by(&sim, BY_HAND, TAG), Some(foreign));
        assert_eq!(count(&traffic, RegistryOperation::PutManifest, BY_HAND), 0);
        // What the message says mends it.
        sim.store.remove_tag(BY_HAND, TAG);
        let annotations = json!({ "metadata": { "annotations": { RENDER_REQUEST_ANNOTATION: "now" } } });
        sim.patch("rendertasks", "fleet", "by-hand", annotations).await;
        sim.until("the task has succeeded", |sim| succeeded(sim, "by-hand")).await;
        assert_eq!(held_by(&sim, BY_HAND, TAG), Some(ours));
        sim.shut_down().await;
    });
}

/// A gzip member without content: behind an archive it changes its bytes and nothing that is in it.
const EMPTY_MEMBER: [u8; 20] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn a_chart_with_other_bytes_and_the_same_files_is_taken_as_it_is() {
    on_paused_time(|| async {
        let sim = open_scene();
        sim.server.install(task("by-hand", |_| {})).unwrap();
        sim.until("the task has succeeded", |sim| succeeded(sim, "by-hand")).await;
        let handle = sim.store.handle("a person");
        let manifest = handle.manifest(&endpoint(), BY_HAND, &Reference::tag(TAG)).await.unwrap().unwrap();
        let manifest: Value = serde_json::from_slice(&manifest.bytes).unwrap();
        let blob = async |what: &Value| {
            let digest = what["digest"].as_str().unwrap().parse::<Digest>().unwrap();
            handle.blob(&endpoint(), BY_HAND, &digest, 1 << 20).await.unwrap().unwrap()
        };
        let (config, layer) = (blob(&manifest["config"]).await, blob(&manifest["layers"][0]).await);
        let longer = [&layer[..], &EMPTY_MEMBER[..]].concat();
        sim.delete(&format!("{HERE}/rendertasks/by-hand")).await;
        sim.store.remove_tag(BY_HAND, TAG);
        let same = Artifact::chart(config, longer, &BTreeMap::new());
        let kept = push_by_hand(&sim, BY_HAND, TAG, &same).await;
        let traffic = Traffic::with_faults(&sim, |_| Fault::None);
        sim.server.install(task("by-hand", |_| {})).unwrap();
        sim.until("the task has succeeded", |sim| succeeded(sim, "by-hand")).await;
        let told =
            sim.server.get_object("RenderTask", "fleet", "by-hand").unwrap()["status"]["digest"].clone();
        assert_eq!(told, json!(kept.as_str()));
        assert_eq!(held_by(&sim, BY_HAND, TAG), Some(kept));
        assert_eq!(count(&traffic, RegistryOperation::PutManifest, BY_HAND), 0);
        sim.shut_down().await;
    });
}

#[test]
fn a_task_whose_content_was_changed_under_its_tag_fails_and_pushes_nothing() {
    on_paused_time(|| async {
        let sim = ready().await;
        let suspended = json!({ "metadata": { "annotations": { SUSPEND_ANNOTATION: "true" } } });
        sim.patch("targets", "fleet", "one", suspended).await;
        pass(LATE).await;
        let pushed = sim.store.all_tags();
        let mut changed =
            sim.server.objects("RenderTask").find(|it| it["spec"]["repository"] == RELEASE).unwrap();
        let name = changed["metadata"]["name"].as_str().unwrap().to_owned();
        changed["spec"]["release"]["values"] = json!({ "replicaCount": 77 });
        changed["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        changed["metadata"].as_object_mut().unwrap().remove("uid");
        changed.as_object_mut().unwrap().remove("status");
        sim.delete(&format!("{HERE}/rendertasks/{name}")).await;
        sim.until("the task is gone", |sim| sim.server.get_object("RenderTask", "fleet", &name).is_none())
            .await;
        sim.server.install(changed).unwrap();
        let message = until_failed(&sim, &name).await;
        assert!(message.contains("does not belong to the content"), "{message}");
        pass(Duration::from_secs(1_200)).await;
        assert!(failure(&sim, &name).is_some(), "it is final");
        assert_eq!(sim.store.all_tags(), pushed);
        // The Target, when it goes on, makes another.
        sim.patch(
            "targets",
            "fleet",
            "one",
            json!({ "metadata": { "annotations": { SUSPEND_ANNOTATION: null } } }),
        )
        .await;
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        assert_eq!(sim.store.all_tags(), pushed);
        sim.shut_down().await;
    });
}

// ---- the tag is moved outside ----

#[test]
fn a_tag_that_was_moved_is_noticed_within_the_interval_and_told_of_with_both_digests() {
    on_paused_time(|| async {
        let sim = ready_looking_every(Duration::from_secs(3_600)).await;
        let tag = tag(&sim).unwrap();
        let ours = held_by(&sim, RELEASE, &tag).unwrap();
        sim.store.remove_tag(RELEASE, &tag);
        let foreign = push_by_hand(&sim, RELEASE, &tag, &theirs()).await;
        pass(Duration::from_secs(3_660)).await;
        let (status, reason, message) = sim.condition("Target", "fleet", "one", "ReleasesRendered").unwrap();
        assert_eq!((&*status, &*reason), ("False", "ReleaseFailed"), "{message}");
        assert!(message.contains(foreign.as_str()) && message.contains(ours.as_str()), "{message}");
        pass(Duration::from_secs(7_200)).await;
        assert_eq!(held_by(&sim, RELEASE, &tag), Some(foreign), "it is somebody else's");
        sim.shut_down().await;
    });
}

#[test]
fn a_tag_that_was_moved_while_its_artifact_was_kept_is_told_of_and_stays() {
    on_paused_time(|| async {
        let mut sim = ready().await;
        sim.store.set_access(Access::Open);
        let tag = tag(&sim).unwrap();
        let ours = held_by(&sim, RELEASE, &tag).unwrap();
        sim.server.fence("controller");
        sim.store.fence("controller");
        let artifact =
            sim.server.objects("RenderArtifact").find(|it| it["spec"]["repository"] == RELEASE).unwrap();
        let name = artifact["metadata"]["name"].as_str().unwrap();
        sim.delete(&format!("{HERE}/renderartifacts/{name}")).await;
        sim.store.remove_tag(RELEASE, &tag);
        let foreign = push_by_hand(&sim, RELEASE, &tag, &theirs()).await;
        crate::scene::kill_and_start(&mut sim, "controller", "next", options());
        sim.until("the Target says so", |sim| {
            let said = sim.condition("Target", "fleet", "one", "ReleasesRendered");
            said.is_some_and(|(_, reason, message)| {
                reason == "ReleaseFailed"
                    && message.contains(foreign.as_str())
                    && message.contains(ours.as_str())
            })
        })
        .await;
        pass(Duration::from_secs(1_200)).await;
        assert_eq!(held_by(&sim, RELEASE, &tag), Some(foreign));
        sim.shut_down().await;
    });
}

// ---- another artifact ----

/// What was pushed under an artifact that is gone proves nothing for the one that has its name now.
#[test]
fn a_push_that_ends_after_its_artifact_was_taken_away_and_made_again_is_looked_at_anew() {
    on_paused_time(|| async {
        let sim = open_scene();
        let mut left = 1;
        let traffic = Traffic::with_faults(&sim, move |info| {
            let strikes =
                info.operation == RegistryOperation::PutManifest && info.repository == RELEASE && left > 0;
            left -= usize::from(strikes);
            if strikes { Fault::Latency(LATE) } else { Fault::None }
        });
        install_target(&sim, "one", "charts");
        sim.until("the push is under way", |_| count(&traffic, RegistryOperation::PutManifest, RELEASE) == 1)
            .await;
        let artifact = || sim.server.objects("RenderArtifact").find(|it| it["spec"]["repository"] == RELEASE);
        let before = artifact().unwrap();
        let name = before["metadata"]["name"].as_str().unwrap();
        sim.patch("renderartifacts", "fleet", name, json!({ "metadata": { "finalizers": null } })).await;
        sim.delete(&format!("{HERE}/renderartifacts/{name}")).await;
        sim.until("it is made again", |_| {
            artifact().is_some_and(|now| now["metadata"]["uid"] != before["metadata"]["uid"])
        })
        .await;
        let looks = count(&traffic, RegistryOperation::HeadManifest, RELEASE);
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        assert!(
            count(&traffic, RegistryOperation::HeadManifest, RELEASE) > looks,
            "the tag was looked at for the new artifact"
        );
        assert_eq!(count(&traffic, RegistryOperation::PutManifest, RELEASE), 1, "it is there");
        sim.shut_down().await;
    });
}

// ---- a task by hand ----

/// Its chart is there, and known to be: that it would not have to push is no leave to say that it did.
#[test]
fn a_task_by_hand_that_may_not_use_its_registry_says_so_although_its_chart_is_there() {
    on_paused_time(|| async {
        let sim = ready().await;
        sim.server.install(secret("platform", "push", "solar-dev")).unwrap();
        sim.server.install(registry("platform", "charts", "push")).unwrap();
        let of_release = |it: &Value| it["spec"]["repository"] == RELEASE;
        let mut copy = sim.server.objects("RenderTask").find(of_release).unwrap();
        copy["metadata"] = json!({ "name": "copy", "namespace": "fleet" });
        copy.as_object_mut().unwrap().remove("status");
        copy["spec"]["registryRef"] = json!({ "name": "charts", "namespace": "platform" });
        for field in ["ownerKind", "ownerName", "ownerNamespace"] {
            copy["spec"][field] = json!("");
        }
        let requests = sim.store.log().len();
        sim.server.install(copy).unwrap();
        let said = until_failed(&sim, "copy").await;
        let wanted = "no ReferenceGrant in namespace platform lets RenderTask objects of namespace fleet refer to \
                      Registry platform/charts: create one";
        assert_eq!(said, wanted);
        pass(Duration::from_secs(600)).await;
        assert!(!succeeded(&sim, "copy"), "{}", sim.describe());
        let group = "solar.opendefense.cloud";
        let spec = json!({
            "from": [{ "group": group, "kind": "RenderTask", "namespace": "fleet" }],
            "to": [{ "group": group, "kind": "Registry" }],
        });
        sim.server.install(object("ReferenceGrant", "platform", "tasks", spec)).unwrap();
        let granted = tokio::time::Instant::now();
        sim.until("it succeeds", |sim| succeeded(sim, "copy")).await;
        assert!(granted.elapsed() <= Duration::from_secs(3), "{:?}", granted.elapsed());
        assert_eq!(sim.store.log().len(), requests, "what is known is not asked for");
        sim.shut_down().await;
    });
}

// ---- a stranger's task ----

#[test]
fn a_strangers_task_under_a_release_tasks_name_is_told_of_and_left_alone_until_it_is_gone() {
    on_paused_time(|| async {
        let first = ready().await;
        let of_release = |sim: &Simulation| {
            let task = sim.server.objects("RenderTask").find(|it| it["spec"]["repository"] == RELEASE);
            task.unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
        };
        let name = of_release(&first);
        first.shut_down().await;
        let sim = open_scene();
        sim.server.install(task(&name, |spec| spec["tag"] = json!("v2.0.0"))).unwrap();
        sim.until("it succeeds", |sim| succeeded(sim, &name)).await;
        let stranger = sim.server.get_object("RenderTask", "fleet", &name).unwrap();
        install_target(&sim, "one", "charts");
        let says = |sim: &Simulation| {
            let said = sim.condition("Target", "fleet", "one", "ReleasesRendered");
            let mend = "delete it if it was made by hand, or change Release fleet/web";
            said.is_some_and(|(_, reason, message)| {
                reason == "NameCollision" && message.contains(&name) && message.ends_with(mend)
            })
        };
        sim.until("the Target says so", says).await;
        pass(Duration::from_secs(1_200)).await;
        assert!(says(&sim), "{}", sim.describe());
        let now = sim.server.get_object("RenderTask", "fleet", &name).unwrap();
        assert_eq!(
            (&now["metadata"]["uid"], &now["spec"]),
            (&stranger["metadata"]["uid"], &stranger["spec"])
        );
        assert_eq!(sim.server.count("RenderBinding"), 1, "nothing is bound twice");
        sim.delete(&format!("{HERE}/rendertasks/{name}")).await;
        let left = tokio::time::Instant::now();
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        assert!(left.elapsed() <= Duration::from_secs(3), "it is woken: {:?}", left.elapsed());
        sim.shut_down().await;
    });
}

// ---- deleting an artifact ----

/// An artifact goes only as it was when no binding was left: whoever writes in between is noticed.
#[test]
fn an_artifact_that_somebody_writes_to_while_it_is_deleted_is_looked_at_again_first() {
    on_paused_time(|| async {
        let sim = ready().await;
        let artifact =
            sim.server.objects("RenderArtifact").find(|it| it["spec"]["repository"] == RELEASE).unwrap();
        let name: Arc<str> = artifact["metadata"]["name"].as_str().unwrap().into();
        let late = FaultRule::new(ApiFault::Delay(LATE)).actor("controller").verb(Verb::Delete);
        sim.server.set_faults(FaultPlan::new().rule(late.resource("renderartifacts").name(&name).times(1)));
        crate::scene::delete_target(&sim, "one").await;
        let deletes = |sim: &Simulation| -> Vec<u16> {
            let requests = sim.server.requests();
            let deletes = requests.iter().filter(|it| {
                it.verb == Verb::Delete && &*it.resource == "renderartifacts" && it.name == name
            });
            deletes.map(|it| it.code).collect()
        };
        sim.until("its deletion is under way", |sim| deletes(sim).len() == 1).await;
        sim.patch("renderartifacts", "fleet", &name, json!({ "metadata": { "annotations": { "a": "b" } } }))
            .await;
        sim.until("it is deleted by another request", |sim| deletes(sim).len() == 2).await;
        crate::scene::until_all_gone(&sim).await;
        assert_eq!(deletes(&sim), [409, 200]);
        sim.shut_down().await;
    });
}
