//! A token server for registries.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use test_bed::{Authority, Signer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Who issues the tokens.
pub const ISSUER: &str = "token-server";
/// Whom they are for.
pub const SERVICE: &str = "registry";

/// One user with the right password gets tokens for those of the actions asked for that are granted.
pub struct Tokens {
    signer: Signer,
    login: String,
    granted: Mutex<Vec<&'static str>>,
    asked: Mutex<Vec<String>>,
    issued: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tokens {
    /// Serves tokens of an authority to `login`, which is `user:password`; returns the realm too.
    pub async fn serve(authority: &Authority, login: &str, server: &mut JoinSet<()>) -> (Arc<Self>, String) {
        let tokens = Arc::new(Self {
            signer: authority.signer(),
            login: format!("Basic {}", STANDARD.encode(login)),
            granted: Mutex::new(vec!["pull", "push", "delete"]),
            asked: Mutex::default(),
            issued: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let realm = format!("http://{}/token", listener.local_addr().expect("its address"));
        let answer = |State(tokens): State<Arc<Self>>, RawQuery(query): RawQuery, headers: HeaderMap| async move {
            tokens.answer(query, &headers)
        };
        let app = Router::new().route("/token", get(answer)).with_state(Arc::clone(&tokens));
        server.spawn(async move { axum::serve(listener, app).await.expect("serving") });
        (tokens, realm)
    }

    /// From now on tokens are for these actions only.
    pub fn grant_only(&self, actions: &[&'static str]) {
        *lock(&self.granted) = actions.to_vec();
    }

    /// The scopes that were asked for since this was called last.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.asked))
    }

    /// All tokens that were issued.
    pub fn issued(&self) -> Vec<String> {
        lock(&self.issued).clone()
    }

    fn answer(&self, query: Option<String>, headers: &HeaderMap) -> Result<String, StatusCode> {
        if headers.get("authorization").is_none_or(|found| *found != self.login) {
            return Err(StatusCode::UNAUTHORIZED);
        }
        let query = query.unwrap_or_default();
        let pairs: Vec<(String, String)> =
            url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let scopes = pairs.iter().filter(|(name, _)| name == "scope");
        let access: Vec<Value> = scopes
            .flat_map(|(_, scope)| scope.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .map(|scope| self.grant(scope))
            .collect();
        let now = seconds_now();
        let claims = json!({
            "iss": ISSUER, "sub": "robot", "aud": SERVICE, "jti": "1",
            "iat": now, "nbf": now - 60, "exp": now + 300, "access": access,
        });
        let token = self.signer.sign(&claims);
        lock(&self.issued).push(token.clone());
        Ok(json!({ "token": token }).to_string())
    }

    fn grant(&self, scope: String) -> Value {
        let mut parts = scope.splitn(2, ':');
        let (kind, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (name, actions) = rest.rsplit_once(':').unwrap_or_default();
        let granted = lock(&self.granted);
        let actions: Vec<&str> = actions.split(',').filter(|action| granted.contains(action)).collect();
        let access = json!({ "type": kind, "name": name, "actions": actions });
        lock(&self.asked).push(scope);
        access
    }
}

#[allow(clippy::disallowed_methods, reason = "a real registry compares with the real time")]
fn seconds_now() -> i64 {
    jiff::Timestamp::now().as_second()
}
