//! The kinds that are served before the first CRD comes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    resource::{
        Builtin, CRDS, Cell, Column, FieldDef, NAMESPACES, Resource, TableId, Version, age_column, column,
        first_of_column, name_column, path_column, reference_column,
    },
    schema::Schema,
};

struct Spec {
    builtin: Builtin,
    table: u32,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    has_status: bool,
    categories: &'static [&'static str],
    columns: Vec<Column>,
    fields: Vec<FieldDef>,
    schema: Value,
}

impl Spec {
    fn build(self) -> Resource {
        let mut columns = self.columns;
        // The table of events has its name column further behind.
        if !matches!(self.builtin, Builtin::Event | Builtin::EventV1) {
            columns.insert(0, name_column());
        }
        let version = Version {
            name: self.version.into(),
            served: true,
            schema: Schema::builtin(&self.schema),
            open_api: Arc::new(self.schema),
            has_status: self.has_status,
            columns: columns.into(),
            selectable: (0..self.fields.len()).collect(),
        };
        Resource {
            table: TableId(self.table),
            group: self.group.into(),
            plural: self.plural.into(),
            singular: self.kind.to_lowercase().into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            short_names: self.short.iter().map(|s| (*s).to_owned()).collect(),
            categories: self.categories.iter().map(|s| (*s).to_owned()).collect(),
            namespaced: self.namespaced,
            versions: vec![version],
            storage: 0,
            fields: self.fields.into(),
            builtin: Some(self.builtin),
        }
    }
}

/// Everything that is served before the first CRD comes.
pub(crate) fn builtins() -> Vec<Resource> {
    vec![
        namespace().build(),
        secret().build(),
        config_map().build(),
        event(Builtin::Event).build(),
        event(Builtin::EventV1).build(),
        lease().build(),
        crd().build(),
        service().build(),
        review(Builtin::AccessReview, 7, "authorization.k8s.io", "SelfSubjectAccessReview").build(),
        review(Builtin::RulesReview, 8, "authorization.k8s.io", "SelfSubjectRulesReview").build(),
        review(Builtin::UserReview, 9, "authentication.k8s.io", "SelfSubjectReview").build(),
    ]
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn text_map() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

fn namespace() -> Spec {
    Spec {
        builtin: Builtin::Namespace,
        table: NAMESPACES.0,
        group: "",
        version: "v1",
        plural: "namespaces",
        kind: "Namespace",
        short: &["ns"],
        namespaced: false,
        has_status: true,
        categories: &[],
        columns: vec![path_column("Status", "string", 0, ".status.phase"), age_column()],
        fields: vec![FieldDef::new("status.phase", "status.phase", false)],
        schema: object(json!({
            "spec": object(json!({ "finalizers": { "type": "array", "items": text() } })),
            "status": object(json!({ "phase": text(), "conditions": conditions() })),
        })),
    }
}

fn conditions() -> Value {
    json!({ "type": "array", "items": object(json!({
        "type": text(), "status": text(), "reason": text(), "message": text(), "lastTransitionTime": text(),
    })) })
}

fn secret() -> Spec {
    let bytes_map =
        json!({ "type": "object", "additionalProperties": { "type": "string", "format": "byte" } });
    Spec {
        builtin: Builtin::Secret,
        table: 2,
        group: "",
        version: "v1",
        plural: "secrets",
        kind: "Secret",
        short: &[],
        namespaced: true,
        has_status: false,
        categories: &[],
        columns: vec![
            path_column("Type", "string", 0, ".type"),
            column("Data", "string", 0, Cell::Count(&["data"])),
            age_column(),
        ],
        fields: vec![FieldDef::new("type", "type", false)],
        schema: object(json!({
            "data": bytes_map, "stringData": text_map(), "type": text(), "immutable": { "type": "boolean" },
        })),
    }
}

fn config_map() -> Spec {
    let bytes_map =
        json!({ "type": "object", "additionalProperties": { "type": "string", "format": "byte" } });
    Spec {
        builtin: Builtin::ConfigMap,
        table: 3,
        group: "",
        version: "v1",
        plural: "configmaps",
        kind: "ConfigMap",
        short: &["cm"],
        namespaced: true,
        has_status: false,
        categories: &[],
        columns: vec![column("Data", "string", 0, Cell::Count(&["data", "binaryData"])), age_column()],
        fields: Vec::new(),
        schema: object(json!({
            "data": text_map(), "binaryData": bytes_map, "immutable": { "type": "boolean" },
        })),
    }
}

fn lease() -> Spec {
    let count = json!({ "type": "integer", "format": "int32" });
    Spec {
        builtin: Builtin::Lease,
        table: 4,
        group: "coordination.k8s.io",
        version: "v1",
        plural: "leases",
        kind: "Lease",
        short: &[],
        namespaced: true,
        has_status: false,
        categories: &[],
        columns: vec![path_column("Holder", "string", 0, ".spec.holderIdentity"), age_column()],
        fields: Vec::new(),
        schema: object(json!({ "spec": object(json!({
            "holderIdentity": text(), "leaseDurationSeconds": count, "leaseTransitions": count,
            "acquireTime": { "type": "string", "format": "date-time" },
            "renewTime": { "type": "string", "format": "date-time" },
            "strategy": text(), "preferredHolder": text(),
        })) })),
    }
}

fn object_reference() -> Value {
    object(json!({
        "apiVersion": text(), "kind": text(), "namespace": text(), "name": text(), "uid": text(),
        "resourceVersion": text(), "fieldPath": text(),
    }))
}

/// Event fields that have the same name in both groups.
fn shared_event_fields() -> Value {
    json!({
        "reason": text(), "type": text(), "action": text(), "eventTime": text(), "related": object_reference(),
        "reportingInstance": text(),
        "series": object(json!({ "count": { "type": "integer" }, "lastObservedTime": text() })),
    })
}

fn event(builtin: Builtin) -> Spec {
    let modern = builtin == Builtin::EventV1;
    let source = object(json!({ "component": text(), "host": text() }));
    let count = json!({ "type": "integer" });
    let own = if modern {
        json!({
            "regarding": object_reference(), "note": text(), "reportingController": text(),
            "deprecatedSource": source, "deprecatedFirstTimestamp": text(), "deprecatedLastTimestamp": text(),
            "deprecatedCount": count,
        })
    } else {
        json!({
            "involvedObject": object_reference(), "message": text(), "reportingComponent": text(),
            "source": source, "firstTimestamp": text(), "lastTimestamp": text(), "count": count,
        })
    };
    let mut properties = shared_event_fields();
    if let (Value::Object(all), Value::Object(own)) = (&mut properties, own) {
        all.extend(own);
    }
    Spec {
        builtin,
        table: 5,
        group: if modern { "events.k8s.io" } else { "" },
        version: "v1",
        plural: "events",
        kind: "Event",
        short: &["ev"],
        namespaced: true,
        has_status: false,
        categories: &[],
        columns: event_columns(modern),
        fields: event_fields(modern),
        schema: object(properties),
    }
}

fn event_columns(modern: bool) -> Vec<Column> {
    let object = if modern { ".regarding" } else { ".involvedObject" };
    let last_seen = first_of_column(
        "Last Seen",
        "date",
        0,
        &[".series.lastObservedTime", ".lastTimestamp", ".deprecatedLastTimestamp", ".eventTime"],
    );
    let message = if modern { ".note" } else { ".message" };
    let source = if modern { ".deprecatedSource.component" } else { ".source.component" };
    let reporter = if modern { ".reportingController" } else { ".reportingComponent" };
    let first_seen = first_of_column(
        "First Seen",
        "date",
        1,
        &[".firstTimestamp", ".deprecatedFirstTimestamp", ".eventTime"],
    );
    let count = [".series.count", ".count", ".deprecatedCount"];
    vec![
        last_seen,
        path_column("Type", "string", 0, ".type"),
        path_column("Reason", "string", 0, ".reason"),
        reference_column("Object", 0, object),
        path_column("Subobject", "string", 1, &format!("{object}.fieldPath")),
        first_of_column("Source", "string", 1, &[source, reporter]),
        path_column("Message", "string", 0, message),
        first_seen,
        first_of_column("Count", "string", 1, &count),
        Column { priority: 1, ..name_column() },
    ]
}

fn event_fields(modern: bool) -> Vec<FieldDef> {
    let object = if modern { "regarding" } else { "involvedObject" };
    let mut fields: Vec<FieldDef> =
        ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
            .iter()
            .map(|f| {
                let indexed = matches!(*f, "name" | "uid");
                FieldDef::new(&format!("{object}.{f}"), &format!("involvedObject.{f}"), indexed)
            })
            .collect();
    let reporter = if modern { "reportingController" } else { "reportingComponent" };
    fields.push(FieldDef::new("reason", "reason", false));
    fields.push(FieldDef::new(reporter, "reportingComponent", false));
    fields.push(FieldDef::new("type", "type", false));
    let source = if modern { "deprecatedSource" } else { "source" };
    fields.push(FieldDef::new(source, "source.component", false));
    fields
}

fn crd() -> Spec {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = object(json!({
        "name": text(), "served": { "type": "boolean" }, "storage": { "type": "boolean" },
        "deprecated": { "type": "boolean" }, "deprecationWarning": text(),
        "schema": object(json!({ "openAPIV3Schema": open })),
        "subresources": object(json!({ "status": open, "scale": open })),
        "additionalPrinterColumns": { "type": "array", "items": object(json!({
            "name": text(), "type": text(), "format": text(), "description": text(),
            "priority": { "type": "integer" }, "jsonPath": text(),
        })) },
        "selectableFields": { "type": "array", "items": object(json!({ "jsonPath": text() })) },
    }));
    let list = json!({ "type": "array", "items": text() });
    let names = object(json!({
        "plural": text(), "singular": text(), "kind": text(), "listKind": text(), "shortNames": list,
        "categories": list,
    }));
    Spec {
        builtin: Builtin::Crd,
        table: CRDS.0,
        group: "apiextensions.k8s.io",
        version: "v1",
        plural: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
        short: &["crd", "crds"],
        namespaced: false,
        has_status: true,
        categories: &["api-extensions"],
        columns: vec![path_column("Created At", "string", 0, ".metadata.creationTimestamp")],
        fields: Vec::new(),
        schema: object(json!({
            "spec": object(json!({
                "group": text(), "scope": text(), "names": names,
                "preserveUnknownFields": { "type": "boolean" }, "conversion": open,
                "versions": { "type": "array", "items": version },
            })),
            "status": object(json!({
                "acceptedNames": names, "storedVersions": list, "conditions": conditions(),
                "observedGeneration": { "type": "integer" },
            })),
        })),
    }
}

fn service() -> Spec {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Spec {
        builtin: Builtin::Service,
        table: 6,
        group: "",
        version: "v1",
        plural: "services",
        kind: "Service",
        short: &["svc"],
        namespaced: true,
        has_status: false,
        categories: &["all"],
        columns: vec![
            path_column("Type", "string", 0, ".spec.type"),
            path_column("Cluster-IP", "string", 0, ".spec.clusterIP"),
            path_column("External-IP", "string", 0, ".spec.externalIPs"),
            path_column("Port(s)", "string", 0, ".spec.ports"),
            age_column(),
        ],
        fields: Vec::new(),
        schema: object(json!({ "spec": open, "status": open })),
    }
}

fn review(builtin: Builtin, table: u32, group: &'static str, kind: &'static str) -> Spec {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Spec {
        builtin,
        table,
        group,
        version: "v1",
        plural: match builtin {
            Builtin::AccessReview => "selfsubjectaccessreviews",
            Builtin::RulesReview => "selfsubjectrulesreviews",
            _ => "selfsubjectreviews",
        },
        kind,
        short: &[],
        namespaced: false,
        has_status: false,
        categories: &[],
        columns: Vec::new(),
        fields: Vec::new(),
        schema: object(json!({ "spec": open, "status": open })),
    }
}
