//! What a pass sees.

use std::sync::Arc;

use jiff::Timestamp;

use super::plan::{TargetMemory, TargetOptions};
use crate::object::ObjectName;
use crate::record::TargetRecord;
use crate::world::World;

/// The arguments of a pass.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) world: &'a World,
    pub(super) target: &'a TargetRecord,
    pub(super) memory: &'a TargetMemory,
    pub(super) options: &'a TargetOptions,
    pub(super) now: Timestamp,
}

impl View<'_> {
    /// Name of the Target.
    pub(super) fn name(&self) -> &ObjectName {
        &self.target.meta.name
    }

    /// Whether objects of `namespace` are seen at all.
    pub(super) fn watches(&self, namespace: &Arc<str>) -> bool {
        self.options.watched.as_ref().is_none_or(|watched| watched.contains(namespace))
    }
}
