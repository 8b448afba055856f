//! The Lease by which one of several processes leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{ObjectMeta, PostParams};
use solar_core::lease::{Candidate, LeaseStep, LeaseTimes, SeenLease};
use tokio::sync::watch;

use super::api::FIELD_MANAGER;
use super::error::Problem;
use crate::adapters::clock::Clock;
use crate::adapters::leadership::Leadership;

/// On a Lease that was given up: everything that its holder wrote was answered.
const CLEAN_END: &str = "solar.opendefense.cloud/clean-end";

/// Where the Lease lies.
#[derive(Clone, Debug)]
pub struct LeaseName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl std::fmt::Display for LeaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How the lease was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Nothing of an earlier holder can land any more.
    pub clean: bool,
}

/// Whether this process still wants the lease. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Candidacy(Arc<watch::Sender<bool>>);

impl Default for Candidacy {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(true)))
    }
}

impl Candidacy {
    /// It does not want it any more.
    pub fn withdraw(&self) {
        self.0.send_replace(false);
    }

    fn stands(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for `time`, or until the lease is wanted no longer.
    async fn pause(&self, time: Duration) {
        let mut told = self.0.subscribe();
        // Ends early or late, both is fine.
        let _ = tokio::time::timeout(time, told.wait_for(|stands| !stands)).await;
    }
}

/// Takes a Lease, keeps it, and gives it up.
pub struct Elector {
    api: kube::Api<Lease>,
    name: LeaseName,
    identity: String,
    times: LeaseTimes,
    clock: Clock,
    lead: Leadership,
    held: Option<Lease>,
}

impl Elector {
    /// Wants the Lease `name` for `identity`, which no other process may have; keeps `lead` valid while it is held.
    pub fn new(
        client: Client,
        name: LeaseName,
        identity: String,
        times: LeaseTimes,
        clock: Clock,
        lead: Leadership,
    ) -> Self {
        let api = kube::Api::namespaced(client, &name.namespace);
        Self { api, name, identity, times, clock, lead, held: None }
    }

    /// Waits until the Lease is held; `None` when it is wanted no longer. What goes wrong meanwhile is said and tried
    /// again; `tell` hears of it when the Lease could not be looked at, not even once or not for as long as it lasts, and
    /// hears `None` after each look.
    pub async fn take(&mut self, candidacy: &Candidacy, tell: impl Fn(Option<String>)) -> Option<Taken> {
        let mut candidate = Candidate::default();
        let mut told = String::new();
        let mut looked = None;
        while candidacy.stands() {
            let now = self.clock.elapsed();
            let wait = match self.look(candidacy, &mut candidate, &mut told).await {
                Ok(Ok(taken)) => {
                    tell(None);
                    return Some(taken);
                }
                Ok(Err(wait)) => {
                    looked = Some(now);
                    tell(None);
                    wait
                }
                Err(problem) => {
                    let problem = match problem {
                        // A Lease that is not there would be created.
                        Problem::NotFound => format!("there is no namespace {}", self.name.namespace),
                        problem => problem.to_string(),
                    };
                    if looked.is_none_or(|looked| now.saturating_sub(looked) >= self.times.duration) {
                        tell(Some(format!("the lease {} cannot be taken: {problem}", self.name)));
                    }
                    if told != problem {
                        tracing::warn!(lease = %self.name, problem, "the lease cannot be taken; it is tried again");
                        told = problem;
                    }
                    self.times.retry_period
                }
            };
            candidacy.pause(wait).await;
        }
        None
    }

    /// One look, and the attempt that follows from it; or how long to wait.
    async fn look(
        &mut self,
        candidacy: &Candidacy,
        candidate: &mut Candidate,
        told: &mut String,
    ) -> Result<Result<Taken, Duration>, Problem> {
        let lease = self.bounded(self.api.get_opt(&self.name.name)).await?;
        let read = lease.as_ref().map(seen);
        let holder = read.as_ref().map(|read| read.holder.clone()).unwrap_or_default();
        let step = candidate.next(read, self.clock.elapsed(), &self.times);
        let taken = match step {
            // It was taken, and the answer was lost. What it was taken from is not known any more.
            LeaseStep::Wait(_) if holder == self.identity => Taken { clean: false },
            LeaseStep::Wait(wait) => {
                if *told != holder {
                    tracing::info!(lease = %self.name, holder, "another process leads: this one stands by");
                    *told = holder;
                }
                return Ok(Err(wait));
            }
            // Who held a Lease that is gone is not known.
            LeaseStep::Create => Taken { clean: false },
            LeaseStep::Take { clean } => Taken { clean },
        };
        if !candidacy.stands() {
            return Ok(Err(Duration::ZERO));
        }
        let lease = self.held_by_this(lease);
        match self.write(lease).await {
            Ok(()) => Ok(Ok(taken)),
            Err(Problem::Conflict | Problem::AlreadyExists) => Ok(Err(self.times.retry_period)),
            Err(problem) => Err(problem),
        }
    }

    /// Renews the Lease for as long as that goes well and it is wanted; a renewal that was begun is answered first. Says
    /// why the Lease is not held any more, and from then on nothing is written; `None` when it is held, but no longer
    /// wanted.
    pub async fn keep(&mut self, candidacy: &Candidacy) -> Option<String> {
        let lost = self.renew(candidacy).await;
        if lost.is_some() {
            self.lead.revoke();
        }
        lost
    }

    async fn renew(&mut self, candidacy: &Candidacy) -> Option<String> {
        while candidacy.stands() {
            tokio::select! {
                biased;
                () = self.lead.over() => {}
                () = candidacy.pause(self.times.retry_period) => {}
            }
            if !self.lead.is_valid() {
                let deadline = self.times.renew_deadline;
                return Some(format!("the lease {} could not be renewed for {deadline:?}", self.name));
            }
            if !candidacy.stands() {
                break;
            }
            let renewed = match self.renew_once().await {
                Err(Problem::Conflict | Problem::NotFound) => match self.still_ours().await {
                    // At once: an answer that was lost has cost half of the deadline.
                    Ok(true) => self.renew_once().await,
                    Ok(false) => {
                        return Some(format!(
                            "the lease {} was taken by another process or deleted",
                            self.name
                        ));
                    }
                    Err(problem) => Err(problem),
                },
                renewed => renewed,
            };
            if let Err(problem) = renewed {
                tracing::warn!(lease = %self.name, %problem, "the lease was not renewed; it is tried again");
            }
        }
        None
    }

    async fn renew_once(&mut self) -> Result<(), Problem> {
        let lease = self.renewed(self.held.clone().unwrap_or_default());
        self.write(lease).await
    }

    /// Whether the Lease still names this process, although a renewal met another version: people write to it too, and
    /// an answer may have been lost.
    async fn still_ours(&mut self) -> Result<bool, Problem> {
        let lease = self.bounded(self.api.get_opt(&self.name.name)).await?;
        let ours = lease.as_ref().is_some_and(|lease| seen(lease).holder == self.identity);
        if ours {
            self.held = lease;
        }
        Ok(ours)
    }

    /// Gives the Lease up, so that another process can begin at once. `is_clean` is asked when nothing more can be begun:
    /// whether nothing of this process can land any more. A Lease that is not held is left alone.
    pub async fn give_up(&mut self, is_clean: impl FnOnce() -> bool) {
        if self.held.is_none() || !self.lead.is_valid() {
            return;
        }
        self.lead.revoke();
        let clean = is_clean();
        let mut given = self.end_of_term(clean).await;
        // Somebody wrote a label, or a renewal landed whose answer was lost.
        if matches!(given, Err(Problem::Conflict)) && self.still_ours().await.is_ok_and(|ours| ours) {
            given = self.end_of_term(clean).await;
        }
        if let Err(problem) = given {
            tracing::warn!(lease = %self.name, %problem, "the lease was not given up; another process waits until it is over");
        }
    }

    async fn end_of_term(&self, clean: bool) -> Result<(), Problem> {
        let mut lease = self.held.clone().unwrap_or_default();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.renew_time = Some(self.wall());
        if clean {
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert(CLEAN_END.to_owned(), "true".to_owned());
        }
        let params = params();
        self.bounded(self.api.replace(&self.name.name, &params, &lease)).await.map(drop)
    }

    /// Writes the Lease as this process holds it; valid from when it was sent.
    async fn write(&mut self, lease: Lease) -> Result<(), Problem> {
        let sent = self.lead.mark();
        let params = params();
        let written = if lease.metadata.resource_version.is_none() {
            self.bounded(self.api.create(&params, &lease)).await?
        } else {
            self.bounded(self.api.replace(&self.name.name, &params, &lease)).await?
        };
        self.held = Some(written);
        self.lead.extend(sent, self.times.renew_deadline);
        Ok(())
    }

    /// `found`, or a new Lease, in the name of this process.
    fn held_by_this(&self, found: Option<Lease>) -> Lease {
        let mut lease = found.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.name.clone()),
                namespace: Some(self.name.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        lease.metadata.annotations.get_or_insert_with(BTreeMap::new).remove(CLEAN_END);
        let spec = lease.spec.get_or_insert_default();
        let transitions = spec.lease_transitions.unwrap_or(-1).saturating_add(1);
        spec.lease_transitions = Some(transitions);
        spec.holder_identity = Some(self.identity.clone());
        spec.acquire_time = Some(self.wall());
        self.renewed(lease)
    }

    fn renewed(&self, mut lease: Lease) -> Lease {
        let spec: &mut LeaseSpec = lease.spec.get_or_insert_default();
        spec.renew_time = Some(self.wall());
        spec.lease_duration_seconds = i32::try_from(self.times.duration.as_secs().max(1)).ok();
        lease
    }

    fn wall(&self) -> MicroTime {
        let now = self.clock.wall_exact();
        MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
    }

    async fn bounded<T>(&self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Problem> {
        let limit = self.times.renew_deadline / 2;
        match tokio::time::timeout(limit, request).await {
            Ok(answer) => answer.map_err(Problem::from),
            Err(_) => Err(Problem::TimedOut(limit)),
        }
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn seen(lease: &Lease) -> SeenLease {
    let spec = lease.spec.clone().unwrap_or_default();
    let annotations = lease.metadata.annotations.as_ref();
    SeenLease {
        holder: spec.holder_identity.unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        duration: Duration::from_secs(spec.lease_duration_seconds.unwrap_or(0).try_into().unwrap_or(0)),
        clean: annotations.is_some_and(|it| it.get(CLEAN_END).is_some_and(|clean| clean == "true")),
    }
}
