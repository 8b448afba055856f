//! The actors: one file each, a thin shell that gives observations to the core and performs its decisions.

pub mod access;
pub mod availability_check;
pub mod binding;
pub mod component_version;
pub mod directory;
pub mod errand_slots;
pub mod finalizers;
pub mod gate;
pub mod object;
pub mod own;
pub mod pass;
pub mod profile;
pub mod protection;
pub mod references;
pub mod registry_actor;
pub mod release;
pub mod render_artifact;
pub mod render_job;
pub mod render_pool;
pub mod render_task;
pub mod root;
pub mod supervision;
pub mod system;
pub mod target;
pub mod timers;
pub mod watch;
