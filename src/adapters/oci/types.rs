//! Plain data that crosses the port.

use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use bytes::Bytes;
use sha2::{Digest as _, Sha256, Sha512};
use solar_core::credential::Credential;
pub use solar_core::oci_name::{InvalidName, check_repository, check_tag};

/// Where a registry is and who asks.
///
/// `host` is `host[:port]` in the normal form that the whole controller uses (lower case, default
/// port off, IPv6 in brackets); it is joined with repository and tag, never parsed again after that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// `host[:port]`, already normalised.
    pub host: String,
    /// `true` speaks HTTP without TLS.
    pub plain_http: bool,
    /// What to answer when this host asks for authentication; no other host ever sees it.
    pub credentials: Credentials,
}

impl Endpoint {
    /// An endpoint that answers no challenge with anything but an anonymous token request.
    pub fn anonymous(host: impl Into<String>, plain_http: bool) -> Self {
        Self { host: host.into(), plain_http, credentials: Credentials::Anonymous }
    }

    /// The same registry asked as somebody else.
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.plain_http { "http" } else { "https" }
    }

    /// The host that serves the API: Docker Hub answers on another name than it is known by.
    pub fn api_host(&self) -> &str {
        if self.host == "docker.io" { "registry-1.docker.io" } else { &self.host }
    }
}

/// How to answer a registry's challenge. Compared by content; never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Credentials {
    /// No credentials: bearer challenges are answered with an anonymous token request.
    Anonymous,
    /// User name and password, for basic challenges and for token endpoints.
    Basic {
        /// User name.
        username: String,
        /// Password or access key.
        password: String,
    },
    /// A refresh token, exchanged at the token endpoint that the registry names.
    IdentityToken {
        /// The refresh token.
        token: String,
    },
}

impl Credentials {
    fn kind(&self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Basic { .. } => "basic",
            Self::IdentityToken { .. } => "identity token",
        }
    }
}

impl From<Credential> for Credentials {
    fn from(credential: Credential) -> Self {
        match credential {
            Credential::Anonymous => Self::Anonymous,
            Credential::Basic { username, password } => Self::Basic { username, password },
            Credential::IdentityToken { token } => Self::IdentityToken { token },
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.kind())
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

/// A content digest, `sha256:` or `sha512:` with lower-case hex of the right length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// The SHA-256 digest of `content`.
    pub fn of(content: &[u8]) -> Self {
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in Sha256::digest(content) {
            text.push(hex_digit(byte >> 4));
            text.push(hex_digit(byte & 0x0f));
        }
        Self(text)
    }

    /// Whether `content` has this digest.
    pub fn is_of(&self, content: &[u8]) -> bool {
        let matches = |hash: &[u8], hex: &str| {
            let digits = hash.iter().flat_map(|byte| [hex_digit(byte >> 4), hex_digit(byte & 0x0f)]);
            digits.eq(hex.chars())
        };
        match self.0.split_once(':') {
            Some(("sha256", hex)) => matches(&Sha256::digest(content), hex),
            Some(("sha512", hex)) => matches(&Sha512::digest(content), hex),
            _ => false,
        }
    }

    /// A digest that no content has: 64 zeros. Asking to delete it tells whether digests can be
    /// deleted at all without touching anything.
    pub fn impossible() -> Self {
        Self(format!("sha256:{}", "0".repeat(64)))
    }

    /// What stands before the colon.
    pub fn algorithm(&self) -> &str {
        self.0.split_once(':').map_or("", |(algorithm, _)| algorithm)
    }

    /// `algorithm:hex`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

impl FromStr for Digest {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let hex_length = match text.split_once(':') {
            Some(("sha256", hex)) if is_lower_hex(hex) => (hex.len(), 64),
            Some(("sha512", hex)) if is_lower_hex(hex) => (hex.len(), 128),
            _ => (0, 1),
        };
        if hex_length.0 == hex_length.1 {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidName::new("digest", text))
        }
    }
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A manifest inside a repository: by tag or by digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// By tag.
    Tag(String),
    /// By digest.
    Digest(Digest),
}

impl Reference {
    /// A reference by tag; the tag's form is checked when it is used.
    pub fn tag(tag: impl Into<String>) -> Self {
        Self::Tag(tag.into())
    }

    /// The last path segment of a manifest URL.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tag(tag) => tag,
            Self::Digest(digest) => digest.as_str(),
        }
    }
}

impl From<Digest> for Reference {
    fn from(digest: Digest) -> Self {
        Self::Digest(digest)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => write!(f, ":{tag}"),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

/// A manifest as the registry stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The exact bytes.
    pub bytes: Bytes,
    /// Computed from `bytes`, never taken from a header.
    pub digest: Digest,
    /// The `Content-Type` of the answer, empty when there was none.
    pub media_type: String,
}

/// What the registry said to a DELETE that it answered and did not refuse for want of rights.
/// The status alone does not tell whether anything is gone: ask with HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOutcome {
    /// HTTP status, 2xx or a 4xx other than 401, 403 and 429.
    pub status: u16,
    /// The registry's error code, e.g. `UNSUPPORTED`.
    pub code: Option<String>,
}

impl DeleteOutcome {
    /// `true` for 2xx: the registry said that it deletes, now or later.
    pub fn accepted(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_empty_content_is_the_known_value() {
        assert_eq!(
            Digest::of(b"").as_str(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn digests_are_parsed_strictly() {
        let good = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(good.parse::<Digest>().map(|d| d.to_string()), Ok(good.to_owned()));
        for bad in [
            "",
            "sha256:",
            "sha256:abc",
            "md5:d41d8cd98f00b204e9800998ecf8427e",
            "nonsense",
            &good.to_uppercase(),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn credentials_are_never_printed() {
        let endpoint = Endpoint::anonymous("r.example", false).with_credentials(Credentials::Basic {
            username: "sesame-user".into(),
            password: "sesame-password".into(),
        });
        let token = Credentials::IdentityToken { token: "sesame-token".into() };
        assert!(!format!("{endpoint:?} {token:?} {token}").contains("sesame"));
    }

    #[test]
    fn names_that_could_leave_the_path_are_refused() {
        for good in ["a", "team-a/charts/release-x", "a__b/c.d"] {
            assert!(check_repository(good).is_ok(), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", "A", "a/../b", "a b", "a?x", "a#x", "a%2e", "-a"] {
            assert!(check_repository(bad).is_err(), "{bad}");
        }
        for good in ["v0.0.1-abcd1234", "_x", "A.B"] {
            assert!(check_tag(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "-a", "a/b", "a?b", "sha256:0", &"x".repeat(129)] {
            assert!(check_tag(bad).is_err(), "{bad}");
        }
    }
}
