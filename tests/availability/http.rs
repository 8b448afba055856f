//! The check itself, against real answers on loopback: each ends in its row of the table, with a message for a person.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_rt::System;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use kube_embedded::Server;
use serde_json::json;
use solar_controller::actors::pass::Spawner;
use solar_controller::actors::root::{self, Running};
use solar_controller::actors::system::{Options, Ports};
use solar_controller::adapters::kubernetes::{Api, bounded};
use solar_controller::dev::registry::{self, Access, Behaviour, RegistryStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::scene::{self, NAMESPACE, REPOSITORY, available};

const PATIENCE: Duration = Duration::from_secs(60);
const PASSWORD: &str = "open-sesame";

/// What a fake registry was asked: method and credentials.
type Asked = Arc<Mutex<Vec<(Method, Option<String>)>>>;

/// Registries of all sorts, a controller beside them, and what it should say of a version on each.
struct Rig {
    server: Server,
    running: Running,
    servers: JoinSet<()>,
    expected: Vec<(String, &'static str, Vec<String>)>,
    digest: String,
    manifest: Vec<u8>,
}

/// Runs `test` on a system of its own, in real time.
fn in_real_time<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F) {
    solar_controller::telemetry::init("off");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let system =
        System::with_tokio_rt(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
    system.block_on(test());
}

impl Rig {
    fn new(ca: Option<std::path::PathBuf>) -> Self {
        let server = Server::builder().build();
        for crd in solar_api::crds() {
            server.apply_crd(crd).unwrap();
        }
        scene::install_component(&server);
        let mut options = Options { takeover_wait: Duration::ZERO, ..Options::default() };
        // No regular check falls into the test.
        options.availability.interval = Duration::from_secs(24 * 3_600);
        let api = Api::new(bounded(server.service_for("controller"), "default"));
        let ports = Ports::of_process(api, &options, ca, Spawner::default()).unwrap();
        let running = root::start(options, ports, Vec::new(), "test");
        let artifact = scene::descriptor("content");
        Self {
            server,
            running,
            servers: JoinSet::new(),
            expected: Vec::new(),
            digest: artifact.digest().to_string(),
            manifest: artifact.manifest().to_vec(),
        }
    }

    /// A version on `host`, of which `reason` is expected, in words that hold all of `says`.
    fn expect(&mut self, host: &str, reason: &'static str, says: &[&str]) -> String {
        self.expect_with(host, reason, says, |_, _| {})
    }

    fn expect_with(
        &mut self,
        host: &str,
        reason: &'static str,
        says: &[&str],
        change: impl FnOnce(&mut serde_json::Value, &mut serde_json::Value),
    ) -> String {
        let name = format!("v-{}", self.expected.len());
        let mut registry = scene::registry(&name, host);
        let mut version = scene::version(&name, host, &self.digest);
        change(&mut registry, &mut version);
        scene::install(&self.server, registry);
        scene::install(&self.server, version);
        let says = says.iter().map(|text| (*text).to_owned()).collect();
        self.expected.push((name.clone(), reason, says));
        name
    }

    /// A version whose Registry names a Secret with this password.
    fn expect_with_password(
        &mut self,
        host: &str,
        password: &str,
        reason: &'static str,
        says: &[&str],
    ) -> String {
        let secret = format!("s-{}", self.expected.len());
        let config = json!({ "auths": { host: { "username": "robot", "password": password } } });
        scene::install(
            &self.server,
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "name": secret, "namespace": NAMESPACE },
                "type": "kubernetes.io/dockerconfigjson",
                "stringData": { ".dockerconfigjson": config.to_string() },
            }),
        );
        let named = secret.clone();
        let mut all = vec![];
        all.extend_from_slice(says);
        self.expect_with(host, reason, &all, move |registry, _| {
            registry["spec"]["solarSecretRef"] = json!({ "name": named });
        })
    }

    async fn listen(&self) -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        (listener, host)
    }

    /// A registry that answers each request as `answer` does; and what it was asked.
    async fn fake(
        &mut self,
        answer: impl Fn(&Method, &HeaderMap, &str) -> Response + Clone + Send + Sync + 'static,
    ) -> (String, Asked) {
        let (listener, host) = self.listen().await;
        let asked = Asked::default();
        let log = asked.clone();
        let app = Router::new().fallback(move |request: Request| {
            let credentials = request.headers().get(header::AUTHORIZATION);
            let credentials = credentials.map(|value| value.to_str().unwrap().to_owned());
            log.lock().unwrap().push((request.method().clone(), credentials));
            let answer = answer(request.method(), request.headers(), request.uri().path());
            async move { answer }
        });
        self.servers.spawn(async move { axum::serve(listener, app).await.unwrap() });
        (host, asked)
    }

    /// As [`Self::fake`], with the same answer for everything.
    async fn says(&mut self, status: u16, headers: &[(&'static str, &str)], body: &str) -> (String, Asked) {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let body = body.to_owned();
        self.fake(move |_, _, _| answer(status, &headers, body.clone().into_bytes())).await
    }

    /// The embedded registry with the descriptor in it.
    async fn store(&mut self, access: Access, behaviour: Behaviour) -> (String, RegistryStore) {
        let store = RegistryStore::new(Behaviour::default(), Access::Open);
        let digest = scene::push(&store, REPOSITORY, "content").await;
        assert_eq!(digest.to_string(), self.digest);
        store.set_access(access);
        store.set_behaviour(behaviour);
        let (listener, host) = self.listen().await;
        let served = store.clone();
        self.servers
            .spawn(async move { registry::serve(served, listener, std::future::pending()).await.unwrap() });
        (host, store)
    }

    /// A server that does with each connection what `serve` does.
    async fn raw<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        serve: impl Fn(tokio::net::TcpStream) -> F + Send + 'static,
    ) -> String {
        let (listener, host) = self.listen().await;
        self.servers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream));
            }
        });
        host
    }

    /// Waits until every version says something; compares it with what was expected.
    async fn compare(&self) {
        let deadline = Instant::now() + PATIENCE;
        let said: BTreeMap<_, _> = loop {
            let said = self.expected.iter().map(|(name, ..)| (name, available(&self.server, name)));
            let said: BTreeMap<_, _> = said.collect();
            if said.values().all(Option::is_some) {
                break said;
            }
            assert!(Instant::now() < deadline, "never: {said:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        for (name, reason, says) in &self.expected {
            let (_, found, message) = said[name].clone().unwrap();
            assert_eq!(found, *reason, "{name}: {message}");
            for text in says {
                assert!(message.contains(text), "{name}: {message:?} does not say {text:?}");
            }
            assert!(!message.contains("sesame"), "{name}: {message}");
        }
    }
}

fn answer(status: u16, headers: &[(&'static str, String)], body: Vec<u8>) -> Response {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, value.as_str());
    }
    answer.body(Body::from(body)).unwrap()
}

fn sha512(content: &[u8]) -> String {
    use sha2::Digest as _;
    use std::fmt::Write as _;
    sha2::Sha512::digest(content).iter().fold("sha512:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

const DIGEST: &str = "docker-content-digest";
const OTHER: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn every_answer_of_a_registry_ends_in_its_row_and_is_asked_for_once() {
    in_real_time(|| async {
        let mut rig = Rig::new(None);
        let digest = rig.digest.clone();
        let mut logs = Vec::new();

        let (host, log) = rig.says(200, &[(DIGEST, &digest)], "").await;
        rig.expect(&host, "DescriptorAvailable", &[&host, "component-descriptors/acme.org/web@sha256:"]);
        logs.push((log, vec![Method::HEAD]));
        let (host, log) = rig.says(200, &[(DIGEST, OTHER)], "").await;
        rig.expect(&host, "RegistryUnreachable", &["another digest", OTHER]);
        logs.push((log, vec![Method::HEAD]));

        // Without the header the content tells.
        let manifest = rig.manifest.clone();
        let (host, log) = rig.fake(move |_, _, _| answer(200, &[], manifest.clone())).await;
        rig.expect(&host, "DescriptorAvailable", &[]);
        logs.push((log, vec![Method::HEAD, Method::GET]));
        let (host, log) = rig.says(200, &[], "<html>please log in</html>").await;
        rig.expect(&host, "RegistryUnreachable", &["does not match its digest"]);
        logs.push((log, vec![Method::HEAD, Method::GET]));

        // A digest of another algorithm proves nothing, and the content does.
        let long = sha512(&rig.manifest);
        for (content, reason, says) in [
            (rig.manifest.clone(), "DescriptorAvailable", "@sha512:"),
            (b"something else".to_vec(), "RegistryUnreachable", "does not match its digest"),
        ] {
            let stated = digest.clone();
            let (host, log) =
                rig.fake(move |_, _, _| answer(200, &[(DIGEST, stated.clone())], content.clone())).await;
            let long = long.clone();
            rig.expect_with(&host, reason, &[says], |_, version| version["spec"]["digest"] = json!(long));
            logs.push((log, vec![Method::HEAD, Method::GET]));
        }

        let unknown = |code: &str| json!({"errors": [{"code": code}]}).to_string();
        for body in [unknown("MANIFEST_UNKNOWN"), unknown("NAME_UNKNOWN"), String::new()] {
            let (host, log) = rig.says(404, &[], &body).await;
            rig.expect(&host, "DescriptorMissingPending", &["is not in the registry since", "15m"]);
            logs.push((log, vec![Method::HEAD]));
        }
        for (status, headers, says) in [
            (403, &[][..], "403"),
            (
                429,
                &[("retry-after", "3600")][..],
                "429: too many requests; it asks to be left alone for 3600 s",
            ),
            (
                429,
                &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")][..],
                "429: too many requests; it asks to be left alone for ",
            ),
            (429, &[][..], "429: too many requests"),
            (500, &[][..], "500"),
            (503, &[][..], "503"),
            (410, &[][..], "410"),
        ] {
            let (host, log) = rig.says(status, headers, "").await;
            rig.expect(&host, "RegistryUnreachable", &[says]);
            logs.push((log, vec![Method::HEAD]));
        }
        // A registry that has no HEAD.
        for (status, reason) in [(200, "DescriptorAvailable"), (404, "DescriptorMissingPending")] {
            let manifest = rig.manifest.clone();
            let (host, log) = rig
                .fake(move |method, _, _| match *method {
                    Method::GET => answer(status, &[], manifest.clone()),
                    _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
                })
                .await;
            rig.expect(&host, reason, &[]);
            logs.push((log, vec![Method::HEAD, Method::GET]));
        }
        let behaviour = Behaviour { answers_head: false, ..Behaviour::default() };
        let (host, _) = rig.store(Access::Open, behaviour).await;
        rig.expect(&host, "DescriptorAvailable", &[]);
        rig.expect_with(&host, "RegistryUnreachable", &["acme.org/Web", "not valid"], |_, version| {
            version["spec"]["componentName"] = json!("acme.org/Web");
        });
        rig.compare().await;
        for (log, methods) in logs {
            let asked: Vec<_> = log.lock().unwrap().iter().map(|(method, _)| method.clone()).collect();
            assert_eq!(asked, methods, "a check is one attempt");
        }
        rig.running.shut_down().await;
    });
}

#[test]
fn credentials_answer_challenges_and_stay_with_their_host() {
    in_real_time(|| async {
        let mut rig = Rig::new(None);
        for access in [Access::basic("robot", PASSWORD), Access::token("robot", PASSWORD)] {
            let (host, _) = rig.store(access, Behaviour::default()).await;
            rig.expect_with_password(&host, PASSWORD, "DescriptorAvailable", &[]);
        }
        for access in [Access::basic("robot", PASSWORD), Access::token("robot", PASSWORD)] {
            let (host, _) = rig.store(access, Behaviour::default()).await;
            let secret = format!("check Secret team/s-{}", rig.expected.len());
            rig.expect_with_password(&host, "wrong-sesame", "RegistryUnreachable", &["401", &secret]);
        }
        let (host, _) = rig.store(Access::basic("robot", PASSWORD), Behaviour::default()).await;
        rig.expect(
            &host,
            "RegistryUnreachable",
            &["401", "name a Secret with credentials in spec.solarSecretRef"],
        );
        let (host, _) = rig.store(Access::Open, Behaviour::default()).await;
        rig.expect_with(&host, "RegistryUnreachable", &["Secret team/gone does not exist"], |registry, _| {
            registry["spec"]["solarSecretRef"] = json!({ "name": "gone" });
        });

        // A registry that keeps its content elsewhere, behind a password.
        let digest = rig.digest.clone();
        let (elsewhere, seen_elsewhere) = rig.says(200, &[(DIGEST, &digest)], "").await;
        let (front, seen_in_front) = rig
            .fake(move |_, headers, path| {
                if headers.contains_key(header::AUTHORIZATION) {
                    answer(307, &[("location", format!("http://{elsewhere}{path}"))], Vec::new())
                } else {
                    answer(401, &[("www-authenticate", "Basic realm=\"r\"".to_owned())], Vec::new())
                }
            })
            .await;
        rig.expect_with_password(&front, PASSWORD, "DescriptorAvailable", &[]);
        rig.compare().await;
        assert!(seen_in_front.lock().unwrap().iter().any(|(_, shown)| shown.is_some()));
        let seen = seen_elsewhere.lock().unwrap().clone();
        assert!(!seen.is_empty() && seen.iter().all(|(_, shown)| shown.is_none()), "{seen:?}");
        rig.running.shut_down().await;
    });
}

#[test]
fn no_answer_is_unreachable_and_says_what_went_wrong() {
    in_real_time(|| async {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["other.example".to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, certificate.pem()).unwrap();
        let mut rig = Rig::new(Some(ca));

        let handshakes = Arc::new(AtomicUsize::new(0));
        // Trusted, but for another name; and one that nobody vouches for.
        let strange_key = rcgen::KeyPair::generate().unwrap();
        let strange = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .unwrap()
            .self_signed(&strange_key)
            .unwrap();
        let tls = |registry: &mut serde_json::Value, _: &mut serde_json::Value| {
            registry["spec"]["plainHTTP"] = json!(false);
        };
        for (certificate, key, says) in
            [(certificate, key, "not valid for name"), (strange, strange_key, "certificate")]
        {
            let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(
                vec![certificate.der().clone()],
                rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            );
            let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config.unwrap()));
            let counted = handshakes.clone();
            let host = rig
                .raw(move |stream| {
                    let acceptor = acceptor.clone();
                    counted.fetch_add(1, Ordering::SeqCst);
                    async move { drop(acceptor.accept(stream).await) }
                })
                .await;
            rig.expect_with(&host, "RegistryUnreachable", &["cannot be reached", says], tls);
        }
        rig.expect("nowhere.invalid", "RegistryUnreachable", &["nowhere.invalid", "cannot be reached"]);
        let (listener, host) = rig.listen().await;
        drop(listener);
        rig.expect(&host, "RegistryUnreachable", &["cannot be reached"]);
        let reset = rig
            .raw(|mut stream| async move {
                let mut bytes = [0_u8; 64];
                let _ = stream.read(&mut bytes).await;
            })
            .await;
        rig.expect(&reset, "RegistryUnreachable", &["the connection broke"]);
        let hang = rig
            .raw(|mut stream| async move {
                let mut bytes = [0_u8; 4096];
                while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
            })
            .await;
        rig.expect(&hang, "RegistryUnreachable", &["no answer within 10 s"]);
        // One that drips: each byte comes in time, and the answer never.
        let drip = rig
            .raw(|mut stream| async move {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await;
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            })
            .await;
        rig.expect(&drip, "RegistryUnreachable", &["no answer within 10 s"]);
        let huge = rig
            .fake(|method, _, _| match *method {
                Method::GET => answer(200, &[], vec![b'x'; 5 * 1024 * 1024]),
                _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
            })
            .await;
        rig.expect(&huge.0, "RegistryUnreachable", &["exceeds 4194304 bytes"]);
        let (ring, asked) =
            rig.fake(|_, _, path| answer(302, &[("location", path.to_owned())], Vec::new())).await;
        rig.expect(&ring, "RegistryUnreachable", &["more than 5 redirects"]);
        rig.compare().await;
        // By now the slow ones have had their ten seconds, and nobody else has tried again.
        assert_eq!(asked.lock().unwrap().len(), 6);
        assert_eq!(handshakes.load(Ordering::SeqCst), 2);
        rig.running.shut_down().await;
    });
}
