//! Serves an empty Kubernetes API on a port and says how to reach it with kubectl; Ctrl-C ends it.
//!
//! `cargo run -p kube-embedded --example serve [HOST:PORT]`

use kube_embedded::Server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7443".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("kubectl --server {url} get namespaces");
    let interrupted = async {
        // Without a handler for the signal the default one ends the process.
        let _ = tokio::signal::ctrl_c().await;
    };
    Server::builder().build().serve(listener, interrupted).await?;
    Ok(())
}
