//! An admission webhook over TLS that refuses, is away, or allows.

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
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use test_bed::Authority;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Refuses,
    /// Takes no connection, and has no answer for those that are open.
    Away,
    Allows,
}

/// The webhook; its task ends with the runtime of the test.
pub struct Webhook {
    mood: watch::Sender<Mood>,
    /// Where it answers.
    pub url: String,
    /// Whom to trust, as a webhook's configuration says it.
    pub ca: String,
}

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
    if mood == Mood::Away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let review: Value = serde_json::from_slice(&review).unwrap();
    let status = json!({ "code": 403, "message": "the auditors are on holiday" });
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

    /// From now on it has no answer.
    pub fn go_away(&self) {
        self.mood.send_replace(Mood::Away);
    }

    /// From now on it allows everything.
    pub fn allow(&self) {
        self.mood.send_replace(Mood::Allows);
    }
}
