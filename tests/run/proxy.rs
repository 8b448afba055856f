//! HTTPS_PROXY and NO_PROXY.

use std::net::TcpListener as Std;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::program::{Program, program};

/// How long the first bytes may take. Only a broken program needs it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Starts `run` for an https cluster at `cluster` behind `proxy`, and answers what it sends first to `to`.
fn first_bytes(cluster: &Std, proxy: &Std, no_proxy: &str, to: &Std) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let server = kube_embedded::Server::builder().build();
    let url = format!("https://{}", cluster.local_addr().unwrap());
    std::fs::write(&kubeconfig, server.kubeconfig(&url)).unwrap();
    let mut command = program();
    command.args(["run", "--health-bind-address", "off", "--metrics-bind-address", "off", "--kubeconfig"]);
    command.arg(&kubeconfig).env("NO_PROXY", no_proxy);
    command.env("HTTPS_PROXY", format!("http://{}", proxy.local_addr().unwrap()));
    let _program = Program::start(command, folder.path());
    let to = to.try_clone().unwrap();
    to.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let first = async {
            let (stream, _) = TcpListener::from_std(to).unwrap().accept().await.unwrap();
            let mut bytes = vec![0; 1024];
            loop {
                stream.readable().await.unwrap();
                if let Ok(length) = stream.try_read(&mut bytes) {
                    bytes.truncate(length);
                    return bytes;
                }
            }
        };
        tokio::time::timeout(PATIENCE, first).await.expect("nothing came")
    })
}

#[test]
fn the_cluster_is_asked_through_the_proxy_unless_it_is_excepted() {
    let cluster = Std::bind("127.0.0.1:0").unwrap();
    let proxy = Std::bind("127.0.0.1:0").unwrap();
    let asked = first_bytes(&cluster, &proxy, "example.com", &proxy);
    let connect = format!("CONNECT {} HTTP/1.1", cluster.local_addr().unwrap());
    assert!(String::from_utf8_lossy(&asked).starts_with(&connect), "{asked:?}");
    // A TLS handshake record: no proxy in between.
    assert_eq!(first_bytes(&cluster, &proxy, "127.0.0.0/8", &cluster).first(), Some(&22));
}
