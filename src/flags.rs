//! The flags that `run` and `dev` share, and what their values must be like.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use solar_core::object::is_domain_name;
use solar_core::routes::{
    ActorKind, COMPONENT_PROTECTION, COMPONENT_VERSION, COMPONENT_VERSION_PROTECTION, PROFILE,
    PROFILE_BINDINGS, REGISTRY_BINDING, REGISTRY_PROTECTION, RELEASE, RELEASE_BINDING, RELEASE_PROTECTION,
    RENDER_ARTIFACT, RENDER_TASK, TARGET,
};
use thiserror::Error;
use tokio::net::TcpListener;

use crate::actors::system::Options;
use crate::telemetry::LogFormat;

/// A kind of controllers that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Controller {
    /// Targets; only with RenderTask and RenderArtifact
    #[value(name = "Target")]
    Target,
    /// RenderTasks; only with Target and RenderArtifact
    #[value(name = "RenderTask")]
    RenderTask,
    /// RenderArtifacts and RenderBindings; only with Target and RenderTask
    #[value(name = "RenderArtifact")]
    RenderArtifact,
    /// ComponentVersions
    #[value(name = "ComponentVersion")]
    ComponentVersion,
    /// Releases
    #[value(name = "Release")]
    Release,
    /// ReleaseBindings
    #[value(name = "ReleaseBinding")]
    ReleaseBinding,
    /// RegistryBindings
    #[value(name = "RegistryBinding")]
    RegistryBinding,
    /// Profiles, and the ReleaseBindings that they make
    #[value(name = "Profile")]
    Profile,
    /// Letting go of Registries, Releases, ComponentVersions and Components that nobody refers to any more
    #[value(name = "Protection")]
    Protection,
}

impl Controller {
    /// Makes charts: none of them works without the other two.
    const CHARTS: [Self; 3] = [Self::Target, Self::RenderTask, Self::RenderArtifact];

    /// The kinds of actors that it stands for.
    fn actors(self) -> &'static [ActorKind] {
        match self {
            Self::Target => &[TARGET],
            Self::RenderTask => &[RENDER_TASK],
            Self::RenderArtifact => &[RENDER_ARTIFACT],
            Self::ComponentVersion => &[COMPONENT_VERSION],
            Self::Release => &[RELEASE],
            Self::ReleaseBinding => &[RELEASE_BINDING],
            Self::RegistryBinding => &[REGISTRY_BINDING],
            Self::Profile => &[PROFILE, PROFILE_BINDINGS],
            Self::Protection => {
                &[REGISTRY_PROTECTION, RELEASE_PROTECTION, COMPONENT_VERSION_PROTECTION, COMPONENT_PROTECTION]
            }
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How the controller works.
#[derive(Clone, Debug, Args)]
pub struct ControllerArgs {
    /// The controllers to run, separated by commas; all if not given. A stage of a take-over from another manager is to
    /// run some kinds here and the others there
    #[arg(long, env = "SOLAR_CONTROLLERS", value_delimiter = ',', ignore_case = true, value_name = "KIND")]
    pub controllers: Vec<Controller>,
    /// The only namespaces to look at, separated by commas; all if not given. Each costs one connection for each kind
    #[arg(
        long,
        env = "SOLAR_WATCH_NAMESPACE",
        value_delimiter = ',',
        value_parser = namespace,
        value_name = "NAMESPACE"
    )]
    pub watch_namespace: Vec<String>,
    /// Passes that run at once; 0 means no cap
    #[arg(long, env = "SOLAR_MAX_CONCURRENT_RECONCILES", default_value_t = 50, value_name = "NUMBER")]
    pub max_concurrent_reconciles: usize,
    /// Charts that are rendered and pushed at once; 0 means no cap
    #[arg(long, env = "SOLAR_MAX_CONCURRENT_RENDERS", default_value_t = 20, value_name = "NUMBER")]
    pub max_concurrent_renders: usize,
    /// How long rendering and pushing one chart may take
    #[arg(
        long,
        env = "SOLAR_RENDER_TIMEOUT",
        default_value = "5m",
        value_parser = more_than_zero,
        value_name = "DURATION"
    )]
    pub render_timeout: Duration,
    /// When a chart that found no free slot is tried again
    #[arg(
        long,
        env = "SOLAR_RENDER_REQUEUE_DELAY",
        default_value = "2s",
        value_parser = more_than_zero,
        value_name = "DURATION"
    )]
    pub render_requeue_delay: Duration,
    /// Let a resource host without a RegistryBinding fail the render, instead of pulling anonymously
    #[arg(long, env = "SOLAR_REGISTRY_BINDING_STRICT")]
    pub registry_binding_strict: bool,
    /// How long charts that are no longer wanted outlive the bootstrap that replaced them
    #[arg(
        long,
        env = "SOLAR_STALE_GRACE",
        default_value = "0s",
        value_parser = duration,
        value_name = "DURATION"
    )]
    pub stale_grace: Duration,
    /// How long a RenderArtifact waits that was never seen bound
    #[arg(
        long,
        env = "SOLAR_UNBOUND_GRACE",
        default_value = "5m",
        value_parser = duration,
        value_name = "DURATION"
    )]
    pub unbound_grace: Duration,
    /// How often it is looked whether a chart that was pushed is still there; 0s means never
    #[arg(
        long,
        env = "SOLAR_ARTIFACT_CHECK_INTERVAL",
        default_value = "6h",
        value_parser = duration,
        value_name = "DURATION"
    )]
    pub artifact_check_interval: Duration,
    /// How often each ComponentVersion's descriptor is looked for in its registry; checks beyond 10 per second are put off
    #[arg(
        long,
        env = "SOLAR_COMPONENTVERSION_AVAILABILITY_INTERVAL",
        default_value = "5m",
        value_parser = a_second_or_more,
        value_name = "DURATION"
    )]
    pub componentversion_availability_interval: Duration,
    /// How long a descriptor must be missing before its ComponentVersion's Available turns False
    #[arg(
        long,
        env = "SOLAR_COMPONENTVERSION_AVAILABILITY_GRACE",
        default_value = "15m",
        value_parser = duration,
        value_name = "DURATION"
    )]
    pub componentversion_availability_grace: Duration,
    /// How long after a start no tag is deleted, for requests of the process before may still land; 30s unless
    /// given, and 0s in `dev`
    #[arg(long, env = "SOLAR_TAKEOVER_WAIT", value_parser = duration, value_name = "DURATION")]
    pub takeover_wait: Option<Duration>,
    /// How long the end may take: running passes and renders end, then queued Kubernetes events are written; 20s
    /// unless given, and 1s in `dev`
    #[arg(long, env = "SOLAR_SHUTDOWN_GRACE", value_parser = duration, value_name = "DURATION")]
    pub shutdown_grace: Option<Duration>,
    /// Threads that actors live on; 0 means one for each core
    #[arg(long, env = "SOLAR_ACTOR_THREADS", default_value_t = 0, value_name = "NUMBER", value_parser = threads)]
    pub actor_threads: usize,
    /// PEM file with a certificate authority that is trusted for registries besides the system's
    #[arg(long, env = "SOLAR_REGISTRY_CA_FILE", value_name = "FILE")]
    pub registry_ca_file: Option<PathBuf>,
    /// Where /healthz and /readyz are served: HOST:PORT, :PORT for all addresses, or off; :8081 unless
    /// given, and off in `dev`
    #[arg(long, env = "SOLAR_HEALTH_BIND_ADDRESS", value_name = "ADDRESS")]
    pub health_bind_address: Option<BindAddress>,
    /// Where /metrics is served: HOST:PORT, :PORT for all addresses, or off; :8080 unless given, and off in
    /// `dev`
    #[arg(long, env = "SOLAR_METRICS_BIND_ADDRESS", value_name = "ADDRESS")]
    pub metrics_bind_address: Option<BindAddress>,
    /// How log lines on standard error look; the variable SOLAR_LOG says which there are, such as
    /// solar_controller=debug
    #[arg(long, env = "SOLAR_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
}

impl Default for ControllerArgs {
    /// The defaults of the flags.
    fn default() -> Self {
        let options = Options::default();
        Self {
            controllers: Vec::new(),
            watch_namespace: Vec::new(),
            max_concurrent_reconciles: options.max_concurrent_reconciles,
            max_concurrent_renders: options.max_concurrent_renders,
            render_timeout: options.render_timeout,
            render_requeue_delay: options.render_requeue_delay,
            registry_binding_strict: options.target.strict,
            stale_grace: options.target.stale_grace,
            unbound_grace: options.artifact.unbound_grace,
            artifact_check_interval: options.artifact.check_interval.unwrap_or_default(),
            componentversion_availability_interval: options.availability.interval,
            componentversion_availability_grace: options.availability.grace,
            takeover_wait: None,
            shutdown_grace: None,
            actor_threads: options.actor_threads,
            registry_ca_file: None,
            health_bind_address: None,
            metrics_bind_address: None,
            log_format: LogFormat::Text,
        }
    }
}

/// Flags that do not fit together.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FlagsError {
    /// The times of the lease do not fit together.
    #[error("{0}")]
    Lease(String),
    /// A part of those that make charts.
    #[error(
        "--controllers: Target, RenderTask and RenderArtifact run only together, and {missing} is missing: name all three \
         or none of them"
    )]
    Apart {
        /// One that is not among them.
        missing: Controller,
    },
    /// One address for two servers.
    #[error(
        "--health-bind-address and --metrics-bind-address are both {address}: give each its own port, or off"
    )]
    SameAddress {
        /// The address.
        address: ListenAddress,
    },
}

impl ControllerArgs {
    /// With the defaults of `dev` where nothing was given: its registry lives and dies with the process, so no earlier
    /// request can land; whoever presses Ctrl-C does not want to wait; and nobody asks for its health.
    pub fn with_dev_defaults(mut self) -> Self {
        self.takeover_wait.get_or_insert(Duration::ZERO);
        self.shutdown_grace.get_or_insert(Duration::from_secs(1));
        self.health_bind_address.get_or_insert(BindAddress::Off);
        self.metrics_bind_address.get_or_insert(BindAddress::Off);
        self
    }

    /// Whether the flags fit together.
    ///
    /// # Errors
    /// Says which do not, and the mend.
    pub fn check(&self) -> Result<(), FlagsError> {
        let chosen = |controller: &Controller| self.controllers.contains(controller);
        if Controller::CHARTS.iter().any(chosen)
            && let Some(missing) = Controller::CHARTS.into_iter().find(|controller| !chosen(controller))
        {
            return Err(FlagsError::Apart { missing });
        }
        match (self.health(), self.metrics()) {
            (BindAddress::On(health), BindAddress::On(metrics)) if health.overlaps(&metrics) => {
                Err(FlagsError::SameAddress { address: metrics })
            }
            _ => Ok(()),
        }
    }

    /// Where /healthz and /readyz are served.
    pub fn health(&self) -> BindAddress {
        self.health_bind_address.clone().unwrap_or_else(|| BindAddress::on_all(8081))
    }

    /// Where /metrics is served.
    pub fn metrics(&self) -> BindAddress {
        self.metrics_bind_address.clone().unwrap_or_else(|| BindAddress::on_all(8080))
    }

    /// The namespaces to watch, sorted and each once; `None` means all.
    pub fn namespaces(&self) -> Option<Vec<Arc<str>>> {
        let names: BTreeSet<&str> = self.watch_namespace.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.into_iter().map(Arc::from).collect())
    }

    /// The options that these flags mean.
    pub fn options(&self) -> Options {
        let mut options = Options {
            max_concurrent_reconciles: self.max_concurrent_reconciles,
            max_concurrent_renders: self.max_concurrent_renders,
            render_timeout: self.render_timeout,
            render_requeue_delay: self.render_requeue_delay,
            actor_threads: self.actor_threads,
            ..Options::default()
        };
        if !self.controllers.is_empty() {
            options.controllers =
                self.controllers.iter().flat_map(|controller| controller.actors().iter().copied()).collect();
        }
        options.takeover_wait = self.takeover_wait.unwrap_or(options.takeover_wait);
        options.shutdown_grace = self.shutdown_grace.unwrap_or(options.shutdown_grace);
        options.target.strict = self.registry_binding_strict;
        options.target.stale_grace = self.stale_grace;
        options.target.watched = self.namespaces();
        options.artifact.unbound_grace = self.unbound_grace;
        options.artifact.check_interval =
            Some(self.artifact_check_interval).filter(|interval| !interval.is_zero());
        options.availability.interval = self.componentversion_availability_interval;
        options.availability.grace = self.componentversion_availability_grace;
        options
    }
}

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// Name or IP address of one of this machine's interfaces; empty for all of them.
    host: String,
    /// 0 picks a free one.
    port: u16,
}

impl ListenAddress {
    /// A free port on the loopback interface.
    pub fn free_port() -> Self {
        Self { host: "127.0.0.1".to_owned(), port: 0 }
    }

    /// Listens there; a name is resolved, and its first address that can be listened at is taken, IPv4 before IPv6.
    pub async fn listen(&self) -> std::io::Result<TcpListener> {
        if !self.host.is_empty() {
            let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
            let mut addresses: Vec<SocketAddr> = found.collect();
            addresses.sort_by_key(SocketAddr::is_ipv6);
            return TcpListener::bind(addresses.as_slice()).await;
        }
        // The first is IPv4 too, where the machine speaks both.
        match TcpListener::bind(("::", self.port)).await {
            Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                TcpListener::bind(("0.0.0.0", self.port)).await
            }
            listening => listening,
        }
    }

    /// Whether only one of the two can be listened at.
    fn overlaps(&self, other: &Self) -> bool {
        let any = |host: &str| matches!(host, "" | "0.0.0.0" | "::");
        self.port != 0
            && self.port == other.port
            && (self.host == other.host || any(&self.host) || any(&other.host))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum AddressError {
    /// Not of the right form.
    #[error("write it like 127.0.0.1:8080, localhost:8080, [::1]:8080 or :8080; port 0 picks a free one")]
    Form,
    /// The port is no port.
    #[error("the port must be a number from 0 to 65535")]
    Port,
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::Form)?;
        let port = port.parse().map_err(|_| AddressError::Port)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let fits = match bracketed {
            Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
            None => host.chars().all(is_name),
        };
        if fits { Ok(Self { host: host.to_owned(), port }) } else { Err(AddressError::Form) }
    }
}

/// A place to listen at, or nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Nothing is served.
    Off,
    /// Served there.
    On(ListenAddress),
}

impl BindAddress {
    /// This port of all addresses of the machine.
    fn on_all(port: u16) -> Self {
        Self::On(ListenAddress { host: String::new(), port })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On(address) => address.fmt(f),
        }
    }
}

impl FromStr for BindAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text {
            "off" | "0" => Ok(Self::Off),
            text => text.parse().map(Self::On),
        }
    }
}

/// A port that cannot be listened at.
#[derive(Debug, Error)]
#[error("cannot listen on {address} ({flag}): {error}; free that port, or choose another one with {flag}")]
pub struct ListenError {
    /// The flag that asked for it.
    pub flag: &'static str,
    /// The address.
    pub address: ListenAddress,
    /// What the system said.
    pub error: std::io::Error,
}

/// Listens where `flag` says.
pub async fn listen(flag: &'static str, address: &ListenAddress) -> Result<TcpListener, ListenError> {
    address.listen().await.map_err(|error| ListenError { flag, address: address.clone(), error })
}

/// A duration such as `90s`, `5m` or `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| format!("{text:?} is not a duration: write it like 90s, 5m or 1h30m"))?;
    Duration::try_from(span).map_err(|_| format!("{text:?} is less than zero"))
}

pub(crate) fn more_than_zero(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be more than zero, such as 2s".to_owned()),
        duration => Ok(duration),
    }
}

/// An interval at which something is asked for.
fn a_second_or_more(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        short if short < Duration::from_secs(1) => Err("it must be a second or more, such as 5m".to_owned()),
        duration => Ok(duration),
    }
}

/// A namespace's name: a DNS label.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    if text.len() <= 63 && !text.contains('.') && is_domain_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a namespace: lower case letters, digits and -, at most 63 characters"))
    }
}

/// More threads than any machine has cores are a slip of the pen.
const MOST_THREADS: usize = 1_024;

/// A number of threads.
fn threads(text: &str) -> Result<usize, String> {
    let threads = text.parse::<usize>().ok().filter(|threads| *threads <= MOST_THREADS);
    threads.ok_or_else(|| format!("{text:?} is not a number of threads from 0 to {MOST_THREADS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(host: &str, port: u16) -> BindAddress {
        BindAddress::On(ListenAddress { host: host.into(), port })
    }

    #[test]
    fn an_address_may_be_a_port_a_host_and_port_or_off() {
        assert_eq!(":8081".parse(), Ok(on("", 8081)));
        assert_eq!("localhost:0".parse(), Ok(on("localhost", 0)));
        assert_eq!("[::1]:80".parse(), Ok(on("::1", 80)));
        assert_eq!("off".parse(), Ok(BindAddress::Off));
        assert_eq!("0".parse(), Ok(BindAddress::Off));
        assert_eq!("8081".parse::<BindAddress>(), Err(AddressError::Form));
        assert_eq!("::1:80".parse::<BindAddress>(), Err(AddressError::Form));
        assert_eq!("here there:80".parse::<BindAddress>(), Err(AddressError::Form));
        assert_eq!("localhost:http".parse::<BindAddress>(), Err(AddressError::Port));
        assert_eq!("[::1]:80".parse::<ListenAddress>().unwrap().to_string(), "[::1]:80");
    }

    #[test]
    fn an_address_serves_one_thing() {
        let check = |health: BindAddress, metrics: BindAddress| {
            let flags = ControllerArgs {
                health_bind_address: Some(health),
                metrics_bind_address: Some(metrics),
                ..ControllerArgs::default()
            };
            flags.check().is_ok()
        };
        assert!(!check(on("", 8080), on("", 8080)));
        assert!(!check(on("127.0.0.1", 8080), on("0.0.0.0", 8080)));
        assert!(check(on("127.0.0.1", 8080), on("127.0.0.2", 8080)));
        assert!(check(on("", 0), on("", 0)));
        assert!(check(BindAddress::Off, BindAddress::Off));
        let taken = ControllerArgs { health_bind_address: Some(on("", 8080)), ..ControllerArgs::default() };
        assert!(matches!(taken.check(), Err(FlagsError::SameAddress { .. })));
        assert_eq!(taken.with_dev_defaults().check(), Ok(()));
    }

    #[test]
    fn the_three_that_make_charts_run_only_together() {
        let check = |controllers: &[Controller]| {
            ControllerArgs { controllers: controllers.to_vec(), ..ControllerArgs::default() }.check()
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[Controller::Release, Controller::Protection]), Ok(()));
        assert_eq!(check(&Controller::CHARTS), Ok(()));
        let apart = check(&[Controller::Target, Controller::RenderArtifact]);
        assert_eq!(apart, Err(FlagsError::Apart { missing: Controller::RenderTask }));
    }

    #[test]
    fn all_controllers_stand_for_all_kinds_of_actors() {
        let named: BTreeSet<ActorKind> =
            Controller::value_variants().iter().flat_map(|controller| controller.actors()).copied().collect();
        assert_eq!(named, Options::default().controllers);
        let flags = ControllerArgs {
            controllers: Controller::value_variants().to_vec(),
            ..ControllerArgs::default()
        };
        assert_eq!(flags.options().controllers, named);
    }

    #[test]
    fn namespaces_are_dns_labels() {
        for good in ["a", "fleet", "a-1", &"a".repeat(63)] {
            assert!(namespace(good).is_ok(), "{good}");
        }
        for bad in ["", "Fleet", "-a", "a-", "a.b", "a b", &"a".repeat(64)] {
            assert!(namespace(bad).is_err(), "{bad}");
        }
    }
}
