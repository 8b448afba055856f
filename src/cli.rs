//! The command line.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::actors::system::Options;
use crate::render_command;

/// Renders bound releases into Helm charts in an OCI registry.
#[derive(Debug, Parser)]
#[command(name = "solar-controller", version, about, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything in this process: a Kubernetes API, an OCI registry, the controller and example objects
    #[cfg(feature = "dev")]
    Dev(crate::dev::DevArgs),
    /// Render a RenderTask manifest to a directory or a .tgz, without a cluster
    Render(RenderArgs),
    /// Print the custom resource definitions, or write them to a directory
    Crds(CrdsArgs),
}

/// How the controller works.
#[derive(Clone, Debug, Args)]
pub struct ControllerArgs {
    /// Passes that run at once; 0 means no cap
    #[arg(long, env = "SOLAR_MAX_CONCURRENT_RECONCILES", default_value_t = 50)]
    pub max_concurrent_reconciles: usize,
    /// Charts that are rendered and pushed at once; 0 means no cap
    #[arg(long, env = "SOLAR_MAX_CONCURRENT_RENDERS", default_value_t = 20)]
    pub max_concurrent_renders: usize,
    /// How long rendering and pushing one chart may take
    #[arg(long, env = "SOLAR_RENDER_TIMEOUT", default_value = "5m", value_parser = duration)]
    pub render_timeout: Duration,
    /// When a chart that found no free slot is tried again
    #[arg(long, env = "SOLAR_RENDER_REQUEUE_DELAY", default_value = "2s", value_parser = duration)]
    pub render_requeue_delay: Duration,
    /// Let a resource host without a RegistryBinding fail the render, instead of pulling anonymously
    #[arg(long, env = "SOLAR_REGISTRY_BINDING_STRICT")]
    pub registry_binding_strict: bool,
    /// How long charts that are no longer wanted outlive the bootstrap that replaced them
    #[arg(long, env = "SOLAR_STALE_GRACE", default_value = "0s", value_parser = duration)]
    pub stale_grace: Duration,
    /// How long a RenderArtifact waits that was never seen bound
    #[arg(long, env = "SOLAR_UNBOUND_GRACE", default_value = "5m", value_parser = duration)]
    pub unbound_grace: Duration,
    /// Threads that actors live on; 0 means one for each core
    #[arg(long, env = "SOLAR_ACTOR_THREADS", default_value_t = 0)]
    pub actor_threads: usize,
    /// PEM file with a certificate authority that is trusted for registries besides the system's
    #[arg(long, env = "SOLAR_REGISTRY_CA_FILE", value_name = "FILE")]
    pub registry_ca_file: Option<PathBuf>,
}

impl Default for ControllerArgs {
    /// The defaults of the flags.
    fn default() -> Self {
        let options = Options::default();
        Self {
            max_concurrent_reconciles: options.max_concurrent_reconciles,
            max_concurrent_renders: options.max_concurrent_renders,
            render_timeout: options.render_timeout,
            render_requeue_delay: options.render_requeue_delay,
            registry_binding_strict: options.target.strict,
            stale_grace: options.target.stale_grace,
            unbound_grace: options.artifact.unbound_grace,
            actor_threads: options.actor_threads,
            registry_ca_file: None,
        }
    }
}

impl ControllerArgs {
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
        options.target.strict = self.registry_binding_strict;
        options.target.stale_grace = self.stale_grace;
        options.artifact.unbound_grace = self.unbound_grace;
        options
    }
}

/// Flags of `render`.
#[derive(Debug, Args)]
pub struct RenderArgs {
    /// The RenderTask, as YAML or JSON
    #[arg(value_name = "MANIFEST")]
    pub manifest: PathBuf,
    /// Where the chart goes: an empty or absent directory, or a file that ends in .tgz
    #[arg(short, long, value_name = "PATH")]
    pub output: PathBuf,
}

/// Flags of `crds`.
#[derive(Debug, Args)]
pub struct CrdsArgs {
    /// Write one file for each definition into this directory instead of printing them
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
}

/// Does what the command line says.
pub fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        #[cfg(feature = "dev")]
        Command::Dev(args) => return crate::dev::run(args),
        Command::Render(args) => render(&args),
        Command::Crds(args) => crds(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn render(args: &RenderArgs) -> Result<(), String> {
    let manifest = std::fs::read_to_string(&args.manifest)
        .map_err(|error| format!("cannot read {}: {error}", args.manifest.display()))?;
    let summary =
        render_command::render_manifest(&manifest, &args.output).map_err(|error| error.to_string())?;
    say(&format!("{summary}"));
    Ok(())
}

fn crds(args: &CrdsArgs) -> Result<(), String> {
    for (name, yaml) in solar_api::crd_files().map_err(|error| error.to_string())? {
        match &args.output_dir {
            None => say(&format!("---\n{}", yaml.trim_end())),
            Some(directory) => {
                std::fs::create_dir_all(directory)
                    .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
                let path = directory.join(name);
                std::fs::write(&path, yaml)
                    .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Prints a line. A reader that has gone away, such as `head`, has read enough.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A duration such as `90s`, `5m` or `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| format!("{text:?} is not a duration: write it like 90s, 5m or 1h30m"))?;
    Duration::try_from(span).map_err(|_| format!("{text:?} is less than zero"))
}
