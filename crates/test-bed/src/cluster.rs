//! An API server with what it needs: etcd, and the controllers that collect garbage and empty namespaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rcgen::KeyPair;
use serde_json::json;

use crate::pki::{Authority, Signer};
use crate::process::{Process, free_port};
use crate::{guardian, tools};

/// The user that may do everything.
pub const ADMIN: &str = "admin";
/// Who gives the tokens of service accounts.
const ISSUER: &str = "https://localhost";

/// How a cluster is to be.
#[derive(Debug)]
pub struct Builder {
    users: Vec<(String, Vec<String>)>,
    flags: Vec<String>,
    etcd_flags: Vec<String>,
    controllers: bool,
}

impl Builder {
    /// Adds a user with a token of its own. Without a group or a role it may do next to nothing.
    pub fn user(mut self, name: &str, groups: &[&str]) -> Self {
        self.users.push((name.to_owned(), groups.iter().map(|group| (*group).to_owned()).collect()));
        self
    }

    /// Adds a flag of kube-apiserver.
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Adds a flag of etcd.
    pub fn etcd_flag(mut self, flag: &str) -> Self {
        self.etcd_flags.push(flag.to_owned());
        self
    }

    /// Also runs the garbage collector and the namespace controller.
    pub fn with_controllers(mut self) -> Self {
        self.controllers = true;
        self
    }

    /// Starts the processes and waits until the API server is ready; `None` where a program is missing.
    ///
    /// # Panics
    /// When one does not start; with `CI=true` also when one is missing.
    pub fn start(self) -> Option<Cluster> {
        let cluster = Cluster::new(self)?;
        cluster.start_etcd();
        cluster.start_api();
        if cluster.has_controllers {
            cluster.start_controllers();
        }
        Some(cluster)
    }
}

/// A Kubernetes API server of the tests' own. Its parts can be ended and started again; data and ports stay.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    port: u16,
    etcd_port: u16,
    controllers_port: u16,
    users: Vec<String>,
    has_controllers: bool,
    accounts: Signer,
    /// etcd. To start it and wait: [`Self::start_etcd`].
    pub etcd: Process,
    /// kube-apiserver. To start it and wait: [`Self::start_api`].
    pub api: Process,
    /// kube-controller-manager, with nothing but its garbage collector and namespace controller. To start it and wait:
    /// [`Self::start_controllers`].
    pub controllers: Process,
}

impl Cluster {
    /// What is to be different from an API server with one user, [`ADMIN`], and no controllers.
    pub fn builder() -> Builder {
        let admin = (ADMIN.to_owned(), vec!["system:masters".to_owned()]);
        Builder { users: vec![admin], flags: Vec::new(), etcd_flags: Vec::new(), controllers: false }
    }

    /// The cluster of this process, with controllers: started when it is first asked for, and not to be stopped by a test.
    /// `None` where a program is missing.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(|| Self::builder().with_controllers().start()).as_ref()
    }

    fn new(builder: Builder) -> Option<Self> {
        let etcd = tools::tool("etcd")?;
        let api = tools::tool("kube-apiserver")?;
        let controllers = tools::tool("kube-controller-manager")?;
        let folder = guardian::folder("cluster");
        let authority = Authority::new(&folder);
        let (port, etcd_port, peer_port, controllers_port) =
            (free_port(), free_port(), free_port(), free_port());

        let tokens: Vec<String> = builder
            .users
            .iter()
            .map(|(name, groups)| format!("{},{name},{name},\"{}\"\n", token(name), groups.join(",")))
            .collect();
        fs::write(folder.join("tokens.csv"), tokens.concat()).expect("a writable folder");
        let pair = KeyPair::generate().expect("a key");
        let accounts = Signer::new(&pair, &json!({ "alg": "ES256", "typ": "JWT" }));
        fs::write(folder.join("accounts.key"), pair.serialize_pem()).expect("a writable folder");
        fs::write(folder.join("accounts.pub"), pair.public_key_pem()).expect("a writable folder");
        for (name, _) in &builder.users {
            let text = kubeconfig(port, &authority.certificate, name);
            fs::write(folder.join(format!("{name}.kubeconfig")), text).expect("a writable folder");
        }

        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let etcd = Process::new(&etcd, &folder.join("etcd.log"))
            .args([
                format!("--data-dir={}", folder.join("etcd").display()),
                format!("--listen-client-urls={etcd_url}"),
                format!("--advertise-client-urls={etcd_url}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster=default={peer_url}"),
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
            ])
            .args(builder.etcd_flags);
        let server = authority.server();
        let file = |name: &str| folder.join(name).display().to_string();
        let api = Process::new(&api, &folder.join("kube-apiserver.log"))
            .args([
                format!("--etcd-servers={etcd_url}"),
                format!("--secure-port={port}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--tls-cert-file={}", server.certificate.display()),
                format!("--tls-private-key-file={}", server.key.display()),
                format!("--client-ca-file={}", authority.certificate.display()),
                format!("--token-auth-file={}", file("tokens.csv")),
                format!("--service-account-issuer={ISSUER}"),
                format!("--service-account-key-file={}", file("accounts.pub")),
                format!("--service-account-signing-key-file={}", file("accounts.key")),
                "--authorization-mode=RBAC".to_owned(),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                // It would make pods wait for accounts that no controller here creates.
                "--disable-admission-plugins=ServiceAccount".to_owned(),
            ])
            .args(builder.flags);
        let controllers = Process::new(&controllers, &folder.join("kube-controller-manager.log")).args([
            format!("--kubeconfig={}", file("admin.kubeconfig")),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={controllers_port}"),
            format!("--tls-cert-file={}", server.certificate.display()),
            format!("--tls-private-key-file={}", server.key.display()),
            "--controllers=garbage-collector-controller,namespace-controller".to_owned(),
            // The defaults are for clusters that many share.
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--concurrent-namespace-syncs=20".to_owned(),
        ]);
        Some(Self {
            folder,
            port,
            etcd_port,
            controllers_port,
            users: builder.users.into_iter().map(|(name, _)| name).collect(),
            has_controllers: builder.controllers,
            accounts,
            etcd,
            api,
            controllers,
        })
    }

    /// Starts etcd unless it runs, and waits until it answers.
    pub fn start_etcd(&self) {
        let url = format!("http://127.0.0.1:{}", self.etcd_port);
        self.etcd.start_until(|| answers(|| Some(Config::new(url.parse().expect("a URL"))), "/health"));
    }

    /// Starts kube-apiserver unless it runs, and waits until it is ready.
    pub fn start_api(&self) {
        self.api.start_until(|| answers(|| Some(self.config(ADMIN)), "/readyz"));
    }

    /// Starts kube-controller-manager unless it runs, and waits until it is healthy.
    pub fn start_controllers(&self) {
        let healthy = || {
            let mut config = self.config(ADMIN);
            config.cluster_url =
                format!("https://127.0.0.1:{}", self.controllers_port).parse().expect("a URL");
            // It asks nobody who that is, and tells its health to all.
            config.auth_info = AuthInfo::default();
            Some(config)
        };
        self.controllers.start_until(|| answers(healthy, "/healthz"));
    }

    /// `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// etcd's `http://127.0.0.1:<port>`.
    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    /// The folder with the logs, the certificates and the data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that lets a user in.
    ///
    /// # Panics
    /// When the cluster was made without this user.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        assert!(self.users.iter().any(|known| known == user), "no user {user}");
        self.folder.join(format!("{user}.kubeconfig"))
    }

    /// A token of a service account that expires after `seconds`: the API itself gives none for less than ten minutes.
    pub fn short_token(&self, namespace: &str, name: &str, uid: &str, now: i64, seconds: i64) -> String {
        self.accounts.sign(&json!({
            "iss": ISSUER,
            "aud": [ISSUER],
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "kubernetes.io": { "namespace": namespace, "serviceaccount": { "name": name, "uid": uid } },
        }))
    }

    /// How a client of kube-rs comes in as this user; it shows every answer, also one that asks to try again.
    pub fn config(&self, user: &str) -> Config {
        let file = Kubeconfig::read_from(self.kubeconfig(user)).expect("a kubeconfig");
        let mut config = wait(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()))
            .expect("a kubeconfig that is complete");
        config.default_retry = false;
        config
    }

    /// A client of [`ADMIN`]; it belongs to the runtime in which it is made.
    pub fn client(&self) -> Client {
        Client::try_from(self.config(ADMIN)).expect("a client")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.controllers.kill();
        self.api.kill();
        self.etcd.kill();
        if !thread::panicking() {
            fs::remove_dir_all(&self.folder).ok();
        }
    }
}

/// Tokens open nothing but servers on loopback that live as long as a test.
fn token(user: &str) -> String {
    format!("token-of-{user}")
}

fn kubeconfig(port: u16, authority: &Path, user: &str) -> String {
    let cluster =
        json!({ "server": format!("https://127.0.0.1:{port}"), "certificate-authority": authority });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": user } }],
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": user, "user": { "token": token(user) } }],
    })
    .to_string()
}

/// Waits for a future on a thread without a runtime of its own; callers may be inside one.
fn wait<F: Future<Output: Send> + Send>(future: F) -> F::Output {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(future)
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether a GET is answered with 200 within a few seconds.
fn answers(config: impl FnOnce() -> Option<Config> + Send, path: &str) -> bool {
    wait(async {
        let Some(client) = config().and_then(|config| Client::try_from(config).ok()) else {
            return false;
        };
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        let answer = tokio::time::timeout(Duration::from_secs(5), client.request_text(request));
        matches!(answer.await, Ok(Ok(_)))
    })
}
