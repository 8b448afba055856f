//! The signals that end the process.

use std::io;

use tokio::signal::unix::{self, Signal, SignalKind};

/// A signal that ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// SIGINT, as by Ctrl-C.
    Interrupt,
    /// SIGTERM, as by a kubelet.
    Terminate,
}

impl Ended {
    /// The exit code that a shell gives to a process that this signal ended.
    pub fn code(self) -> i32 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Listens to SIGINT and SIGTERM, from when it was made: none is lost between two waits.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes over both signals: from now on they no longer end the process by themselves.
    ///
    /// # Errors
    /// When the system refuses it. Needs a tokio runtime.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of them. Dropping it loses none.
    pub async fn next(&mut self) -> Ended {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Ended::Terminate,
            _ = self.interrupt.recv() => Ended::Interrupt,
        }
    }

    /// Ends the process at the next of them, whatever it is doing.
    pub async fn exit_at_next(mut self) {
        let ended = self.next().await;
        eprintln!("ended at once by a second signal");
        std::process::exit(ended.code());
    }
}
