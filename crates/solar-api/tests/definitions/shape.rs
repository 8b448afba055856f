//! Columns, short names, selectable fields, defaults and what is kept or pruned.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::support::{Api, good, good_of, object, run};

#[test]
fn every_kind_has_its_short_name_columns_and_selectable_fields() {
    // Kind, short name, columns without Age (wide ones in parentheses), selectable fields.
    let table: [(&str, &str, &[&str], &[&str]); 12] = [
        ("Component", "comp", &["Registry", "Repository"], &[]),
        (
            "ComponentVersion",
            "cv",
            &["Component", "Tag", "Available", "Reason"],
            &[".spec.componentRef.name"],
        ),
        ("Registry", "reg", &["Hostname", "Plain HTTP"], &[]),
        (
            "RegistryBinding",
            "rb",
            &["Target", "Registry"],
            &[".spec.targetRef.name", ".spec.registryRef.name"],
        ),
        ("Release", "rel", &["ComponentVersion", "Resolved"], &[".spec.componentVersionRef.name"]),
        ("ReleaseBinding", "rlb", &["Target", "Release"], &[".spec.targetRef.name", ".spec.releaseRef.name"]),
        ("Profile", "prf", &["Release", "Matched"], &[".spec.releaseRef.name"]),
        ("ReferenceGrant", "rg", &[], &[]),
        (
            "Target",
            "tgt",
            &["Registry", "Ready", "Reason", "Version", "(Releases)", "(Bootstrap)"],
            &[".spec.renderRegistryRef.name"],
        ),
        ("RenderTask", "rt", &["Owner Kind", "Owner Name", "Status"], &[".spec.ownerName"]),
        (
            "RenderArtifact",
            "ra",
            &["Repository", "Tag", "ChartURL"],
            &[".spec.repository", ".spec.registryRef.name"],
        ),
        (
            "RenderBinding",
            "rbin",
            &["Artifact", "Owner Kind", "Owner Name"],
            &[".spec.renderArtifactRef.name", ".spec.ownerName"],
        ),
    ];
    let crds = solar_api::crds();
    assert_eq!(crds.len(), table.len());
    for (kind, short, columns, fields) in table {
        let crd = crds.iter().find(|crd| crd.spec.names.kind == kind).unwrap();
        let version = &crd.spec.versions[0];
        assert_eq!(crd.spec.names.short_names.as_deref(), Some(&[short.to_owned()][..]), "{kind}");
        let mut found: Vec<String> = version
            .additional_printer_columns
            .iter()
            .flatten()
            .map(|column| match column.priority {
                Some(1) => format!("({})", column.name),
                _ => column.name.clone(),
            })
            .collect();
        assert_eq!(found.pop().as_deref(), Some("Age"), "{kind}");
        assert_eq!(found, columns, "{kind}");
        let selectable: Vec<&str> =
            version.selectable_fields.iter().flatten().map(|field| field.json_path.as_str()).collect();
        assert_eq!(selectable, fields, "{kind}");
        assert_eq!(crd.spec.scope, "Namespaced", "{kind}");
        let has_status =
            version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some());
        let no_status = ["Component", "ReferenceGrant", "RenderBinding"].contains(&kind);
        assert_eq!(has_status, !no_status, "{kind}");
        assert!(crd.name_any().ends_with(".solar.opendefense.cloud"));
    }
}

#[test]
fn every_kind_takes_a_good_object_and_shows_it_in_a_table() {
    run(async {
        let api = Api::new();
        for (kind, plural, spec) in good() {
            let created = api.create(plural, &object(kind, "good", &spec)).await;
            assert!(created.is_ok(), "{kind}: {created:?}");
            let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
            let table = api.list(plural, "", accept).await;
            assert_eq!(table["kind"], "Table", "{kind}");
            assert_eq!(table["rows"][0]["cells"][0], "good", "{kind}");
        }
    });
}

#[test]
fn what_is_left_out_has_its_default() {
    run(async {
        let api = Api::new();
        for (kind, pointer, default) in [
            ("Registry", "/spec/plainHTTP", json!(false)),
            ("Release", "/spec/priority", json!(0)),
            ("RenderTask", "/spec/plainHTTP", json!(false)),
            ("ComponentVersion", "/spec/resources/chart/insecure", json!(false)),
        ] {
            let (plural, spec) = good_of(kind);
            let created = api.create(plural, &object(kind, "defaults", &spec)).await.unwrap();
            assert_eq!(created.pointer(pointer), Some(&default), "{kind} {pointer}");
        }
    });
}

#[test]
fn arbitrary_json_is_kept_and_unknown_fields_elsewhere_are_pruned() {
    run(async {
        let api = Api::new();
        let values = json!({ "a": { "b": [1, { "c": null }], "d": {} }, "x-y": "z" });
        let (plural, mut spec) = good_of("Release");
        spec["values"] = values.clone();
        spec["unknown"] = json!(1);
        let created = api.create(plural, &object("Release", "kept", &spec)).await.unwrap();
        assert_eq!(created["spec"]["values"], values);
        assert_eq!(created["spec"]["unknown"], Value::Null);

        let (plural, mut spec) = good_of("Target");
        spec["userdata"] = values.clone();
        let created = api.create(plural, &object("Target", "kept", &spec)).await.unwrap();
        assert_eq!(created["spec"]["userdata"], values);

        let (plural, mut spec) = good_of("RenderTask");
        spec["release"]["values"] = values.clone();
        let created = api.create(plural, &object("RenderTask", "kept", &spec)).await.unwrap();
        assert_eq!(created["spec"]["release"]["values"], values);
    });
}

#[test]
fn a_list_by_a_selectable_field_finds_only_what_has_it() {
    run(async {
        let api = Api::new();
        let (plural, spec) = good_of("RenderBinding");
        api.create(plural, &object("RenderBinding", "one", &spec)).await.unwrap();
        let mut other = spec.clone();
        other["renderArtifactRef"]["name"] = json!("another");
        api.create(plural, &object("RenderBinding", "two", &other)).await.unwrap();
        let found =
            api.list(plural, "fieldSelector=spec.renderArtifactRef.name%3Danother", "application/json").await;
        let names: Vec<&Value> =
            found["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
        assert_eq!(names, ["two"]);
    });
}
