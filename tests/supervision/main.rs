//! Every actor and every part is made to panic, or is stopped, at every stage. What is lost, who starts it again and after
//! how long, and when the process ends instead, stands in `docs/supervision.md`, which this test writes and compares.

#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use solar_controller::actors::pass::{PollHook, Verdict};
use solar_controller::actors::root::State;
use support::{Simulation, on_paused_time};
use tokio::time::Instant;

/// Kinds of object actors, each with an object to touch (plural and name, empty for any) and a change that wakes it.
const KINDS: [(&str, &str, &str, &str); 13] = [
    ("Target", "targets", "edge-1", r#"{"spec": {"userdata": {"site": "bremen"}}}"#),
    (
        "RenderTask",
        "rendertasks",
        "",
        r#"{"metadata": {"annotations": {"solar.opendefense.cloud/render-request": "again"}}}"#,
    ),
    ("RenderArtifact", "renderartifacts", "", r#"{"spec": {"registryRef": null}}"#),
    ("Release", "releases", "probe", r#"{"spec": {"priority": 5}}"#),
    ("ReleaseBinding", "releasebindings", "edge-1-web-stable", r#"{"spec": {"targetRef": {"name": "lab"}}}"#),
    ("RegistryBinding", "registrybindings", "lab-charts", r#"{"spec": {"targetRef": {"name": "edge-1"}}}"#),
    ("Profile", "profiles", "probe", r#"{"spec": {"userdata": {"a": 1}}}"#),
    ("ProfileBindings", "targets", "edge-1", r#"{"metadata": {"labels": {"ring": "none"}}}"#),
    ("ComponentVersion", "componentversions", "podinfo-6.7.0", r#"{"spec": {"namespace": "touched"}}"#),
    ("RegistryProtection", "registries", "charts", TOUCHED),
    ("ReleaseProtection", "releases", "probe", r#"{"spec": {"priority": 6}}"#),
    (
        "ComponentVersionProtection",
        "componentversions",
        "podinfo-6.7.1",
        r#"{"spec": {"namespace": "touched-again"}}"#,
    ),
    ("ComponentProtection", "components", "podinfo", TOUCHED),
];
const REGISTRY_ACTOR: &str = "the registry actor";
const TOUCHED: &str = r#"{"metadata": {"labels": {"touched": "yes"}}}"#;

/// What is injected, where, and when.
#[derive(Clone, Debug)]
struct Case {
    part: String,
    stage: &'static str,
    how: Verdict,
    /// Whether a poll's or message's label is the place.
    place: Place,
    when: When,
    lost: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Polls of tasks with labels that begin so.
    Task(String),
    /// Messages of actors whose names begin so, and that are called so.
    Message(String, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// From the start on.
    Starting,
    /// When everything is ready and at rest, and one object of the kind is touched.
    Resting(usize),
    /// While it ends in order.
    Ending,
}

impl Place {
    /// The first is for polls of its own tasks: "Target fleet/a" and not "Target fleet/a handles ...".
    fn is(&self, label: &str) -> bool {
        match (self, label.split_once(" handles ")) {
            (Self::Task(task), None) => label.starts_with(task),
            (Self::Message(actor, message), Some((who, what))) => who.starts_with(actor) && what == *message,
            _ => false,
        }
    }
}

/// Whether `label` is of the task or the pass of whom the fault hit, or of a message where it has neither.
fn is_again(who: &str, label: &str) -> bool {
    who == label || (who == REGISTRY_ACTOR && label.split_once(" handles ").is_some_and(|(of, _)| of == who))
}

/// What became of a case.
#[derive(Debug)]
enum Outcome {
    /// It works again, after this long.
    Again(Duration),
    /// It was not needed any more.
    NotNeeded,
    /// The process ends.
    Ends(Duration, String),
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, (kind, ..)) in KINDS.into_iter().enumerate() {
        let actor = format!("{kind} ");
        let mut add = |stage, how, place, when, lost| {
            cases.push(Case { part: format!("{kind} actor"), stage, how, place, when, lost });
        };
        let message = |what| Place::Message(actor.clone(), what);
        for how in [Verdict::Panic, Verdict::Stop] {
            add(
                "started: its first wake",
                how,
                message("a wake"),
                When::Starting,
                "the wake; a timer stands for it",
            );
            add(
                "idle: a wake",
                how,
                message("a wake"),
                When::Resting(number),
                "the wake; a timer stands for it",
            );
            // Nobody else wants in when the only object of these kinds is looked at.
            if !["ComponentProtection", "RegistryBinding", "Profile"].contains(&kind) {
                add("its turn", how, message("its turn"), When::Starting, "the turn; it asks for another");
            }
            // Passes of the others find out at once that there is nothing to do, and end where they began.
            if !kind.ends_with("Protection") {
                add(
                    "its pass ends",
                    how,
                    message("the end of a pass"),
                    When::Starting,
                    "what the pass found out",
                );
            }
        }
        add(
            "in a pass",
            Verdict::Panic,
            Place::Task(actor.clone()),
            When::Starting,
            "the pass; answers kept for it",
        );
        add(
            "stopping: in a pass",
            Verdict::Panic,
            Place::Task(actor.clone()),
            When::Ending,
            "the pass; the next start makes up for it",
        );
        if matches!(kind, "Target" | "RenderTask" | "ComponentVersion") {
            for how in [Verdict::Panic, Verdict::Stop] {
                add(
                    "waiting for an answer: it comes",
                    how,
                    message("an answer"),
                    When::Starting,
                    "the answer; it is asked for again",
                );
            }
        }
        if kind == "RenderArtifact" {
            for how in [Verdict::Panic, Verdict::Stop] {
                add(
                    "with queued requests: one more",
                    how,
                    message("a request"),
                    When::Starting,
                    "that request, which is made again; those in the queue stay",
                );
            }
        }
    }
    let mut add = |part: &str, stage, how, place, when, lost| {
        cases.push(Case { part: part.to_owned(), stage, how, place, when, lost });
    };
    add(
        "job of a RenderTask",
        "running",
        Verdict::Panic,
        Place::Task("job of ".into()),
        When::Starting,
        "the render; the task tries again",
    );
    add(
        "errand of a Target",
        "running",
        Verdict::Panic,
        Place::Task("errand of Target".into()),
        When::Starting,
        "the look; it is made again",
    );
    add(
        "check of a ComponentVersion",
        "running",
        Verdict::Panic,
        Place::Task("check of ".into()),
        When::Starting,
        "the check, which counts as one that got no answer; the next one is regular",
    );
    for message in ["a question", "the end of a check"] {
        for how in [Verdict::Panic, Verdict::Stop] {
            add(
                REGISTRY_ACTOR,
                message,
                how,
                Place::Message(REGISTRY_ACTOR.to_owned(), message),
                When::Starting,
                "who waits, and the checks that run; each version asks again; the bucket stays",
            );
        }
    }
    for loop_ in ["Target", "RenderTask", "RenderArtifact", "RenderBinding"] {
        let place = Place::Task(format!("watch of {loop_}"));
        add(
            &format!("watch loop of {loop_}"),
            "running",
            Verdict::Panic,
            place,
            When::Starting,
            "its place in the stream; it lists anew",
        );
    }
    let parts = [
        ("the root", "a kind that is listed"),
        ("the gate", "an actor that wants in"),
        ("the render pool", "a submission"),
        ("a watch", "its start"),
    ];
    for (part, message) in parts {
        for how in [Verdict::Panic, Verdict::Stop] {
            add(
                part,
                message,
                how,
                Place::Message(part.to_owned(), message),
                When::Starting,
                "everything in memory; the next process starts from the API",
            );
        }
    }
    for task in ["timers", "rests", "events"] {
        let part = format!("the {task}");
        add(
            &part,
            "running",
            Verdict::Panic,
            Place::Task(task.to_owned()),
            When::Starting,
            "everything in memory; the next process starts from the API",
        );
    }
    cases
}

/// Injects one fault, and sees when what it hit works again.
struct Injection {
    case: Case,
    state: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    armed: bool,
    hit: Option<(Instant, String)>,
    again: Option<Instant>,
}

impl Injection {
    fn hook(self: &Arc<Self>) -> PollHook {
        let injection = self.clone();
        Arc::new(move |label| injection.look(label))
    }

    fn look(&self, label: &str) -> Verdict {
        let mut progress = self.state.lock().unwrap();
        let place = &self.case.place;
        match &progress.hit {
            None if progress.armed && place.is(label) => {
                // The same task or actor, wherever it is met again.
                let who = label.split_once(" handles ").map_or(label, |(who, _)| who);
                progress.hit = Some((Instant::now(), who.to_owned()));
                self.case.how
            }
            Some((_, who)) if progress.again.is_none() && is_again(who, label) => {
                progress.again = Some(Instant::now());
                Verdict::Go
            }
            _ => Verdict::Go,
        }
    }

    fn arm(&self) {
        self.state.lock().unwrap().armed = true;
    }

    fn was_hit(&self) -> bool {
        self.state.lock().unwrap().hit.is_some()
    }

    fn since_hit(&self) -> Duration {
        self.state.lock().unwrap().hit.as_ref().map_or(Duration::ZERO, |(hit, _)| hit.elapsed())
    }

    fn outcome(&self) -> Outcome {
        let progress = self.state.lock().unwrap();
        let (hit, _) = progress.hit.clone().unwrap();
        progress.again.map_or(Outcome::NotNeeded, |again| Outcome::Again(again - hit))
    }
}

async fn run(case: Case) -> Outcome {
    let injection = Arc::new(Injection { case: case.clone(), state: Mutex::default() });
    if case.when == When::Starting {
        injection.arm();
    }
    // Who is idle is awake.
    let mut options = support::restless();
    if matches!(case.place, Place::Message(_, "its turn" | "an actor that wants in")) {
        // Only where slots are few somebody waits for a turn.
        options.max_concurrent_reconciles = 1;
    }
    let sim = Simulation::hooked(options, injection.hook());
    sim.install_examples();
    sim.install_descriptor().await;
    let spec =
        json!({ "targetRef": { "name": "lab", "namespace": "fleet" }, "registryRef": { "name": "charts" } });
    sim.server.install(support::object("RegistryBinding", "platform", "lab-charts", spec)).unwrap();
    if case.when != When::Starting {
        sim.until("all Targets are ready", Simulation::all_ready).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    injection.arm();
    match case.when {
        When::Starting => {}
        When::Resting(number) => touch(&sim, number).await,
        When::Ending => {
            // Something to do for everybody, so that passes run when the end begins.
            disturb_all(&sim).await;
            sim.until("a pass begins", |_| injection.was_hit()).await;
            sim.running.shut_down().await;
            assert_eq!(*sim.running.state.borrow(), State::Stopped);
            return injection.outcome();
        }
    }
    let mut state = sim.running.state.clone();
    let failed = async {
        match state.wait_for(|state| matches!(state, State::Failed(_))).await.map(|state| state.clone()) {
            Ok(State::Failed(reason)) => reason,
            _ => "the root has ended".to_owned(),
        }
    };
    let works = async {
        sim.until("the fault strikes", |_| injection.was_hit()).await;
        sim.until("all Targets are ready", Simulation::all_ready).await;
        sim.until("it works again", |_| matches!(injection.outcome(), Outcome::Again(_))).await;
        // Nothing is lost for later either.
        let change = json!({ "spec": { "values": { "replicaCount": 7 } } });
        sim.patch("releases", "fleet", "web-next", change).await;
        sim.until("the change arrives", |sim| {
            let target = sim.server.get_object("Target", "fleet", "staging").unwrap();
            target["status"]["bootstrapVersion"] == 2 && sim.all_ready()
        })
        .await;
    };
    tokio::select! {
        biased;
        reason = failed => Outcome::Ends(injection.since_hit(), reason),
        () = works => injection.outcome(),
    }
}

async fn touch(sim: &Simulation, number: usize) {
    let (_, plural, name, patch) = KINDS[number];
    let found =
        sim.server.objects(plural).find(|object| name.is_empty() || object["metadata"]["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no {plural} {name}"));
    let text = |field: &str| found["metadata"][field].as_str().unwrap().to_owned();
    sim.patch(plural, &text("namespace"), &text("name"), serde_json::from_str(patch).unwrap()).await;
}

async fn disturb_all(sim: &Simulation) {
    for number in 0..KINDS.len() {
        touch(sim, number).await;
    }
}

/// The row of each case, in their order; on all cores, each run on a thread of its own.
#[allow(clippy::disallowed_methods, reason = "each run has its own thread and its own virtual time")]
fn rows() -> Vec<String> {
    let cases = cases();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let number = cases.iter().position(|other| std::ptr::eq(other, case));
                    let row = row(case);
                    rows.lock().unwrap().insert(number, row);
                }
            });
        }
    });
    rows.into_inner().unwrap().into_values().collect()
}

fn row(case: &Case) -> String {
    let Case { part, stage, lost, .. } = case;
    let how = if case.how == Verdict::Panic { "panics" } else { "is stopped" };
    println!("{part}: {stage}: {how}");
    let case = case.clone();
    let (who, after) = match on_paused_time(move || run(case)) {
        Outcome::Again(after) => ("itself", format!("{:.1} s", after.as_secs_f64())),
        Outcome::NotNeeded => ("the next process", "-".to_owned()),
        Outcome::Ends(after, reason) => {
            ("whoever runs the process, which ends", format!("{:.1} s: `{reason}`", after.as_secs_f64()))
        }
    };
    format!("| {part} | {stage} | {how} | {lost} | {who} | {after} |\n")
}

#[test]
fn every_death_is_survived_or_ends_the_process_as_the_table_says() {
    let rows = rows().concat();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/supervision.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once("<!-- table -->\n").expect("the mark of the table");
    let (stands, after) = rest.split_once("<!-- end -->").expect("the mark of the table's end");
    let table = format!(
        "| part | stage | it | lost | started again by | after |\n| --- | --- | --- | --- | --- | --- |\n{rows}"
    );
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}<!-- table -->\n{table}<!-- end -->{after}")).unwrap();
        return;
    }
    assert_eq!(stands, table, "docs/supervision.md says something else; UPDATE_DOCS=1 writes it");
}
