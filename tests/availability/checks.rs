//! Checks in virtual time: how many, when, in which order, and what survives.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_embedded::{Server, Verb};
use serde_json::json;
use solar_controller::actors::pass::{Spawner, Verdict};
use solar_controller::actors::root;
use solar_controller::actors::system::{Options, Ports};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::cpu::Cpu;
use solar_controller::adapters::kubernetes::{Api, bounded};
use solar_controller::adapters::leadership::Leadership;
use solar_controller::dev::registry::{Access, Behaviour, Fault, RegistryOperation, RegistryStore};
use solar_core::object::ObjectName;
use solar_core::routes::{ActorKey, COMPONENT_VERSION};
use tokio::time::Instant;

use crate::scene::{self, HOST, NAMESPACE, REPOSITORY, reason};
use crate::support::{self, Simulation, on_paused_time};

/// When a check arrived at the registry, and the repository that it was about.
type Log = Arc<Mutex<Vec<(Duration, String)>>>;

/// Notes every look at a manifest; `fault` decides what becomes of it.
fn watch(store: &RegistryStore, fault: impl Fn(&str) -> Fault + Send + 'static) -> Log {
    let log = Log::default();
    let (kept, began) = (log.clone(), Instant::now());
    store.set_faults(move |request| {
        if request.operation == RegistryOperation::HeadManifest {
            kept.lock().unwrap().push((began.elapsed(), request.repository.clone()));
            return fault(&request.repository);
        }
        Fault::None
    });
    log
}

fn world() -> (Server, RegistryStore) {
    let (server, _) = support::world();
    scene::install_component(&server);
    (server, RegistryStore::new(Behaviour::default(), Access::Open))
}

/// A day between two regular checks, so that only the first ones are seen.
fn once() -> Options {
    let mut options = support::restless();
    options.availability.interval = Duration::from_secs(24 * 3_600);
    options
}

/// A controller whose registry actor dies in this way when it handles the end of this check; and how many it has handled.
fn dying_at(
    server: Server,
    store: RegistryStore,
    options: Options,
    (check, how): (u32, Verdict),
) -> (Simulation, Arc<Mutex<u32>>) {
    let ends = Arc::new(Mutex::new(0));
    let hook = {
        let ends = ends.clone();
        move |label: &str| {
            if label != "the registry actor handles the end of a check" {
                return Verdict::Go;
            }
            let mut ends = ends.lock().unwrap();
            *ends += 1;
            if *ends == check { how } else { Verdict::Go }
        }
    };
    let spawner = Spawner::hooked(Arc::new(hook));
    let running = support::start_hooked(&server, &store, options, "controller", spawner);
    let client = server.client("default");
    (Simulation { server, store, client, running }, ends)
}

/// `count` versions on `host` under names that begin with `name`, each with a repository of its own.
fn install_versions(server: &Server, name: &str, host: &str, count: usize, digest: &str) {
    for number in 0..count {
        let mut version = scene::version(&format!("{name}-{number:05}"), host, digest);
        version["spec"]["namespace"] = json!(name);
        version["spec"]["componentName"] = json!(format!("c{number}"));
        scene::install(server, version);
    }
}

fn all_have(server: &Server, reason: &str) -> bool {
    server.objects("ComponentVersion").all(|version| version["status"]["conditions"][0]["reason"] == reason)
}

/// The most arrivals within any `window`.
fn most_within(arrivals: &[(Duration, String)], window: Duration) -> usize {
    let within = |(start, _): &(Duration, String)| {
        arrivals.iter().filter(|(at, _)| *at >= *start && *at < *start + window).count()
    };
    arrivals.iter().map(within).max().unwrap_or_default()
}

#[test]
fn versions_that_are_due_together_are_checked_ten_a_second_after_a_burst_of_twenty() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |_| Fault::None);
        scene::install(&server, scene::registry("r", HOST));
        install_versions(&server, "many", HOST, 320, &scene::descriptor("none").digest().to_string());
        let sim = Simulation::over(server, store, once());
        sim.until("all were checked", |sim| all_have(&sim.server, "DescriptorMissingPending")).await;
        let arrivals = log.lock().unwrap().clone();
        assert_eq!(arrivals.len(), 320, "each once");
        let first = arrivals[0].0;
        let at_once =
            arrivals.iter().filter(|(at, _)| at.saturating_sub(first) < Duration::from_millis(50)).count();
        assert_eq!(at_once, 20);
        let last = arrivals[319].0.saturating_sub(first);
        assert!(
            (29.9..=30.1).contains(&last.as_secs_f64()),
            "three hundred more take half a minute: {last:?}"
        );
        assert!(most_within(&arrivals[20..], Duration::from_secs(10)) <= 101);
        sim.shut_down().await;
    });
}

#[test]
fn a_slow_registry_is_asked_four_times_at_once_and_everybody_has_a_turn() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |_| Fault::Latency(Duration::from_secs(2)));
        scene::install(&server, scene::registry("r", HOST));
        install_versions(&server, "many", HOST, 60, &scene::descriptor("none").digest().to_string());
        let sim = Simulation::over(server, store, once());
        sim.until("four run", |sim| sim.store.log().len() == 4 || !log.lock().unwrap().is_empty()).await;
        let snapshot = sim.running.checks_snapshot().await.unwrap();
        assert_eq!((snapshot.running.len(), snapshot.queued), (4, 56));
        assert!(snapshot.next_slot_seconds.is_some());
        sim.until("all were checked", |sim| all_have(&sim.server, "DescriptorMissingPending")).await;
        let arrivals = log.lock().unwrap().clone();
        assert_eq!(arrivals.len(), 60);
        let last = arrivals[59].0.saturating_sub(arrivals[0].0).as_secs_f64();
        assert!((28.0..=28.2).contains(&last), "two a second: {last}");
        assert_eq!(most_within(&arrivals, Duration::from_millis(1_990)), 4);
        sim.shut_down().await;
    });
}

#[test]
fn a_host_that_hangs_does_not_hold_up_another() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(
            &store,
            |repository| {
                if repository.starts_with("hangs") { Fault::Hang } else { Fault::None }
            },
        );
        scene::install(&server, scene::registry("r", HOST));
        scene::install(&server, scene::registry("hangs", "hangs.example"));
        let digest = scene::descriptor("none").digest().to_string();
        install_versions(&server, "hangs", "hangs.example", 40, &digest);
        install_versions(&server, "fine", HOST, 40, &digest);
        let sim = Simulation::over(server, store, once());
        sim.until("the healthy ones were checked", |sim| {
            (0..40)
                .all(|number| reason(&sim.server, &format!("fine-{number:05}")) == "DescriptorMissingPending")
        })
        .await;
        let arrivals = log.lock().unwrap().clone();
        let took = arrivals.iter().filter(|(_, r)| r.starts_with("fine")).map(|(at, _)| *at).max().unwrap();
        assert!(took < Duration::from_secs(16), "at worst it waits for the hanging ones once: {took:?}");
        sim.until("the others say so", |sim| {
            (0..40).all(|number| reason(&sim.server, &format!("hangs-{number:05}")) == "RegistryUnreachable")
        })
        .await;
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_that_asks_to_be_left_alone_is_and_keeps_nobody_else_waiting() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |repository| {
            if repository.starts_with("tired") {
                Fault::Status { status: 429, code: "TOOMANYREQUESTS", retry_after: Some(120) }
            } else {
                Fault::None
            }
        });
        scene::install(&server, scene::registry("r", HOST));
        scene::install(&server, scene::registry("tired", "tired.example"));
        let digest = scene::descriptor("none").digest().to_string();
        install_versions(&server, "tired", "tired.example", 300, &digest);
        install_versions(&server, "fine", HOST, 100, &digest);
        let sim = Simulation::over(server, store, once());
        sim.until("the healthy ones were checked", |sim| {
            (0..100)
                .all(|number| reason(&sim.server, &format!("fine-{number:05}")) == "DescriptorMissingPending")
        })
        .await;
        let of = |log: &Log, name: &str| {
            let log = log.lock().unwrap();
            log.iter()
                .filter(|(_, repository)| repository.starts_with(name))
                .map(|(at, _)| *at)
                .collect::<Vec<_>>()
        };
        let took = of(&log, "fine").last().copied().unwrap();
        assert!(took < Duration::from_secs(12), "{took:?}");
        tokio::time::sleep(Duration::from_secs(600)).await;
        let asked = of(&log, "tired");
        let at_once = asked.iter().filter(|at| **at < Duration::from_secs(10)).count();
        // Four may be on their way when the first answer comes; then one each time.
        assert!(at_once <= 4 && (4..=5).contains(&(asked.len() - at_once)), "{asked:?}");
        let later = &asked[at_once - 1..];
        let is_prompt = |gap: Duration| (120_000..=121_000).contains(&gap.as_millis());
        assert!(later.windows(2).all(|pair| is_prompt(pair[1].saturating_sub(pair[0]))), "{later:?}");
        let (_, said, message) = scene::available(&sim.server, "tired-00000").unwrap();
        assert_eq!(said, "RegistryUnreachable");
        assert!(message.contains("429") && message.contains("120 s"), "{message}");
        sim.store.clear_faults();
        let log = watch(&sim.store, |_| Fault::None);
        sim.until("the others have their turns", |sim| {
            let answered = |number| !reason(&sim.server, &format!("tired-{number:05}")).is_empty();
            (0..300).all(answered)
        })
        .await;
        let asked = of(&log, "tired");
        assert!(asked.len() <= 296, "who had an answer is not asked for again: {}", asked.len());
        let took = asked.last().unwrap().saturating_sub(asked[0]);
        assert!(took < Duration::from_secs(30), "{took:?}");
        sim.shut_down().await;
    });
}

#[test]
fn a_registry_that_asked_to_be_left_alone_is_so_by_a_new_start_of_the_actor_too() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |_| Fault::Status { status: 429, code: "", retry_after: Some(120) });
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::descriptor("none").digest().to_string();
        install_versions(&server, "many", HOST, 100, &digest);
        let (sim, ends) = dying_at(server, store, once(), (3, Verdict::Panic));
        sim.until("it has died", |_| *ends.lock().unwrap() >= 3).await;
        tokio::time::sleep(Duration::from_secs(115)).await;
        assert_eq!(sim.running.checks_snapshot().await.unwrap().restarts, 1);
        assert_eq!(log.lock().unwrap().len(), 4);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(log.lock().unwrap().len(), 5, "and then one asks");
        sim.shut_down().await;
    });
}

#[test]
fn whoever_is_gone_when_its_turn_comes_costs_nothing() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |_| Fault::None);
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::descriptor("none").digest().to_string();
        install_versions(&server, "a", HOST, 40, &digest);
        install_versions(&server, "b", HOST, 400, &digest);
        install_versions(&server, "c", HOST, 40, &digest);
        let sim = Simulation::over(server, store, once());
        sim.until("the first are checked", |_| log.lock().unwrap().len() >= 30).await;
        for number in 0..400 {
            let path = format!(
                "/apis/solar.opendefense.cloud/v1alpha1/namespaces/{NAMESPACE}/componentversions/b-{number:05}"
            );
            sim.delete(&path).await;
        }
        sim.until("the others were checked", |sim| {
            sim.server.count("ComponentVersion") == 80 && all_have(&sim.server, "DescriptorMissingPending")
        })
        .await;
        let arrivals = log.lock().unwrap().clone();
        assert!(arrivals.len() < 120, "{} checks for eighty that stayed", arrivals.len());
        let last = arrivals.last().unwrap().0.saturating_sub(arrivals[0].0).as_secs_f64();
        assert!(last < 10.0, "{last}");
        assert_eq!(sim.running.checks_snapshot().await.unwrap().queued, 0);
        sim.shut_down().await;
    });
}

#[test]
fn a_version_turns_red_after_the_grace_period_heals_at_once_and_an_error_is_never_red() {
    on_paused_time(|| async {
        let (server, store) = world();
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::descriptor("content").digest().to_string();
        scene::install(&server, scene::version("v", HOST, &digest));
        let sim = Simulation::over(server, store, support::options());
        sim.until("it is missing", |sim| reason(&sim.server, "v") == "DescriptorMissingPending").await;
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(890)).await;
        assert_eq!(reason(&sim.server, "v"), "DescriptorMissingPending");
        tokio::time::sleep(Duration::from_secs(13)).await;
        assert_eq!(reason(&sim.server, "v"), "DescriptorMissing", "{:?}", began.elapsed());
        let deletes = sim.server.requests().into_iter().filter(|request| request.verb == Verb::Delete);
        assert_eq!(deletes.count(), 0, "whatever is missing, nothing is deleted");
        sim.store.set_faults(|_| Fault::status(503, ""));
        tokio::time::sleep(Duration::from_secs(301)).await;
        assert_eq!(reason(&sim.server, "v"), "RegistryUnreachable");
        sim.store.clear_faults();
        tokio::time::sleep(Duration::from_secs(301)).await;
        assert_eq!(reason(&sim.server, "v"), "DescriptorMissingPending", "the grace period begins anew");
        scene::push(&sim.store, REPOSITORY, "content").await;
        tokio::time::sleep(Duration::from_secs(301)).await;
        assert_eq!(reason(&sim.server, "v"), "DescriptorAvailable");
        sim.shut_down().await;
    });
}

#[test]
fn the_grace_period_survives_the_process() {
    on_paused_time(|| async {
        let (server, store) = world();
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::descriptor("content").digest().to_string();
        scene::install(&server, scene::version("v", HOST, &digest));
        let first = Simulation::over(server.clone(), store.clone(), support::options());
        first.until("it is missing", |sim| reason(&sim.server, "v") == "DescriptorMissingPending").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        first.shut_down().await;
        // Another process: a clock of its own, that shows the same time.
        let epoch = "2026-01-01T00:10:00Z".parse().unwrap();
        let options = support::options();
        let running = support::start_at(&server, &store, options, "second", epoch);
        tokio::time::sleep(Duration::from_secs(290)).await;
        assert_eq!(reason(&server, "v"), "DescriptorMissingPending");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(reason(&server, "v"), "DescriptorMissing");
        running.shut_down().await;
    });
}

#[test]
fn a_check_that_changes_nothing_writes_nothing_and_an_hour_has_one_for_each_interval() {
    on_paused_time(|| async {
        let (server, store) = world();
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::push(&store, REPOSITORY, "content").await;
        for number in 0..30 {
            scene::install(&server, scene::version(&format!("v-{number}"), HOST, digest.as_str()));
        }
        let sim = Simulation::over(server, store, support::options());
        sim.until("all are there", |sim| all_have(&sim.server, "DescriptorAvailable")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        sim.server.reset_requests();
        let log = watch(&sim.store, |_| Fault::None);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(log.lock().unwrap().len(), 30 * 12);
        // Watches are renewed for ever.
        let requests = sim.server.requests();
        let asked: Vec<_> = requests.iter().filter(|request| request.verb != Verb::Watch).collect();
        assert!(asked.is_empty(), "{asked:?}");
        sim.shut_down().await;
    });
}

#[test]
fn the_registry_actor_starts_again_without_losing_a_version_or_asking_more_often() {
    for how in [Verdict::Panic, Verdict::Stop] {
        on_paused_time(move || async move {
            let (server, store) = world();
            let log = watch(&store, |_| Fault::Latency(Duration::from_millis(300)));
            scene::install(&server, scene::registry("r", HOST));
            let digest = scene::descriptor("none").digest().to_string();
            install_versions(&server, "many", HOST, 120, &digest);
            // In the middle of the round.
            let (sim, ends) = dying_at(server, store, once(), (50, how));
            sim.until("it has died", |_| *ends.lock().unwrap() >= 50).await;
            let snapshot = sim.running.checks_snapshot().await.unwrap();
            assert!(snapshot.tokens < 10, "the bucket is the old one: {snapshot:?}");
            sim.until("all were checked", |sim| all_have(&sim.server, "DescriptorMissingPending")).await;
            let snapshot = sim.running.checks_snapshot().await.unwrap();
            assert_eq!((snapshot.restarts, snapshot.queued, snapshot.running.len()), (1, 0, 0));
            let arrivals = log.lock().unwrap().clone();
            // Those that ran are asked for once more, some of them before they were told that they ran.
            assert!((120..=124).contains(&arrivals.len()), "{}", arrivals.len());
            assert!(most_within(&arrivals, Duration::from_secs(10)) <= 121);
            sim.shut_down().await;
        });
    }
}

#[test]
fn a_process_whose_lease_is_over_looks_for_nothing() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |_| Fault::Latency(Duration::from_secs(1)));
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::descriptor("none").digest().to_string();
        install_versions(&server, "many", HOST, 100, &digest);
        let ports = Ports {
            api: Api::new(bounded(server.service_for("controller"), "default")),
            registry: Arc::new(store.handle("controller")),
            clock: Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()),
            cpu: Cpu::Inline,
            spawner: Spawner::default(),
        };
        let lead = Leadership::leased();
        lead.extend(lead.mark(), Duration::from_secs(6));
        let running = root::start(once(), ports.led_by(&lead, Arc::default()), Vec::new(), "controller");
        let client = server.client("default");
        let sim = Simulation { server, store, client, running };
        sim.until("some were looked for", |_| log.lock().unwrap().len() >= 8).await;
        lead.over().await;
        let before = log.lock().unwrap().len();
        assert!(before < 40);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(log.lock().unwrap().len(), before);
        let snapshot = sim.running.checks_snapshot().await.unwrap();
        assert_eq!(snapshot.running.len(), 0, "and waits for no answer");
        assert!(snapshot.tokens == 20 && snapshot.queued > 0, "and begins nothing: {snapshot:?}");
        sim.shut_down().await;
    });
}

#[test]
fn a_death_behind_a_host_that_hangs_is_made_up_for_within_an_interval() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |_| Fault::Hang);
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::descriptor("none").digest().to_string();
        install_versions(&server, "many", HOST, 400, &digest);
        // By then they have been told that it takes a quarter of an hour.
        let (sim, ends) = dying_at(server, store, support::options(), (60, Verdict::Panic));
        while *ends.lock().unwrap() < 60 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        sim.store.clear_faults();
        let log_after = watch(&sim.store, |_| Fault::None);
        tokio::time::sleep(Duration::from_secs(302 + 45)).await;
        assert!(all_have(&sim.server, "DescriptorMissingPending"), "{}", log_after.lock().unwrap().len());
        assert!(log.lock().unwrap().len() >= 60);
        sim.shut_down().await;
    });
}

#[test]
fn a_version_that_is_annotated_does_not_wait_for_all_others() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |_| Fault::None);
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::descriptor("none").digest().to_string();
        install_versions(&server, "many", HOST, 600, &digest);
        let sim = Simulation::over(server, store, once());
        sim.until("some are checked", |_| log.lock().unwrap().len() >= 30).await;
        let annotation = "solar.opendefense.cloud/availability-recheck";
        let patch = json!({ "metadata": { "annotations": { annotation: "now" } } });
        sim.patch("componentversions", NAMESPACE, "many-00599", patch).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(reason(&sim.server, "many-00599"), "DescriptorMissingPending");
        assert!(log.lock().unwrap().len() < 100);
        sim.shut_down().await;
    });
}

#[test]
fn a_check_that_panics_is_no_absence_and_ends_nothing() {
    on_paused_time(|| async {
        let (server, store) = world();
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::push(&store, REPOSITORY, "content").await;
        scene::install(&server, scene::version("v", HOST, digest.as_str()));
        let hit = Arc::new(Mutex::new(false));
        let hook = {
            let hit = hit.clone();
            move |label: &str| {
                let first =
                    label.starts_with("check of ") && !std::mem::replace(&mut *hit.lock().unwrap(), true);
                if first { Verdict::Panic } else { Verdict::Go }
            }
        };
        let spawner = solar_controller::actors::pass::Spawner::hooked(Arc::new(hook));
        let running = support::start_hooked(&server, &store, support::options(), "controller", spawner);
        let client = server.client("default");
        let sim = Simulation { server, store, client, running };
        sim.until("it says so", |sim| reason(&sim.server, "v") == "RegistryUnreachable").await;
        sim.until("the next one works", |sim| reason(&sim.server, "v") == "DescriptorAvailable").await;
        sim.shut_down().await;
    });
}

#[test]
fn bad_input_is_said_and_asks_no_registry_more_than_once_in_an_interval() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log =
            watch(&store, |repository| if repository.starts_with("cut") { Fault::Cut } else { Fault::None });
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::push(&store, REPOSITORY, "content").await.to_string();
        let rows = [
            ("no-digest", json!({ "digest": "latest" }), "NoDigest", "\"latest\" is no digest"),
            (
                "scheme",
                json!({ "registry": "ftp://descriptors.example" }),
                "RegistryUnreachable",
                "holds a scheme",
            ),
            (
                "path",
                json!({ "registry": "descriptors.example/path" }),
                "RegistryUnreachable",
                "holds a path",
            ),
            ("space", json!({ "registry": "two words" }), "RegistryUnreachable", "white space"),
            ("upper", json!({ "componentName": "acme.org/Web" }), "RegistryUnreachable", "acme.org/Web"),
            ("elsewhere", json!({ "registry": "other.example" }), "RegistryNotConfigured", "other.example"),
            ("cut", json!({ "namespace": "cut" }), "RegistryUnreachable", "the connection broke"),
        ];
        for (name, change, ..) in &rows {
            let mut version = scene::version(name, HOST, &digest);
            for (field, value) in change.as_object().unwrap() {
                version["spec"][field] = value.clone();
            }
            scene::install(&server, version);
        }
        let sim = Simulation::over(server, store, support::restless());
        sim.until("all say something", |sim| {
            rows.iter().all(|(name, ..)| !reason(&sim.server, name).is_empty())
        })
        .await;
        for (name, _, wanted, says) in &rows {
            let (_, reason, message) = scene::available(&sim.server, name).unwrap();
            assert_eq!(reason, *wanted, "{name}: {message}");
            assert!(message.contains(says), "{name}: {message}");
        }
        let passes = |name: &'static str| {
            let key = ActorKey::new(COMPONENT_VERSION, ObjectName::new(NAMESPACE, name));
            let actor = sim.running.shared.directory.find(&key).unwrap();
            async move { actor.snapshot().await.unwrap().passes }
        };
        // What changed meanwhile has come to rest.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let mut before = Vec::new();
        for (name, ..) in &rows {
            before.push(passes(name).await);
        }
        let asked = log.lock().unwrap().len();
        sim.server.reset_requests();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        for ((name, ..), before) in rows.iter().zip(before) {
            let is_looked_for = ["upper", "cut"].contains(name);
            let most = if is_looked_for { 12 * 3 } else { 1 };
            let passes = passes(name).await - before;
            assert!(passes <= most, "{name}: {passes}");
        }
        assert_eq!(
            log.lock().unwrap().len() - asked,
            12,
            "one attempt in each interval, and only where there is a name"
        );
        let requests = sim.server.requests();
        let others: Vec<_> = requests.iter().filter(|request| request.verb != Verb::Watch).collect();
        assert!(others.is_empty(), "{others:?}");
        sim.shut_down().await;
    });
}

#[test]
fn versions_for_which_nothing_is_looked_for_take_no_token_and_the_others_do() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |_| Fault::Hang);
        let digest = scene::descriptor("none").digest().to_string();
        install_versions(&server, "nowhere", "nowhere.example", 50, &digest);
        install_versions(&server, "none", HOST, 50, "");
        let sim = Simulation::over(server, store, once());
        sim.until("all say so", |sim| {
            let said =
                |name: &str, number, wanted| reason(&sim.server, &format!("{name}-{number:05}")) == wanted;
            (0..50).all(|n| said("nowhere", n, "RegistryNotConfigured") && said("none", n, "NoDigest"))
        })
        .await;
        let snapshot = sim.running.checks_snapshot().await.unwrap();
        assert_eq!((snapshot.tokens, snapshot.queued, snapshot.running.len()), (20, 0, 0));
        scene::install(&sim.server, scene::registry("nowhere", "nowhere.example"));
        sim.until("four run", |_| log.lock().unwrap().len() == 4).await;
        let snapshot = sim.running.checks_snapshot().await.unwrap();
        assert!(snapshot.tokens < 20, "{snapshot:?}");
        assert_eq!((snapshot.queued, snapshot.running.len()), (46, 4));
        sim.shut_down().await;
    });
}

#[test]
fn a_check_has_ten_seconds_in_all() {
    on_paused_time(|| async {
        let (server, store) = world();
        let log = watch(&store, |_| Fault::Latency(Duration::from_secs(15)));
        scene::install(&server, scene::registry("r", HOST));
        let digest = scene::push(&store, REPOSITORY, "content").await;
        scene::install(&server, scene::version("v", HOST, digest.as_str()));
        let began = Instant::now();
        let sim = Simulation::over(server, store, once());
        sim.until("it is looked for", |_| !log.lock().unwrap().is_empty()).await;
        let asked = log.lock().unwrap()[0].0;
        sim.until("it says something", |sim| !reason(&sim.server, "v").is_empty()).await;
        let (_, said, message) = scene::available(&sim.server, "v").unwrap();
        assert_eq!(said, "RegistryUnreachable");
        assert!(message.contains("no answer within 10 s"), "{message}");
        let took = began.elapsed().saturating_sub(asked);
        assert!((10.0..11.0).contains(&took.as_secs_f64()), "{took:?}");
        sim.shut_down().await;
    });
}
