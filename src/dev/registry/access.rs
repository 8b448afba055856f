//! Who may do what: open, basic, or bearer tokens from the registry's own token endpoint.

use std::collections::BTreeMap;

use http::header;

use super::answer::{Refusal, Served, json};
use super::request::{ParsedRequest, RegistryOperation, TOKEN_PATH};

const MAX_TOKENS: usize = 10_000;
const SERVICE: &str = "embedded-registry";

/// Who may do what. Meant for tests and local use: tokens are predictable.
#[derive(Clone, PartialEq, Eq)]
pub enum Access {
    /// Everybody may do everything.
    Open,
    /// One user, asked for with a basic challenge.
    Basic {
        /// User name.
        username: String,
        /// Password.
        password: String,
    },
    /// One user, whose credentials buy tokens at the registry's own token endpoint.
    Token {
        /// User name.
        username: String,
        /// Password.
        password: String,
        /// A refresh token that buys tokens too.
        identity_token: Option<String>,
        /// The actions that tokens are given for: of `pull`, `push` and `delete`.
        actions: Vec<&'static str>,
        /// What the challenge names as realm; `None`: this registry's own endpoint.
        realm: Option<String>,
    },
}

impl Access {
    /// Basic access for one user.
    pub fn basic(username: &str, password: &str) -> Self {
        Self::Basic { username: username.to_owned(), password: password.to_owned() }
    }

    /// Token access for one user with all actions.
    pub fn token(username: &str, password: &str) -> Self {
        Self::Token {
            username: username.to_owned(),
            password: password.to_owned(),
            identity_token: None,
            actions: vec!["pull", "push", "delete"],
            realm: None,
        }
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Basic { .. } => "Basic(redacted)",
            Self::Token { .. } => "Token(redacted)",
        })
    }
}

/// Tokens given out, with the scopes they are good for.
#[derive(Default)]
pub(super) struct Tokens {
    given: BTreeMap<u64, Vec<String>>,
    next: u64,
}

impl Tokens {
    fn give(&mut self, scopes: Vec<String>) -> String {
        self.next += 1;
        self.given.insert(self.next, scopes);
        if self.given.len() > MAX_TOKENS {
            self.given.pop_first();
        }
        format!("token-{}", self.next)
    }

    fn scopes(&self, token: &str) -> Option<&Vec<String>> {
        self.given.get(&token.strip_prefix("token-")?.parse().ok()?)
    }

    pub(super) fn revoke_all(&mut self) {
        self.given.clear();
    }
}

/// The actions that an operation needs, in the order in which challenges name them.
fn needed(operation: RegistryOperation) -> &'static [&'static str] {
    match operation {
        RegistryOperation::Tags
        | RegistryOperation::HeadManifest
        | RegistryOperation::GetManifest
        | RegistryOperation::HeadBlob
        | RegistryOperation::GetBlob => &["pull"],
        RegistryOperation::PutManifest
        | RegistryOperation::StartUpload
        | RegistryOperation::PatchUpload
        | RegistryOperation::FinishUpload
        | RegistryOperation::UploadStatus
        | RegistryOperation::CancelUpload => &["pull", "push"],
        RegistryOperation::DeleteTag | RegistryOperation::DeleteDigest => &["delete"],
        RegistryOperation::Ping
        | RegistryOperation::Catalog
        | RegistryOperation::Token
        | RegistryOperation::Unknown => &[],
    }
}

/// Lets the request pass or answers 401 with a challenge.
pub(super) fn check(access: &Access, tokens: &Tokens, request: &ParsedRequest) -> Result<(), Refusal> {
    match access {
        Access::Open => Ok(()),
        Access::Basic { username, password } => {
            if request.basic().is_some_and(|(user, pass)| user == *username && pass == *password) {
                return Ok(());
            }
            Err(Refusal::new(401, "UNAUTHORIZED")
                .header(header::WWW_AUTHENTICATE, "Basic realm=\"embedded\""))
        }
        Access::Token { realm, .. } => check_token(realm.as_deref(), tokens, request),
    }
}

fn check_token(realm: Option<&str>, tokens: &Tokens, request: &ParsedRequest) -> Result<(), Refusal> {
    let actions = needed(request.operation);
    let granted = request.bearer().and_then(|token| tokens.scopes(token));
    let has = |action: &&str| {
        granted.is_some_and(|scopes| {
            scopes.iter().any(|scope| *scope == format!("{}:{action}", request.repository))
        })
    };
    if granted.is_some() && actions.iter().all(has) {
        return Ok(());
    }
    let own = format!("{}://{}{TOKEN_PATH}", request.scheme, request.header(header::HOST));
    let mut challenge = format!("Bearer realm=\"{}\",service=\"{SERVICE}\"", realm.unwrap_or(&own));
    if !actions.is_empty() {
        challenge.push_str(&scope_parameter(&request.repository, actions));
    }
    if granted.is_some() {
        challenge.push_str(",error=\"insufficient_scope\"");
    }
    Err(Refusal::new(401, "UNAUTHORIZED").header(header::WWW_AUTHENTICATE, &challenge))
}

fn scope_parameter(repository: &str, actions: &[&str]) -> String {
    format!(",scope=\"repository:{repository}:{}\"", actions.join(","))
}

/// The token endpoint: GET with basic credentials (or none), or POST of a refresh grant.
pub(super) fn token(access: &Access, tokens: &mut Tokens, request: &ParsedRequest) -> Served {
    let Access::Token { username, password, identity_token, actions, .. } = access else {
        return Err(Refusal::new(404, "UNSUPPORTED"));
    };
    let form = request.form();
    let refresh = form.get("refresh_token");
    let known = match (request.basic(), refresh) {
        (Some((user, pass)), _) => user == *username && pass == *password,
        (None, Some(token)) => identity_token.as_ref() == Some(token),
        (None, None) => false,
    };
    let anonymous = request.basic().is_none() && refresh.is_none();
    if !known && !anonymous {
        return Err(Refusal::new(401, "UNAUTHORIZED"));
    }
    let asked = request.query.iter().filter(|(key, _)| key == "scope").map(|(_, value)| value);
    let scopes = asked.chain(form.get("scope")).flat_map(|scope| scope.split(' ')).filter(|_| known);
    let granted = scopes.flat_map(|scope| grants(scope, actions)).collect();
    Ok(json(200, &serde_json::json!({ "token": tokens.give(granted), "expires_in": 300 })))
}

/// `repository:<name>:<action>,<action>` as the pairs that may be had.
fn grants(scope: &str, allowed: &[&'static str]) -> Vec<String> {
    let mut parts = scope.splitn(3, ':');
    let (Some("repository"), Some(name), Some(actions)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let wanted = actions.split(',').filter(|action| allowed.contains(action));
    wanted.map(|action| format!("{name}:{action}")).collect()
}
