//! The OCI port over both fronts of the embedded registry: sockets on loopback, and in memory.
#![cfg(feature = "dev")]

#[path = "oci/auth.rs"]
mod auth;
#[path = "oci/distribution.rs"]
mod distribution;
#[path = "oci/embedded.rs"]
mod embedded;
#[path = "oci/faults.rs"]
mod faults;
#[path = "support/faulty.rs"]
mod faulty;
#[path = "oci/port.rs"]
mod port;
#[path = "oci/proxied.rs"]
mod proxied;
#[path = "oci/support.rs"]
mod support;
#[path = "support/tokens.rs"]
mod tokens;
#[path = "oci/untag.rs"]
mod untag;
