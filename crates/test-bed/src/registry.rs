//! Registries of the distribution project.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};

use crate::pki::Identity;
use crate::process::{Process, free_port};
use crate::{guardian, tools};

/// For [`RegistryBuilder::htpasswd`]: the user `solar` with the password `solar-dev`, as in the examples.
pub const EXAMPLE_USERS: &str = "solar:$2y$05$abcdefghijklmnopqrstuu7np.w7oY8TATtucaSYXLv4FQhNJ7EHu\n";

/// Which distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// 2.8, as Debian packages it (`docker-registry`): it refuses to delete by tag.
    Two,
    /// 3, built by `make tools`.
    Three,
}

impl Generation {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Two, Self::Three];
}

/// How a registry is to be.
#[derive(Debug)]
pub struct RegistryBuilder {
    generation: Generation,
    folder: PathBuf,
    config: Value,
}

impl RegistryBuilder {
    /// Switches deletion off.
    pub fn without_deletion(mut self) -> Self {
        self.config["storage"]["delete"]["enabled"] = json!(false);
        self
    }

    /// Asks for a password; `users` are lines of an htpasswd file with bcrypt.
    pub fn htpasswd(mut self, users: &str) -> Self {
        let path = self.folder.join("users");
        fs::write(&path, users).expect("a writable folder");
        self.config["auth"] = json!({ "htpasswd": { "realm": "test", "path": path } });
        self
    }

    /// Asks for tokens of the server at `realm`, signed with ES256 and with a certificate of `authority` in their header
    /// (`x5c`).
    pub fn tokens(mut self, realm: &str, service: &str, issuer: &str, authority: &Path) -> Self {
        let mut token =
            json!({ "realm": realm, "service": service, "issuer": issuer, "rootcertbundle": authority });
        if self.generation == Generation::Three {
            token["signingalgorithms"] = json!(["ES256"]);
        }
        self.config["auth"] = json!({ "token": token });
        self
    }

    /// Speaks TLS; with `clients` only to clients that have a certificate of this authority.
    pub fn tls(mut self, server: &Identity, clients: Option<&Path>) -> Self {
        let mut tls = json!({ "certificate": server.certificate, "key": server.key });
        if let Some(authority) = clients {
            tls["clientcas"] = json!([authority]);
        }
        self.config["http"]["tls"] = tls;
        self
    }

    /// Starts the registry and waits until it listens; `None` where the program is missing.
    ///
    /// # Panics
    /// When it does not start; with `CI=true` also when it is missing.
    pub fn start(self) -> Option<Registry> {
        let program = tools::tool(match self.generation {
            Generation::Two => "docker-registry",
            Generation::Three => "registry",
        })?;
        let port = free_port();
        let mut config = self.config;
        config["http"]["addr"] = json!(format!("127.0.0.1:{port}"));
        let file = self.folder.join("config.yml");
        fs::write(&file, config.to_string()).expect("a writable folder");
        let process = Process::new(&program, &self.folder.join("registry.log"))
            .args([Path::new("serve"), &file])
            // Nothing is sent anywhere.
            .env("OTEL_TRACES_EXPORTER", "none");
        let registry = Registry { folder: self.folder, port, process };
        registry.start();
        Some(registry)
    }
}

/// A registry of the test's own, ended with it.
#[derive(Debug)]
pub struct Registry {
    folder: PathBuf,
    port: u16,
    /// The registry. To start it and wait: [`Self::start`].
    pub process: Process,
}

impl Registry {
    /// What is to be different from a registry that is open to all, speaks plain HTTP and deletes.
    pub fn builder(generation: Generation) -> RegistryBuilder {
        let folder = guardian::folder("registry");
        let config = json!({
            "version": "0.1",
            "log": { "level": "warn" },
            "storage": {
                "filesystem": { "rootdirectory": folder.join("data") },
                "delete": { "enabled": true },
            },
            "http": {},
        });
        RegistryBuilder { generation, folder, config }
    }

    /// Starts the registry unless it runs, and waits until it listens.
    pub fn start(&self) {
        self.process.start_until(|| TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// `127.0.0.1:<port>`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `localhost:<port>`.
    pub fn named_host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// The folder with the log and the data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill();
        if !thread::panicking() {
            fs::remove_dir_all(&self.folder).ok();
        }
    }
}
