//! A registry with a client in front of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::oci::{
    Artifact, Credentials, Endpoint, HttpRegistry, HttpRegistryOptions, OciRegistry, Timeouts,
};
use solar_controller::dev::registry::{Access, Behaviour, RegistryStore, serve};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub const REPOSITORY: &str = "team-a/shop/release-web";
pub const BOTH: [Front; 2] = [Front::Http, Front::Memory];

thread_local! {
    /// One for all rigs of a test: a client reads the system's certificates when it is made.
    static PATIENT: Arc<HttpRegistry> = Arc::new(http_client(patient()));
}

/// How the port reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    Http,
    Memory,
}

/// A store, the port in front of it, and the endpoint under which it is asked.
pub struct Rig {
    pub store: RegistryStore,
    pub registry: Arc<dyn OciRegistry>,
    pub endpoint: Endpoint,
    /// Ends the server with the test.
    _server: JoinSet<()>,
}

impl Rig {
    pub async fn new(front: Front, behaviour: Behaviour) -> Self {
        Self::with_access(front, behaviour, Access::Open).await
    }

    pub async fn with_access(front: Front, behaviour: Behaviour, access: Access) -> Self {
        let store = RegistryStore::new(behaviour, access);
        let mut server = JoinSet::new();
        let (registry, host): (Arc<dyn OciRegistry>, String) = match front {
            Front::Memory => (Arc::new(store.handle("test")), "registry.example".into()),
            Front::Http => (PATIENT.with(Arc::clone), listen(&store, &mut server).await),
        };
        Self { store, registry, endpoint: Endpoint::anonymous(host, true), _server: server }
    }

    pub fn with_password(mut self, password: &str) -> Self {
        self.endpoint.credentials = basic(password);
        self
    }

    /// Pushes a chart to each tag: the same bytes for the same content.
    pub async fn push(&self, content: &str, tags: &[&str]) -> Artifact {
        let artifact = chart(content);
        for tag in tags {
            let pushed = self.registry.push(&self.endpoint, REPOSITORY, tag, &artifact).await;
            assert_eq!(pushed.as_ref(), Ok(artifact.digest()));
        }
        artifact
    }
}

/// Serves the store on a free loopback port; returns `host:port`.
pub async fn listen(store: &RegistryStore, server: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let host = listener.local_addr().expect("its address").to_string();
    let store = store.clone();
    server.spawn(async move {
        serve(store, listener, std::future::pending()).await.expect("serving");
    });
    host
}

/// A real client; installs the TLS provider as the program does at its start.
pub fn http_client(timeouts: Timeouts) -> HttpRegistry {
    rustls::crypto::ring::default_provider().install_default().ok();
    HttpRegistry::new(&HttpRegistryOptions { ca_file: None, timeouts }, Clock::machine()).expect("a client")
}

/// Limits that no loaded machine reaches.
pub fn patient() -> Timeouts {
    Timeouts { read: Duration::from_mins(1), write: Duration::from_mins(1) }
}

pub fn basic(password: &str) -> Credentials {
    Credentials::Basic { username: "robot".into(), password: password.into() }
}

pub fn chart(content: &str) -> Artifact {
    let annotations =
        BTreeMap::from([("org.opencontainers.image.title".to_owned(), "release-web".to_owned())]);
    Artifact::chart(
        br#"{"name":"release-web","version":"v0.0.1"}"#.to_vec(),
        content.as_bytes().to_vec(),
        &annotations,
    )
}
