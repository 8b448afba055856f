//! An in-memory Kubernetes API server for tests and demos of kube-rs programs.
//!
//! ```
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::{Api, api::PostParams};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = kube_embedded::Server::builder().seed(7).build();
//! let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
//!
//! let map = serde_json::from_value(serde_json::json!({ "metadata": { "generateName": "map-" } }))?;
//! let created = api.create(&PostParams::default(), &map).await?;
//! assert!(created.metadata.name.unwrap().starts_with("map-"));
//! assert_eq!(server.count("ConfigMap"), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Over HTTP, for kubectl and other processes:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let server = kube_embedded::Server::builder().build();
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! std::fs::write("kubeconfig", server.kubeconfig(&format!("http://{}", listener.local_addr()?)))?;
//! server.serve(listener, std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What goes wrong on purpose
//!
//! ```
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::{Api, api::ListParams};
//! use kube_embedded::{Fault, FaultPlan, FaultRates, FaultRule, Server, Verb};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let server = Server::builder().build();
//! let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
//! server.add_fault(FaultRule::new(Fault::unavailable()).verb(Verb::List).resource("configmaps").times(1));
//! assert!(api.list(&ListParams::default()).await.is_err());
//! assert!(api.list(&ListParams::default()).await.is_ok());
//!
//! // Or by chance: the same seed and the same requests meet the same faults.
//! server.set_faults(FaultPlan::random(7, FaultRates::all(20)));
//! # }
//! ```
//!
//! # What outlives the process
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("api.log");
//! let first = kube_embedded::Server::builder().open(&path)?;
//! assert!(first.fresh);
//! first.server.install(serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }))?;
//! drop(first);
//! let second = kube_embedded::Server::builder().open(&path)?;
//! assert_eq!(second.server.count("ConfigMap"), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # How it is built
//!
//! The core is synchronous: one lock around tables, indexes and a counter. A request is routed ([`Verb`],
//! [`RequestInfo`]), struck by the [`FaultPlan`] or not, carried out, and rendered. There is no task and no timer of its
//! own: a watch looks into the table when it is polled, and its timeouts live in its stream, on tokio's clock. Time of day
//! comes from a [`Clock`], uids from a seed, so that under `tokio::time::pause` on one thread equal requests give equal
//! answers, events and order.
//!
//! What a cluster's controllers do later is done in the operation that causes it: the garbage collector, the end of
//! namespaces, and the clean-up behind a deleted CRD.

/// The examples of the README are compiled and run with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod builtins;
mod clock;
mod convert;
mod crd;
mod discovery;
mod disk;
mod faults;
mod field;
mod http;
mod identity;
mod jsonpath;
mod log;
mod meta;
mod names;
mod openapi;
mod openapi_v2;
mod ops;
mod patch;
mod random;
mod request;
mod resource;
mod reviews;
mod schema;
mod selector;
mod server;
mod status;
mod store;
mod strategic;
mod table;
mod watch;

pub use self::{
    clock::{Clock, SystemClock, TokioClock},
    disk::{StorageError, Torn},
    faults::{Fault, FaultPlan, FaultRule, WatchFault},
    http::{EmbeddedService, ResponseBody, TransportError},
    log::RequestRecord,
    random::FaultRates,
    request::{RequestInfo, Verb},
    server::{Builder, InstallError, Opened, Server},
};
