//! `tests/tools/build.sh` where something is not as usual.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn script(argument: &str, set: impl FnOnce(&mut Command)) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tools/build.sh");
    let mut command = Command::new("bash");
    command.arg(path).arg(argument).env_remove("KUBEBUILDER_ASSETS").env_remove("CI");
    set(&mut command);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &output.stderr].concat()).into_owned()
}

#[test]
fn the_folders_are_known_without_a_home() {
    let output = script("where", |command| {
        for variable in ["HOME", "XDG_CACHE_HOME", "SOLAR_TOOLS_DIR"] {
            command.env_remove(variable);
        }
    });
    assert!(output.status.success(), "{}", said(&output));
    let folders = said(&output);
    assert!(folders.lines().count() == 5 && folders.lines().all(|it| it.starts_with('/')), "{folders}");
}

#[test]
fn a_folder_with_a_part_of_the_assets_leaves_the_others_to_be_built() {
    let folder = test_bed::folder("assets");
    let program = folder.join("kube-apiserver");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let asked = |ci: &str| {
        script("missing", |command| {
            command.env("KUBEBUILDER_ASSETS", &folder).env("SOLAR_TOOLS_DIR", folder.join("none"));
            command.env("CI", ci);
        })
    };
    let output = asked("");
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("Left out were the tests with etcd kubectl kube-controller-manager "), "{text}");
    assert_eq!(said(&asked("true")), text);
    assert_eq!(asked("true").status.code(), Some(1));
}
