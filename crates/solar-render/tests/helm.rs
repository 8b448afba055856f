//! What Helm itself makes of the charts.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use solar_render::{RenderedChart, render_bootstrap, render_release};

struct Helm {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Helm {
    fn find() -> Option<Self> {
        Some(Self {
            program: test_bed::tool("helm")?,
            folder: tempfile::tempdir().expect("a temporary folder"),
        })
    }

    fn package(&self, chart: &RenderedChart) -> PathBuf {
        let path = self.folder.path().join("chart.tgz");
        fs::write(&path, &chart.tgz).expect("a writable folder");
        path
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.folder.path().join(variable));
        }
        let output = command.args(arguments).output().expect("helm runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "helm {arguments:?}: {out}{err}");
        out.into_owned()
    }

    fn lint(&self, chart: &RenderedChart) {
        self.run(&["lint", "--strict", self.package(chart).to_str().expect("UTF-8")]);
    }

    /// The objects of an installation under `name`, in Helm's order.
    fn template(&self, name: &str, chart: &RenderedChart) -> Vec<Value> {
        let path = self.package(chart);
        let text = self.run(&["template", name, path.to_str().expect("UTF-8"), "--namespace", "flux-system"]);
        serde_yaml_ng::Deserializer::from_str(&text)
            .map(|document| Value::deserialize(document).unwrap_or_else(|error| panic!("{error}\n{text}")))
            .filter(|object| !object.is_null())
            .collect()
    }
}

fn labelled(name: &str, key: &str, value: &str) -> Value {
    json!({"name": name, "namespace": "flux-system", "labels": {key: value}, "annotations": {key: value}})
}

fn layer_selector() -> Value {
    json!({"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"})
}

#[test]
fn helm_lints_every_kind_of_chart() {
    let Some(helm) = Helm::find() else { return };
    helm.lint(&render_release(&common::release()).expect("a chart"));
    helm.lint(&render_bootstrap(&common::bootstrap()).expect("a chart"));
    let mut empty = common::bootstrap();
    empty.input.releases.clear();
    helm.lint(&render_bootstrap(&empty).expect("a chart"));
}

#[test]
fn helm_makes_the_objects_of_a_release() {
    let Some(helm) = Helm::find() else { return };
    let config = common::release();
    let objects = helm.template("edge", &render_release(&config).expect("a chart"));
    let metadata = labelled("edge-podinfo", "solar.opendefense.cloud/component", "podinfo");
    let mut config_map_metadata = metadata.clone();
    config_map_metadata["name"] = json!("edge-podinfo-values");
    let expected = [
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": config_map_metadata,
            "data": {"values.yaml": "image:\n  repository: \"ghcr.io/podinfo\"\nui:\n  message: '{{ .Values.x }}'\n"},
        }),
        json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": metadata,
            "spec": {
                "interval": "10m",
                "chartRef": {"kind": "OCIRepository", "name": "edge-podinfo"},
                "releaseName": "edge-podinfo",
                "targetNamespace": "podinfo",
                "install": {"createNamespace": true, "remediation": {"retries": 3}},
                "upgrade": {"remediation": {"retries": 3}},
                "test": {"enable": true},
                "driftDetection": {"mode": "enabled"},
                "valuesFrom": [{"kind": "ConfigMap", "name": "edge-podinfo-values", "valuesKey": "values.yaml"}],
                "values": config.values,
            },
        }),
        json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "OCIRepository",
            "metadata": metadata,
            "spec": {
                "interval": "4m",
                "url": "oci://ghcr.io/stefanprodan/charts/podinfo",
                "insecure": false,
                "secretRef": {"name": "regcred"},
                "layerSelector": layer_selector(),
                "ref": {"tag": "6.7.1"},
            },
        }),
    ];
    assert_eq!(objects, expected);
}

#[test]
fn helm_leaves_out_what_a_release_does_not_have() {
    let Some(helm) = Helm::find() else { return };
    let mut config = common::release();
    config.target_namespace = String::new();
    config.values.clear();
    let digest = format!("sha256:{}", "00ff".repeat(16));
    let resource = common::entrypoint(&mut config);
    resource.helm = None;
    resource.pull_secret_name = None;
    resource.tag = format!("@{digest}");
    resource.insecure = true;
    let objects = helm.template("edge", &render_release(&config).expect("a chart"));
    assert_eq!(objects.len(), 2, "no ConfigMap: {objects:?}");
    let release = &objects[0]["spec"];
    assert_eq!(release["install"], json!({"remediation": {"retries": 3}}));
    assert_eq!(release["values"], json!({}));
    assert!(release.get("targetNamespace").is_none() && release.get("valuesFrom").is_none(), "{release}");
    let repository = &objects[1]["spec"];
    assert_eq!(repository["ref"], json!({"digest": digest}));
    assert_eq!(repository["insecure"], json!(true));
    assert!(repository.get("secretRef").is_none(), "{repository}");
}

#[test]
fn helm_makes_two_objects_for_each_release_of_a_bootstrap() {
    let Some(helm) = Helm::find() else { return };
    let config = common::bootstrap();
    let objects = helm.template("edge", &render_bootstrap(&config).expect("a chart"));
    let key = "solar.opendefense.cloud/release";
    let release = |name: &str, unique: &str| {
        json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": labelled(name, key, unique),
            "spec": {
                "interval": "10m",
                "chartRef": {"kind": "OCIRepository", "name": name},
                "releaseName": name,
                "install": {"remediation": {"retries": 3}},
                "upgrade": {"remediation": {"retries": 3}},
                "test": {"enable": true},
                "driftDetection": {"mode": "enabled"},
                "values": {"userdata": {"site": "edge-1", "no": ["yes", null, 3]}},
            },
        })
    };
    let repository = |name: &str, unique: &str, spec: Value| {
        let mut object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "OCIRepository",
            "metadata": labelled(name, key, unique),
            "spec": {"interval": "10m", "layerSelector": layer_selector()},
        });
        object["spec"].as_object_mut().expect("an object").extend(common::object(spec));
        object
    };
    let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let expected = [
        release("edge-on", "on"),
        release("edge-podinfo", "podinfo"),
        repository(
            "edge-on",
            "on",
            json!({
                "url": "oci://registry:5000/edge/apps/release-on",
                "insecure": true,
                "secretRef": {"name": "render-pull"},
                "ref": {"tag": "v0.0.7-deadbeef", "digest": digest},
            }),
        ),
        repository(
            "edge-podinfo",
            "podinfo",
            json!({
                "url": "oci://registry.example/edge/apps/release-podinfo",
                "insecure": false,
                "ref": {"tag": "v0.0.1-a1b2c3d4", "digest": digest},
            }),
        ),
    ];
    assert_eq!(objects, expected);
}

#[test]
fn helm_changes_no_text_and_no_number() {
    let Some(helm) = Helm::find() else { return };
    let mut values: Map<String, Value> =
        common::NASTY.iter().map(|text| ((*text).to_owned(), Value::from(*text))).collect();
    values.insert(
        "numbers".to_owned(),
        json!([0, -1, 9_007_199_254_740_992_i64, 1e300, -1.5e-7, 0.1, 5e-324, 1_000_000]),
    );
    values.insert("null".to_owned(), Value::Null);
    values.insert("k".repeat(1022), json!([[], {}, [null]]));
    values.insert("megabyte".to_owned(), Value::from("{{ x }} \u{2028}é".repeat(70_000)));
    // A raw DEL is no YAML, whoever writes it.
    let readable: Vec<&str> = common::NASTY.into_iter().filter(|text| !text.contains('\u{7f}')).collect();
    let template =
        format!("text: {}\n# {{{{ end }}}}\n\n", serde_json::to_string(&readable.join("|")).expect("JSON"));
    let mut config = common::release();
    config.values = values.clone();
    common::entrypoint(&mut config).helm.as_mut().expect("a Helm chart").values_template =
        Some(template.clone());
    let objects = helm.template("edge", &render_release(&config).expect("a chart"));
    assert_eq!(objects[0]["data"]["values.yaml"], Value::from(template));
    assert_eq!(objects[1]["spec"]["values"], Value::Object(values.clone()));

    let mut config = common::bootstrap();
    config.input.userdata = values.clone();
    let objects = helm.template("edge", &render_bootstrap(&config).expect("a chart"));
    assert_eq!(objects[0]["spec"]["values"]["userdata"], Value::Object(values));
}

#[test]
fn helm_names_objects_within_53_characters_as_dns_names() {
    let Some(helm) = Helm::find() else { return };
    // The last ten characters are from `printf %s NAME | sha256sum`.
    let cases = [
        ("edge", "a.b-c".to_owned(), "edge-a.b-c".to_owned()),
        ("edge", "c".repeat(48), format!("edge-{}", "c".repeat(48))),
        ("edge", "c".repeat(49), format!("edge-{}-b91864b03b", "c".repeat(37))),
        (
            "edge",
            format!("{}.{}", "c".repeat(36), "d".repeat(20)),
            format!("edge-{}-4308364112", "c".repeat(36)),
        ),
        (
            "edge",
            format!("{}--{}", "c".repeat(35), "d".repeat(20)),
            format!("edge-{}-8bd2ea09fd", "c".repeat(35)),
        ),
    ];
    for (release, component, expected) in cases {
        let mut config = common::release();
        config.input.component.name = component;
        let objects = helm.template(release, &render_release(&config).expect("a chart"));
        assert_eq!(objects[1]["metadata"]["name"], json!(expected));
    }
}

#[test]
fn helm_reads_a_chart_whose_name_is_as_long_as_it_may_be() {
    let Some(helm) = Helm::find() else { return };
    let mut config = common::release();
    config.chart.name = "c".repeat(250);
    let chart = render_release(&config).expect("a chart");
    assert_eq!(helm.template("edge", &chart).len(), 3);
}
