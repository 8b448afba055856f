//! Parses the command line and calls the library.

use std::process::ExitCode;

use clap::Parser as _;
use mimalloc::MiMalloc;

// Passes and answers are many small objects that come and go: with ten thousand Targets glibc's allocator costs a third
// more CPU time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    solar_controller::cli::run(solar_controller::cli::Cli::parse())
}
