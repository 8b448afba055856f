//! The `run` command: the controller against a cluster.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use actix_rt::ArbiterHandle;
use clap::Args;
use thiserror::Error;

use crate::actors::pass::Spawner;
use crate::actors::root::{self, Running};
use crate::actors::system::Ports;
use crate::adapters::kubernetes::{Api, Cluster, ConnectError, Elector, LeaseName};
use crate::adapters::leadership::Leadership;
use crate::adapters::oci::{HttpRegistryError, Writes};
use crate::adapters::rng;
use crate::election::{ElectionArgs, Term};
use crate::flags::{Controller, ControllerArgs};
use crate::runtime;
use crate::signals::Signals;
use crate::telemetry;
use crate::telemetry::endpoints::{Endpoints, EndpointsError, Serving};

/// What is logged unless `SOLAR_LOG` says otherwise.
// What kube logs of an answer that it cannot read is the whole answer.
const LOGGED: &str = "warn,kube_client=error,solar_controller=info";

/// Flags of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Kubeconfig of the cluster; if not given: the files of the variable KUBECONFIG, else the service account of the pod
    /// that this runs in, else ~/.kube/config
    #[arg(long, env = "SOLAR_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; the current one if not given
    #[arg(long, env = "SOLAR_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// One of several processes leads.
    #[command(flatten)]
    pub election: ElectionArgs,
    /// How the controller works.
    #[command(flatten)]
    pub controller: ControllerArgs,
}

/// Why `run` did not start, or ended.
#[derive(Debug, Error)]
enum RunError {
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("--registry-ca-file: {0}")]
    Registry(#[from] HttpRegistryError),
    #[error("the controller ended: {0}")]
    Controller(String),
    #[error("{0}")]
    Runtime(#[from] std::io::Error),
}

/// Runs `run` to its end: exit code 0 after a signal, 1 with the reason after a failure.
pub fn run(args: RunArgs) -> ExitCode {
    telemetry::init_with(LOGGED, args.controller.log_format);
    // The one provider for all TLS in this process; a second call finds it set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let threads = args.controller.actor_threads;
    let ended = runtime::run(threads, |arbiters| controller(args, arbiters));
    match ended.map_err(RunError::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn controller(args: RunArgs, arbiters: Vec<ArbiterHandle>) -> Result<(), RunError> {
    let mut signals = Signals::listen()?;
    let spawner = Spawner::default();
    let endpoints = Endpoints::open(&args.controller.health(), &args.controller.metrics()).await?;
    // A kubeconfig may run a program to log in, which takes as long as it likes.
    let cluster = tokio::select! {
        biased;
        signal = signals.next() => {
            tracing::info!(?signal, "ends before anything was begun");
            return Ok(());
        }
        found = Cluster::find(args.kubeconfig.as_deref(), args.context.as_deref()) => found?,
    };
    let mut options = args.controller.options();
    options.seed = seed();
    options.standby = args.election.leader_elect;
    announce(&args, &cluster, &endpoints);
    let name = LeaseName {
        namespace: args.election.leader_election_namespace.clone().unwrap_or_else(|| cluster.namespace()),
        name: args.election.leader_election_name.clone(),
    };
    let client = cluster.client()?;
    let lead = if options.standby { Leadership::leased() } else { Leadership::always() };
    let writes = Arc::<Writes>::default();
    let ca_file = args.controller.registry_ca_file.clone();
    let ports = Ports::of_process(Api::new(client.clone()), &options, ca_file, spawner.clone())?;
    let clock = ports.clock;
    let elected = options.standby.then(|| {
        let identity = format!("{}_{:016x}", instance(), rng::seeded(options.seed, "identity").u64(..));
        Elector::new(client, name, identity, args.election.times(), clock, lead.clone())
    });
    let running = root::start(options, ports.led_by(&lead, writes.clone()), arbiters, &instance());
    let mut serving = endpoints.serve(&spawner, &running);
    let mut term = Term::begin(elected, &running, &spawner);
    let ended = attend(&running, &mut serving, &mut term, &mut signals).await;
    let _impatience = spawner.spawn_pass("second signal", signals.exit_at_next());
    running.shut_down().await;
    // Only an end in order leaves nothing behind, also nothing of an earlier process; it says so to whoever comes next.
    let shared = &running.shared;
    let is_clean = || {
        let is_quiet = shared.leads() && shared.clock.elapsed() >= shared.quiet_until();
        ended.is_ok() && is_quiet && writes.are_answered()
    };
    term.end(is_clean).await;
    if ended.is_ok() {
        tracing::info!("everything has ended");
    }
    ended
}

/// Waits for a signal, which is a good end, or for something to break.
async fn attend(
    running: &Running,
    serving: &mut Serving,
    term: &mut Term,
    signals: &mut Signals,
) -> Result<(), RunError> {
    tokio::select! {
        biased;
        lost = term.lost() => Err(RunError::Controller(lost)),
        reason = running.failed() => Err(RunError::Controller(reason)),
        reason = serving.failed() => Err(RunError::Controller(reason)),
        signal = signals.next() => {
            tracing::info!(?signal, "ends: what runs may finish");
            Ok(())
        }
    }
}

/// Says what begins to run; without a lease, that it must be the only one.
fn announce(args: &RunArgs, cluster: &Cluster, endpoints: &Endpoints) {
    let RunArgs { controller: args, election, .. } = args;
    let list = |names: Vec<String>| if names.is_empty() { "all".to_owned() } else { names.join(",") };
    let (health, metrics) = endpoints.addresses();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = %cluster.url(),
        from = cluster.from,
        namespaces = list(args.watch_namespace.clone()),
        controllers = list(args.controllers.iter().map(Controller::to_string).collect()),
        health,
        metrics,
        "solar-controller starts"
    );
    if !election.leader_elect {
        tracing::warn!(
            "without --leader-elect this must be the only controller of these kinds in these namespaces"
        );
    }
}

/// Jitter differs between processes, or it would spread nothing; and so do the names under which they hold the lease. A
/// container's process number, its start and even its host name may be those of another one.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Who writes Kubernetes events: the pod.
fn instance() -> String {
    std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "run".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_although_nothing_else_does() {
        assert_ne!(seed(), seed());
    }
}
