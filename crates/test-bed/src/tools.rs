//! Where the programs are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The programs that [`tool`] knows.
pub const PROGRAMS: [&str; 10] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
    "helm",
    "registry",
    "source-controller",
    "docker-registry",
    "promtool",
    "curl",
];

/// Of these any that is installed will do: Debian's own.
const INSTALLED: [&str; 3] = ["docker-registry", "promtool", "curl"];

fn folders() -> &'static [PathBuf] {
    static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FOLDERS.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tools/build.sh");
        let output = Command::new("bash").arg(&script).arg("where").output().expect("bash runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        assets.into_iter().chain(text.lines().map(PathBuf::from)).collect()
    })
}

fn find(part: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").filter(|_| INSTALLED.contains(&part)).unwrap_or_default();
    let installed: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders().iter().chain(&installed).map(|folder| folder.join(part)).find(|file| file.exists())
}

/// The path of one of [`PROGRAMS`]; `None` after a line that says how to have it, and with `TEST_BED=off`.
///
/// # Panics
/// With `CI=true`, where nothing may be missing.
pub fn tool(name: &str) -> Option<PathBuf> {
    assert!(PROGRAMS.contains(&name), "{name} is no part of the test bed");
    or_say(name)
}

/// The files of the CustomResourceDefinitions of Flux's source-controller and helm-controller.
///
/// # Panics
/// With `CI=true`, when they are missing.
pub fn crds_of_flux() -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    for part in ["source-controller-crds", "helm-controller-crds"] {
        let entries = std::fs::read_dir(or_say(part)?).expect("a readable folder");
        files.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    files.sort();
    Some(files)
}

fn or_say(part: &str) -> Option<PathBuf> {
    if std::env::var_os("TEST_BED").is_some_and(|wish| wish == "off") {
        eprintln!("passed over: TEST_BED=off leaves out {part}");
        return None;
    }
    let found = find(part);
    if found.is_none() {
        let how = if INSTALLED.contains(&part) { "install it" } else { "`make tools` builds it" };
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{part} is missing: {how}");
        eprintln!("passed over: {part} is missing ({how})");
    }
    found
}
