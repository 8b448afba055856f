//! What the controller tells about itself.

use tracing_subscriber::EnvFilter;

/// Writes logs to standard error: what `SOLAR_LOG` asks for, else `default`.
pub fn init(default: &str) {
    let filter = EnvFilter::try_from_env("SOLAR_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call in one process, as tests make, keeps the first.
    let _ = subscriber.try_init();
}
