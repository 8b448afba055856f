use std::path::Path;
use std::process::Command;

#[test]
fn the_core_depends_on_no_runtime_and_no_client() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args([
            "tree",
            "--package",
            "solar-core",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--locked",
            "--offline",
        ])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .expect("cargo runs");
    let tree = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    let packages: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(packages.contains(&"serde_json"), "{tree}{}", String::from_utf8_lossy(&output.stderr));
    for banned in [
        "tokio",
        "hyper",
        "actix",
        "actix-rt",
        "kube-client",
        "kube-runtime",
        "reqwest",
        "futures",
        "oci-client",
        "mio",
    ] {
        assert!(!packages.contains(&banned), "{banned} is in the tree of solar-core");
    }
}
