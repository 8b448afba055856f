//! The bytes of charts.
//!
//! When a test here fails because a template or a writer was changed on purpose, raise `TEMPLATE_VERSION` in
//! solar-core's `content.rs`, say in the changelog that every chart is rendered anew, and write the new files with
//! `UPDATE_GOLDEN=1 cargo test -p solar-render --test golden`.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use solar_core::content::TEMPLATE_VERSION;
use solar_core::hash::sha256_hex;
use solar_render::{RenderedChart, render_bootstrap, render_release};

/// Everything that leaves the process, by file name.
fn outputs(chart: &RenderedChart) -> BTreeMap<String, Vec<u8>> {
    let mut outputs: BTreeMap<String, Vec<u8>> =
        chart.files.iter().map(|(path, bytes)| (format!("chart/{path}"), bytes.to_vec())).collect();
    let digest = format!("template version {TEMPLATE_VERSION}\nsha256:{}\n", sha256_hex(&chart.tgz));
    outputs.insert("tgz.digest".to_owned(), digest.into_bytes());
    outputs.insert("config.json".to_owned(), chart.config.clone());
    let annotations = serde_json::to_vec_pretty(&chart.annotations).expect("a map of texts");
    outputs.insert("annotations.json".to_owned(), annotations);
    outputs
}

fn files_under(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
                found.insert(name, fs::read(&path).expect("a readable file"));
            }
        }
    }
    found
}

fn assert_golden(name: &str, chart: &RenderedChart) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let actual = outputs(chart);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let _ = fs::remove_dir_all(&root);
        for (path, bytes) in &actual {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
            fs::write(path, bytes).expect("a writable file");
        }
    }
    let expected = files_under(&root);
    assert_eq!(
        actual.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "the files of a chart"
    );
    for (path, bytes) in &expected {
        let (actual, expected) = (String::from_utf8_lossy(&actual[path]), String::from_utf8_lossy(bytes));
        assert_eq!(
            actual, expected,
            "{name}/{path} changed: see the head of this file for what that asks for"
        );
    }
}

#[test]
fn a_release_chart_keeps_its_bytes() {
    assert_golden("release", &render_release(&common::release()).expect("a chart"));
}

#[test]
fn a_release_chart_with_the_least_input_keeps_its_bytes() {
    let mut config = common::release();
    config.target_namespace = String::new();
    config.values.clear();
    config.chart.description = String::new();
    config.chart.app_version = String::new();
    let resource = common::entrypoint(&mut config);
    resource.helm = None;
    resource.pull_secret_name = None;
    resource.tag = format!("@sha256:{}", "00ff".repeat(16));
    resource.insecure = true;
    assert_golden("release-least", &render_release(&config).expect("a chart"));
}

#[test]
fn a_bootstrap_chart_keeps_its_bytes() {
    assert_golden("bootstrap", &render_bootstrap(&common::bootstrap()).expect("a chart"));
}

#[test]
fn a_bootstrap_chart_without_releases_keeps_its_bytes() {
    let mut config = common::bootstrap();
    config.input.releases.clear();
    config.input.userdata.clear();
    assert_golden("bootstrap-empty", &render_bootstrap(&config).expect("a chart"));
}
