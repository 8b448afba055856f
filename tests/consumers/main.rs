//! What users of the controller run, as they run it: helm and kubectl, with real servers behind them.
#![cfg(feature = "dev")]

#[path = "../../crates/solar-render/tests/common/mod.rs"]
mod charts;
mod flux;
mod helm;
mod kubectl;
#[path = "../support/program.rs"]
mod program;
mod readme;
