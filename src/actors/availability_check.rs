//! One look at a registry on behalf of a ComponentVersion.

use std::sync::Arc;
use std::time::Duration;

use solar_core::availability::{Checked, Finding, Subject, subject};
use solar_core::object::ObjectName;
use solar_core::record::ComponentVersionRecord;

use super::access;
use super::system::Shared;
use crate::adapters::oci::{Digest, OciErrorKind};

/// How long a check may take in all: credentials, answers to challenges and redirects included.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The version as it is watched and what is to be looked for, while there is something.
pub fn wanted(shared: &Shared, version: &ObjectName) -> Option<(Arc<ComponentVersionRecord>, Subject)> {
    let world = shared.cache.read();
    let record = world.component_versions.get(version).filter(|record| !record.meta.terminating)?.clone();
    let subject = subject(&world, &record).ok()?;
    Some((record, subject))
}

/// Looks whether the descriptor is there that `version` names now; `None`: it names none any more. It ends within 10 s.
pub async fn check(shared: Arc<Shared>, version: ObjectName) -> Option<Checked> {
    let (record, subject) = wanted(&shared, &version)?;
    let looked = tokio::time::timeout(TIMEOUT, look(&shared, &record, &subject)).await;
    let finding = looked.unwrap_or_else(|_| {
        Finding::Failed(format!(
            "{} could not be checked: no answer within {} s",
            subject.reference(),
            TIMEOUT.as_secs()
        ))
    });
    Some(Checked {
        mark: subject.mark,
        recheck: record.recheck.clone(),
        finding,
        at: shared.clock.elapsed(),
        wall: shared.clock.wall_exact(),
    })
}

async fn look(shared: &Shared, version: &ComponentVersionRecord, subject: &Subject) -> Finding {
    match found(shared, version, subject).await {
        Ok(true) => Finding::Present,
        Ok(false) => Finding::Absent,
        Err(why) => Finding::Failed(format!("{} could not be checked: {why}", subject.reference())),
    }
}

/// Whether it is there; else why that cannot be said, without a secret.
async fn found(shared: &Shared, version: &ComponentVersionRecord, subject: &Subject) -> Result<bool, String> {
    let digest: Digest =
        subject.digest.parse().map_err(|error: crate::adapters::oci::InvalidName| error.to_string())?;
    let registry = Some(&subject.registry);
    let namespace = &version.meta.name.namespace;
    let endpoint =
        access::endpoint(shared, "ComponentVersion", namespace, registry, &subject.host, &subject.repository)
            .await
            .map_err(|error| error.to_string())?;
    let reference = digest.clone().into();
    let answer = shared.registry.head_once(&endpoint, &subject.repository, &reference).await;
    match answer {
        Ok(Some(stated)) if stated == digest => Ok(true),
        Ok(Some(stated)) => Err(format!(
            "the registry answered with another digest, {stated}: it, or a proxy in front of it, does not serve what is \
             asked for"
        )),
        Ok(None) => Ok(false),
        Err(error) => Err(match error.kind {
            OciErrorKind::Unauthorized { .. } | OciErrorKind::Forbidden { .. } => {
                let mend = access::credentials_mend(&shared.cache.read(), registry, None);
                format!("{}; {mend}", error.kind)
            }
            OciErrorKind::Throttled { retry_after: Some(wait) } => {
                format!("{}; it asks to be left alone for {} s", error.kind, wait.as_secs())
            }
            kind => kind.to_string(),
        }),
    }
}
