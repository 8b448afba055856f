//! The ports on which a running controller tells about itself.

use futures::future::select_all;
use metrics_exporter_prometheus::PrometheusHandle;
use thiserror::Error;
use tokio::net::TcpListener;

use super::health::{keep_small, serve_health, serve_metrics};
use super::metrics::{self, MetricsError};
use crate::actors::pass::{PassHandle, Spawner};
use crate::actors::root::Running;
use crate::flags::{BindAddress, ListenError, listen};

/// Why nothing can be told.
#[derive(Debug, Error)]
pub enum EndpointsError {
    /// A port is taken.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Metrics are not recorded.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}

/// Ports that are open, but not served yet.
#[derive(Debug)]
pub struct Endpoints {
    health: Option<TcpListener>,
    metrics: Option<(TcpListener, PrometheusHandle)>,
}

impl Endpoints {
    /// Opens the ports, and records metrics from now on if they are asked for.
    ///
    /// # Errors
    /// A port that cannot be had, with the flag that asked for it.
    pub async fn open(health: &BindAddress, metrics: &BindAddress) -> Result<Self, EndpointsError> {
        let health = match health {
            BindAddress::Off => None,
            BindAddress::On(address) => Some(listen("--health-bind-address", address).await?),
        };
        let metrics = match metrics {
            BindAddress::Off => None,
            BindAddress::On(address) => {
                Some((listen("--metrics-bind-address", address).await?, metrics::record()?))
            }
        };
        Ok(Self { health, metrics })
    }

    /// The addresses of health and metrics, for people: where port 0 was asked for, the one that was picked.
    pub fn addresses(&self) -> (String, String) {
        fn text(listener: Option<&TcpListener>) -> String {
            let address = listener.and_then(|listener| listener.local_addr().ok());
            address.map_or_else(|| "off".to_owned(), |address| address.to_string())
        }
        (text(self.health.as_ref()), text(self.metrics.as_ref().map(|(listener, _)| listener)))
    }

    /// Serves the ports until the answer is dropped.
    pub fn serve(self, spawner: &Spawner, running: &Running) -> Serving {
        let mut tasks = Vec::new();
        if let Some(listener) = self.health {
            tasks.push(spawner.spawn_pass("health", serve_health(listener, running.clone())));
        }
        if let Some((listener, metrics)) = self.metrics {
            let kept = metrics.clone();
            tasks.push(spawner.spawn_pass("metrics upkeep", async move {
                keep_small(kept).await;
                Ok(())
            }));
            tasks.push(spawner.spawn_pass("metrics", serve_metrics(listener, metrics, running.clone())));
        }
        Serving { tasks }
    }
}

/// Ports that are served.
#[derive(Debug)]
pub struct Serving {
    tasks: Vec<PassHandle<std::io::Result<()>>>,
}

impl Serving {
    /// Ready when one of them is served no longer; says why.
    pub async fn failed(&mut self) -> String {
        if self.tasks.is_empty() {
            return std::future::pending().await;
        }
        let (ended, ..) = select_all(&mut self.tasks).await;
        match ended {
            Ok(Ok(())) => "health or metrics are not served any longer".to_owned(),
            Ok(Err(error)) => format!("health or metrics: {error}"),
            Err(died) => format!("health or metrics: the server {died}"),
        }
    }
}
