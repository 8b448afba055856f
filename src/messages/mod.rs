//! What actors say to each other: one file for each receiver, plain data only.
//!
//! Orders are imperative ([`gate::Enter`]), facts are in the past tense ([`object::Woken`]), and answers are enums of
//! outcomes. A message names objects by key; nobody sends an object along, the receiver looks for itself.

pub mod gate;
pub mod object;
pub mod registry_actor;
pub mod render_artifact;
pub mod render_pool;
pub mod root;
pub mod watch;
