//! The port against a real registry: distribution 2.8, as Debian packages it (`docker-registry`).
//!
//! Where the program is missing the tests say so and check nothing.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use solar_controller::adapters::oci::{
    Artifact, DeleteOutcome, Endpoint, HttpRegistry, HttpRegistryOptions, OciErrorKind, OciRegistry,
    Reference, UntagError, UntagOutcome, UntagProgress, UntagRequest, untag,
};

use crate::support::{REPOSITORY, basic, chart, http_client, patient};

const START_DEADLINE: Duration = Duration::from_secs(30);

struct Server {
    child: Child,
    host: String,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn installed(program: &str) -> bool {
    let found =
        Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("{program} is not installed: this test checks nothing");
    }
    found
}

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let output =
        Command::new(program).args(arguments).current_dir(folder).output().expect("the program runs");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Server {
    /// Starts a registry in a folder of its own; `settings` are added to its configuration file.
    async fn start(folder: tempfile::TempDir, delete: bool, http: &str, settings: &str) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = free.local_addr().expect("its address").to_string();
        drop(free);
        let root = folder.path().display();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {root}/data}}\n  \
             delete: {{enabled: {delete}}}\nhttp:\n  addr: {host}\n{http}{settings}"
        );
        let path = folder.path().join("config.yml");
        std::fs::write(&path, config).expect("a configuration");
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the registry starts");
        let server = Self { child, host, folder };
        server.wait_until_it_listens().await;
        server
    }

    async fn plain(delete: bool) -> Self {
        Self::start(tempfile::tempdir().expect("a folder"), delete, "", "").await
    }

    async fn wait_until_it_listens(&self) {
        let listens = async {
            while tokio::net::TcpStream::connect(&self.host).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(START_DEADLINE, listens).await.expect("the registry listens");
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::anonymous(&self.host, true)
    }
}

async fn untag_v1(
    registry: &dyn OciRegistry,
    endpoint: &Endpoint,
    chart: &Artifact,
) -> Result<UntagOutcome, UntagError> {
    let request =
        UntagRequest { endpoint, repository: REPOSITORY, tag: "v1", expected: Some(chart.digest()) };
    untag(registry, &request, &mut UntagProgress::default()).await
}

/// Push, look, untag beside a sibling: what the controller does with a registry.
async fn life_of_a_tag(registry: &dyn OciRegistry, endpoint: &Endpoint) {
    let artifact = chart("content");
    let absent = registry.head(endpoint, REPOSITORY, &Reference::tag("v1")).await;
    assert_eq!(absent, Ok(None));
    for tag in ["v1", "sibling"] {
        let pushed = registry.push(endpoint, REPOSITORY, tag, &artifact).await;
        assert_eq!(pushed.as_ref(), Ok(artifact.digest()));
        let head = registry.head(endpoint, REPOSITORY, &Reference::tag(tag)).await;
        assert_eq!(head.as_ref().map(Option::as_ref), Ok(Some(artifact.digest())));
    }
    let manifest = registry.manifest(endpoint, REPOSITORY, &Reference::tag("v1")).await;
    assert_eq!(manifest.expect("an answer").expect("a manifest").bytes, artifact.manifest());
    assert_eq!(untag_v1(registry, endpoint, &artifact).await, Ok(UntagOutcome::Deleted));
    assert_eq!(untag_v1(registry, endpoint, &artifact).await, Ok(UntagOutcome::AlreadyGone));
    assert_eq!(registry.tags(endpoint, REPOSITORY).await, Ok(vec!["sibling".to_owned()]));
    let sibling = registry.head(endpoint, REPOSITORY, &Reference::tag("sibling")).await;
    assert_eq!(sibling.as_ref().map(Option::as_ref), Ok(Some(artifact.digest())));
}

#[tokio::test]
async fn a_tag_lives_and_goes_on_distribution_2() {
    if !installed("docker-registry") {
        return;
    }
    let server = Server::plain(true).await;
    let registry = http_client(patient());
    life_of_a_tag(&registry, &server.endpoint()).await;
    let by_tag = registry.delete(&server.endpoint(), REPOSITORY, &Reference::tag("sibling")).await;
    assert_eq!(by_tag, Ok(DeleteOutcome { status: 400, code: Some("DIGEST_INVALID".into()) }));
}

#[tokio::test]
async fn distribution_2_without_deletion_is_found_out_and_keeps_the_tag() {
    if !installed("docker-registry") {
        return;
    }
    let server = Server::plain(false).await;
    let (registry, endpoint) = (http_client(patient()), server.endpoint());
    let artifact = chart("content");
    assert!(registry.push(&endpoint, REPOSITORY, "v1", &artifact).await.is_ok());
    let unsupported = UntagError::Unsupported { status: 405, code: Some("UNSUPPORTED".into()) };
    assert_eq!(untag_v1(&registry, &endpoint, &artifact).await, Err(unsupported));
    let head = registry.head(&endpoint, REPOSITORY, &Reference::tag("v1")).await;
    assert_eq!(head.as_ref().map(Option::as_ref), Ok(Some(artifact.digest())));
}

#[tokio::test]
async fn distribution_2_with_passwords_takes_the_right_one_only() {
    if !installed("docker-registry") || !installed("htpasswd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), "htpasswd", &["-Bbc", "users", "robot", "right"]);
    let users = folder.path().join("users");
    let settings = format!("auth:\n  htpasswd: {{realm: r, path: {}}}\n", users.display());
    let server = Server::start(folder, true, "", &settings).await;
    let registry = http_client(patient());
    let wrong = server.endpoint().with_credentials(basic("wrong"));
    for endpoint in [wrong, server.endpoint()] {
        let head = registry.head(&endpoint, REPOSITORY, &Reference::tag("v1")).await;
        assert!(matches!(head.map_err(|error| error.kind), Err(OciErrorKind::Unauthorized { .. })));
        let push = registry.push(&endpoint, REPOSITORY, "v1", &chart("content")).await;
        assert!(matches!(push.map_err(|error| error.kind), Err(OciErrorKind::Unauthorized { .. })));
    }
    life_of_a_tag(&registry, &server.endpoint().with_credentials(basic("right"))).await;
}

/// A CA of its own and a certificate for `localhost` and 127.0.0.1.
fn make_certificates(folder: &Path) {
    let extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n";
    std::fs::write(folder.join("ext"), extensions).expect("a file");
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let ca = ["req", "-x509", "-days", "3650", "-subj", "/CN=test-ca", "-keyout", "ca.key", "-out", "ca.pem"];
    run(folder, "openssl", &[&ca[..], &curve].concat());
    let request = ["req", "-subj", "/CN=localhost", "-keyout", "tls.key", "-out", "tls.csr"];
    run(folder, "openssl", &[&request[..], &curve].concat());
    let sign = ["x509", "-req", "-in", "tls.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
    run(folder, "openssl", &[&sign[..], &["-days", "3650", "-extfile", "ext", "-out", "tls.pem"]].concat());
}

#[tokio::test]
async fn a_private_ca_is_trusted_when_it_is_named_and_not_otherwise() {
    if !installed("docker-registry") || !installed("openssl") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    make_certificates(folder.path());
    let root = folder.path().display();
    let tls = format!("  tls: {{certificate: {root}/tls.pem, key: {root}/tls.key}}\n");
    let server = Server::start(folder, true, &tls, "").await;
    let endpoint = Endpoint::anonymous(server.host.replace("127.0.0.1", "localhost"), false);

    let stranger = http_client(patient());
    let head = stranger.head(&endpoint, REPOSITORY, &Reference::tag("v1")).await.expect_err("an unknown CA");
    assert!(matches!(head.kind, OciErrorKind::Unreachable { .. }), "{head}");
    let push =
        stranger.push(&endpoint, REPOSITORY, "v1", &chart("content")).await.expect_err("an unknown CA");
    assert!(matches!(push.kind, OciErrorKind::Unreachable { .. }), "{push}");

    let ca_file = Some(server.folder.path().join("ca.pem"));
    let friend = HttpRegistry::new(&HttpRegistryOptions { ca_file, timeouts: patient() }).expect("a client");
    life_of_a_tag(&friend, &endpoint).await;
}
