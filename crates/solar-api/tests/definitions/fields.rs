//! Which fields must be there, and how long they may be.

use serde_json::{Value, json};

use crate::support::{blocking, good, good_of, object, refusal, run, with};

/// Every field without which an object of the kind is refused.
const REQUIRED: [(&str, &[&str]); 12] = [
    ("Component", &["/scheme", "/registry", "/repository"]),
    (
        "ComponentVersion",
        &[
            "/componentRef",
            "/componentRef/name",
            "/tag",
            "/resources",
            "/resources/chart/repository",
            "/resources/chart/tag",
            "/resources/chart/helm/name",
            "/resources/chart/helm/version",
            "/entrypoint",
            "/entrypoint/resourceName",
            "/entrypoint/type",
        ],
    ),
    ("Registry", &["/hostname"]),
    ("RegistryBinding", &["/targetRef", "/targetRef/name", "/registryRef", "/registryRef/name"]),
    ("Release", &["/componentVersionRef", "/componentVersionRef/name"]),
    ("ReleaseBinding", &["/targetRef", "/targetRef/name", "/releaseRef", "/releaseRef/name"]),
    ("Profile", &["/releaseRef", "/releaseRef/name", "/targetSelector"]),
    (
        "ReferenceGrant",
        &["/from", "/from/0/group", "/from/0/kind", "/from/0/namespace", "/to", "/to/0/group", "/to/0/kind"],
    ),
    ("Target", &["/renderRegistryRef", "/renderRegistryRef/name"]),
    (
        "RenderTask",
        &[
            "/type",
            "/release/chart",
            "/release/chart/name",
            "/release/chart/version",
            "/release/input",
            "/release/input/component",
            "/release/input/component/name",
            "/release/input/resources",
            "/release/input/resources/chart/repository",
            "/release/input/resources/chart/tag",
            "/release/input/entrypoint",
            "/repository",
            "/tag",
            "/baseURL",
            "/ownerKind",
            "/ownerName",
            "/ownerNamespace",
        ],
    ),
    ("RenderArtifact", &["/baseURL", "/repository", "/tag", "/renderTaskRef"]),
    (
        "RenderBinding",
        &["/renderArtifactRef", "/renderArtifactRef/name", "/ownerKind", "/ownerName", "/ownerNamespace"],
    ),
];

/// Kind, field, the most characters that it takes.
const LONGEST: [(&str, &str, usize); 44] = [
    ("Component", "/registry", 300),
    ("Component", "/repository", 1024),
    ("ComponentVersion", "/componentRef/name", 253),
    ("ComponentVersion", "/tag", 128),
    ("ComponentVersion", "/registry", 300),
    ("ComponentVersion", "/namespace", 1024),
    ("ComponentVersion", "/componentName", 1024),
    ("ComponentVersion", "/digest", 256),
    ("ComponentVersion", "/resources/chart/repository", 1024),
    ("ComponentVersion", "/resources/chart/tag", 256),
    ("ComponentVersion", "/resources/chart/helm/name", 250),
    ("ComponentVersion", "/resources/chart/helm/version", 256),
    ("ComponentVersion", "/resources/chart/helm/valuesTemplate", 1_048_576),
    ("ComponentVersion", "/entrypoint/resourceName", 253),
    ("Registry", "/hostname", 300),
    ("Registry", "/targetPullSecretName", 253),
    ("Registry", "/flavor", 63),
    ("Registry", "/solarSecretRef/name", 253),
    ("RegistryBinding", "/targetRef/name", 253),
    ("RegistryBinding", "/targetRef/namespace", 63),
    ("RegistryBinding", "/registryRef/name", 253),
    ("Release", "/componentVersionRef/name", 253),
    ("Release", "/componentVersionRef/namespace", 63),
    ("Release", "/targetNamespace", 63),
    ("Release", "/uniqueName", 63),
    ("ReleaseBinding", "/releaseRef/name", 253),
    ("Profile", "/releaseRef/name", 253),
    ("ReferenceGrant", "/from/0/group", 253),
    ("ReferenceGrant", "/from/0/kind", 63),
    ("ReferenceGrant", "/from/0/namespace", 63),
    ("ReferenceGrant", "/to/0/group", 253),
    ("Target", "/renderRegistryRef/name", 253),
    ("RenderTask", "/release/chart/name", 250),
    ("RenderTask", "/release/chart/version", 128),
    ("RenderTask", "/repository", 1024),
    ("RenderTask", "/tag", 128),
    ("RenderTask", "/baseURL", 300),
    ("RenderTask", "/ownerName", 253),
    ("RenderArtifact", "/baseURL", 300),
    ("RenderArtifact", "/repository", 1024),
    ("RenderArtifact", "/tag", 128),
    ("RenderArtifact", "/renderTaskRef", 253),
    ("RenderBinding", "/renderArtifactRef/name", 253),
    ("RenderBinding", "/ownerName", 253),
];

/// How the server writes a field.
fn shown(pointer: &str) -> String {
    format!("spec{}", pointer.replace("/0", "[0]").replace('/', "."))
}

#[test]
fn a_missing_field_is_named_and_nothing_else_must_be_there() {
    run(async |api| {
        for (kind, plural, spec) in good() {
            let taken = api.create(plural, &object(kind, "bare", &spec)).await;
            assert!(taken.is_ok(), "{kind}: {taken:?}");
        }
        for (kind, fields) in REQUIRED {
            let (plural, spec) = good_of(kind);
            for pointer in fields {
                let without = object(kind, "without", &with(spec.clone(), pointer, &Value::Null));
                let said = api.create(plural, &without).await.expect_err(pointer);
                let fault = format!("{}: Required value", shown(pointer));
                assert_eq!(said, refusal(kind, "without", &blocking(kind, &fault)));
            }
        }
    });
}

#[test]
fn what_is_too_long_is_named_with_the_limit() {
    run(async |api| {
        for (number, (kind, pointer, longest)) in LONGEST.into_iter().enumerate() {
            let (plural, mut spec) = good_of(kind);
            if pointer.starts_with("/solarSecretRef/") {
                spec["solarSecretRef"] = json!({});
            }
            let name = format!("long-{number}");
            let fits = with(spec.clone(), pointer, &json!("a".repeat(longest)));
            let taken = api.create(plural, &object(kind, &name, &fits)).await;
            assert!(taken.is_ok(), "{kind} {pointer}: {:?}", taken.err());
            let longer = with(spec, pointer, &json!("a".repeat(longest + 1)));
            let said = api.create(plural, &object(kind, "long", &longer)).await.expect_err(pointer);
            let fault = format!("{}: Too long: may not be more than {longest} bytes", shown(pointer));
            assert_eq!(said, refusal(kind, "long", &blocking(kind, &fault)));
        }
    });
}
