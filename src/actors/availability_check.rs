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

/// What a check came to.
pub struct Looked {
    /// Its result.
    pub checked: Checked,
    /// The registry takes no more requests for now.
    pub refused: Option<Refused>,
}

/// A registry that has had too many requests.
#[derive(Clone, Copy)]
pub struct Refused {
    /// After how long it may be asked again, where it said so.
    pub retry_after: Option<Duration>,
}

/// Looks whether the descriptor is there that `version` names now; `None`: it names none any more. It ends within 10 s.
pub async fn check(shared: Arc<Shared>, version: ObjectName) -> Option<Looked> {
    let (record, subject) = wanted(&shared, &version)?;
    let looked = tokio::time::timeout(TIMEOUT, look(&shared, &record, &subject)).await;
    let (finding, refused) = looked.unwrap_or_else(|_| {
        let finding = Finding::Failed(format!(
            "{} could not be checked: no answer within {} s",
            subject.reference(),
            TIMEOUT.as_secs()
        ));
        (finding, None)
    });
    let checked = Checked {
        mark: subject.mark,
        recheck: record.recheck.clone(),
        finding,
        at: shared.clock.elapsed(),
        wall: shared.clock.wall_exact(),
    };
    Some(Looked { checked, refused })
}

async fn look(
    shared: &Shared,
    version: &ComponentVersionRecord,
    subject: &Subject,
) -> (Finding, Option<Refused>) {
    match found(shared, version, subject).await {
        Ok(true) => (Finding::Present, None),
        Ok(false) => (Finding::Absent, None),
        Err(Unknown { why, refused }) => {
            let why = format!("{} could not be checked: {why}", subject.reference());
            (Finding::Failed(why), refused)
        }
    }
}

/// Why it cannot be said whether a descriptor is there, without a secret.
struct Unknown {
    why: String,
    refused: Option<Refused>,
}

impl From<String> for Unknown {
    fn from(why: String) -> Self {
        Self { why, refused: None }
    }
}

/// Whether it is there.
async fn found(
    shared: &Shared,
    version: &ComponentVersionRecord,
    subject: &Subject,
) -> Result<bool, Unknown> {
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
        Ok(Some(stated)) => Err(Unknown::from(format!(
            "the registry answered with another digest, {stated}: it, or a proxy in front of it, does not serve what is \
             asked for"
        ))),
        Ok(None) => Ok(false),
        Err(error) => {
            let refused = match error.kind {
                OciErrorKind::Throttled { retry_after } => Some(Refused { retry_after }),
                _ => None,
            };
            let why = match error.kind {
                OciErrorKind::Unauthorized { .. } | OciErrorKind::Forbidden { .. } => {
                    let mend = access::credentials_mend(&shared.cache.read(), registry, None);
                    format!("{}; {mend}", error.kind)
                }
                OciErrorKind::Throttled { retry_after: Some(wait) } => {
                    format!("{}; it asks to be left alone for {} s", error.kind, wait.as_secs())
                }
                kind => kind.to_string(),
            };
            Err(Unknown { why, refused })
        }
    }
}
