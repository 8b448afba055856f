//! What the controller tells about itself.

pub mod endpoints;
pub mod health;
pub mod metrics;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Whatever is asked for, the client's own words on answers stay unsaid.
const KUBE_ANSWERS: &str = "kube_client::client=off";

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
    let filter = match std::env::var("SOLAR_LOG").ok().filter(|wanted| !wanted.is_empty()) {
        None => EnvFilter::new(default),
        Some(wanted) => EnvFilter::try_new(&wanted).unwrap_or_else(|error| {
            eprintln!("SOLAR_LOG is not understood and left out: {error}");
            EnvFilter::new(default)
        }),
    };
    // What kube logs of an answer that it cannot read is the whole answer, which may be a Secret's.
    let filter = filter.add_directive(KUBE_ANSWERS.parse().unwrap_or_default());
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call in one process, as tests make, keeps the first.
    let _ = match format {
        LogFormat::Text => subscriber.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
}
