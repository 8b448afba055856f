//! `solar-controller`: a Kubernetes controller as a system of actors.

pub mod actors;
pub mod adapters;
#[cfg(feature = "dev")]
pub mod dev;
pub mod messages;
