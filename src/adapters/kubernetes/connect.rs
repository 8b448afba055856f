//! Which cluster, and a client for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::client::ClientBuilder;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use thiserror::Error;

use super::client::layers;

/// A connection on which nothing is read for so long is dead: a watch is ended by the server after less than 5 minutes.
const READ_TIMEOUT: Duration = Duration::from_secs(295);
/// Set by Kubernetes in every container.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// A kubeconfig that cannot be used.
    #[error("the kubeconfig cannot be used ({from}): {}; name another one with --kubeconfig", problem(error))]
    Kubeconfig {
        /// Where it came from.
        from: String,
        /// Why not.
        error: KubeconfigError,
    },
    /// Not what a pod should find.
    #[error(
        "the service account of this pod cannot be used: {0}; name a kubeconfig with --kubeconfig instead"
    )]
    InCluster(#[from] InClusterError),
    /// The proxy is no address.
    #[error("HTTPS_PROXY is not an address such as http://proxy.example.com:3128")]
    Proxy,
    /// The client does not accept the configuration.
    #[error("the cluster cannot be reached this way: {0}")]
    Client(#[from] kube::Error),
}

/// What is wrong with a kubeconfig. kube quotes the path of a file that cannot be read twice.
fn problem(error: &KubeconfigError) -> String {
    error.to_string().replace("'\"", "\"").replace("\"'", "\"")
}

/// A cluster to connect to.
#[derive(Debug)]
pub struct Cluster {
    config: Config,
    /// Where its configuration came from, for people.
    pub from: String,
}

impl Cluster {
    /// Finds the cluster as other controllers do: the file `kubeconfig`, else the files of the variable KUBECONFIG, else
    /// the service account of the pod that this process runs in, else `~/.kube/config`. A `context` is one of a
    /// kubeconfig: the service account is not looked at then.
    pub async fn find(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self, ConnectError> {
        let in_cluster = std::env::var_os(IN_CLUSTER).is_some();
        let named = std::env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty());
        let mut found = match kubeconfig {
            Some(file) => Self::of_file(file, context).await?,
            None if named => Self::of_usual_files("the variable KUBECONFIG", context).await?,
            None if in_cluster && context.is_none() => {
                Self { config: Config::incluster()?, from: "the service account of this pod".to_owned() }
            }
            None => Self::of_usual_files("~/.kube/config", context).await?,
        };
        // A failed request is the business of whoever sent it: it knows what depends on it.
        found.config.default_retry = false;
        found.config.read_timeout = Some(READ_TIMEOUT);
        Ok(found)
    }

    async fn of_file(file: &Path, context: Option<&str>) -> Result<Self, ConnectError> {
        let from = format!("--kubeconfig {}", file.display());
        Self::of(Kubeconfig::read_from(PathBuf::from(file)), from, context).await
    }

    async fn of_usual_files(from: &str, context: Option<&str>) -> Result<Self, ConnectError> {
        Self::of(Kubeconfig::read(), from.to_owned(), context).await
    }

    async fn of(
        read: Result<Kubeconfig, KubeconfigError>,
        from: String,
        context: Option<&str>,
    ) -> Result<Self, ConnectError> {
        let options = KubeConfigOptions { context: context.map(ToOwned::to_owned), ..Default::default() };
        let loaded = async {
            let kubeconfig = read?;
            let own_proxy = proxy_of(&kubeconfig, context);
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
            if !own_proxy {
                config.proxy_url = None;
            }
            Ok(config)
        };
        match loaded.await {
            Ok(config) => Ok(Self { config, from }),
            Err(error) => Err(ConnectError::Kubeconfig { from, error }),
        }
    }

    /// The address of the API server.
    pub fn url(&self) -> &Uri {
        &self.config.cluster_url
    }

    /// The namespace of the pod, or of the kubeconfig's context.
    pub fn namespace(&self) -> String {
        self.config.default_namespace.clone()
    }

    /// A client that counts its requests, never retries by itself, waits 20 s for an answer to begin, and goes through
    /// HTTPS_PROXY unless NO_PROXY names the cluster. To be made inside the runtime that uses it.
    pub fn client(mut self) -> Result<Client, ConnectError> {
        if self.config.proxy_url.is_none() {
            self.config.proxy_url = proxy_for(&self.config.cluster_url)?;
        }
        let builder = ClientBuilder::try_from(self.config)?;
        Ok(builder.with_layer(&layers()).build())
    }
}

/// Whether the kubeconfig itself names a proxy for the context's cluster.
fn proxy_of(kubeconfig: &Kubeconfig, context: Option<&str>) -> bool {
    let context = context.or(kubeconfig.current_context.as_deref());
    let cluster = kubeconfig
        .contexts
        .iter()
        .find(|named| Some(named.name.as_str()) == context)
        .and_then(|named| named.context.as_ref())
        .map(|context| context.cluster.as_str());
    let cluster = kubeconfig.clusters.iter().find(|named| Some(named.name.as_str()) == cluster);
    cluster.and_then(|named| named.cluster.as_ref()).is_some_and(|cluster| cluster.proxy_url.is_some())
}

/// The proxy of the environment for `cluster`. kube 5 looks at NO_PROXY too, but compares it with the proxy's own host.
fn proxy_for(cluster: &Uri) -> Result<Option<Uri>, ConnectError> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(proxy) = variable("HTTPS_PROXY").or_else(|| variable("https_proxy")) else { return Ok(None) };
    if cluster.scheme_str() != Some("https") || Matcher::from_env().intercept(cluster).is_none() {
        return Ok(None);
    }
    let proxy = if proxy.contains("://") { proxy } else { format!("http://{proxy}") };
    proxy.parse().map(Some).map_err(|_| ConnectError::Proxy)
}
