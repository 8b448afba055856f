//! The command line.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::flags::FlagsError;
use crate::run_command::{self, RunArgs};
use crate::{reference, render_command};

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
    /// Run the controller against a cluster
    Run(Box<RunArgs>),
    /// Run everything in this process: a Kubernetes API, an OCI registry, the controller and example objects
    #[cfg(feature = "dev")]
    Dev(Box<crate::dev::DevArgs>),
    /// Render a RenderTask manifest to a directory or a .tgz, without a cluster
    Render(RenderArgs),
    /// Print the custom resource definitions, or write them to a directory
    Crds(CrdsArgs),
    /// Write the reference pages of docs/
    #[command(hide = true)]
    Reference(ReferenceArgs),
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

/// Flags of `reference`.
#[derive(Debug, Args)]
pub struct ReferenceArgs {
    /// The directory
    #[arg(long, value_name = "DIR")]
    pub output_dir: PathBuf,
}

/// Does what the command line says.
pub fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        #[cfg(feature = "dev")]
        Command::Dev(args) => {
            let mut args = *args;
            args.controller = args.controller.with_dev_defaults();
            return checked(args.controller.check(), || crate::dev::run(args));
        }
        Command::Run(args) => {
            let fit = args.controller.check().and_then(|()| args.election.check());
            return checked(fit, || run_command::run(*args));
        }
        Command::Render(args) => render(&args),
        Command::Crds(args) => crds(&args),
        Command::Reference(args) => reference::write(&args.output_dir),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command whose flags fit together; says what does not fit as clap says what it refuses.
fn checked(fits: Result<(), FlagsError>, run: impl FnOnce() -> ExitCode) -> ExitCode {
    match fits {
        Ok(()) => run(),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
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
