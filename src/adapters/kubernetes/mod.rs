//! Kubernetes: requests, the cache that the watches fill, payloads on demand, and events.

mod api;
mod backoff;
mod cache;
mod client;
mod connect;
mod error;
mod events;
mod lease;
mod patch;
mod payloads;
mod requests;
mod seen;

pub use api::{Api, Expect, Listed, Namespaced, kind_name};
pub use backoff::WatchBackoff;
pub use cache::Cache;
pub use client::bounded;
pub use connect::{Cluster, ConnectError};
pub use error::{ApiError, Problem};
pub use events::{EventSink, Regarding, deliver};
pub use lease::{Candidacy, Elector, LeaseName, Taken};
pub use patch::{add_finalizer, merge_difference, remove_finalizer};
pub use payloads::{PayloadError, Payloads};
pub use requests::{CountRequests, Counted};
pub use seen::{Seen, Whole};
