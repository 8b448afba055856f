//! What `solar-controller dev` and the tests run instead of the real world.

mod command;
mod examples;
mod folder;
mod private;
mod progress;
pub mod registry;

pub use command::{DevArgs, measure_start, run};
pub use examples::{Example, descriptor_examples, examples, push_descriptor};
