//! A server over HTTP and a kubectl.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use kube_embedded::Server;
use serde_json::{Value, json};
use tokio::{process::Command, sync::oneshot};

use crate::common::widget_server;

/// How long anything here may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// A server on a port of its own, with a kubeconfig that points to it.
pub struct Cluster {
    pub server: Server,
    kubectl: PathBuf,
    pub folder: tempfile::TempDir,
    stop: oneshot::Sender<()>,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
}

#[allow(clippy::disallowed_methods, reason = "the server of this test needs a task of its own")]
pub async fn serve(
    server: Server,
) -> (String, oneshot::Sender<()>, tokio::task::JoinHandle<std::io::Result<()>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        server
            .serve(listener, async {
                let _ = stopped.await;
            })
            .await
    });
    (url, stop, serving)
}

impl Cluster {
    pub async fn start() -> Option<Self> {
        let kubectl = test_bed::tool("kubectl")?;
        let server = widget_server();
        let (url, stop, serving) = serve(server.clone()).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config"), server.kubeconfig(&url)).unwrap();
        Some(Self { server, kubectl, folder, stop, serving })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, value: &Value) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    }

    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .env_clear()
            .env("KUBECONFIG", self.path("config"))
            .env("HOME", self.folder.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .args(arguments.split(' ').filter(|a| !a.is_empty()))
            .kill_on_drop(true)
            .stdin(Stdio::null());
        command
    }

    pub async fn run(&self, arguments: &str) -> Output {
        let output = self.command(arguments).output();
        tokio::time::timeout(DEADLINE, output).await.expect(arguments).unwrap()
    }

    /// Runs kubectl and answers what it prints.
    pub async fn ok(&self, arguments: &str) -> String {
        let output = self.run(arguments).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs kubectl and answers why it fails.
    pub async fn fails(&self, arguments: &str) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "kubectl {arguments} should fail");
        String::from_utf8(output.stderr).unwrap()
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap().unwrap();
    }
}

pub fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
