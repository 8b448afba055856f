//! ComponentVersions whose descriptors are looked for: over real HTTP, and in virtual time.

mod checks;
mod http;
mod scene;
#[path = "../support/mod.rs"]
mod support;
mod wakes;
