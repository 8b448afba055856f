//! Helm pulls, checks, shows and renders the charts that were pushed, and a real API server takes what it renders.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::oci::{
    Artifact, Endpoint, HttpRegistry, HttpRegistryOptions, OciRegistry as _,
};
use solar_render::{RenderedChart, render_bootstrap, render_release};
use test_bed::{Generation, Registry};

use crate::charts;
use crate::flux;

/// Every kind of chart, by the name of its test.
fn kinds() -> Vec<(&'static str, RenderedChart)> {
    let mut bare = charts::release();
    "release-bare".clone_into(&mut bare.chart.name);
    bare.target_namespace = String::new();
    bare.values.clear();
    let resource = charts::entrypoint(&mut bare);
    resource.helm = None;
    resource.pull_secret_name = None;
    resource.tag = format!("@sha256:{}", "00ff".repeat(16));
    resource.insecure = true;
    let mut nasty = charts::release();
    "release-nasty".clone_into(&mut nasty.chart.name);
    nasty.values = charts::NASTY.iter().map(|text| ((*text).to_owned(), Value::from(*text))).collect();
    let mut empty = charts::bootstrap();
    "bootstrap-empty".clone_into(&mut empty.chart.name);
    empty.input.releases.clear();
    vec![
        ("release", render_release(&charts::release()).unwrap()),
        ("release-bare", render_release(&bare).unwrap()),
        ("release-nasty", render_release(&nasty).unwrap()),
        ("bootstrap", render_bootstrap(&charts::bootstrap()).unwrap()),
        ("bootstrap-empty", render_bootstrap(&empty).unwrap()),
    ]
}

/// The program with a folder of its own.
pub struct Helm {
    program: PathBuf,
    /// Where it runs.
    pub folder: PathBuf,
}

impl Helm {
    /// `None` where it is missing.
    pub fn find() -> Option<Self> {
        Some(Self { program: test_bed::tool("helm")?, folder: test_bed::folder("helm") })
    }

    /// What a command prints that succeeds.
    pub fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.folder.join(variable));
        }
        let output = command.args(arguments).current_dir(&self.folder).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "helm {arguments:?}: {out}{err}");
        out.into_owned()
    }
}

/// Pushes a chart as the controller does; returns what helm calls it.
async fn push(registry: &Registry, chart: &RenderedChart) -> String {
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = HttpRegistry::new(&HttpRegistryOptions::default(), Clock::machine()).unwrap();
    let artifact = Artifact::chart(chart.config.clone(), chart.tgz.clone(), &chart.annotations);
    let repository = format!("fleet/{}", chart.name);
    let endpoint = Endpoint::anonymous(registry.host(), true);
    let pushed = client.push(&endpoint, &repository, &chart.version, &artifact).await;
    assert_eq!(pushed.as_ref(), Ok(artifact.digest()));
    format!("oci://{}/{repository}", registry.host())
}

/// The objects of a text.
pub fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

#[tokio::test]
async fn helm_pulls_lints_shows_and_renders_what_was_pushed() {
    let Some(helm) = Helm::find() else { return };
    for generation in Generation::ALL {
        let Some(registry) = Registry::builder(generation).start() else { continue };
        for (kind, chart) in kinds() {
            let url = push(&registry, &chart).await;
            let remote = [&*url, "--version", &chart.version, "--plain-http"];
            let with = |before: &[&'static str]| helm.run(&[before, &remote[..]].concat());

            with(&["pull"]);
            let pulled = helm.folder.join(format!("{}-{}.tgz", chart.name, chart.version));
            assert_eq!(std::fs::read(&pulled).unwrap(), chart.tgz, "{kind}");
            let file = text(&pulled);
            helm.run(&["lint", "--strict", file]);

            let shown: Value = serde_saphyr::from_str(&with(&["show", "chart"])).unwrap();
            let pushed: Value = serde_json::from_slice(&chart.config).unwrap();
            assert_eq!(shown, pushed, "{kind}: the config of the manifest is the chart's metadata");
            let values = with(&["show", "values"]);
            let written = charts::file(&chart, "values.yaml");
            assert_eq!(values.trim_end(), written.trim_end(), "{kind}");

            let rendered = documents(&with(&["template", "edge"]));
            assert_eq!(rendered, documents(&helm.run(&["template", "edge", file])), "{kind}");
            std::fs::remove_file(pulled).unwrap();
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Where objects of this kind are created.
fn collection(object: &Value, namespace: &str) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let (root, plural) = match object["kind"].as_str().unwrap() {
        "ConfigMap" => ("api", "configmaps"),
        "HelmRelease" => ("apis", "helmreleases"),
        "OCIRepository" => ("apis", "ocirepositories"),
        kind => panic!("charts have no {kind}"),
    };
    format!("/{root}/{version}/namespaces/{namespace}/{plural}?fieldValidation=Strict")
}

#[tokio::test]
async fn an_api_server_with_the_definitions_of_flux_takes_every_object_of_every_chart() {
    let (Some(helm), Some(client)) = (Helm::find(), flux::cluster().await) else { return };
    let mut taken = 0;
    for (namespace, chart) in kinds() {
        let metadata = json!({ "metadata": { "name": namespace } });
        flux::post(&client, "/api/v1/namespaces", &metadata).await.unwrap();
        let file = helm.folder.join(format!("{namespace}.tgz"));
        std::fs::write(&file, &chart.tgz).unwrap();
        let rendered = helm.run(&["template", "edge", text(&file), "--namespace", namespace]);
        for object in documents(&rendered) {
            let path = collection(&object, namespace);
            let stored = flux::post(&client, &path, &object).await;
            let stored = stored.unwrap_or_else(|refused| panic!("{namespace}: {refused}\n{object}"));
            assert_eq!(stored["metadata"]["name"], object["metadata"]["name"]);
            taken += 1;

            let mut misspelt = object;
            misspelt["metadata"]["name"] = json!("misspelt");
            misspelt["sepc"] = json!({});
            let refused = flux::post(&client, &path, &misspelt).await.expect_err("an unknown field");
            assert!(refused.contains("unknown field \"sepc\""), "{refused}");
        }
    }
    // Three of a release, two without values; two for each release of a bootstrap.
    assert_eq!(taken, 3 + 2 + 3 + 4);
}
