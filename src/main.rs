//! Parses the command line and calls the library.

use std::process::ExitCode;

use clap::Parser as _;
use mimalloc::MiMalloc;

// Passes and answers are many small objects that come and go: with ten thousand Targets glibc's allocator costs a third
// more CPU time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // A huge page stays resident as long as any of its objects lives: an idle controller would take twice its memory.
    // Where the kernel does not know them there are none.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    solar_controller::cli::run(solar_controller::cli::Cli::parse())
}
