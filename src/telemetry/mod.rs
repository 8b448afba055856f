//! What the controller tells about itself.

pub mod endpoints;
pub mod health;
pub mod metrics;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Writes logs to standard error: what `SOLAR_LOG` asks for, else `default`.
pub fn init(default: &str) {
    init_with(default, LogFormat::Text);
}

/// As [`init`], in `format`.
pub fn init_with(default: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_env("SOLAR_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call in one process, as tests make, keeps the first.
    let _ = match format {
        LogFormat::Text => subscriber.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
}
