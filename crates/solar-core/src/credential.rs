//! Which credentials a Secret holds for a registry.
//!
//! Nothing of a Secret's content is ever in an error: not even the position of a fault inside a value.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, PAD};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value};

use crate::host;
use crate::object::ObjectName;
use crate::world::{IndexKey, World};

const DOCKER_CONFIG_TYPE: &str = "kubernetes.io/dockerconfigjson";
const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";
const BASIC_AUTH_TYPE: &str = "kubernetes.io/basic-auth";

/// As Docker and kubelet decode: padded or not, whatever the last bits are.
const PADDED: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));
const UNPADDED: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

/// How a registry is asked.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// Without credentials.
    Anonymous,
    /// With a name and a password.
    Basic {
        /// The name.
        username: String,
        /// The password; perhaps empty.
        password: String,
    },
    /// With a refresh token that the registry's token service takes.
    IdentityToken {
        /// The token.
        token: String,
    },
}

/// Says which kind it is and nothing of its content.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Basic { .. } => "Basic(redacted)",
            Self::IdentityToken { .. } => "IdentityToken(redacted)",
        })
    }
}

/// Why a Secret gives no credentials. Names the Secret's type and keys, never their content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// A Secret of another type.
    #[error("the Secret has type {found:?}: use kubernetes.io/dockerconfigjson or kubernetes.io/basic-auth")]
    Type {
        /// The type; empty when it has none.
        found: String,
    },
    /// A key that its type needs is missing or empty.
    #[error("the Secret has no key {key:?}, or nothing in it")]
    NoKey {
        /// The key.
        key: &'static str,
    },
    /// The value under a key cannot be read.
    #[error("the Secret's key {key:?} is malformed: {fault}")]
    Malformed {
        /// The key.
        key: &'static str,
        /// What is wrong.
        fault: Fault,
    },
    /// Nothing is there for the host.
    #[error("the Secret's key {key:?} has no entry for {host}")]
    NoEntry {
        /// The key.
        key: &'static str,
        /// The normalised host.
        host: String,
    },
}

/// What is wrong with a value of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Bytes that are no text.
    #[error("it is not UTF-8")]
    Utf8,
    /// No JSON.
    #[error("it is not JSON")]
    Json,
    /// No map of entries.
    #[error("it has no object \"auths\"")]
    Auths,
    /// The host's entry is no object.
    #[error("the host's entry in \"auths\" is not an object of texts")]
    Entry,
    /// The host's `auth` is no base64.
    #[error("\"auth\" of the host's entry is not base64")]
    Base64,
    /// The host's `auth` has no colon.
    #[error("\"auth\" of the host's entry does not hold a name, a colon and a password")]
    Colon,
    /// The host's `auth` is the base64 of bytes that are no text.
    #[error("\"auth\" of the host's entry does not stand for text in UTF-8")]
    AuthUtf8,
    /// The credentials are in a program beside the file.
    #[error(
        "it leaves the host to a credential helper (\"credHelpers\" or \"credsStore\"), which nothing can ask here: put \
         \"auth\" into the host's entry in \"auths\""
    )]
    Helper,
    /// The host's entry has nothing to log in with.
    #[error(
        "the host's entry in \"auths\" holds neither \"auth\" nor \"username\" and \"password\" nor \"identitytoken\""
    )]
    NoCredential,
}

/// Whether a Registry in the namespace of `secret` says that the Secret is for `host`.
pub fn is_named_for(world: &World, secret: &ObjectName, host: &str) -> bool {
    let key = IndexKey::host(&secret.namespace, host);
    world.registries.by(&key).any(|registry| registry.solar_secret.as_ref() == Some(secret))
}

/// The credentials of `secret` for `repository` on `host`, which is normalised.
///
/// Understood are `kubernetes.io/dockerconfigjson`, whose entries serve the hosts that they name, and
/// `kubernetes.io/basic-auth`, which serves any host. Entries may name a host, a host and port, a scheme in front, a path
/// behind, and `*` for parts of a host's labels. Of several the longest path that `repository` lies under wins, then the
/// one without `*`. An empty `repository` meets entries without a path only.
pub fn of_secret(secret: &Secret, host: &str, repository: &str) -> Result<Credential, CredentialError> {
    match secret.type_.as_deref() {
        Some(DOCKER_CONFIG_TYPE) => of_docker_config(text(secret, DOCKER_CONFIG_KEY)?, host, repository),
        Some(BASIC_AUTH_TYPE) => Ok(Credential::Basic {
            username: text(secret, "username")?.to_owned(),
            password: text(secret, "password")?.to_owned(),
        }),
        other => Err(CredentialError::Type { found: other.unwrap_or_default().to_owned() }),
    }
}

fn text<'a>(secret: &'a Secret, key: &'static str) -> Result<&'a str, CredentialError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key)).filter(|value| !value.0.is_empty());
    let bytes = bytes.ok_or(CredentialError::NoKey { key })?;
    std::str::from_utf8(&bytes.0).map_err(|_| CredentialError::Malformed { key, fault: Fault::Utf8 })
}

fn of_docker_config(config: &str, host: &str, repository: &str) -> Result<Credential, CredentialError> {
    let malformed = |fault| CredentialError::Malformed { key: DOCKER_CONFIG_KEY, fault };
    // The parser's own error would repeat a piece of the text.
    let config: Value = serde_json::from_str(config).map_err(|_| malformed(Fault::Json))?;
    let helped = has_helper(&config, host);
    let auths = match config.get("auths") {
        Some(Value::Object(auths)) => auths,
        None if helped => return Err(malformed(Fault::Helper)),
        _ => return Err(malformed(Fault::Auths)),
    };
    match best_entry(auths, host, repository).map(of_entry) {
        // Docker leaves an empty entry behind where a helper keeps the rest.
        None | Some(Err(Fault::NoCredential)) if helped => Err(malformed(Fault::Helper)),
        None => Err(CredentialError::NoEntry { key: DOCKER_CONFIG_KEY, host: host.to_owned() }),
        Some(credential) => credential.map_err(malformed),
    }
}

/// Whether the configuration leaves `host` to a program.
fn has_helper(config: &Value, host: &str) -> bool {
    let named = |value: &Value| value.as_str().is_some_and(|name| !name.is_empty());
    let for_host = config.get("credHelpers").and_then(Value::as_object).is_some_and(|helpers| {
        helpers.iter().any(|(key, helper)| named(helper) && host::split_repository(key).0 == host)
    });
    for_host || config.get("credsStore").is_some_and(named)
}

fn best_entry<'a>(auths: &'a Map<String, Value>, host: &str, repository: &str) -> Option<&'a Value> {
    let matching = auths.iter().filter_map(|(key, entry)| Some((rank(key, host, repository)?, key, entry)));
    // The smallest key among equals, whatever order the map keeps.
    let best = matching.max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(a.1)))?;
    Some(best.2)
}

/// How well an entry's key fits: length of its path, and whether its host has no `*`; `None` when it does not fit.
fn rank(key: &str, host: &str, repository: &str) -> Option<(usize, bool)> {
    let (key_host, path) = host::split_repository(key);
    // Docker's old keys end in the version of the registry's protocol.
    let path = ["v1", "v2"]
        .iter()
        .find_map(|v| path.strip_prefix(v))
        .filter(|p| p.is_empty() || p.starts_with('/'))
        .unwrap_or(&path);
    let path = path.trim_matches('/');
    let under = path.is_empty()
        || repository == path
        || repository.strip_prefix(path).is_some_and(|p| p.starts_with('/'));
    let exact = key_host == host;
    (under && (exact || glob(&key_host, host))).then_some((path.len(), exact))
}

/// Whether `pattern` matches `host` label by label, where `*` stands for any part of one label. Ports must be equal.
fn glob(pattern: &str, host: &str) -> bool {
    if !pattern.contains('*') {
        return false;
    }
    let ports = |text: &str| text.rsplit_once(':').map(|(_, port)| port.to_owned());
    let name = |text: &str| text.rsplit_once(':').map_or(text.to_owned(), |(name, _)| name.to_owned());
    let (pattern_name, host_name) = (name(pattern), name(host));
    let (patterns, labels): (Vec<&str>, Vec<&str>) =
        (pattern_name.split('.').collect(), host_name.split('.').collect());
    ports(pattern) == ports(host)
        && patterns.len() == labels.len()
        && patterns.iter().zip(&labels).all(|(pattern, label)| glob_label(pattern, label))
}

fn glob_label(pattern: &str, label: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = label.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

fn of_entry(entry: &Value) -> Result<Credential, Fault> {
    let entry = entry.as_object().ok_or(Fault::Entry)?;
    if let Some(token) = field(entry, "identitytoken")? {
        return Ok(Credential::IdentityToken { token: token.to_owned() });
    }
    if let Some(auth) = field(entry, "auth")? {
        return of_auth(auth);
    }
    let Some(username) = field(entry, "username")? else { return Err(Fault::NoCredential) };
    match entry.get("password") {
        None | Some(Value::Null) => Err(Fault::NoCredential),
        // An empty one is one, as in "auth".
        Some(Value::String(password)) => {
            Ok(Credential::Basic { username: username.to_owned(), password: password.clone() })
        }
        Some(_) => Err(Fault::Entry),
    }
}

/// A text of an entry; an empty one counts as absent, as Docker writes it.
fn field<'a>(entry: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Fault> {
    match entry.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(Fault::Entry),
    }
}

fn of_auth(auth: &str) -> Result<Credential, Fault> {
    // Tools that encode break their lines.
    let auth: String = auth.chars().filter(|character| !character.is_ascii_whitespace()).collect();
    let engine = if auth.ends_with('=') { PADDED } else { UNPADDED };
    let bytes = engine.decode(&auth).map_err(|_| Fault::Base64)?;
    let text = String::from_utf8(bytes).map_err(|_| Fault::AuthUtf8)?;
    let (username, password) = text.split_once(':').ok_or(Fault::Colon)?;
    if username.is_empty() {
        return Err(Fault::Colon);
    }
    // Old Docker clients fill the password up with zeros.
    let password = password.trim_end_matches('\0');
    Ok(Credential::Basic { username: username.to_owned(), password: password.to_owned() })
}
