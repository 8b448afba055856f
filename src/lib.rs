//! Placeholder.

pub mod adapters;
#[cfg(feature = "dev")]
pub mod dev;
