//! Columns, short names, selectable fields, defaults and what is pruned.

use kube::ResourceExt as _;
use serde_json::json;

use crate::support::{good_of, object, run};

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
fn what_is_left_out_has_its_default() {
    run(async |api| {
        let defaults = [
            ("Registry", "/spec/plainHTTP", json!(false)),
            ("Release", "/spec/priority", json!(0)),
            ("RenderTask", "/spec/plainHTTP", json!(false)),
            ("ComponentVersion", "/spec/resources/chart/insecure", json!(false)),
            ("RenderTask", "/spec/release/input/resources/chart/insecure", json!(false)),
            ("RenderTask", "/spec/release/chart/description", json!("")),
            ("RenderTask", "/spec/release/chart/appVersion", json!("")),
            ("RenderTask", "/spec/release/targetNamespace", json!("")),
            ("RenderTask", "/spec/release/values", json!({})),
        ];
        for (number, (kind, pointer, default)) in defaults.into_iter().enumerate() {
            let (plural, spec) = good_of(kind);
            let created =
                api.create(plural, &object(kind, &format!("defaults-{number}"), &spec)).await.unwrap();
            assert_eq!(created.pointer(pointer), Some(&default), "{kind} {pointer}");
        }
    });
}

#[test]
fn unknown_fields_outside_of_values_and_userdata_are_pruned() {
    run(async |api| {
        for (kind, parent) in [
            ("Component", ""),
            ("ComponentVersion", "/resources/chart/helm"),
            ("Registry", ""),
            ("Release", "/componentVersionRef"),
            ("ReferenceGrant", "/from/0"),
            ("Target", "/renderRegistryRef"),
            ("RenderTask", "/release/input/resources/chart"),
            ("RenderTask", "/release"),
        ] {
            let (plural, mut spec) = good_of(kind);
            spec.pointer_mut(parent).unwrap()["unknown"] = json!(1);
            let name = format!("pruned{}", parent.replace('/', "-").to_lowercase());
            let created = api.create(plural, &object(kind, &name, &spec)).await.unwrap();
            let stored = created.pointer(&format!("/spec{parent}")).unwrap();
            assert_eq!(stored.get("unknown"), None, "{kind} {parent}");
        }
    });
}
