//! The server over real HTTP/1.1.

use std::{pin::pin, sync::Arc, time::Duration};

use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, task::JoinSet};

use super::{Place, service::respond};
use crate::server::Server;

/// The headers by which a request over HTTP names its actor: one that any client can be given, and the one of a
/// kubeconfig's `as`.
const ACTOR: [&str; 2] = ["x-actor", "impersonate-user"];

/// How long nothing is accepted after an error.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is ready; the connections end with this future.
pub(crate) async fn serve(
    server: Server,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> std::io::Result<()> {
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => return Ok(()),
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_connection(&error) => continue,
            // The process may have too many files open, which passes when connections end.
            Err(_) => {
                tokio::select! {
                    biased;
                    () = &mut shutdown => return Ok(()),
                    () = tokio::time::sleep(PAUSE) => {}
                }
                continue;
            }
        };
        // A small answer should not wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let server = server.clone();
        connections.spawn(async move {
            let service = service_fn(move |request: http::Request<Incoming>| {
                respond(server.clone(), actor_of(&request), request, Place::Apart)
            });
            // An error here is the client's: it broke the connection, or a fault did.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .half_close(true)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn actor_of(request: &http::Request<Incoming>) -> Arc<str> {
    let named = ACTOR.iter().find_map(|header| request.headers().get(*header));
    named.and_then(|v| v.to_str().ok()).unwrap_or("http").into()
}

/// Whether an error of `accept` concerns a connection that broke before it was taken, not the listener.
fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
    )
}
