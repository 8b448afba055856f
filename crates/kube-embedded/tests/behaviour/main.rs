//! How a Kubernetes API server behaves, case by case, through nothing but HTTP requests.
//!
//! Every case is two tests: `embedded` starts an embedded server of its own; `real` runs on the kube-apiserver of
//! `test-bed`, or on the cluster of the kubeconfig that `BEHAVIOUR_KUBECONFIG` names (its user must be an administrator,
//! and the garbage collector and the namespace controller must run there). What they expect is what a real kube-apiserver
//! answers. Where the embedded one is meant to differ, a case says so through [`case::Case::is_embedded`].
//!
//! Every case has a namespace, and where it needs one a kind, of its own, and removes them, also when it fails.

mod admission;
mod builtin;
mod case;
mod concurrency;
mod definitions;
mod deletion;
mod evolution;
mod input;
mod listing;
mod ownership;
mod patching;
mod selecting;
mod status;
mod watching;

#[test]
fn the_readme_tells_how_many_cases_there_are() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let texts = std::fs::read_dir(folder.join("tests/behaviour")).unwrap();
    let texts = texts.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let is_case = |line: &&str| line.starts_with("    async fn ") && line.ends_with("(case) {");
    let cases: usize = texts.map(|text| text.lines().filter(is_case).count()).sum();
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains(&format!("`tests/behaviour` holds {cases} cases:")), "there are {cases}");
}
