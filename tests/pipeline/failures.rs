//! What becomes of a chart that could not be made: faults of its input are final, faults around it are tried again, and
//! neither is a storm of requests.

use std::time::Duration;

use kube_embedded::{Fault as ApiFault, FaultPlan, FaultRule, Verb};
use serde_json::{Value, json};
use solar_controller::dev::registry::{Access, Fault, RegistryOperation};

use crate::scene::{
    Traffic, failure, install_platform, install_target, is_ready, kill_and_start, object, pass, ready,
    registry, secret, succeeded, task, until_failed,
};
use crate::support::{Simulation, on_paused_time, options};

const HOUR: Duration = Duration::from_secs(3_600);
/// First and longest wait of the backoff, before jitter takes up to a quarter off.
const BACKOFF: (f64, f64) = (5.0, 300.0);

/// The scene without a Target, and the task `by-hand` in it.
async fn by_hand(change: impl FnOnce(&mut Value)) -> Simulation {
    let sim = Simulation::new();
    install_platform(&sim);
    // Registry and Component are settled before requests are counted.
    pass(Duration::from_secs(10)).await;
    sim.server.install(task("by-hand", change)).unwrap();
    sim
}

async fn request_render(sim: &Simulation, value: &str) {
    let annotations = json!({ "solar.opendefense.cloud/render-request": value });
    sim.patch("rendertasks", "fleet", "by-hand", json!({ "metadata": { "annotations": annotations } })).await;
}

fn observed_request(sim: &Simulation) -> Value {
    let task = sim.server.get_object("RenderTask", "fleet", "by-hand").unwrap();
    task["status"]["observedRenderRequest"].clone()
}

/// Requests of the controller to the API server so far, without watches, which begin anew every few minutes.
fn calls(sim: &Simulation) -> usize {
    let requests = sim.server.requests();
    requests.iter().filter(|request| &*request.actor == "controller" && request.verb != Verb::Watch).count()
}

/// Whether any task was said to have failed, at any time.
fn was_failed(sim: &Simulation) -> bool {
    sim.server.objects("Event").any(|event| event["reason"] == "JobFailed")
}

/// Status writes of tasks so far.
fn status_writes(sim: &Simulation) -> usize {
    let requests = sim.server.requests();
    let writes = requests.iter().filter(|request| {
        request.verb == Verb::Patch
            && &*request.resource == "rendertasks"
            && &*request.subresource == "status"
    });
    writes.count()
}

// ---- input ----

#[test]
fn an_input_fault_is_final_and_only_a_new_render_request_is_another_attempt() {
    on_paused_time(|| async {
        let sim = by_hand(|spec| {
            spec["release"]["input"]["entrypoint"]["resourceName"] = json!("nowhere");
        })
        .await;
        let message = until_failed(&sim, "by-hand").await;
        assert!(message.contains("nowhere"), "{message}");
        pass(Duration::from_secs(60)).await;
        let silent = |sim: &Simulation| (calls(sim), sim.store.log().len());
        let before = silent(&sim);
        pass(HOUR).await;
        assert_eq!(silent(&sim), before, "nothing is tried again");

        let writes = status_writes(&sim);
        request_render(&sim, "1").await;
        sim.until("the request is noted", |sim| observed_request(sim) == "1").await;
        until_failed(&sim, "by-hand").await;
        pass(Duration::from_secs(60)).await;
        assert_eq!(status_writes(&sim), writes + 2, "one attempt: Retrying, JobFailed");

        let before = silent(&sim);
        request_render(&sim, "1").await;
        pass(HOUR).await;
        assert_eq!(silent(&sim), before, "the same value is no new request");
        assert_eq!(sim.store.log().len(), 0, "no request to the registry at all");
        sim.shut_down().await;
    });
}

// ---- surroundings: backoff ----

/// Whether `pause` is what the backoff waits after so many failures, with what the attempt itself takes.
fn is_backoff(pause: Duration, failures: usize) -> bool {
    let exponent = i32::try_from(failures).unwrap().min(20);
    let whole = (BACKOFF.0 * 2_f64.powi(exponent)).min(BACKOFF.1);
    (whole * 0.75..whole + 1.0).contains(&pause.as_secs_f64())
}

#[test]
fn a_registry_away_for_an_hour_is_asked_with_growing_pauses_and_gets_the_chart_when_it_is_back() {
    on_paused_time(|| async {
        let sim = by_hand(|_| {}).await;
        let traffic = Traffic::with_faults(&sim, |_| Fault::Cut);
        let message = until_failed(&sim, "by-hand").await;
        assert!(message.contains(crate::support::REGISTRY), "{message}");
        let api_before = calls(&sim);
        pass(HOUR).await;
        let pauses = traffic.pauses();
        for (failures, pause) in pauses.iter().enumerate() {
            assert!(is_backoff(*pause, failures), "pause {failures} is {pause:?} of {pauses:?}");
        }
        // 5 s to 5 min, doubled: six pauses, then one every four to five minutes.
        assert!((14..=20).contains(&pauses.len()), "{pauses:?}");
        assert!(pauses.windows(2).skip(7).any(|pair| pair[0] != pair[1]), "with jitter: {pauses:?}");
        assert!(traffic.attempts().iter().all(|attempt| attempt.len() <= 3), "three tries in an attempt");
        let api = calls(&sim) - api_before;
        // Retrying, JobScheduled, JobFailed, its event; task, Secret and artifact read.
        assert!(api <= 8 * (pauses.len() + 1), "{api} API requests in an hour");
        sim.store.clear_faults();
        let back = tokio::time::Instant::now();
        sim.until("the chart is pushed", |sim| succeeded(sim, "by-hand")).await;
        assert!(back.elapsed() <= Duration::from_secs(301), "{:?}", back.elapsed());
        sim.shut_down().await;
    });
}

/// A task that fails for a wrong password and is deep in its backoff, with the requests so far.
async fn waiting_long() -> (Simulation, Traffic) {
    let sim = by_hand(|_| {}).await;
    sim.server.install(secret("fleet", "push", "wrong")).unwrap();
    let traffic = Traffic::with_faults(&sim, |_| Fault::None);
    until_failed(&sim, "by-hand").await;
    pass(HOUR).await;
    // Right behind an attempt, so that the next is minutes away.
    let attempts = traffic.attempts().len();
    sim.until("another attempt is over", |_| traffic.attempts().len() > attempts).await;
    pass(Duration::from_secs(5)).await;
    (sim, traffic)
}

#[test]
fn a_change_of_the_registry_is_worth_an_attempt_at_once() {
    on_paused_time(|| async {
        let (sim, traffic) = waiting_long().await;
        let attempts = traffic.attempts().len();
        let change = json!({ "spec": { "plainHTTP": false } });
        sim.patch("registries", "fleet", "charts", change).await;
        pass(Duration::from_secs(2)).await;
        assert_eq!(traffic.attempts().len(), attempts + 1);
        sim.shut_down().await;
    });
}

#[test]
fn a_change_of_the_task_is_worth_an_attempt_at_once() {
    on_paused_time(|| async {
        let (sim, traffic) = waiting_long().await;
        let attempts = traffic.attempts().len();
        request_render(&sim, "now").await;
        pass(Duration::from_secs(2)).await;
        assert_eq!(traffic.attempts().len(), attempts + 1);
        assert_eq!(observed_request(&sim), "now");
        sim.shut_down().await;
    });
}

#[test]
fn a_grant_that_was_missing_is_worth_an_attempt_at_once() {
    on_paused_time(|| async {
        let sim =
            by_hand(|spec| spec["registryRef"] = json!({ "name": "far", "namespace": "platform" })).await;
        sim.server.install(secret("platform", "push", "solar-dev")).unwrap();
        sim.server.install(registry("platform", "far", "push")).unwrap();
        let message = until_failed(&sim, "by-hand").await;
        for part in
            ["ReferenceGrant", "namespace platform", "RenderTask objects of namespace fleet", "create one"]
        {
            assert!(message.contains(part), "{message}");
        }
        pass(HOUR).await;
        assert_eq!(sim.store.log().len(), 0, "no request with credentials that are not granted");
        let spec = json!({
            "from": [{ "group": "solar.opendefense.cloud", "kind": "RenderTask", "namespace": "fleet" }],
            "to": [{ "group": "solar.opendefense.cloud", "kind": "Registry" }],
        });
        sim.server.install(object("ReferenceGrant", "platform", "tasks", spec)).unwrap();
        pass(Duration::from_secs(2)).await;
        assert!(succeeded(&sim, "by-hand"), "{}", sim.describe());
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_that_is_missing_is_named_and_its_creation_is_worth_an_attempt_at_once() {
    on_paused_time(|| async {
        let sim = by_hand(|spec| spec["registryRef"] = json!({ "name": "later" })).await;
        let message = until_failed(&sim, "by-hand").await;
        assert!(message.contains("Registry fleet/later does not exist: create it"), "{message}");
        pass(HOUR).await;
        sim.server.install(registry("fleet", "later", "push")).unwrap();
        pass(Duration::from_secs(2)).await;
        assert!(succeeded(&sim, "by-hand"), "{}", sim.describe());
        sim.shut_down().await;
    });
}

// ---- surroundings: what is said ----

/// What a registry answers, and what `JobFailed` must say of it.
const ANSWERS: [(u16, &str, &[&str]); 6] = [
    (401, "UNAUTHORIZED", &["401", "check Secret fleet/push, which Registry fleet/charts names"]),
    (403, "DENIED", &["403 (DENIED)", "check Secret fleet/push, which Registry fleet/charts names"]),
    (429, "TOOMANYREQUESTS", &["429", "too many requests"]),
    (500, "UNKNOWN", &["answered 500"]),
    (502, "", &["answered 502"]),
    (503, "", &["answered 503"]),
];

#[test]
fn each_refusal_of_the_registry_is_said_with_its_host_and_gone_past_by_itself() {
    for (status, code, parts) in ANSWERS {
        on_paused_time(move || async move {
            let sim = by_hand(|_| {}).await;
            sim.store.set_faults(move |_| Fault::status(status, code));
            let message = until_failed(&sim, "by-hand").await;
            for part in parts.iter().chain(&[crate::support::REGISTRY]) {
                assert!(message.contains(part), "{status}: {message}");
            }
            sim.store.clear_faults();
            sim.until("the chart is pushed", |sim| succeeded(sim, "by-hand")).await;
            sim.shut_down().await;
        });
    }
}

/// A Secret that is wrong, and what `JobFailed` must say of it.
fn bad_secrets() -> Vec<(Option<Value>, Vec<&'static str>)> {
    let with = |type_: &str, data: Value| {
        let mut secret = secret("fleet", "push", "");
        secret["type"] = json!(type_);
        secret["stringData"] = data;
        Some(secret)
    };
    let docker = "kubernetes.io/dockerconfigjson";
    vec![
        (None, vec!["Secret fleet/push does not exist: create it"]),
        (
            with(
                docker,
                json!({ ".dockerconfigjson": "{\"auths\": {\"127.0.0.1:5000\": {\"auth\": \"hunter2!\"}}}" }),
            ),
            vec!["Secret fleet/push", ".dockerconfigjson", "malformed"],
        ),
        (
            with(docker, json!({ ".dockerconfigjson": "{\"auths\": {\"elsewhere.example\": {}}}" })),
            vec!["Secret fleet/push", "no entry for 127.0.0.1:5000"],
        ),
        (
            with("Opaque", json!({ "password": "hunter2" })),
            vec!["Secret fleet/push", "Opaque", "use kubernetes.io/"],
        ),
        (
            with("kubernetes.io/basic-auth", json!({ "username": "solar" })),
            vec!["Secret fleet/push", "\"password\""],
        ),
    ]
}

#[test]
fn each_fault_of_a_secret_is_named_without_its_content_and_gone_past_by_itself() {
    for (row, _) in bad_secrets().iter().enumerate() {
        on_paused_time(move || async move {
            let (bad, parts) = bad_secrets().swap_remove(row);
            let sim = by_hand(|_| {}).await;
            replace_secret(&sim, bad).await;
            let message = until_failed(&sim, "by-hand").await;
            for part in parts {
                assert!(message.contains(part), "{message}");
            }
            assert!(!sim.describe().contains("hunter2"), "the content stays secret");
            assert_eq!(sim.store.log().len(), 0, "no request without the credentials");
            replace_secret(&sim, Some(secret("fleet", "push", "solar-dev"))).await;
            sim.until("the chart is pushed", |sim| succeeded(sim, "by-hand")).await;
            sim.shut_down().await;
        });
    }
}

/// Deletes the Secret and makes it again like this: the type of a Secret cannot be changed.
async fn replace_secret(sim: &Simulation, secret: Option<Value>) {
    sim.delete("/api/v1/namespaces/fleet/secrets/push").await;
    if let Some(secret) = secret {
        sim.server.install(secret).unwrap();
    }
}

#[test]
fn wrong_credentials_that_are_corrected_serve_the_next_attempt_without_a_watch_on_the_secret() {
    on_paused_time(|| async {
        let sim = by_hand(|_| {}).await;
        sim.store.set_access(Access::basic("solar", "another"));
        let traffic = Traffic::with_faults(&sim, |_| Fault::None);
        let message = until_failed(&sim, "by-hand").await;
        assert!(message.contains("401"), "{message}");
        assert!(!sim.describe().contains("solar-dev"), "the password stays secret");
        pass(HOUR).await;
        let secrets = |verb| usize::try_from(sim.server.count_requests(verb, "secrets")).unwrap();
        assert_eq!(secrets(Verb::Get), traffic.attempts().len(), "read once for each attempt");
        assert_eq!((secrets(Verb::Watch), secrets(Verb::List)), (0, 0));
        sim.server.install(secret("fleet", "push", "another")).unwrap();
        let corrected = tokio::time::Instant::now();
        sim.until("the chart is pushed", |sim| succeeded(sim, "by-hand")).await;
        assert!(corrected.elapsed() <= Duration::from_secs(301), "{:?}", corrected.elapsed());
        sim.shut_down().await;
    });
}

#[test]
fn a_secret_that_is_deleted_and_made_again_holds_up_new_charts_only_as_long() {
    on_paused_time(|| async {
        let sim = ready().await;
        let tags = sim.tags();
        replace_secret(&sim, None).await;
        sim.patch("releases", "fleet", "web", json!({ "spec": { "values": { "replicaCount": 2 } } })).await;
        sim.until("the Target names the Secret", |sim| {
            sim.condition("Target", "fleet", "one", "ReleasesRendered")
                .is_some_and(|(.., message)| message.contains("Secret fleet/push does not exist: create it"))
        })
        .await;
        pass(HOUR).await;
        assert_eq!(sim.tags(), tags, "what is there stays");
        replace_secret(&sim, Some(secret("fleet", "push", "solar-dev"))).await;
        sim.until("the Target is ready", |sim| sim.all_ready() && sim.tags().is_disjoint(&tags)).await;
        sim.shut_down().await;
    });
}

// ---- within one attempt ----

#[test]
fn short_troubles_of_the_registry_are_gone_past_within_one_attempt() {
    let troubles = [
        Fault::Cut,
        Fault::status(500, ""),
        Fault::status(503, ""),
        Fault::Status { status: 429, code: "", retry_after: Some(2) },
    ];
    for trouble in troubles {
        on_paused_time(move || async move {
            let sim = by_hand(|_| {}).await;
            let mut left = 2;
            let shown = format!("{trouble:?}");
            let traffic = Traffic::with_faults(&sim, move |info| {
                let strikes = info.operation == RegistryOperation::HeadManifest && left > 0;
                left -= usize::from(strikes);
                if strikes { trouble.clone() } else { Fault::None }
            });
            let began = tokio::time::Instant::now();
            sim.until("the chart is pushed", |sim| succeeded(sim, "by-hand")).await;
            assert!(began.elapsed() < Duration::from_secs(8), "{shown}: {:?}", began.elapsed());
            assert!(!was_failed(&sim), "{shown}: {}", sim.describe());
            let heads = traffic.seen();
            let heads: Vec<_> =
                heads.iter().filter(|seen| seen.info.operation == RegistryOperation::HeadManifest).collect();
            assert_eq!(heads.len(), 4, "{shown}: three tries, the last asked for credentials and answered");
            if shown.contains("429") {
                let pauses = heads.windows(2).take(2).map(|pair| pair[1].at - pair[0].at);
                assert!(pauses.min() >= Some(Duration::from_secs(2)), "Retry-After is honoured");
            }
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_registry_that_wants_to_be_left_alone_for_long_ends_the_attempt_and_is_left_alone() {
    on_paused_time(|| async {
        let sim = by_hand(|_| {}).await;
        let traffic = Traffic::with_faults(&sim, |info| match info.sequence {
            1 => Fault::Status { status: 429, code: "", retry_after: Some(90) },
            _ => Fault::None,
        });
        let message = until_failed(&sim, "by-hand").await;
        assert!(message.contains("429"), "{message}");
        sim.until("the chart is pushed", |sim| succeeded(sim, "by-hand")).await;
        let seen = traffic.seen();
        let pause = seen[1].at - seen[0].at;
        assert!((Duration::from_secs(90)..Duration::from_secs(92)).contains(&pause), "{pause:?}");
        sim.shut_down().await;
    });
}

/// The reads of a job at the API server, and of the Secret.
const READS: [&str; 2] = ["rendertasks", "secrets"];

#[test]
fn short_troubles_of_the_api_server_are_gone_past_within_one_attempt() {
    for resource in READS {
        for trouble in
            [ApiFault::Refuse, ApiFault::internal(), ApiFault::unavailable(), ApiFault::too_many_requests(2)]
        {
            on_paused_time(move || async move {
                let sim = by_hand(|_| {}).await;
                let shown = format!("{resource}: {trouble:?}");
                let throttled = trouble == ApiFault::too_many_requests(2);
                let rule = FaultRule::new(trouble).actor("controller").verb(Verb::Get).resource(resource);
                sim.server.add_fault(rule.times(2));
                let began = tokio::time::Instant::now();
                sim.until("the chart is pushed", |sim| succeeded(sim, "by-hand")).await;
                assert!(!was_failed(&sim), "{shown}: {}", sim.describe());
                let bounds = if throttled { 4..8 } else { 1..5 };
                assert!(bounds.contains(&began.elapsed().as_secs()), "{shown}: {:?}", began.elapsed());
                sim.shut_down().await;
            });
        }
    }
}

#[test]
fn an_api_server_that_wants_to_be_left_alone_for_long_ends_the_attempt_and_is_left_alone() {
    on_paused_time(|| async {
        let sim = by_hand(|_| {}).await;
        let rule = FaultRule::new(ApiFault::too_many_requests(90)).actor("controller").verb(Verb::Get);
        sim.server.add_fault(rule.resource("secrets").times(1));
        let message = until_failed(&sim, "by-hand").await;
        assert!(message.contains("get Secret fleet/push"), "{message}");
        let failed = tokio::time::Instant::now();
        sim.until("the chart is pushed", |sim| succeeded(sim, "by-hand")).await;
        let pause = failed.elapsed().as_secs();
        assert!((89..95).contains(&pause), "{:?}", failed.elapsed());
        sim.shut_down().await;
    });
}

// ---- attempts ----

fn attempts(sim: &Simulation) -> i64 {
    let task = sim.server.get_object("RenderTask", "fleet", "by-hand").unwrap();
    task["status"]["attempts"].as_i64().unwrap_or_default()
}

#[test]
fn a_task_in_whose_middle_the_process_ends_three_times_more_is_given_up_until_a_person_asks() {
    on_paused_time(|| async {
        let mut sim = by_hand(|_| {}).await;
        let traffic = Traffic::with_faults(&sim, |_| Fault::Hang);
        let reached = |actor: &str| traffic.seen().iter().any(|seen| seen.info.actor == actor);
        sim.until("the job is under way", |_| reached("controller")).await;
        assert_eq!(attempts(&sim), 0, "seen created by this process: no write before the attempt");
        let mut incarnation = "controller".to_owned();
        for restart in 1..=3 {
            let next = format!("controller-{restart}");
            kill_and_start(&mut sim, &incarnation, &next, options());
            sim.until("the job is under way", |_| reached(&next)).await;
            assert_eq!(attempts(&sim), restart, "counted before the attempt");
            assert_eq!(failure(&sim, "by-hand"), None);
            incarnation = next;
        }
        kill_and_start(&mut sim, &incarnation, "last", options());
        let message = until_failed(&sim, "by-hand").await;
        assert!(message.starts_with("3 attempts ended without a result"), "{message}");
        assert!(message.contains("solar.opendefense.cloud/render-request"), "the mend: {message}");
        pass(HOUR).await;
        assert!(!reached("last"), "nothing is tried again");
        sim.store.clear_faults();
        request_render(&sim, "again").await;
        sim.until("the chart is pushed", |sim| succeeded(sim, "by-hand")).await;
        assert_eq!(attempts(&sim), 0);
        sim.shut_down().await;
    });
}

#[test]
fn the_failure_of_one_targets_chart_holds_up_no_other_target() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        sim.server.install(registry("fleet", "broken", "nowhere")).unwrap();
        install_target(&sim, "one", "charts");
        install_target(&sim, "two", "broken");
        sim.until("the first Target is ready", |sim| is_ready(sim, "one")).await;
        sim.until("the second says why not", |sim| {
            sim.condition("Target", "fleet", "two", "Ready")
                .is_some_and(|(.., message)| message.contains("Secret fleet/nowhere does not exist"))
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn a_render_request_on_a_target_reaches_its_tasks_also_those_that_are_made_later() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        let fault = |url: &str| json!({ "spec": { "resources": { "chart": { "repository": url } } } });
        // No pull address: the chart cannot be rendered, whatever the surroundings are like.
        sim.patch("componentversions", "fleet", "web-1", fault("ghcr.io/UPPER/web")).await;
        install_target(&sim, "one", "charts");
        let failed = |sim: &Simulation| {
            sim.condition("Target", "fleet", "one", "Ready").is_some_and(|(_, it, _)| it == "ReleaseFailed")
        };
        sim.until("the release fails", failed).await;
        pass(HOUR).await;
        let attempts = |sim: &Simulation| {
            sim.server.objects("Event").filter(|event| event["reason"] == "JobFailed").count()
        };
        assert_eq!(attempts(&sim), 1, "a fault of the input is final");
        let request = |value: &str| json!({ "metadata": { "annotations": { "solar.opendefense.cloud/render-request": value } } });
        sim.patch("targets", "fleet", "one", request("again")).await;
        let observed = |sim: &Simulation| {
            let tasks: Vec<_> = sim.server.objects("RenderTask").collect();
            !tasks.is_empty() && tasks.iter().all(|it| it["status"]["observedRenderRequest"] == "again")
        };
        sim.until("it was tried again", |sim| observed(sim) && failed(sim)).await;
        assert!(sim.server.objects("Event").any(|event| event["reason"] == "Updated"));
        sim.patch("componentversions", "fleet", "web-1", fault("ghcr.io/charts/web")).await;
        sim.until("all is well, and new tasks have it too", |sim| {
            let tasks: Vec<_> = sim.server.objects("RenderTask").collect();
            let asked = |task: &Value| {
                task["metadata"]["annotations"]["solar.opendefense.cloud/render-request"] == "again"
            };
            is_ready(sim, "one") && tasks.iter().all(asked)
        })
        .await;
        pass(HOUR).await;
        assert_eq!(sim.server.objects("RenderTask").count(), 2);
        sim.shut_down().await;
    });
}

// ---- the API server ----

#[test]
fn half_a_minute_after_a_long_outage_of_writes_everybody_is_back() {
    on_paused_time(|| async {
        let sim = Simulation::new();
        install_platform(&sim);
        pass(Duration::from_secs(10)).await;
        for verb in [Verb::Create, Verb::Patch] {
            sim.server.add_fault(FaultRule::new(ApiFault::unavailable()).verb(verb));
        }
        for number in 0..5 {
            install_target(&sim, &format!("edge-{number}"), "charts");
        }
        let before = calls(&sim);
        pass(HOUR / 4).await;
        // Each Target and each binding tries once in half a minute.
        let tried = calls(&sim) - before;
        assert!((5 * 30..5 * 200).contains(&tried), "{tried} requests");
        sim.server.set_faults(FaultPlan::new());
        pass(Duration::from_secs(35)).await;
        for number in 0..5 {
            assert!(is_ready(&sim, &format!("edge-{number}")), "{number}");
        }
        sim.shut_down().await;
    });
}
