//! The decisions of solar-core, from names to a Target's plan. Expected values are written by hand; hashes come from
//! `sha256sum`.

mod artifact_model;
mod artifact_rules;
mod artifacts;
mod availability;
mod availability_turns;
mod backoff;
mod conditions;
mod content;
mod credentials;
mod dependencies;
mod grants;
mod hosts;
mod model;
mod names;
mod properties;
mod pull_secrets;
mod render_tasks;
mod resolver;
mod routes;
mod routes_existence;
mod selectors;
mod support;
mod supporting;
mod target;
