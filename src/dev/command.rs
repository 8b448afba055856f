//! The `dev` command: everything in one process, with nothing to install.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use kube::ResourceExt as _;
use kube_embedded::Server;
use solar_core::object::ObjectName;
use solar_core::routes::COMPONENT_VERSION;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::examples::{self, Example, ExampleError, REGISTRY_PASSWORD, REGISTRY_USER};
use super::folder::{Folder, FolderError};
use super::progress;
use super::registry::{Access, Behaviour, RegistryStore};
use crate::actors::pass::{Died, PassHandle, Spawner};
use crate::actors::root::{self, Running};
use crate::actors::system::Ports;
use crate::adapters::clock::Clock;
use crate::adapters::kubernetes::{Api, bounded};
use crate::adapters::oci::{HttpRegistryError, OciError};
use crate::adapters::rng;
use crate::cli::say;
use crate::flags::{ControllerArgs, ListenAddress, ListenError, duration, listen};
use crate::runtime;
use crate::signals::Signals;
use crate::telemetry;
use crate::telemetry::endpoints::{Endpoints, EndpointsError, Serving};

/// Flags of `dev`.
#[derive(Clone, Debug, Args)]
pub struct DevArgs {
    /// Where the Kubernetes API listens; port 0 picks a free one
    #[arg(long, env = "SOLAR_API_ADDRESS", default_value = "127.0.0.1:7443", value_name = "HOST:PORT")]
    pub api_address: ListenAddress,
    /// Where the OCI registry listens; port 0 picks a free one
    #[arg(long, env = "SOLAR_REGISTRY_ADDRESS", default_value = "127.0.0.1:5000", value_name = "HOST:PORT")]
    pub registry_address: ListenAddress,
    /// Where objects, charts and the kubeconfig are kept between runs; if not given, only the kubeconfig, in a temporary
    /// folder
    #[arg(long, env = "SOLAR_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Start without the example objects, which only an empty data folder gets
    #[arg(long, env = "SOLAR_NO_EXAMPLES")]
    pub no_examples: bool,
    /// End as soon as every example Target is ready (exit code 0), or when the timeout is over (exit code 1)
    #[arg(long, env = "SOLAR_EXIT_WHEN_READY")]
    pub exit_when_ready: bool,
    /// How long the examples may take to become ready
    #[arg(long, env = "SOLAR_TIMEOUT", default_value = "2m", value_parser = duration, value_name = "DURATION")]
    pub timeout: Duration,
    /// How the controller works.
    #[command(flatten)]
    pub controller: ControllerArgs,
    /// Print nothing while starting.
    #[arg(skip)]
    quiet: bool,
}

impl DevArgs {
    /// Any free ports, everything else as by default, and silent.
    fn free_ports() -> Self {
        Self {
            api_address: ListenAddress::free_port(),
            registry_address: ListenAddress::free_port(),
            data_dir: None,
            no_examples: false,
            exit_when_ready: true,
            timeout: Duration::from_secs(60),
            controller: ControllerArgs::default().with_dev_defaults(),
            quiet: true,
        }
    }

    fn say(&self, say: impl FnOnce()) {
        if !self.quiet {
            say();
        }
    }
}

/// Why `dev` did not start, or ended.
#[derive(Debug, Error)]
enum DevError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("the definitions were refused: {0}")]
    Crds(String),
    #[error(transparent)]
    Registry(#[from] HttpRegistryError),
    #[error("the examples were refused: {0}")]
    Examples(#[from] ExampleError),
    #[error("the example descriptor was not stored: {0}")]
    Descriptor(#[from] OciError),
    #[error("the controller ended: {0}")]
    Controller(String),
    #[error("{0}: nothing that is asked for now would be kept")]
    Storage(String),
    #[error("the {0} ended: {1}")]
    Server(&'static str, String),
    #[error("not ready after {timeout:?}:\n{what}")]
    NotReady { timeout: Duration, what: String },
    #[error("{0}")]
    Runtime(#[from] std::io::Error),
}

/// Runs `dev` to its end.
pub fn run(args: DevArgs) -> ExitCode {
    telemetry::init_with("solar_controller=warn,error", args.controller.log_format);
    // The one provider for all TLS in this process; a second call finds it set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let threads = args.controller.actor_threads;
    let ended = runtime::run(threads, |arbiters| dev(args, arbiters));
    match ended.map_err(DevError::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn dev(args: DevArgs, arbiters: Vec<actix_rt::ArbiterHandle>) -> Result<(), DevError> {
    let mut signals = Signals::listen()?;
    let mut marks = Marks::new();
    let mut stack = Stack::bring_up(&args, arbiters, &mut marks).await?;
    let ended = attend(&args, &mut stack, &mut signals, marks.began).await;
    let _impatience = Spawner::default().spawn_pass("second signal", signals.exit_at_next());
    stack.running.shut_down().await;
    ended
}

/// When each part of the start was done.
struct Marks {
    began: Instant,
    last: Instant,
    parts: Vec<(&'static str, Duration)>,
}

impl Marks {
    fn new() -> Self {
        let now = Instant::now();
        Self { began: now, last: now, parts: Vec::new() }
    }

    fn mark(&mut self, part: &'static str) {
        let now = Instant::now();
        self.parts.push((part, now - self.last));
        self.last = now;
    }
}

/// Starts everything on free ports and tells how long each part took, up to the point where every example Target is
/// ready; then ends it. For `make bench`.
///
/// # Errors
/// Says what did not start, or which Target did not become ready within a minute.
pub fn measure_start() -> Result<Vec<(&'static str, Duration)>, String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let measured = runtime::run(0, |arbiters| async move {
        let args = DevArgs::free_ports();
        let mut marks = Marks::new();
        let stack = Stack::bring_up(&args, arbiters, &mut marks).await?;
        let first = progress::until(&stack.running.shared, &stack.expected, |stages| {
            stages.values().all(|stage| stage.looked_at)
        });
        let ready = progress::until(&stack.running.shared, &stack.expected, |stages| {
            stages.values().all(|stage| stage.ready)
        });
        let late =
            |_| DevError::NotReady { timeout: args.timeout, what: unready(&stack.running, &stack.expected) };
        tokio::time::timeout(args.timeout, first).await.map_err(late)?;
        marks.mark("first pass of every Target");
        tokio::time::timeout(args.timeout, ready).await.map_err(late)?;
        marks.mark("renders and pushes");
        stack.running.shut_down().await;
        Ok::<_, DevError>(marks.parts)
    });
    measured.map_err(DevError::from).flatten().map_err(|error| error.to_string())
}

/// Everything that `dev` runs.
struct Stack {
    running: Running,
    expected: Vec<ObjectName>,
    /// ComponentVersions that will say whether they are available.
    versions: Vec<ObjectName>,
    kubeconfig: PathBuf,
    registry_address: String,
    server: Server,
    store: RegistryStore,
    // Both end with the stack.
    servers: [PassHandle<std::io::Result<()>>; 2],
    _serving: Serving,
    _folder: Folder,
}

impl Stack {
    async fn bring_up(
        args: &DevArgs,
        arbiters: Vec<actix_rt::ArbiterHandle>,
        marks: &mut Marks,
    ) -> Result<Self, DevError> {
        let api_listener = listen("--api-address", &args.api_address).await?;
        let registry_listener = listen("--registry-address", &args.registry_address).await?;
        let endpoints = Endpoints::open(&args.controller.health(), &args.controller.metrics()).await?;
        let registry_address = registry_listener.local_addr()?.to_string();
        let api_url = format!("http://{}", api_listener.local_addr()?);
        let folder = Folder::open(args.data_dir.as_deref(), !args.no_examples)?;
        let spawner = Spawner::default();
        let access = Access::basic(REGISTRY_USER, REGISTRY_PASSWORD);
        let store = folder.registry(Behaviour::default(), access)?;
        let server = folder.api(Server::builder().seed(rand_seed(&api_url)))?;
        let servers = serve(&spawner, &server, api_listener, &store, registry_listener);
        let kubeconfig = folder.write_kubeconfig(&server.kubeconfig(&api_url))?;
        marks.mark("API and registry");
        for crd in solar_api::crds() {
            server.apply_crd(crd).map_err(|error| DevError::Crds(error.to_string()))?;
        }
        marks.mark("definitions");
        args.say(|| {
            say(&format!("Data folder: {}", folder.path().display()));
            say(&format!("Kubernetes API on {api_url}, OCI registry on http://{registry_address}"));
        });
        let running = start_controller(args, &server, spawner.clone(), arbiters)?;
        let serving = endpoints.serve(&spawner, &running);
        marks.mark("controller");
        let (expected, versions) = if args.no_examples {
            (Vec::new(), Vec::new())
        } else {
            if folder.wants_examples() {
                examples::push_descriptor(&store.handle("examples"), &registry_address).await?;
            }
            apply_examples(args, &folder, &server, &registry_address).await?
        };
        marks.mark("examples");
        Ok(Self {
            versions: if running.shared.options.controllers.contains(&COMPONENT_VERSION) {
                versions
            } else {
                Vec::new()
            },
            running,
            expected,
            kubeconfig,
            registry_address,
            server,
            store,
            servers,
            _serving: serving,
            _folder: folder,
        })
    }
}

/// Applies the examples if the folder was empty; answers the Targets and the ComponentVersions among them that are there.
async fn apply_examples(
    args: &DevArgs,
    folder: &Folder,
    server: &Server,
    registry: &str,
) -> Result<(Vec<ObjectName>, Vec<ObjectName>), DevError> {
    let mut objects = examples::examples(registry)?;
    objects.extend(examples::descriptor_examples(registry)?);
    if folder.wants_examples() {
        let applied = examples::apply(&server.client("default"), &objects).await?;
        folder.has_examples()?;
        args.say(|| say(&format!("Applied {applied} example objects")));
    } else {
        args.say(|| say(&format!("Went on with {} kept objects", server.snapshot().len())));
        warn_of_other_addresses(server, &objects, registry);
    }
    let there = |kind: &str| -> Vec<ObjectName> {
        let examples = objects.iter().filter(|example| example.resource.kind == kind);
        let names = examples.map(|example| ObjectName::new(namespace(example), example.object.name_any()));
        names.filter(|name| server.get_object(kind, &name.namespace, &name.name).is_some()).collect()
    };
    Ok((there("Target"), there("ComponentVersion")))
}

/// Says which Registries of the examples name an address that the embedded registry had in an earlier run.
fn warn_of_other_addresses(server: &Server, examples: &[Example], registry: &str) {
    for example in examples.iter().filter(|example| example.resource.kind == "Registry") {
        let (namespace, name) = (namespace(example), example.object.name_any());
        let kept = server.get_object("Registry", &namespace, &name);
        let Some(kept) = kept.as_ref().and_then(|kept| kept.pointer("/spec/hostname")?.as_str()) else {
            continue;
        };
        if kept != registry {
            eprintln!(
                "warning: Registry {namespace}/{name} names {kept}, but the embedded registry listens on {registry}: \
                 nothing can be pushed there until it is started with --registry-address {kept}, or the Registry changed"
            );
        }
    }
}

fn namespace(example: &Example) -> String {
    example.object.namespace().unwrap_or_default()
}

/// Shows progress, then stays up until it is told to end.
async fn attend(
    args: &DevArgs,
    stack: &mut Stack,
    signals: &mut Signals,
    began: Instant,
) -> Result<(), DevError> {
    let Stack { running, expected, server, store, servers, .. } = stack;
    let mut broken = std::pin::pin!(breaks(running, server, store, servers));
    let ready = async {
        let ready = async {
            progress::until_ready(&running.shared, expected).await;
            progress::until_checked(&running.shared, &stack.versions).await;
        };
        tokio::time::timeout(args.timeout, ready).await.is_ok()
    };
    let in_time = tokio::select! {
        biased;
        error = &mut broken => return Err(error),
        _ = signals.next() => return Ok(()),
        in_time = ready => in_time,
    };
    if in_time {
        if !expected.is_empty() {
            say(&format!(
                "All {} Targets are ready after {:.2} s",
                expected.len(),
                began.elapsed().as_secs_f64()
            ));
        }
    } else {
        let what = unready(running, expected);
        if args.exit_when_ready {
            return Err(DevError::NotReady { timeout: args.timeout, what });
        }
        eprintln!("not ready after {:?}:\n{what}", args.timeout);
    }
    if args.exit_when_ready {
        return Ok(());
    }
    look_around(&stack.kubeconfig, &stack.registry_address);
    tokio::select! {
        biased;
        error = broken => Err(error),
        _ = signals.next() => Ok(()),
    }
}

/// Waits until a part of `dev` is no longer of use.
async fn breaks(
    running: &Running,
    server: &Server,
    store: &RegistryStore,
    [api, registry]: &mut [PassHandle<std::io::Result<()>>; 2],
) -> DevError {
    let ended = |which, ended: Result<std::io::Result<()>, Died>| {
        let why = match ended {
            Ok(Ok(())) => "nobody told it to".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(died) => died.to_string(),
        };
        DevError::Server(which, why)
    };
    tokio::select! {
        biased;
        reason = running.failed() => DevError::Controller(reason),
        why = server.storage_failed() => DevError::Storage(why),
        why = store.storage_failed() => DevError::Storage(why),
        how = api => ended("API", how),
        how = registry => ended("registry", how),
    }
}

fn unready(running: &Running, expected: &[ObjectName]) -> String {
    let stages = progress::stages(&running.shared, expected);
    let lines = stages
        .iter()
        .filter(|(_, stage)| !stage.ready)
        .map(|(name, stage)| format!("  {name}  {}", stage.text));
    lines.collect::<Vec<_>>().join("\n")
}

fn look_around(kubeconfig: &Path, registry: &str) {
    let login = format!("{REGISTRY_USER}:{REGISTRY_PASSWORD}");
    say(&format!(
        "\nkubeconfig: {}\n\nLook around:\n  \
         export KUBECONFIG={}\n  \
         kubectl get targets -A -o wide\n  \
         kubectl get componentversions -n fleet\n  \
         kubectl get rendertasks,renderartifacts,renderbindings -n fleet\n  \
         kubectl get releases -n fleet --watch\n  \
         curl -su {login} http://{registry}/v2/_catalog\n  \
         curl -su {login} http://{registry}/v2/fleet/bootstrap-edge-1/tags/list\n\nCtrl-C ends it.",
        kubeconfig.display(),
        kubeconfig.display(),
    ));
}

fn start_controller(
    args: &DevArgs,
    server: &Server,
    spawner: Spawner,
    arbiters: Vec<actix_rt::ArbiterHandle>,
) -> Result<Running, DevError> {
    let options = args.controller.options();
    let api = Api::new(bounded(server.service_for("controller"), "default"));
    let ports = Ports::of_process(api, &options, args.controller.registry_ca_file.clone(), spawner)?;
    Ok(root::start(options, ports, arbiters, "dev"))
}

fn serve(
    spawner: &Spawner,
    server: &Server,
    api: TcpListener,
    store: &RegistryStore,
    registry: TcpListener,
) -> [PassHandle<std::io::Result<()>>; 2] {
    let server = server.clone();
    let store = store.clone();
    [
        spawner.spawn_pass("api", async move { server.serve(api, std::future::pending()).await }),
        spawner.spawn_pass("registry", async move {
            super::registry::serve(store, registry, std::future::pending()).await
        }),
    ]
}

/// Uids differ between runs, as they do between clusters.
fn rand_seed(address: &str) -> u64 {
    let now = Clock::machine().wall().as_second();
    rng::seeded(u64::from(std::process::id()), &format!("{address} {now}")).u64(..)
}
