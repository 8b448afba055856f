//! The built program as a process, what it logs, and what it answers.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use test_bed::Guarded;

/// The program.
pub fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_solar-controller"));
    for variable in
        ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"]
    {
        program.env_remove(variable);
    }
    program
}

/// No line has a password of the tests or a token to one of their API servers.
pub fn tells_no_secret(log: &str) {
    // As they are, and as HTTP and Secrets carry them.
    let secrets = ["solar-dev", "c29sYXI6c29sYXItZGV2", "token-of-", "Bearer ", "eyJ"];
    for line in log.lines() {
        assert!(!secrets.iter().any(|secret| line.contains(secret)), "a secret is logged: {line}");
    }
}

/// What a program logs.
#[derive(Clone)]
pub struct Log(PathBuf);

impl Log {
    /// All of it so far.
    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }

    /// The line that says that it starts.
    pub fn started_line(&self) -> Option<Value> {
        let text = self.text();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["message"] == "solar-controller starts")
    }

    /// Whether a line with this message has this value in this field.
    pub fn says(&self, message: &str, field: &str, value: &Value) -> bool {
        let text = self.text();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.any(|line| line["message"] == message && line[field] == *value)
    }
}

/// The running program; killed when it is dropped, and with the tests.
pub struct Program {
    child: Guarded,
    /// Its standard error.
    pub log: Log,
    /// Where it tells its health.
    pub health: String,
    /// Where it tells its metrics.
    pub metrics: String,
}

impl Program {
    /// Starts `command`, with its log in `folder`.
    pub fn start(mut command: Command, folder: &Path) -> Self {
        let number = std::fs::read_dir(folder).unwrap().count();
        let log = folder.join(format!("log-{number}"));
        let child = Guarded::spawn(command.stdout(Stdio::null()).stderr(File::create(&log).unwrap()));
        Self { child, log: Log(log), health: String::new(), metrics: String::new() }
    }

    /// Code and body of `/healthz` and the like.
    pub fn health(&self, path: &str) -> (u16, String) {
        get(&self.health, path)
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal such as `-TERM`.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.ended()
    }
}

/// Code and body of an answer; code 0 when there is none.
pub fn get(address: &str, path: &str) -> (u16, String) {
    let asked = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    let answer = asked().unwrap_or_default();
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    assert!(!head.to_lowercase().contains("chunked"), "{head}");
    (code, body.to_owned())
}
