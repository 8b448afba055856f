//! The definitions, as an API server applies them.

mod files;
mod rules;
mod shape;
mod support;
