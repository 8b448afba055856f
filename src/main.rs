//! Parses the command line and calls the library.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    solar_controller::cli::run(solar_controller::cli::Cli::parse())
}
