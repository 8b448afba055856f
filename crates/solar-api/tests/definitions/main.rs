//! The definitions, as an API server applies them.

mod changes;
mod fields;
mod files;
mod full;
mod rules;
mod shape;
mod support;
mod walk;
