//! Every field of every kind, by its name on the wire, and the row that `kubectl get` makes of it.

use serde_json::{Value, json};

use crate::support::{object, run};

/// An object with all fields set.
pub struct Full {
    pub kind: &'static str,
    pub plural: &'static str,
    pub spec: Value,
    /// Null where the kind has none.
    pub status: Value,
    /// What stands in the columns between Name and Age.
    pub cells: Value,
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "why",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

fn helm() -> Value {
    json!({
        "name": "web",
        "description": "a web server",
        "version": "1.0.0",
        "appVersion": "1.0",
        "valuesTemplate": "replicas: 1\n",
    })
}

fn resource() -> Value {
    json!({ "repository": "h/web", "insecure": true, "tag": "@sha256:00", "helm": helm() })
}

fn resolved() -> Value {
    let mut resolved = resource();
    resolved["pullSecretName"] = json!("pull");
    resolved
}

fn chart() -> Value {
    json!({ "name": "web", "description": "a web server", "version": "v0.0.1-0a1b2c3d", "appVersion": "1.0" })
}

fn any() -> Value {
    json!({ "a": { "b": [1, { "c": null }], "d": {} }, "x-y": "z", "n": 1.5, "t": true })
}

fn selector() -> Value {
    json!({
        "matchLabels": { "stage": "prod" },
        "matchExpressions": [{ "key": "region", "operator": "In", "values": ["eu"] }],
    })
}

fn reference(name: &str) -> Value {
    json!({ "name": name, "namespace": "other" })
}

fn render_task(kind: &str, input: &Value) -> Value {
    json!({
        "type": kind,
        kind: input,
        "repository": "a/b",
        "tag": "v0.0.1",
        "baseURL": "h:5000",
        "registryRef": reference("registry"),
        "pushSecretRef": { "name": "push" },
        "plainHTTP": true,
        "failedJobTTL": 60,
        "ownerKind": "Target",
        "ownerName": "t",
        "ownerNamespace": "default",
    })
}

fn release_input() -> Value {
    json!({
        "chart": chart(),
        "input": {
            "component": { "name": "web" },
            "resources": { "chart": resolved() },
            "entrypoint": { "resourceName": "chart", "type": "helm" },
        },
        "targetNamespace": "apps",
        "values": any(),
    })
}

fn bootstrap_input() -> Value {
    let mut release = resolved();
    release["digest"] = json!("sha256:00");
    json!({ "chart": chart(), "input": { "releases": { "web": release }, "userdata": any() } })
}

fn render_task_status(succeeded: &str, failed: &str) -> Value {
    json!({
        "conditions": [
            condition("JobSucceeded", succeeded, "R"),
            condition("JobFailed", failed, "R"),
            condition("JobScheduled", "True", "R"),
        ],
        "chartURL": "oci://h/a/b:v0.0.1",
        "digest": "sha256:00",
        "attempts": 2,
        "observedRenderRequest": "again",
    })
}

/// One object of each kind; two RenderTasks, one of each type.
pub fn full() -> Vec<Full> {
    [catalog(), bindings(), rendering()].into_iter().flatten().collect()
}

fn catalog() -> Vec<Full> {
    vec![
        Full {
            kind: "Component",
            plural: "components",
            spec: json!({ "scheme": "oci", "registry": "ghcr.io", "repository": "a/b" }),
            status: Value::Null,
            cells: json!(["ghcr.io", "a/b"]),
        },
        Full {
            kind: "ComponentVersion",
            plural: "componentversions",
            spec: json!({
                "componentRef": { "name": "web" },
                "tag": "1.0.0",
                "resources": { "chart": resource() },
                "entrypoint": { "resourceName": "chart", "type": "kro" },
                "registry": "ghcr.io",
                "namespace": "a",
                "componentName": "example.com/web",
                "digest": "sha256:00",
            }),
            status: json!({
                "conditions": [condition("Available", "False", "DescriptorMissing")],
                "descriptorMissingSince": "2026-01-02T03:04:05Z",
                "observedRecheck": "now",
            }),
            cells: json!(["web", "1.0.0", "False", "DescriptorMissing"]),
        },
        Full {
            kind: "Registry",
            plural: "registries",
            spec: json!({
                "hostname": "h:5000",
                "plainHTTP": true,
                "solarSecretRef": { "name": "push" },
                "targetPullSecretName": "pull",
                "flavor": "zot",
                "webhookPath": "/hook",
                "scanInterval": "1h30m",
            }),
            status: json!({ "conditions": [condition("Any", "True", "R")] }),
            cells: json!(["h:5000", true]),
        },
        Full {
            kind: "Release",
            plural: "releases",
            spec: json!({
                "componentVersionRef": reference("web-1"),
                "targetNamespace": "apps",
                "uniqueName": "web",
                "antiAffinity": selector(),
                "values": any(),
                "failedJobTTL": 60,
                "priority": -3,
            }),
            status: json!({
                "conditions": [condition("ComponentVersionResolved", "True", "Resolved")],
                "effectiveUniqueName": "web",
                "renderTaskRef": "rt",
            }),
            cells: json!(["web-1", "True"]),
        },
        Full {
            kind: "ReferenceGrant",
            plural: "referencegrants",
            spec: json!({
                "from": [{ "group": "solar.opendefense.cloud", "kind": "Target", "namespace": "other" }],
                "to": [{ "group": "", "kind": "Secret" }],
            }),
            status: Value::Null,
            cells: json!([]),
        },
    ]
}

fn bindings() -> Vec<Full> {
    let status = json!({ "conditions": [condition("Any", "True", "R")] });
    vec![
        Full {
            kind: "RegistryBinding",
            plural: "registrybindings",
            spec: json!({ "targetRef": reference("t"), "registryRef": { "name": "r" } }),
            status: status.clone(),
            cells: json!(["t", "r"]),
        },
        Full {
            kind: "ReleaseBinding",
            plural: "releasebindings",
            spec: json!({ "targetRef": reference("t"), "releaseRef": { "name": "web" } }),
            status,
            cells: json!(["t", "web"]),
        },
        Full {
            kind: "Profile",
            plural: "profiles",
            spec: json!({ "releaseRef": { "name": "web" }, "targetSelector": selector(), "userdata": any() }),
            status: json!({ "matchedTargets": 2, "conditions": [condition("Any", "True", "R")] }),
            cells: json!(["web", 2]),
        },
        Full {
            kind: "RenderBinding",
            plural: "renderbindings",
            spec: json!({
                "renderArtifactRef": { "name": "ra" },
                "ownerKind": "Target",
                "ownerName": "t",
                "ownerNamespace": "default",
                "registryRef": reference("registry"),
            }),
            status: Value::Null,
            cells: json!(["ra", "Target", "t"]),
        },
    ]
}

fn rendering() -> Vec<Full> {
    vec![
        Full {
            kind: "Target",
            plural: "targets",
            spec: json!({ "renderRegistryRef": reference("registry"), "userdata": any() }),
            status: json!({
                "bootstrapVersion": 3,
                "chartURL": "oci://h/a/b:v0.0.3",
                "observedGeneration": 1,
                "conditions": [
                    condition("RegistryResolved", "True", "Resolved"),
                    condition("ReleasesResolved", "True", "NoConflicts"),
                    condition("ReleasesRendered", "False", "Pending"),
                    condition("BootstrapReady", "False", "Waiting"),
                    condition("Ready", "False", "Pending"),
                ],
            }),
            cells: json!(["registry", "False", "Pending", 3, "Pending", "Waiting"]),
        },
        Full {
            kind: "RenderTask",
            plural: "rendertasks",
            spec: render_task("release", &release_input()),
            status: render_task_status("False", "True"),
            cells: json!(["Target", "t", "JobFailed"]),
        },
        Full {
            kind: "RenderTask",
            plural: "rendertasks",
            spec: render_task("bootstrap", &bootstrap_input()),
            status: render_task_status("True", "False"),
            cells: json!(["Target", "t", "JobSucceeded"]),
        },
        Full {
            kind: "RenderArtifact",
            plural: "renderartifacts",
            spec: json!({
                "baseURL": "h:5000",
                "repository": "a/b",
                "tag": "v0.0.1",
                "renderTaskRef": "rt",
                "registryRef": reference("registry"),
            }),
            status: json!({
                "chartURL": "oci://h/a/b:v0.0.1",
                "digest": "sha256:00",
                "conditions": [condition("OCICleanup", "False", "DeleteFailed")],
            }),
            cells: json!(["a/b", "v0.0.1", "oci://h/a/b:v0.0.1"]),
        },
    ]
}

#[test]
fn every_field_is_stored_as_it_was_written() {
    run(async |api| {
        for (number, full) in full().into_iter().enumerate() {
            let (kind, name) = (full.kind, format!("full-{number}"));
            let created = api.create(full.plural, &object(kind, &name, &full.spec)).await.unwrap();
            assert_eq!(created["spec"], full.spec, "{kind}");
            if !full.status.is_null() {
                let stored = api.patch_status(full.plural, &name, &full.status).await.unwrap();
                assert_eq!(stored["status"], full.status, "{kind}");
            }
        }
    });
}

#[test]
fn every_row_shows_what_its_columns_name() {
    run(async |api| {
        for (number, full) in full().into_iter().enumerate() {
            let (kind, name) = (full.kind, format!("full-{number}"));
            api.create(full.plural, &object(kind, &name, &full.spec)).await.unwrap();
            if !full.status.is_null() {
                api.patch_status(full.plural, &name, &full.status).await.unwrap();
            }
            let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
            let table = api
                .list(full.plural, &format!("fieldSelector=metadata.name%3D{name}"), accept)
                .await
                .unwrap();
            assert_eq!(table["kind"], "Table", "{kind}");
            let mut cells = table["rows"][0]["cells"].as_array().unwrap().clone();
            assert_eq!(cells.remove(0), json!(name), "{kind}");
            let age = cells.pop().unwrap();
            assert!(age.as_str().unwrap().ends_with('s'), "{kind}: {age}");
            assert_eq!(Value::Array(cells), full.cells, "{kind}");
        }
    });
}

#[test]
fn a_status_that_is_begun_has_its_defaults() {
    run(async |api| {
        for (kind, begun, wanted) in [
            (
                "Target",
                json!({ "chartURL": "oci://h/a:1" }),
                json!({
                    "chartURL": "oci://h/a:1",
                    "bootstrapVersion": 0,
                    "observedGeneration": 0,
                    "conditions": [],
                }),
            ),
            ("Profile", json!({ "conditions": [] }), json!({ "matchedTargets": 0, "conditions": [] })),
            ("RenderArtifact", json!({ "digest": "d" }), json!({ "digest": "d", "conditions": [] })),
        ] {
            let full = full().into_iter().find(|full| full.kind == kind).unwrap();
            api.create(full.plural, &object(kind, "begun", &full.spec)).await.unwrap();
            let stored = api.patch_status(full.plural, "begun", &begun).await.unwrap();
            assert_eq!(stored["status"], wanted, "{kind}");
        }
    });
}

#[test]
fn two_conditions_of_one_type_are_refused() {
    run(async |api| {
        for (number, full) in full().into_iter().enumerate().filter(|(_, full)| !full.status.is_null()) {
            let (kind, name) = (full.kind, format!("twice-{number}"));
            api.create(full.plural, &object(kind, &name, &full.spec)).await.unwrap();
            let twice =
                json!({ "conditions": [condition("Any", "True", "R"), condition("Any", "False", "R")] });
            let said = api.patch_status(full.plural, &name, &twice).await.expect_err(kind);
            let wanted = format!(
                "{kind}.solar.opendefense.cloud \"{name}\" is invalid: status.conditions[1]: Duplicate value: \
                 {{\"type\":\"Any\"}}"
            );
            assert_eq!(said, wanted);
        }
    });
}

#[test]
fn a_list_by_a_selectable_field_finds_only_what_has_it() {
    run(async |api| {
        for (kind, pointer) in [
            ("ComponentVersion", "/componentRef/name"),
            ("RegistryBinding", "/targetRef/name"),
            ("RegistryBinding", "/registryRef/name"),
            ("Release", "/componentVersionRef/name"),
            ("ReleaseBinding", "/targetRef/name"),
            ("ReleaseBinding", "/releaseRef/name"),
            ("Profile", "/releaseRef/name"),
            ("Target", "/renderRegistryRef/name"),
            ("RenderTask", "/ownerName"),
            ("RenderArtifact", "/repository"),
            ("RenderArtifact", "/registryRef/name"),
            ("RenderBinding", "/renderArtifactRef/name"),
            ("RenderBinding", "/ownerName"),
        ] {
            let Full { plural, mut spec, .. } = full().into_iter().find(|full| full.kind == kind).unwrap();
            let field = format!("spec{}", pointer.replace('/', "."));
            let (same, other) =
                (format!("same-{field}").to_lowercase(), format!("other-{field}").to_lowercase());
            api.create(plural, &object(kind, &same, &spec)).await.unwrap();
            *spec.pointer_mut(pointer).unwrap() = json!("sought");
            api.create(plural, &object(kind, &other, &spec)).await.unwrap();
            let query = format!("fieldSelector={field}%3Dsought");
            let found = api.list(plural, &query, "application/json").await.unwrap();
            let items = found["items"].as_array().unwrap();
            let names: Vec<&Value> = items.iter().map(|item| &item["metadata"]["name"]).collect();
            assert_eq!(names, [other.as_str()], "{kind} {field}");
        }
        let said =
            api.list("releases", "fieldSelector=spec.priority%3D1", "application/json").await.unwrap_err();
        assert!(said.contains("field label not supported: spec.priority"), "{said}");
    });
}
