//! What a Target needs next.

mod plan;

pub use plan::{
    BindAnswer, BindOrder, BootstrapHistory, BootstrapTaskOrder, Coordinates, EventOrder, ReleaseTaskOrder,
    TargetMemory, TargetOptions, TargetPlan, TargetStep,
};
