//! Which credentials may be used for a registry, and by whom.
//!
//! Registry and grant come from the cache, the Secret is read anew each time. Credentials go only to the host that the
//! Registry names: for any other the answer is an error, and no request is made.

use k8s_openapi::api::core::v1::Secret;
use solar_core::credential::{self, Credential, CredentialError};
use solar_core::object::ObjectName;
use solar_core::record::RegistryRecord;
use solar_core::world::World;
use solar_core::{grant, host};
use thiserror::Error;

use super::system::Shared;
use crate::adapters::kubernetes::ApiError;
use crate::adapters::oci::{Credentials, Endpoint};

/// Why a registry may not be used.
#[derive(Debug, Error)]
pub enum AccessError {
    /// No Registry is named.
    #[error("no Registry is named in spec.registryRef: name one whose hostname is {host}")]
    NoRegistry {
        /// The host.
        host: String,
    },
    /// The Registry does not exist.
    #[error("Registry {0} does not exist: create it with the hostname that the chart was pushed to")]
    RegistryNotFound(ObjectName),
    /// No grant allows the reference.
    #[error(
        "no ReferenceGrant in namespace {} lets {kind} objects of namespace {namespace} refer to Registry {registry}: \
         create one", registry.namespace
    )]
    NotGranted {
        /// Kind of the referrer.
        kind: &'static str,
        /// Namespace of the referrer.
        namespace: String,
        /// The Registry.
        registry: ObjectName,
    },
    /// The Registry names another host.
    #[error(
        "Registry {registry} has the hostname {has}, but the chart lies on {wanted}: set the hostname back, or name a \
         Registry with that hostname"
    )]
    OtherHost {
        /// The Registry.
        registry: ObjectName,
        /// Its host.
        has: String,
        /// The host of the chart.
        wanted: String,
    },
    /// The host is none.
    #[error("the hostname of Registry {registry} is not valid: {problem}")]
    InvalidHost {
        /// The Registry.
        registry: ObjectName,
        /// What is wrong.
        problem: String,
    },
    /// The Secret does not exist.
    #[error("Secret {0} does not exist: create it with the registry's credentials")]
    SecretNotFound(ObjectName),
    /// No Secret can have the name.
    #[error(
        "no Secret can be called {:?}: correct the reference to it (lower-case letters, digits, '-' and '.')", .0.name
    )]
    SecretName(ObjectName),
    /// The Secret holds no credentials for the host.
    #[error("Secret {secret}: {error}")]
    Secret {
        /// The Secret.
        secret: ObjectName,
        /// What is wrong with it.
        error: CredentialError,
    },
    /// A basic-auth Secret says of no host that it is meant for it.
    #[error(
        "Secret {secret} is of type kubernetes.io/basic-auth, and no Registry in its namespace with the hostname {host} \
         names it: create such a Registry, or use a Secret of type kubernetes.io/dockerconfigjson"
    )]
    UnboundSecret {
        /// The Secret.
        secret: ObjectName,
        /// The host.
        host: String,
    },
    /// The Secret could not be read.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// The endpoint on `base_url` with the credentials of `registry`, for an object of `kind` in `namespace`.
pub async fn endpoint(
    shared: &Shared,
    kind: &'static str,
    namespace: &std::sync::Arc<str>,
    registry: Option<&ObjectName>,
    base_url: &str,
    repository: &str,
) -> Result<Endpoint, AccessError> {
    let registry = registry.ok_or_else(|| AccessError::NoRegistry { host: base_url.to_owned() })?;
    let record = granted(shared, kind, namespace, registry)?;
    if *record.host != *base_url {
        return Err(AccessError::OtherHost {
            registry: registry.clone(),
            has: record.host.to_string(),
            wanted: base_url.to_owned(),
        });
    }
    host::is_valid(&record.host).map_err(|problem| AccessError::InvalidHost {
        registry: registry.clone(),
        problem: problem.to_string(),
    })?;
    let credentials = match &record.solar_secret {
        None => Credentials::Anonymous,
        Some(secret) => secret_credentials(shared, secret, base_url, repository).await?,
    };
    Ok(Endpoint::anonymous(base_url, record.plain_http).with_credentials(credentials))
}

/// The Registry as watched, if `kind` in `namespace` may refer to it.
fn granted(
    shared: &Shared,
    kind: &'static str,
    namespace: &std::sync::Arc<str>,
    registry: &ObjectName,
) -> Result<std::sync::Arc<RegistryRecord>, AccessError> {
    let world = shared.cache.read();
    if !grant::allowed(&world, kind, namespace, "Registry", &registry.namespace) {
        return Err(AccessError::NotGranted {
            kind,
            namespace: namespace.to_string(),
            registry: registry.clone(),
        });
    }
    world.registries.get(registry).cloned().ok_or_else(|| AccessError::RegistryNotFound(registry.clone()))
}

/// The credentials that a task's own `secret` holds for a host.
///
/// A basic-auth Secret names no host: it serves only one whose Registry in that namespace names the Secret.
pub async fn push_secret_credentials(
    shared: &Shared,
    secret: &ObjectName,
    base_url: &str,
    repository: &str,
) -> Result<Credentials, AccessError> {
    let named = credential::is_named_for(&shared.cache.read(), secret, base_url);
    let found = read_secret(shared, secret).await?;
    if !named && found.type_.as_deref() == Some("kubernetes.io/basic-auth") {
        return Err(AccessError::UnboundSecret { secret: secret.clone(), host: base_url.to_owned() });
    }
    credentials_in(&found, secret, base_url, repository)
}

/// The credentials that the Secret of a Registry holds for the Registry's host.
async fn secret_credentials(
    shared: &Shared,
    secret: &ObjectName,
    base_url: &str,
    repository: &str,
) -> Result<Credentials, AccessError> {
    let found = read_secret(shared, secret).await?;
    credentials_in(&found, secret, base_url, repository)
}

async fn read_secret(shared: &Shared, secret: &ObjectName) -> Result<Secret, AccessError> {
    if !secret.is_possible() {
        return Err(AccessError::SecretName(secret.clone()));
    }
    let found = shared.api.get_persistently::<Secret>(secret).await?;
    found.ok_or_else(|| AccessError::SecretNotFound(secret.clone()))
}

fn credentials_in(
    found: &Secret,
    secret: &ObjectName,
    base_url: &str,
    repository: &str,
) -> Result<Credentials, AccessError> {
    let credential = credential::of_secret(found, base_url, repository)
        .map_err(|error| AccessError::Secret { secret: secret.clone(), error })?;
    Ok(match credential {
        Credential::Anonymous => Credentials::Anonymous,
        Credential::Basic { username, password } => Credentials::Basic { username, password },
        Credential::IdentityToken { token } => Credentials::IdentityToken { token },
    })
}

/// What to mend where a registry answered 401 or 403 to the credentials of `registry`, or of the task's own `secret`.
pub fn credentials_mend(world: &World, registry: Option<&ObjectName>, secret: Option<&ObjectName>) -> String {
    match (registry, secret) {
        (Some(name), _) => {
            match world.registries.get(name).and_then(|registry| registry.solar_secret.as_ref()) {
                Some(secret) => format!("check Secret {secret}, which Registry {name} names"),
                None => format!("name a Secret with credentials in spec.solarSecretRef of Registry {name}"),
            }
        }
        (None, Some(secret)) => format!("check Secret {secret}"),
        (None, None) => "name a Registry in spec.registryRef or a Secret in spec.pushSecretRef".to_owned(),
    }
}

/// Registry, grant and host as they are now, in a form that differs when one of them does: worth another attempt.
pub fn surroundings(
    world: &World,
    kind: &str,
    namespace: &std::sync::Arc<str>,
    registry: Option<&ObjectName>,
) -> String {
    let Some(registry) = registry else { return String::new() };
    let granted = grant::allowed(world, kind, namespace, "Registry", &registry.namespace);
    match world.registries.get(registry) {
        None => format!("{registry} absent {granted}"),
        Some(record) => format!(
            "{registry} {} {} {} {:?} {granted}",
            record.meta.uid, record.host, record.plain_http, record.solar_secret
        ),
    }
}
