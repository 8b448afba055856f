//! The real parts that tests run against: etcd, kube-apiserver and kube-controller-manager, registries, and command line
//! programs.
//!
//! `make tools` builds them (`tests/tools`). Where a part is missing a test passes over, which `make test` says at its
//! end; with `CI=true` it fails instead. So a test begins with
//!
//! ```no_run
//! # fn test() {
//! let Some(cluster) = test_bed::Cluster::shared() else { return };
//! # }
//! ```
//!
//! Every process that is a [`Process`] or [`Guarded`] ends with the process of the test, however that ends. After a panic in a test the folder with their
//! logs stays, and its path is printed; otherwise it goes.
//!
//! Everything here blocks: starting, stopping and waiting. A test in which something else must go on meanwhile calls it
//! from a thread of its own.

#![allow(clippy::disallowed_methods, reason = "nothing here is simulated: real processes, threads and time")]

mod cluster;
mod guardian;
mod pki;
mod process;
mod registry;
mod tools;

pub use cluster::{ADMIN, Builder, Cluster};
pub use guardian::folder;
pub use pki::{Authority, Identity, Signer};
pub use process::{DEADLINE, Guarded, Process, free_port, wait_until};
pub use registry::{EXAMPLE_USERS, Generation, Registry, RegistryBuilder};
pub use tools::{PROGRAMS, crds_of_flux, tool};
