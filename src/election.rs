//! How one of several processes of `run` comes to lead, and the time in which it does.

use std::time::Duration;

use clap::{ArgAction, Args};
use solar_core::lease::LeaseTimes;
use solar_core::object::is_domain_name;

use crate::actors::pass::{PassHandle, Spawner};
use crate::actors::root::Running;
use crate::adapters::kubernetes::{Candidacy, Elector};
use crate::flags::{FlagsError, more_than_zero, namespace};

/// How one of several processes comes to lead.
#[derive(Clone, Debug, Args)]
pub struct ElectionArgs {
    /// Lead by a Lease, so that of several processes one works and the others stand by; `false` where there is only one
    #[arg(
        long,
        env = "SOLAR_LEADER_ELECT",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub leader_elect: bool,
    /// Name of the Lease; processes that run different controllers or namespaces need different ones
    #[arg(
        long,
        env = "SOLAR_LEADER_ELECTION_NAME",
        default_value = "solar-controller",
        value_parser = lease_name,
        value_name = "NAME"
    )]
    pub leader_election_name: String,
    /// Namespace of the Lease; that of the pod or of the kubeconfig's context if not given
    #[arg(long, env = "SOLAR_LEADER_ELECTION_NAMESPACE", value_parser = namespace, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,
    /// How long a Lease that is not renewed keeps other processes out
    #[arg(
        long,
        env = "SOLAR_LEASE_DURATION",
        default_value = "15s",
        value_parser = more_than_zero,
        value_name = "DURATION"
    )]
    pub lease_duration: Duration,
    /// How long the process that leads works on after its last renewal
    #[arg(
        long,
        env = "SOLAR_LEASE_RENEW_DEADLINE",
        default_value = "10s",
        value_parser = more_than_zero,
        value_name = "DURATION"
    )]
    pub lease_renew_deadline: Duration,
    /// Pause between two renewals, and between two looks of a process that stands by
    #[arg(
        long,
        env = "SOLAR_LEASE_RETRY_PERIOD",
        default_value = "2s",
        value_parser = more_than_zero,
        value_name = "DURATION"
    )]
    pub lease_retry_period: Duration,
}

impl ElectionArgs {
    /// The times that these flags mean.
    pub fn times(&self) -> LeaseTimes {
        LeaseTimes {
            duration: self.lease_duration,
            renew_deadline: self.lease_renew_deadline,
            retry_period: self.lease_retry_period,
        }
    }

    /// Whether the flags fit together.
    ///
    /// # Errors
    /// Says which do not, and the mend.
    pub fn check(&self) -> Result<(), FlagsError> {
        if self.lease_duration.subsec_nanos() > 0 {
            return Err(FlagsError::Lease("--lease-duration: a Lease counts whole seconds".to_owned()));
        }
        self.times().check().map_err(FlagsError::Lease)
    }
}

fn lease_name(name: &str) -> Result<String, String> {
    if is_domain_name(name) {
        Ok(name.to_owned())
    } else {
        Err("a Lease's name is lower-case letters, digits, '-' and '.', at most 253".to_owned())
    }
}

/// The time in which this process leads: from when it took the lease until it loses it or gives it up.
pub struct Term {
    /// Takes the lease and keeps it; ends with the reason when it is lost. `None`: there is no lease.
    keeping: Option<PassHandle<(Elector, Option<String>)>>,
    candidacy: Candidacy,
}

impl Term {
    /// Stands for the lease; without an elector this process leads from the start.
    pub fn begin(elector: Option<Elector>, running: &Running, spawner: &Spawner) -> Self {
        let candidacy = Candidacy::default();
        let keeping = elector.map(|mut elector| {
            let (running, candidacy) = (running.clone(), candidacy.clone());
            spawner.spawn_pass("the lease", async move {
                let taken = elector
                    .take(&candidacy, |problem| drop(running.shared.shut_out.send_replace(problem)))
                    .await;
                let Some(taken) = taken else { return (elector, None) };
                metrics::gauge!("solar_leader").set(1.0);
                tracing::info!(clean = taken.clean, "this process leads");
                running.lead(taken.clean).await;
                let lost = elector.keep(&candidacy).await;
                metrics::gauge!("solar_leader").set(0.0);
                (elector, lost)
            })
        });
        metrics::gauge!("solar_leader").set(if keeping.is_none() { 1.0 } else { 0.0 });
        Self { keeping, candidacy }
    }

    /// Ready when the lease is lost; says why.
    pub async fn lost(&mut self) -> String {
        let Some(keeping) = &mut self.keeping else { return std::future::pending().await };
        let ended = keeping.await;
        self.keeping = None;
        match ended {
            Ok((_, lost)) => lost.unwrap_or_else(|| "the lease was given up".to_owned()),
            Err(died) => format!("the lease: {died}"),
        }
    }

    /// Gives the lease up; `is_clean` tells, once nothing more can be begun, whether nothing of this process can land any
    /// more.
    pub async fn end(mut self, is_clean: impl FnOnce() -> bool) {
        let Some(keeping) = self.keeping.take() else { return };
        self.candidacy.withdraw();
        if let Ok((mut elector, _)) = keeping.await {
            elector.give_up(is_clean).await;
        }
    }
}
