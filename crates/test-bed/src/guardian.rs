//! Whatever happens to the process of the tests, nothing that it started outlives it.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Reads orders until the process of the tests is gone, which closes the pipe; then it cleans up. `kept` stays when a
/// test has failed.
const SCRIPT: &str = r#"
trap '' INT TERM HUP PIPE
pids= kept=
while read -r order what; do
    case $order in
    watch) pids="$pids $what " ;;
    forget) pids=$(echo "$pids" | sed "s/ $what / /") ;;
    keep) kept=yes ;;
    esac
done
for pid in $pids; do kill -9 "$pid"; done
[ -n "$kept" ] || rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"#;

struct Guardian {
    shell: Mutex<Child>,
    folder: PathBuf,
}

fn guardian() -> &'static Guardian {
    static GUARDIAN: OnceLock<Guardian> = OnceLock::new();
    GUARDIAN.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("test-bed-").tempdir().expect("a folder").keep();
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "guardian"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to the group of the tests must not reach the one who cleans up after them.
            .process_group(0)
            .spawn()
            .expect("sh runs");
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            previous(info);
            order("keep", 0);
            eprintln!("the logs of the servers stay in {}", folder_of_all().display());
        }));
        Guardian { shell: Mutex::new(shell), folder }
    })
}

fn order(verb: &str, pid: u32) {
    let mut shell: MutexGuard<'_, Child> = guardian().shell.lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = shell.stdin.as_mut().expect("a pipe");
    // The guardian can only be gone when somebody ended it by hand.
    writeln!(pipe, "{verb} {pid}").ok();
}

fn folder_of_all() -> &'static Path {
    &guardian().folder
}

/// Ends the process when the tests end.
pub(crate) fn watch(pid: u32) {
    order("watch", pid);
}

/// The process has been waited for: its number may belong to another one now.
pub(crate) fn forget(pid: u32) {
    order("forget", pid);
}

/// A new folder, removed when the tests end without a failure.
pub fn folder(name: &str) -> PathBuf {
    tempfile::Builder::new()
        .prefix(&format!("{name}-"))
        .tempdir_in(folder_of_all())
        .expect("a folder in the folder of the tests")
        .keep()
}
