//! Several processes that want one Lease, in virtual time and from a seed: they are started, halted, killed and ended,
//! people write to the Lease, and its requests fail in every way. Never do two lead at once, and when the noise stops,
//! one does.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use http::Request;
use kube::Client;
use kube_embedded::{Fault, FaultPlan, FaultRule, Server, Verb};
use serde_json::{Value, json};
use solar_controller::actors::pass::{PassHandle, Spawner};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::kubernetes::{Candidacy, Elector, LeaseName, bounded};
use solar_controller::adapters::leadership::Leadership;
use solar_controller::adapters::rng;
use solar_core::lease::LeaseTimes;
use tokio::time::Instant;

use crate::support::on_paused_time;

const TIMES: LeaseTimes = LeaseTimes {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/system/leases/controller";
const STEPS: usize = 80;
const SEEDS: u64 = 40;
/// After this long without noise somebody leads: a lease that nobody renews, and a few looks.
const SOON: Duration = Duration::from_secs(30);
/// So far apart are two looks at who leads.
const LOOK: Duration = Duration::from_millis(100);

/// A server with the Lease's namespace.
fn server() -> Server {
    let server = Server::builder().request_log_capacity(1_000).build();
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "system" } });
    server.install(namespace).unwrap();
    server
}

/// Stands still when it is told to, as a process does that was sent SIGSTOP.
#[derive(Clone, Default)]
struct Halt(Arc<Mutex<(bool, Option<Waker>)>>);

impl Halt {
    fn set(&self, is_halted: bool) {
        let mut state = self.0.lock().unwrap();
        state.0 = is_halted;
        if let Some(waker) = state.1.take_if(|_| !is_halted) {
            waker.wake();
        }
    }

    async fn over<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                state.1 = Some(context.waker().clone());
                return Poll::Pending;
            }
            drop(state);
            work.as_mut().poll(context)
        })
        .await
    }
}

struct Process {
    actor: String,
    lead: Leadership,
    candidacy: Candidacy,
    halt: Halt,
    /// Killed when it is dropped.
    running: PassHandle<()>,
}

impl Process {
    fn start(server: &Server, number: usize) -> Self {
        let actor = format!("process-{number}");
        let (lead, candidacy, halt) = (Leadership::leased(), Candidacy::default(), Halt::default());
        let mut elector = Elector::new(
            bounded(server.service_for(&actor), "system"),
            LeaseName { namespace: "system".to_owned(), name: "controller".to_owned() },
            actor.clone(),
            TIMES,
            Clock::machine(),
            lead.clone(),
        );
        let wants = candidacy.clone();
        let life = async move {
            if elector.take(&wants, drop).await.is_some() && elector.keep(&wants).await.is_none() {
                elector.give_up(|| true).await;
            }
        };
        let running = Spawner::default().spawn_pass("elector", halt.clone().over(life));
        Self { actor, lead, candidacy, halt, running }
    }
}

struct Election {
    seed: u64,
    server: Server,
    admin: Client,
    rng: fastrand::Rng,
    processes: Vec<Process>,
    started: usize,
    trace: Vec<String>,
    began: Instant,
}

impl Election {
    fn new(seed: u64) -> Self {
        let server = server();
        let admin = server.client("admin");
        let rng = rng::seeded(seed, "election");
        Self { seed, server, admin, rng, processes: vec![], started: 0, trace: vec![], began: Instant::now() }
    }

    fn note(&mut self, what: impl std::fmt::Display) {
        self.trace.push(format!("{:>8.2} {what}", self.began.elapsed().as_secs_f64()));
    }

    fn start(&mut self) {
        self.started += 1;
        let process = Process::start(&self.server, self.started);
        self.note(format_args!("{} is started", process.actor));
        self.processes.push(process);
    }

    fn leaders(&self) -> Vec<&str> {
        self.processes.iter().filter(|it| it.lead.is_valid()).map(|it| it.actor.as_str()).collect()
    }

    /// Lets time pass and looks all the while that no two lead.
    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            tokio::time::sleep(LOOK).await;
            let leaders = self.leaders();
            assert!(
                leaders.len() <= 1,
                "seed {}: {leaders:?} lead at once\n{}",
                self.seed,
                self.trace.join("\n")
            );
        }
    }

    async fn change(&self, verb: &str, body: Value) {
        let request = Request::builder().method(verb).uri(LEASE);
        let request = request.header("content-type", "application/merge-patch+json");
        // There may be none.
        let _ = self.admin.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await;
    }

    async fn step(&mut self) {
        let one = self.rng.usize(..self.processes.len().max(1));
        let Some(process) = self.processes.get(one) else { return self.start() };
        let actor = process.actor.clone();
        match self.rng.u8(..20) {
            0 | 1 => self.start(),
            2..5 => {
                process.halt.set(true);
                self.note(format_args!("{actor} is halted"));
            }
            5..8 => {
                process.halt.set(false);
                self.note(format_args!("{actor} goes on"));
            }
            8 => {
                self.note(format_args!("{actor} is killed"));
                self.processes.remove(one);
            }
            9 | 10 => {
                process.candidacy.withdraw();
                self.note(format_args!("{actor} is to end"));
            }
            11 => {
                let label = self.rng.u32(..).to_string();
                self.note("a person writes a label");
                self.change("PATCH", json!({ "metadata": { "labels": { "touched": label } } })).await;
            }
            _ => {
                let fault = match self.rng.u8(..8) {
                    0 => Fault::LoseAnswer,
                    1 => Fault::TimeOutAfter,
                    2 => Fault::Refuse,
                    3 => Fault::Hang,
                    4 => Fault::conflict(),
                    5 => Fault::unavailable(),
                    6 => Fault::too_many_requests(1),
                    _ => Fault::Delay(Duration::from_millis(self.rng.u64(1..12_000))),
                };
                let verb = *self.rng.choice(&[Verb::Get, Verb::Create, Verb::Update, Verb::Update]).unwrap();
                self.note(format_args!("{actor} is in for {fault:?} at {verb}"));
                let rule = FaultRule::new(fault).resource("leases").actor(&actor).verb(verb);
                self.server.add_fault(rule.times(self.rng.u64(1..8)));
            }
        }
        self.processes.retain(|it| !it.running.stopper().is_finished());
        if self.processes.len() > 4 {
            self.processes.remove(0);
        }
    }
}

async fn run(seed: u64) -> usize {
    let mut election = Election::new(seed);
    let mut led = 0;
    for _ in 0..STEPS {
        election.step().await;
        let time = Duration::from_millis(election.rng.u64(..8_000));
        election.pass(time).await;
        led += election.leaders().len();
    }
    election.server.set_faults(FaultPlan::new());
    for process in &election.processes {
        process.halt.set(false);
    }
    election.start();
    // Those that woke up notice what they missed, and end.
    election.pass(SOON).await;
    assert_eq!(election.leaders().len(), 1, "seed {seed}: nobody leads\n{}", election.trace.join("\n"));
    led
}

#[test]
fn whatever_happens_to_processes_and_their_requests_no_two_lead_and_soon_one_does() {
    let led: usize = (0..SEEDS).map(|seed| on_paused_time(move || run(seed))).sum();
    // It is no peace of the dead.
    let looks = STEPS * usize::try_from(SEEDS).unwrap();
    assert!(led > looks / 4, "{led} looks of {looks} found a leader");
}

#[test]
fn a_lease_that_people_delete_keeps_those_out_who_saw_it() {
    on_paused_time(|| async {
        let mut election = Election::new(0);
        for _ in 0..3 {
            election.start();
            election.pass(Duration::from_secs(5)).await;
        }
        assert_eq!(election.leaders(), ["process-1"]);
        election.processes[0].halt.set(true);
        election.note("the Lease is deleted");
        election.change("DELETE", Value::Null).await;
        election.pass(SOON).await;
        assert_eq!(election.leaders().len(), 1, "{}", election.trace.join("\n"));
        assert_ne!(election.leaders(), ["process-1"]);
    });
}

/// The Lease in the hands of `process-1`, which is to end in the middle of a renewal that `fault` meets.
fn given_up_in_spite_of(fault: Fault) {
    on_paused_time(move || async move {
        let mut election = Election::new(0);
        election.start();
        election.pass(Duration::from_secs(1)).await;
        assert_eq!(election.leaders(), ["process-1"]);
        let renewals = |election: &Election| election.server.count_requests(Verb::Update, "leases");
        let before = renewals(&election);
        election.server.add_fault(FaultRule::new(fault).resource("leases").verb(Verb::Update).times(1));
        while renewals(&election) == before {
            election.pass(LOOK).await;
        }
        election.processes[0].candidacy.withdraw();
        election.change("PATCH", json!({ "metadata": { "labels": { "touched": "yes" } } })).await;
        election.pass(Duration::from_secs(6)).await;
        assert!(election.processes[0].running.stopper().is_finished());
        let lease = election.server.get_object("Lease", "system", "controller").unwrap();
        assert_eq!(lease["spec"]["holderIdentity"], "");
        assert_eq!(lease["metadata"]["annotations"]["solar.opendefense.cloud/clean-end"], "true");
        // Whoever comes next does not wait.
        election.start();
        election.pass(Duration::from_secs(1)).await;
        assert_eq!(election.leaders(), ["process-2"]);
    });
}

#[test]
fn a_lease_is_given_up_also_in_the_middle_of_a_renewal() {
    given_up_in_spite_of(Fault::Delay(Duration::from_secs(1)));
}

#[test]
fn a_lease_is_given_up_also_when_the_answer_to_its_last_renewal_is_lost() {
    given_up_in_spite_of(Fault::LoseAnswer);
}

#[test]
fn one_renewal_may_fail_also_by_a_lost_answer() {
    on_paused_time(|| async {
        let mut election = Election::new(0);
        election.start();
        election.pass(Duration::from_secs(1)).await;
        // Nothing is heard of it for as long as a request may take, and then it lands.
        let held = FaultRule::new(Fault::Hold).resource("leases").verb(Verb::Update).times(1);
        election.server.add_fault(held);
        let renewals = election.server.count_requests(Verb::Update, "leases");
        while election.server.count_requests(Verb::Update, "leases") == renewals {
            election.pass(LOOK).await;
        }
        election.pass(TIMES.renew_deadline / 2 + LOOK).await;
        assert!(election.server.release_held());
        for _ in 0..60 {
            election.pass(Duration::from_secs(1)).await;
            assert_eq!(election.leaders(), ["process-1"], "{}", election.trace.join("\n"));
        }
    });
}

#[test]
fn a_lease_that_was_taken_without_an_answer_is_taken_at_the_next_look() {
    for fault in [Fault::LoseAnswer, Fault::TimeOutAfter] {
        on_paused_time(move || async move {
            let mut election = Election::new(0);
            election.server.add_fault(FaultRule::new(fault).resource("leases").verb(Verb::Create).times(1));
            election.start();
            election.pass(TIMES.retry_period * 2).await;
            assert_eq!(election.leaders(), ["process-1"]);
        });
    }
}

#[test]
fn who_is_told_to_end_while_it_looks_does_not_take_the_lease() {
    on_paused_time(|| async {
        let mut election = Election::new(0);
        let slow = Fault::Delay(Duration::from_secs(2));
        election.server.add_fault(FaultRule::new(slow).resource("leases").verb(Verb::Get).times(1));
        election.start();
        election.pass(Duration::from_secs(1)).await;
        election.processes[0].candidacy.withdraw();
        election.pass(Duration::from_secs(4)).await;
        assert!(election.processes[0].running.stopper().is_finished());
        assert!(election.server.get_object("Lease", "system", "controller").is_none());
    });
}

#[test]
fn who_cannot_look_at_the_lease_says_so_until_it_can() {
    on_paused_time(|| async {
        let server = server();
        let told = Arc::new(Mutex::new(Vec::new()));
        server.add_fault(
            FaultRule::new(Fault::status(403, "Forbidden", "leases is forbidden"))
                .resource("leases")
                .times(3),
        );
        let mut elector = Elector::new(
            bounded(server.service_for("p"), "system"),
            LeaseName { namespace: "system".to_owned(), name: "controller".to_owned() },
            "p".to_owned(),
            TIMES,
            Clock::machine(),
            Leadership::leased(),
        );
        let candidacy = Candidacy::default();
        let looks = {
            let (told, candidacy) = (told.clone(), candidacy.clone());
            let tell = move |problem: Option<String>| told.lock().unwrap().push(problem);
            async move { elector.take(&candidacy, tell).await.is_some() }
        };
        let looks = Spawner::default().spawn_pass("looks", looks);
        tokio::time::sleep(Duration::from_secs(5)).await;
        {
            let told = told.lock().unwrap();
            assert_eq!(told.len(), 3, "{told:?}");
            let says = |problem: &Option<String>| {
                problem.as_ref().is_some_and(|problem| {
                    problem.contains("the lease system/controller cannot be taken")
                        && problem.contains("forbidden")
                })
            };
            assert!(told.iter().all(says), "{told:?}");
        }
        assert!(looks.await.unwrap(), "it is taken in the end");
        assert_eq!(told.lock().unwrap().last(), Some(&None));
    });
}
