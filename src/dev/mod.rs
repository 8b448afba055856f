//! What `solar-controller dev` and the tests run instead of the real world.

pub mod registry;
