//! `crds/` and the Rust types say the same.

use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn the_checked_in_definitions_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let wanted: BTreeMap<String, String> = solar_api::crd_files().unwrap().into_iter().collect();
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        found.insert(name, std::fs::read_to_string(entry.path()).unwrap());
    }
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&wanted), "run `make crds`");
    for (name, yaml) in &wanted {
        assert!(found[name] == *yaml, "crds/{name} differs from the types: run `make crds`");
    }
}
