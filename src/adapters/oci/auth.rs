//! Challenges, the hosts that may see credentials, and short-lived authorizations.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lru::LruCache;
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;

use super::types::{Credentials, Endpoint};

/// How long a token without a stated lifetime is kept.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(1);
/// The longest that an authorization is kept, whatever the registry states.
const MAX_LIFETIME: Duration = Duration::from_mins(5);
/// Taken off the stated lifetime, for the way and for clocks that differ.
const SAFETY_MARGIN: Duration = Duration::from_secs(10);
const CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// What a request needs rights for; with the repository it stands for the token's scope before the
/// registry has named one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// HEAD and GET.
    Pull,
    /// Uploads and PUT.
    Push,
    /// DELETE.
    Delete,
}

/// The answer to a challenge.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Authorization {
    /// Basic, with user name and password.
    Basic(String, String),
    /// A bearer token.
    Bearer(String),
}

impl Authorization {
    /// The value of the `Authorization` header, marked sensitive.
    pub(crate) fn header(&self) -> Option<http::HeaderValue> {
        let text = match self {
            Self::Basic(username, password) => {
                format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
            }
            Self::Bearer(token) => format!("Bearer {token}"),
        };
        let mut value = http::HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic(..) => "Basic(redacted)",
            Self::Bearer(_) => "Bearer(redacted)",
        })
    }
}

/// What a 401 asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User name and password.
    Basic,
    /// A token from `realm`.
    Bearer {
        /// The token endpoint.
        realm: String,
        /// To be sent along as given.
        service: Option<String>,
        /// To be sent along as given.
        scope: Option<String>,
    },
}

/// The first challenge of a 401 that these credentials can answer; bearer goes before basic.
pub(crate) fn challenge(headers: &http::HeaderMap) -> Option<Challenge> {
    let mut basic = None;
    for value in headers.get_all(http::header::WWW_AUTHENTICATE) {
        let parsed = value.to_str().ok().and_then(|text| http_auth::parse_challenges(text).ok());
        for challenge in parsed.unwrap_or_default() {
            if challenge.scheme.eq_ignore_ascii_case("bearer") {
                if let Some(bearer) = bearer_challenge(&challenge) {
                    return Some(bearer);
                }
            } else if challenge.scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Challenge::Basic);
            }
        }
    }
    basic
}

fn bearer_challenge(challenge: &http_auth::ChallengeRef<'_>) -> Option<Challenge> {
    let param = |wanted: &str| {
        let found = challenge.params.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.to_unescaped())
    };
    Some(Challenge::Bearer { realm: param("realm")?, service: param("service"), scope: param("scope") })
}

/// Whether the registry may send its clients' credentials to `realm`.
///
/// Over TLS the registry's own answer vouches for any realm with TLS. Over plain HTTP anybody on the
/// way could have written the answer: then only TLS, or the registry's own host. Never from TLS down
/// to plain HTTP.
pub(crate) fn realm_is_vouched_for(registry: &Url, realm: &Url) -> bool {
    match (registry.scheme(), realm.scheme()) {
        (_, "https") => true,
        ("http", "http") => registry.host_str() == realm.host_str(),
        _ => false,
    }
}

/// A token request: where to, and with what. `None` for credentials that fit no token endpoint.
pub(crate) fn token_request(
    realm: &Url,
    service: Option<&str>,
    scope: Option<&str>,
    credentials: &Credentials,
) -> Option<http::Request<bytes::Bytes>> {
    let named = [("service", service), ("scope", scope)];
    let asked = named.iter().filter_map(|(name, value)| value.map(|value| (*name, value)));
    if let Credentials::IdentityToken { token } = credentials {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token").append_pair("client_id", "solar-controller");
        form.extend_pairs(asked).append_pair("refresh_token", token);
        return http::Request::post(realm.as_str())
            .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form.finish().into())
            .ok();
    }
    let mut realm = realm.clone();
    realm.query_pairs_mut().extend_pairs(asked);
    let mut request = http::Request::get(realm.as_str()).body(bytes::Bytes::new()).ok()?;
    if let Credentials::Basic { username, password } = credentials {
        let header = Authorization::Basic(username.clone(), password.clone()).header()?;
        request.headers_mut().insert(http::header::AUTHORIZATION, header);
    }
    Some(request)
}

/// A token endpoint's answer: the token and how long it may be kept.
pub(crate) fn parse_token(body: &[u8]) -> Option<(String, Duration)> {
    #[derive(Deserialize)]
    struct Answer {
        token: Option<String>,
        access_token: Option<String>,
        expires_in: Option<u64>,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty())?;
    let stated = answer.expires_in.map_or(DEFAULT_LIFETIME, Duration::from_secs);
    Some((token, stated.saturating_sub(SAFETY_MARGIN).min(MAX_LIFETIME)))
}

type Key = (Endpoint, String, Access);

/// Authorizations that worked, for the next request of the same endpoint (credentials included),
/// repository and access.
pub(crate) struct AuthorizationCache {
    entries: Mutex<LruCache<Key, (Authorization, Instant)>>,
}

impl AuthorizationCache {
    pub(crate) fn new() -> Self {
        Self { entries: Mutex::new(LruCache::new(CACHE_SIZE)) }
    }

    pub(crate) fn get(&self, endpoint: &Endpoint, repository: &str, access: Access) -> Option<Authorization> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (authorization, until) = entries.get(&key(endpoint, repository, access))?;
        (*until > Instant::now()).then(|| authorization.clone())
    }

    pub(crate) fn put(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        access: Access,
        authorization: Authorization,
        lifetime: Duration,
    ) {
        let until = Instant::now() + lifetime.min(MAX_LIFETIME);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.put(key(endpoint, repository, access), (authorization, until));
    }

    pub(crate) fn forget(&self, endpoint: &Endpoint, repository: &str, access: Access) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.pop(&key(endpoint, repository, access));
    }
}

fn key(endpoint: &Endpoint, repository: &str, access: Access) -> Key {
    (endpoint.clone(), repository.to_owned(), access)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> http::HeaderMap {
        let values = values
            .iter()
            .map(|value| (http::header::WWW_AUTHENTICATE, http::HeaderValue::from_static(value)));
        values.collect()
    }

    #[test]
    fn challenges_are_read_as_registries_send_them() {
        let bearer = Challenge::Bearer {
            realm: "https://auth.example/token".into(),
            service: Some("svc".into()),
            scope: Some("repository:a/b:pull,push".into()),
        };
        let header =
            r#"Bearer realm="https://auth.example/token",service="svc",scope="repository:a/b:pull,push""#;
        assert_eq!(challenge(&headers(&[header])), Some(bearer.clone()));
        assert_eq!(challenge(&headers(&["Basic realm=\"r\"", header])), Some(bearer));
        assert_eq!(challenge(&headers(&["Basic realm=\"r\""])), Some(Challenge::Basic));
        assert_eq!(challenge(&headers(&["Bearer service=\"no realm\""])), None);
        assert_eq!(challenge(&headers(&["", "%%%"])), None);
        assert_eq!(challenge(&headers(&[])), None);
    }

    #[test]
    fn realms_are_trusted_only_over_the_same_or_a_better_transport() -> Result<(), url::ParseError> {
        let table = [
            ("https://r.example", "https://auth.example/token", true),
            ("https://r.example", "http://r.example/token", false),
            ("https://r.example", "http://auth.example/token", false),
            ("http://r.example:5000", "http://r.example:5001/token", true),
            ("http://r.example:5000", "https://auth.example/token", true),
            ("http://r.example:5000", "http://auth.example/token", false),
            ("http://r.example:5000", "ftp://r.example:5000/token", false),
        ];
        for (registry, realm, expected) in table {
            let allowed = realm_is_vouched_for(&Url::parse(registry)?, &Url::parse(realm)?);
            assert_eq!(allowed, expected, "{registry} -> {realm}");
        }
        Ok(())
    }

    #[test]
    fn token_lifetimes_are_short_and_have_a_margin() {
        let lifetime = |body: &str| parse_token(body.as_bytes()).map(|(_, lifetime)| lifetime.as_secs());
        assert_eq!(lifetime(r#"{"token":"t","expires_in":60}"#), Some(50));
        assert_eq!(lifetime(r#"{"access_token":"t"}"#), Some(50));
        assert_eq!(lifetime(r#"{"token":"t","expires_in":86400}"#), Some(300));
        assert_eq!(lifetime(r#"{"token":"t","expires_in":5}"#), Some(0));
        assert_eq!(lifetime(r#"{"token":""}"#), None);
        assert_eq!(lifetime("not json"), None);
    }
}
