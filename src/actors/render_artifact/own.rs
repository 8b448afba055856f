//! What the artifact's actor itself wrote or read, kept until the watch has caught up.

use std::sync::{Arc, Mutex, PoisonError};

use solar_api::{RenderArtifact, RenderArtifactStatus, RenderBinding};
use solar_core::overlay::Own;
use solar_core::record::{RenderArtifactRecord, RenderBindingRecord};
use solar_core::target::EventOrder;

use super::RenderArtifactKind;
use crate::actors::object::{Pass, PassError};
use crate::adapters::kubernetes::{Expect, Regarding};

pub(super) async fn write_status(
    pass: &Pass<RenderArtifactKind>,
    artifact: &RenderArtifactRecord,
    wanted: &RenderArtifactStatus,
) -> Result<(), PassError> {
    let expect = Expect { uid: &artifact.meta.uid, resource_version: Some(&artifact.meta.resource_version) };
    let written = pass.write_status::<RenderArtifact, _>(expect, &artifact.status.get(), wanted).await;
    match written {
        Ok(Some(written)) => keep_artifact(pass, &written),
        Ok(None) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

pub(super) fn keep_artifact(pass: &Pass<RenderArtifactKind>, artifact: &RenderArtifact) {
    let record = Arc::new(RenderArtifactRecord::from(artifact));
    let since = pass.now();
    pass.memory().core.own_artifact = Some(Own::Present { record, since });
}

pub(super) fn keep_or_forget_artifact(
    pass: &Pass<RenderArtifactKind>,
    left: Option<&RenderArtifact>,
    uid: &str,
) {
    match left {
        Some(left) if left.metadata.uid.as_deref() == Some(uid) => keep_artifact(pass, left),
        _ => pass.memory().core.own_artifact = Some(Own::Gone { uid: uid.into() }),
    }
}

pub(super) fn keep_binding(pass: &Pass<RenderArtifactKind>, binding: &RenderBinding) {
    let record = Arc::new(RenderBindingRecord::from(binding));
    let since = pass.now();
    let name = record.meta.name.name.clone();
    pass.memory().core.own_bindings.insert(name, Own::Present { record, since });
}

pub(super) fn forget_binding(pass: &Pass<RenderArtifactKind>, binding: &RenderBindingRecord) {
    let gone = Own::Gone { uid: binding.meta.uid.clone() };
    pass.memory().core.own_bindings.insert(binding.meta.name.name.clone(), gone);
}

pub(super) fn emit(pass: &Pass<RenderArtifactKind>, artifact: &RenderArtifactRecord, order: EventOrder) {
    pass.shared.events.emit(Regarding::new("RenderArtifact", &artifact.meta), order);
}

pub(super) fn event(reason: &'static str, note: &str) -> EventOrder {
    EventOrder { warning: false, reason, note: note.to_owned() }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
