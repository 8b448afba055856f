//! An admission webhook over TLS that refuses, is away, has no answer, or allows.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::serve::Listener;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_embedded::{Fault, FaultRule, Verb};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use test_bed::Authority;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::world::{World, merge_patch, name};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Refuses,
    /// Takes no connection, and has no answer for those that are open.
    Away,
    /// Takes every question and never answers.
    Silent,
    Allows,
}

/// The webhook; its task ends with the runtime of the test.
pub struct Webhook {
    mood: watch::Sender<Mood>,
    /// Where it answers.
    url: String,
    /// Whom to trust, as a webhook's configuration says it.
    ca: String,
}

/// What a webhook refuses with.
pub const REFUSAL: &str = "the auditors are on holiday";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    mood: watch::Receiver<Mood>,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else { continue };
            if *self.mood.borrow() == Mood::Away {
                continue;
            }
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn review(State(mood): State<watch::Receiver<Mood>>, review: Bytes) -> Response {
    let mood = *mood.borrow();
    match mood {
        Mood::Away => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Mood::Silent => std::future::pending::<()>().await,
        Mood::Refuses | Mood::Allows => {}
    }
    let review: Value = serde_json::from_slice(&review).unwrap();
    let status = json!({ "code": 403, "message": REFUSAL });
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": { "uid": review["request"]["uid"], "allowed": mood == Mood::Allows, "status": status },
    });
    ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}

impl Webhook {
    /// One that refuses.
    #[allow(clippy::disallowed_methods, reason = "its task belongs to the test's runtime and ends with it")]
    pub fn start(world: &World) -> Self {
        let authority = Authority::new(world.folder.path());
        let identity = authority.server();
        let chain = CertificateDer::pem_file_iter(&identity.certificate).unwrap();
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
        let config =
            rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let listener = world.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let (mood, told) = watch::channel(Mood::Refuses);
        let app = Router::new().fallback(review).with_state(told.clone());
        let tls = Tls { listener, acceptor: TlsAcceptor::from(Arc::new(config)), mood: told };
        world.runtime.spawn(async move { axum::serve(tls, app).await.unwrap() });
        let ca = STANDARD.encode(std::fs::read(&authority.certificate).unwrap());
        Self { mood, url, ca }
    }

    /// Has the API server ask it, for at most `seconds`, before one of `operations` on `resources` of the world's fleet. The
    /// server heeds this a moment later.
    pub fn install(&self, world: &World, operations: &[&str], resources: &[&str], seconds: u8) {
        let fleet = world.namespace("fleet");
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": fleet },
            "webhooks": [{
                "name": "auditors.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": seconds,
                "clientConfig": { "url": self.url, "caBundle": self.ca },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": fleet } },
                "rules": [{
                    "apiGroups": ["solar.opendefense.cloud"], "apiVersions": ["*"],
                    "operations": operations, "resources": resources,
                }],
            }],
        });
        world.ensure(CONFIGURATIONS, &configuration);
    }

    /// Has the API server ask the world's webhook no longer.
    pub fn uninstall(world: &World) {
        world.delete(&format!("{CONFIGURATIONS}/{}", world.namespace("fleet")), "Background");
    }

    /// From now on it is not there.
    pub fn go_away(&self) {
        self.mood.send_replace(Mood::Away);
    }

    /// From now on it leaves every question open.
    pub fn fall_silent(&self) {
        self.mood.send_replace(Mood::Silent);
    }

    /// From now on it allows everything.
    pub fn allow(&self) {
        self.mood.send_replace(Mood::Allows);
    }
}

/// From now on no answer comes to whoever changes one of these objects in `fleet`; there must be some.
pub fn hang_changes_of(world: &World, plural: &str) {
    if let Some(server) = world.embedded_server() {
        server.add_fault(FaultRule::new(Fault::Hang).verb(Verb::Patch).resource(plural));
        return;
    }
    let webhook = Webhook::start(world);
    webhook.install(world, &["UPDATE"], &[plural], 30);
    let path = world.fleet(&format!("{plural}/{}?dryRun=All", name(&world.list(plural)[0])));
    let patch = json!({ "metadata": { "annotations": { "asks": "the webhook" } } });
    world.until("the webhook is asked", None, || {
        let answer = world.send(merge_patch(&path), &patch);
        answer.is_err_and(|(_, message)| message.contains(REFUSAL))
    });
    webhook.fall_silent();
}
