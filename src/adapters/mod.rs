//! The outside world behind ports: each adapter is the only place that talks to its system.

pub mod bucket;
pub mod clock;
pub mod cpu;
pub mod kubernetes;
pub mod leadership;
pub mod oci;
pub mod rng;
