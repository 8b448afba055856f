//! The traps of the artifact protocol, acted out on the whole system: each was found by exhaustive search on a model, and
//! each test holds the rule that its comment names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, FaultRule, Verb, WatchFault};
use serde_json::{Value, json};
use solar_controller::actors::pass::Verdict;
use solar_controller::actors::render_artifact::RenderArtifactKind;
use solar_controller::actors::system::Options;
use solar_controller::adapters::oci::{Artifact, Reference};
use solar_controller::dev::registry::{Access, Behaviour, Fault, RegistryOperation};
use solar_controller::messages::render_artifact::{ArtifactRequest, HeldTicket, PushAnswer};
use solar_core::artifact::PushRequest;
use solar_core::object::ObjectName;
use solar_core::routes::{ActorKey, RENDER_ARTIFACT};
use solar_core::target::Coordinates;

use crate::scene::{
    HERE, RELEASE, Traffic, Writes, add_sibling, assert_sibling_lives, delete_target, install_platform,
    install_target, is_ready, kill_and_start, object, pass, ready, ready_looking_every, tag, until_all_gone,
    until_cleanup_fails,
};
use crate::support::{REGISTRY, Simulation, on_paused_time, options, start};
use tokio::time::Instant;

/// How late a request lands that was cut: within the 30 s for which it counts as under way.
const LATE: Duration = Duration::from_secs(20);
/// When everything has landed.
const LANDED: Duration = Duration::from_secs(90);

/// Options of an incarnation that takes over from one whose requests may still land.
fn taking_over() -> Options {
    Options { takeover_wait: Duration::from_secs(30), ..options() }
}

/// Cuts the first `operation` on the release chart, which lands later.
fn cut_once(sim: &Simulation, operation: RegistryOperation) -> Traffic {
    let mut left = 1;
    Traffic::with_faults(sim, move |info| {
        let strikes = info.operation == operation && info.repository == RELEASE && left > 0;
        left -= usize::from(strikes);
        if strikes { Fault::CutAndLandLater(LATE) } else { Fault::None }
    })
}

async fn until_seen(sim: &Simulation, traffic: &Traffic, operation: RegistryOperation) {
    sim.until("the request is under way", |_| {
        traffic.seen().iter().any(|seen| seen.info.operation == operation && seen.info.repository == RELEASE)
    })
    .await;
}

/// The scene on an open registry, so that no request is a mere question for the challenge.
async fn open_and_ready() -> Simulation {
    let sim = ready().await;
    sim.store.set_access(Access::Open);
    sim
}

/// The scene in which the push of the release chart is cut and on its way.
async fn with_late_put() -> Simulation {
    let sim = Simulation::new();
    sim.store.set_access(Access::Open);
    install_platform(&sim);
    let traffic = cut_once(&sim, RegistryOperation::PutManifest);
    install_target(&sim, "one", "charts");
    until_seen(&sim, &traffic, RegistryOperation::PutManifest).await;
    pass(Duration::from_millis(200)).await;
    sim
}

/// Whatever landed late: the Target's chart is there, and nothing else of ours.
async fn assert_chart_stays(sim: &Simulation, target: &str) {
    pass(LANDED).await;
    assert!(is_ready(sim, target), "{}", sim.describe());
    assert!(tag(sim).is_some(), "the chart that counts as pushed is there: {}", sim.describe());
}

/// Deletes the Target `one`, and waits until whatever is under way has landed.
async fn assert_no_orphan_is_left(sim: &Simulation) {
    delete_target(sim, "one").await;
    until_all_gone(sim).await;
    pass(LANDED).await;
    assert!(sim.tags().is_empty(), "an orphan: {:?}", sim.tags());
}

/// Rule: a registry write that got no answer counts as under way until 30 s after it was sent; until then no clean-up
/// starts. Else the PUT lands behind the clean-up that saw no tag, and the tag is nobody's.
#[test]
fn a_put_that_was_cut_and_lands_later_leaves_no_orphan_when_its_target_goes() {
    on_paused_time(|| async {
        let sim = with_late_put().await;
        assert_no_orphan_is_left(&sim).await;
        sim.shut_down().await;
    });
}

/// Rule: a ticket ends with the end of its job, also where the word of that end is lost. Else no clean-up ever starts.
#[test]
fn a_ticket_ends_with_its_job_although_the_word_of_that_is_lost() {
    on_paused_time(|| async {
        let is_deaf = Arc::new(AtomicBool::new(false));
        let hook = {
            let is_deaf = is_deaf.clone();
            move |label: &str| {
                let asked = label.starts_with("RenderArtifact") && label.ends_with(" handles a request");
                if asked && is_deaf.load(Ordering::SeqCst) { Verdict::Panic } else { Verdict::Go }
            }
        };
        let sim = Simulation::hooked(options(), Arc::new(hook));
        sim.store.set_access(Access::Open);
        install_platform(&sim);
        let traffic = Traffic::with_faults(&sim, |info| match info.operation {
            RegistryOperation::PutManifest => Fault::Hang,
            _ => Fault::None,
        });
        install_target(&sim, "one", "charts");
        until_seen(&sim, &traffic, RegistryOperation::PutManifest).await;
        is_deaf.store(true, Ordering::SeqCst);
        delete_target(&sim, "one").await;
        sim.until("the job is ended", |sim| sim.server.count("RenderTask") == 0).await;
        // The Target asks again; whoever held the ticket has said once that it does no more.
        pass(Duration::from_secs(2)).await;
        is_deaf.store(false, Ordering::SeqCst);
        sim.store.clear_faults();
        let began = Instant::now();
        until_all_gone(&sim).await;
        assert!(began.elapsed() < LANDED, "{:?}", began.elapsed());
        sim.shut_down().await;
    });
}

/// As above, where nobody has anything to tell or to ask any more: the artifact's actor looks after its ticket by itself.
#[test]
fn a_ticket_that_nobody_holds_any_more_ends_although_nobody_asks() {
    on_paused_time(|| async {
        let sim = open_and_ready().await;
        let artifact =
            sim.server.objects("RenderArtifact").find(|it| it["spec"]["repository"] == RELEASE).unwrap();
        let name = ObjectName::new("fleet", artifact["metadata"]["name"].as_str().unwrap());
        let held = HeldTicket::default();
        let (reply, answer) = tokio::sync::oneshot::channel();
        let coordinates = Coordinates {
            base_url: REGISTRY.into(),
            repository: RELEASE.into(),
            tag: tag(&sim).unwrap().into(),
        };
        let request = PushRequest { coordinates, owner: None, digest: None };
        let asked = ArtifactRequest::OpenPush { request, held: held.clone(), reply };
        let key = ActorKey::new(RENDER_ARTIFACT, name);
        assert!(sim.running.shared.request::<RenderArtifactKind>(&key, asked).is_ok());
        assert!(matches!(answer.await, Ok(PushAnswer::Granted { .. })));
        delete_target(&sim, "one").await;
        pass(Duration::from_secs(600)).await;
        assert!(tag(&sim).is_some(), "nothing is deleted while somebody may push: {}", sim.describe());
        drop(held);
        let began = Instant::now();
        until_all_gone(&sim).await;
        assert!(began.elapsed() < Duration::from_secs(65), "{:?}", began.elapsed());
        sim.shut_down().await;
    });
}

/// Rule: a DELETE that got no answer counts as under way for 30 s too; until then no finalizer goes. Else the next
/// attempt deletes the tag, the artifact goes, another Target pushes, and the first DELETE takes its chart away.
#[test]
fn a_delete_that_was_cut_and_lands_later_hits_no_chart_that_is_pushed_meanwhile() {
    on_paused_time(|| async {
        let sim = open_and_ready().await;
        let traffic = cut_once(&sim, RegistryOperation::DeleteTag);
        delete_target(&sim, "one").await;
        until_seen(&sim, &traffic, RegistryOperation::DeleteTag).await;
        install_target(&sim, "two", "charts");
        sim.until("the second Target is ready", |sim| is_ready(sim, "two")).await;
        assert_chart_stays(&sim, "two").await;
        sim.shut_down().await;
    });
}

/// Rule: for 30 s after a take-over no clean-up starts. Else the earlier incarnation's PUT lands behind a clean-up that
/// saw no tag.
#[test]
fn a_put_of_an_earlier_incarnation_that_lands_after_a_take_over_leaves_no_orphan() {
    on_paused_time(|| async {
        let mut sim = with_late_put().await;
        // It lost its lease; what it sent to the registry is on its way all the same.
        sim.server.fence("controller");
        sim.running = start(&sim.server, &sim.store, taking_over(), "next");
        sim.store.clear_faults();
        assert_no_orphan_is_left(&sim).await;
        sim.shut_down().await;
    });
}

/// Rule: for 30 s after a take-over no clean-up starts, and OpenPush for an artifact that was terminating then is answered
/// Terminating. Else the earlier incarnation's DELETE takes away what was pushed meanwhile.
#[test]
fn a_delete_of_an_earlier_incarnation_that_lands_after_a_take_over_hits_no_new_chart() {
    on_paused_time(|| async {
        let mut sim = open_and_ready().await;
        let traffic = cut_once(&sim, RegistryOperation::DeleteTag);
        delete_target(&sim, "one").await;
        until_seen(&sim, &traffic, RegistryOperation::DeleteTag).await;
        sim.server.fence("controller");
        sim.running = start(&sim.server, &sim.store, taking_over(), "next");
        sim.store.clear_faults();
        install_target(&sim, "two", "charts");
        sim.until("the second Target is ready", |sim| is_ready(sim, "two")).await;
        assert_chart_stays(&sim, "two").await;
        sim.shut_down().await;
    });
}

/// Rule: within 30 s after a take-over OpenPush for an artifact that is terminating, though bound, is answered Terminating.
/// Else a job finds the tag as it should be, and the earlier incarnation's DELETE takes it away behind its back.
#[test]
fn a_terminating_artifact_that_is_bound_is_not_pushed_to_before_the_earlier_incarnations_delete_has_landed() {
    on_paused_time(|| async {
        let mut sim = open_and_ready().await;
        let binding = release_binding(&sim).unwrap();
        let traffic = cut_once(&sim, RegistryOperation::DeleteTag);
        sim.delete(&format!("{HERE}/releasebindings/one-web")).await;
        until_seen(&sim, &traffic, RegistryOperation::DeleteTag).await;
        sim.server.fence("controller");
        restore_binding(&sim, binding);
        sim.running = start(&sim.server, &sim.store, taking_over(), "next");
        sim.store.clear_faults();
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        assert!(tag(&sim).is_some(), "what counts as pushed is there: {}", sim.describe());
        assert_chart_stays(&sim, "one").await;
        sim.shut_down().await;
    });
}

/// Rule: a ticket is given from what the artifact's actor itself wrote or read by API, never from the cache alone. Else a
/// job is told of a binding and a digest that are gone, and a chart counts as pushed that is not there.
#[test]
fn no_ticket_is_given_on_the_word_of_a_lagging_cache() {
    on_paused_time(|| async {
        let mut sim = open_and_ready().await;
        sim.server.fence("controller");
        sim.store.fence("controller");
        // Its result is lost, so that the next incarnation makes an attempt; which is held up until things have changed
        // behind the back of its cache.
        let name = release_task(&sim)["metadata"]["name"].as_str().unwrap().to_owned();
        let nothing = json!({ "status": { "conditions": null, "digest": null, "chartURL": null } });
        sim.patch("rendertasks", "fleet", &format!("{name}/status"), nothing).await;
        let late = WatchFault { delay: Some(LATE), ..WatchFault::default() };
        let slow = |fault| FaultRule::new(fault).actor("next");
        sim.server.set_faults(
            FaultPlan::new()
                .rule(slow(ApiFault::Watch(late)).verb(Verb::Watch).resource("renderartifacts"))
                .rule(slow(ApiFault::Watch(late)).verb(Verb::Watch).resource("renderbindings"))
                .rule(
                    slow(ApiFault::Delay(Duration::from_secs(3))).verb(Verb::Patch).resource("rendertasks"),
                ),
        );
        sim.running = start(&sim.server, &sim.store, options(), "next");
        pass(Duration::from_secs(1)).await;
        strip_release_artifact(&sim).await;
        assert_eq!(tag(&sim), None);
        // The job has come to its end by now, and the watches have told nothing yet.
        pass(Duration::from_secs(15)).await;
        let succeeded = sim.condition("RenderTask", "fleet", &name, "JobSucceeded");
        assert!(succeeded.is_none(), "a chart counts as pushed that is not there: {succeeded:?}");
        sim.until("the chart is pushed again", |sim| is_ready(sim, "one") && tag(sim).is_some()).await;
        assert_chart_stays(&sim, "one").await;
        sim.shut_down().await;
    });
}

fn release_task(sim: &Simulation) -> Value {
    sim.server.objects("RenderTask").find(|task| task["spec"]["repository"] == RELEASE).unwrap()
}

fn release_artifact(sim: &Simulation) -> Value {
    sim.server.objects("RenderArtifact").find(|artifact| artifact["spec"]["repository"] == RELEASE).unwrap()
}

/// The binding of the release chart's artifact.
fn release_binding(sim: &Simulation) -> Option<Value> {
    let artifact = release_artifact(sim)["metadata"]["name"].clone();
    sim.server
        .objects("RenderBinding")
        .find(|binding| binding["spec"]["renderArtifactRef"]["name"] == artifact)
}

/// Somebody takes the artifact, its binding and its tag away by hand.
async fn strip_release_artifact(sim: &Simulation) {
    let text = |value: &Value| value["metadata"]["name"].as_str().unwrap().to_owned();
    let artifact = text(&release_artifact(sim));
    let binding = text(&release_binding(sim).unwrap());
    sim.delete(&format!("{HERE}/renderbindings/{binding}")).await;
    sim.patch("renderartifacts", "fleet", &artifact, json!({ "metadata": { "finalizers": null } })).await;
    sim.delete(&format!("{HERE}/renderartifacts/{artifact}")).await;
    sim.store.remove_tag(RELEASE, &tag(sim).unwrap());
}

/// Rule: a binding with another owner uid is deleted and created anew, never patched. Else the garbage collector of an
/// older API server, which deletes by uid alone, takes the new owner's binding away, and the tag with it.
#[test]
fn a_binding_of_an_old_owner_is_made_anew_so_that_a_slow_garbage_collector_hits_nothing() {
    on_paused_time(|| async {
        let mut sim = open_and_ready().await;
        let old = release_binding(&sim).unwrap();
        let (name, uid) = (old["metadata"]["name"].clone(), old["metadata"]["uid"].clone());
        let artifact_uid = release_artifact(&sim)["metadata"]["uid"].clone();
        sim.server.fence("controller");
        sim.store.fence("controller");
        // The collector of this server is prompt; it leaves alone what an owner of an unknown kind owns.
        let mut owner = old["metadata"]["ownerReferences"][0].clone();
        owner["apiVersion"] = json!("slow.example/v1");
        let slow = json!({ "metadata": { "ownerReferences": [owner] } });
        sim.patch("renderbindings", "fleet", name.as_str().unwrap(), slow).await;
        let nothing = json!({ "metadata": { "finalizers": null } });
        sim.patch("targets", "fleet", "one", nothing).await;
        sim.delete(&format!("{HERE}/targets/one")).await;
        let spec = json!({ "renderRegistryRef": { "name": "charts" } });
        sim.server.install(object("Target", "fleet", "one", spec)).unwrap();
        // The Target's Bind comes before its old binding is found to be a stranger's.
        let rule = FaultRule::new(ApiFault::internal()).actor("next").verb(Verb::Get).resource("targets");
        sim.server.add_fault(rule.times(1));
        sim.running = start(&sim.server, &sim.store, options(), "next");
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;

        let bound = release_binding(&sim).unwrap();
        assert_ne!(bound["metadata"]["uid"], uid, "made anew");
        collect(&sim, name.as_str().unwrap(), &uid).await;
        pass(LANDED).await;
        assert_eq!(release_binding(&sim), Some(bound), "the collector hit nothing");
        assert_eq!(release_artifact(&sim)["metadata"]["uid"], artifact_uid, "it was held all the time");
        assert_eq!(sim.store.count(RegistryOperation::DeleteTag), 0);
        sim.shut_down().await;
    });
}

/// Deletes a binding by its uid, as a garbage collector does.
async fn collect(sim: &Simulation, binding: &str, uid: &Value) {
    let body = json!({ "preconditions": { "uid": uid } });
    let request = http::Request::delete(format!("{HERE}/renderbindings/{binding}"))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&body).unwrap())
        .unwrap();
    // That it is refused is what the caller looks for.
    let _ = sim.client.request::<Value>(request).await;
}

/// Rule: Bind comes before push, the binding before the artifact; what is given up goes in the other order, and each thing
/// only after what needs it. Else a process that ends in between leaves a tag that nobody knows of.
#[test]
fn what_knows_of_a_tag_is_written_before_it_is_pushed_and_goes_after_it_is_deleted() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        sim.store.set_access(Access::Open);
        install_platform(&sim);
        let made = Writes::of(&sim);
        install_target(&sim, "one", "charts");
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        let name = |it: &Value| it["metadata"]["name"].as_str().unwrap().to_owned();
        let binding = format!("renderbindings/{}", name(&release_binding(&sim).unwrap()));
        let artifact = format!("renderartifacts/{}", name(&release_artifact(&sim)));
        let task = format!("rendertasks/{}", name(&release_task(&sim)));
        let wanted = [
            "patch targets/one",
            &format!("create {binding}"),
            &format!("create {artifact}"),
            &format!("create {task}"),
            &format!("{} {RELEASE}", RegistryOperation::PutManifest),
            "create rendertasks/render-tgt-one-1",
            &format!("{} fleet/bootstrap-one", RegistryOperation::PutManifest),
        ];
        assert_eq!(made.in_order(&wanted), wanted);

        pass(LANDED).await;
        let gone = Writes::of(&sim);
        sim.delete(&format!("{HERE}/targets/one")).await;
        until_all_gone(&sim).await;
        let wanted = [
            &*format!("delete {task}"),
            &format!("delete {binding}"),
            &format!("delete {artifact}"),
            &format!("{} {RELEASE}", RegistryOperation::DeleteTag),
            &format!("patch {artifact}"),
        ];
        assert_eq!(gone.in_order(&wanted), wanted);
        let wanted = [&*format!("delete {task}"), &format!("delete {binding}"), "patch targets/one"];
        assert_eq!(gone.in_order(&wanted), wanted, "the Target waits until it holds nothing");
        sim.shut_down().await;
    });
}

/// Rule: Unbind re-pins to a surviving binding before it removes the leaving one. Else a process that ends in between
/// leaves a tag pinned to a Registry that may go.
#[test]
fn the_registry_of_a_survivor_is_pinned_before_the_leaving_binding_goes() {
    on_paused_time(|| async {
        let sim = ready().await;
        sim.server.install(crate::scene::registry("fleet", "charts-2", "push")).unwrap();
        install_target(&sim, "two", "charts-2");
        sim.until("both are ready", Simulation::all_ready).await;
        pass(LANDED).await;
        let artifact = release_artifact(&sim);
        let pinned = |sim: &Simulation| release_artifact(sim)["spec"]["registryRef"]["name"].clone();
        let bindings: Vec<Value> = (sim.server.objects("RenderBinding"))
            .filter(|it| it["spec"]["renderArtifactRef"]["name"] == artifact["metadata"]["name"])
            .collect();
        let [first, second] = &bindings[..] else { panic!("{bindings:?}") };
        let (leaves, stays) = if first["spec"]["registryRef"]["name"] == pinned(&sim) {
            (first, second)
        } else {
            (second, first)
        };
        let writes = Writes::of(&sim);
        delete_target(&sim, leaves["spec"]["ownerName"].as_str().unwrap()).await;
        sim.until("it is given up", |sim| {
            sim.server
                .get_object("RenderBinding", "fleet", leaves["metadata"]["name"].as_str().unwrap())
                .is_none()
        })
        .await;
        assert_eq!(pinned(&sim), stays["spec"]["registryRef"]["name"]);
        let wanted = [
            &*format!("patch renderartifacts/{}", artifact["metadata"]["name"].as_str().unwrap()),
            &format!("delete renderbindings/{}", leaves["metadata"]["name"].as_str().unwrap()),
        ];
        assert_eq!(writes.in_order(&wanted), wanted);
        sim.shut_down().await;
    });
}

/// Rule: the tag of a terminating artifact that is bound is looked at before its digest counts. Else a chart whose tag is
/// gone, but not its finalizer, counts as pushed when it is bound once more.
#[test]
fn a_terminating_artifact_that_is_bound_again_is_pushed_again_whatever_its_status_says() {
    on_paused_time(|| async {
        let mut sim = open_and_ready().await;
        let binding = release_binding(&sim).unwrap();
        // The tag goes, and the process ends before the finalizer does.
        let rule = FaultRule::new(ApiFault::internal()).actor("controller").verb(Verb::Patch);
        sim.server.add_fault(rule.resource("renderartifacts").subresource(""));
        sim.delete(&format!("{HERE}/releasebindings/one-web")).await;
        sim.until("the tag is gone", |sim| tag(sim).is_none()).await;
        let left = release_artifact(&sim);
        assert!(left["metadata"]["deletionTimestamp"].is_string() && left["status"]["digest"].is_string());
        sim.server.fence("controller");
        restore_binding(&sim, binding);
        kill_and_start(&mut sim, "controller", "next", options());
        sim.until("the Target is ready", |sim| is_ready(sim, "one")).await;
        assert_chart_stays(&sim, "one").await;
        sim.shut_down().await;
    });
}

/// The binding is there again, from a backup, and the release is bound to the Target again.
fn restore_binding(sim: &Simulation, mut binding: Value) {
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        binding["metadata"].as_object_mut().unwrap().remove(field);
    }
    sim.server.install(binding).unwrap();
    let spec = json!({ "targetRef": { "name": "one" }, "releaseRef": { "name": "web" } });
    sim.server.install(object("ReleaseBinding", "fleet", "one-web", spec)).unwrap();
}

/// Rule: once a registry has accepted a DELETE and the tag is still there, only HEADs follow. Else a second DELETE is
/// accepted too, and takes away what somebody pushes after the first was carried out.
#[test]
fn a_registry_that_deletes_later_sees_one_delete_and_lets_the_artifact_go_when_the_tag_is_gone() {
    on_paused_time(|| async {
        let sim = open_and_ready().await;
        sim.store.set_behaviour(Behaviour::deletes_later(u32::MAX));
        add_sibling(&sim);
        delete_target(&sim, "one").await;
        let (reason, message) = until_cleanup_fails(&sim).await;
        assert_eq!(reason, "DeleteFailed");
        assert!(message.contains("accepted the deletion, but the tag is still there"), "{message}");
        install_target(&sim, "two", "charts");
        pass(Duration::from_secs(3_600)).await;
        assert_eq!(
            sim.store.count(RegistryOperation::DeleteTag),
            2,
            "the release chart and the bootstrap chart"
        );
        assert!(!is_ready(&sim, "two"), "it waits for the deletion");
        sim.store.settle();
        sim.until("the second Target is ready", |sim| is_ready(sim, "two")).await;
        sim.store.settle();
        assert_chart_stays(&sim, "two").await;
        assert_sibling_lives(&sim, "deletes later");
        sim.shut_down().await;
    });
}

/// Rule: the acceptance of a DELETE is void once the chart is pushed again. Else the registry is waited for that has long
/// done what it accepted, and the new chart stays for ever.
#[test]
fn a_deletion_that_was_accepted_before_a_chart_was_pushed_again_is_no_promise_for_that_one() {
    on_paused_time(|| async {
        let sim = open_and_ready().await;
        let binding = release_binding(&sim).unwrap();
        sim.store.set_behaviour(Behaviour::deletes_later(u32::MAX));
        sim.delete(&format!("{HERE}/releasebindings/one-web")).await;
        let (_, message) = until_cleanup_fails(&sim).await;
        assert!(message.contains("accepted the deletion, but the tag is still there"), "{message}");
        sim.store.settle();
        assert_eq!(tag(&sim), None);
        restore_binding(&sim, binding);
        sim.until("the chart is pushed again", |sim| is_ready(sim, "one") && tag(sim).is_some()).await;
        pass(LANDED).await;
        let artifact = release_artifact(&sim);
        assert!(artifact["metadata"]["deletionTimestamp"].is_string(), "the same artifact: {artifact}");
        sim.store.set_behaviour(Behaviour::default());
        let deletes = sim.store.count(RegistryOperation::DeleteTag);
        delete_target(&sim, "one").await;
        until_all_gone(&sim).await;
        assert_eq!(sim.store.count(RegistryOperation::DeleteTag), deletes + 2, "both charts");
        sim.shut_down().await;
    });
}

/// Rule: what is deleted by digest is the throw-away manifest as it was computed, never what a HEAD of the tag returns.
/// Else somebody who moves the tag in between loses every tag of that content.
#[test]
fn what_is_deleted_by_digest_is_the_throw_away_manifest_though_the_tag_was_moved() {
    on_paused_time(|| async {
        let sim = open_and_ready().await;
        sim.store.set_behaviour(Behaviour::distribution_2());
        add_sibling(&sim);
        let chart = tag(&sim).unwrap();
        let marker = Artifact::marker(RELEASE, &chart);
        // Whatever follows the push of the marker comes late enough for somebody to move the tag.
        let mut pushed = false;
        sim.store.set_faults(move |info| {
            let follows = std::mem::take(&mut pushed);
            pushed = info.operation == RegistryOperation::PutManifest && info.repository == RELEASE;
            if follows { Fault::Latency(Duration::from_secs(2)) } else { Fault::None }
        });
        delete_target(&sim, "one").await;
        let held = |sim: &Simulation| sim.store.resolve(RELEASE, &Reference::tag(&*chart));
        sim.until("the marker is pushed", |sim| held(sim).as_ref() == Some(marker.digest())).await;
        assert!(sim.store.copy_tag(RELEASE, "sibling", &chart), "somebody moves the tag back");
        until_all_gone(&sim).await;
        assert_sibling_lives(&sim, "moved");
        sim.shut_down().await;
    });
}

#[test]
fn a_tag_that_somebody_deleted_is_noticed_within_the_interval_and_pushed_again() {
    on_paused_time(|| async {
        let sim = ready_looking_every(Duration::from_secs(3_600)).await;
        let name = tag(&sim).unwrap();
        let digest = |sim: &Simulation| sim.store.resolve(RELEASE, &Reference::tag(name.clone()));
        let pushed = digest(&sim).unwrap();
        pass(Duration::from_secs(7_200)).await;
        let looks = |sim: &Simulation| sim.store.count(RegistryOperation::HeadManifest);
        let before = looks(&sim);
        pass(Duration::from_secs(36_000)).await;
        assert_eq!(looks(&sim) - before, 20, "two tags are looked at ten times in ten hours");

        sim.store.remove_tag(RELEASE, &name);
        pass(Duration::from_secs(3_660)).await;
        assert_eq!(digest(&sim), Some(pushed), "{}", sim.describe());
        sim.until("the Target is ready", Simulation::all_ready).await;
        sim.shut_down().await;
    });
}
