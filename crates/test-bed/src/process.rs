//! A program that runs beside the tests.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::guardian;

/// How long a part may take to start or to end on a busy machine.
pub const DEADLINE: Duration = Duration::from_mins(2);

/// Waits for a level.
///
/// # Errors
/// After [`DEADLINE`], what was waited for.
pub fn wait_until(what: &str, mut reached: impl FnMut() -> bool) -> Result<(), String> {
    let began = Instant::now();
    while !reached() {
        if began.elapsed() > DEADLINE {
            return Err(format!("not within {} s: {what}", DEADLINE.as_secs()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A port of 127.0.0.1 that nobody listens on and that this function gives to nobody else in this process.
///
/// It is below those that systems give to outgoing connections, so that a server that is stopped finds it free when it is
/// started again.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Binaries that run at the same time begin at different places.
    let offset = u16::try_from(std::process::id() % u32::from(COUNT)).expect("small");
    (0..COUNT)
        .map(|_| FIRST + (offset.wrapping_mul(37) % COUNT + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

/// A program with its arguments and its log; it can be started and ended as often as a test likes.
#[derive(Debug)]
pub struct Process {
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Process {
    /// A program that is not started yet and whose output will go to `log`.
    pub fn new(program: &Path, log: &Path) -> Self {
        Self {
            program: program.to_owned(),
            arguments: Vec::new(),
            variables: Vec::new(),
            log: log.to_owned(),
            child: Mutex::new(None),
        }
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Adds a variable to the environment.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Starts the program unless it runs. Its log goes on where it was.
    pub fn start(&self) {
        if self.is_running() {
            return;
        }
        let log = File::options().create(true).append(true).open(&self.log).expect("a log file");
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        guardian::watch(child.id());
        *self.lock() = Some(child);
    }

    /// Starts the program and waits until `ready`.
    ///
    /// # Panics
    /// When it ends before, or is not ready within [`DEADLINE`]; the message has the end of the log.
    pub fn start_until(&self, mut ready: impl FnMut() -> bool) {
        self.start();
        let mut ended = false;
        let outcome = wait_until("it is ready", || {
            ended = !self.is_running();
            ended || ready()
        });
        let program = self.program.display();
        match outcome {
            Err(late) => panic!("{program}: {late}\n{}", self.log_end()),
            Ok(()) if ended => panic!("{program} ended\n{}", self.log_end()),
            Ok(()) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the program runs.
    pub fn is_running(&self) -> bool {
        let mut child = self.lock();
        let running = child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
        if !running && let Some(ended) = child.take() {
            guardian::forget(ended.id());
        }
        running
    }

    /// Sends a signal; a program that does not run gets none.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = self.lock().as_ref() {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process number");
            // Ended a moment ago: as good as delivered.
            kill_process(pid, signal).ok();
        }
    }

    /// Asks the program to end, waits for it, and kills it after [`DEADLINE`].
    pub fn stop(&self) {
        self.signal(Signal::TERM);
        wait_until("it has ended", || !self.is_running()).ok();
        self.kill();
    }

    /// Kills the program and waits until it is gone.
    pub fn kill(&self) {
        if let Some(mut child) = self.lock().take() {
            child.kill().ok();
            child.wait().ok();
            guardian::forget(child.id());
        }
    }

    /// Halts the program (SIGSTOP) until [`Self::resume`].
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a halted program go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// The number of the running process.
    pub fn id(&self) -> Option<u32> {
        self.lock().as_ref().map(Child::id)
    }

    /// What the program has written since its first start.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
