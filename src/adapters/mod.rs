//! The outside world behind ports: each adapter is the only place that talks to its system.

pub mod oci;
