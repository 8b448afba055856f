//! A TCP proxy between a process and its API server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::world::World;

/// What the proxy does with connections.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// How often all connections were cut.
    cuts: u64,
    /// How many there were to cut.
    cut: u64,
    /// Nothing is passed on any more, and nobody is told.
    silent: bool,
    /// Who comes is turned away.
    shut: bool,
}

/// The proxy; its tasks end with the runtime of the test.
pub struct Proxy {
    state: Arc<watch::Sender<State>>,
    /// Leads a process through the proxy.
    pub kubeconfig: PathBuf,
}

#[allow(clippy::disallowed_methods, reason = "its tasks belong to the test's runtime and end with it")]
impl Proxy {
    /// One for the process `who`.
    pub fn start(world: &World, who: &str) -> Self {
        let kubeconfig = world.kubeconfig(who);
        let text = std::fs::read_to_string(&kubeconfig).unwrap();
        let port = text.split("127.0.0.1:").nth(1).unwrap();
        let port: String = port.chars().take_while(char::is_ascii_digit).collect();
        let server = format!("127.0.0.1:{port}");
        let listener = world.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let own = listener.local_addr().unwrap().to_string();
        std::fs::write(&kubeconfig, text.replace(&server, &own)).unwrap();

        let state = Arc::new(watch::Sender::new(State::default()));
        let told = state.clone();
        world.runtime.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if told.borrow().shut {
                    continue;
                }
                tokio::spawn(pass(near, server.clone(), told.clone()));
            }
        });
        Self { state, kubeconfig }
    }

    /// From now on all connections are cut every second.
    pub fn cut_every_second(&self, world: &World) {
        let state = self.state.clone();
        world.runtime.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                state.send_modify(|state| state.cuts += 1);
            }
        });
    }

    /// Cuts all connections; until [`Self::open`] there are no new ones.
    pub fn shut(&self) {
        self.state.send_modify(|state| {
            state.cuts += 1;
            state.shut = true;
        });
    }

    /// From now on connections are passed on again.
    pub fn open(&self) {
        self.state.send_modify(|state| state.shut = false);
    }

    /// How many connections were cut.
    pub fn cut(&self) -> u64 {
        self.state.borrow().cut
    }

    /// From now on nothing is passed on, and connections stay open.
    pub fn fall_silent(&self) {
        self.state.send_modify(|state| state.silent = true);
    }
}

async fn pass(mut near: TcpStream, server: String, state: Arc<watch::Sender<State>>) {
    let mut told = state.subscribe();
    let cuts = told.borrow().cuts;
    let Ok(mut far) = TcpStream::connect(&server).await else { return };
    let is_cut = {
        let ends = told.wait_for(|now| now.silent || now.cuts > cuts);
        tokio::select! {
            biased;
            now = ends => now.is_ok_and(|now| !now.silent),
            _ = copy_bidirectional(&mut near, &mut far) => return,
        }
    };
    if is_cut {
        state.send_modify(|state| state.cut += 1);
    } else {
        // Both ends stay open.
        std::future::pending::<()>().await;
    }
}
