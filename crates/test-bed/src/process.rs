//! A program that runs beside the tests.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
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

/// A child process that is killed when it is dropped, and with the process of the tests however that ends.
#[derive(Debug)]
pub struct Guarded(Child);

impl Guarded {
    /// Starts `command`, in a group of its own.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        let child = command.process_group(0).spawn();
        let child = child.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        guardian::watch(child.id());
        Self(child)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.0.try_wait().expect("a child of this process");
        if ended.is_some() {
            guardian::forget(self.id());
        }
        ended
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// When it has not within [`DEADLINE`].
    pub fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        wait_until("the program has ended", || {
            ended = self.ended();
            ended.is_some()
        })
        .unwrap_or_else(|late| panic!("{late}"));
        ended.expect("it has ended")
    }

    /// Sends a signal; one that has ended gets none.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("a process number");
            // Ended a moment ago: as good as delivered.
            kill_process(pid, signal).ok();
        }
    }

    /// What it prints, if the command has piped it; once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// What it prints as errors, if the command has piped it; once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.0.stderr.take()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
        guardian::forget(self.id());
    }
}

/// A program with its arguments and its log; it can be started and ended as often as a test likes.
#[derive(Debug)]
pub struct Process {
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    log: PathBuf,
    child: Mutex<Option<Guarded>>,
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
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log);
        let child = Guarded::spawn(&mut command);
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

    fn lock(&self) -> MutexGuard<'_, Option<Guarded>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the program runs.
    pub fn is_running(&self) -> bool {
        let mut child = self.lock();
        let running = child.as_mut().is_some_and(|child| child.ended().is_none());
        if !running {
            *child = None;
        }
        running
    }

    /// Sends a signal; a program that does not run gets none.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = self.lock().as_mut() {
            child.signal(signal);
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
        drop(self.lock().take());
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
        self.lock().as_ref().map(Guarded::id)
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
