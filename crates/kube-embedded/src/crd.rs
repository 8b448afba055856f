//! CustomResourceDefinitions: checked, defaulted, and turned into a resource that is served.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use crate::{
    clock,
    field::{FieldError, Path},
    jsonpath::JsonPath,
    meta::{self, Json},
    names,
    resource::{self, Cell, Column, FieldDef, Resource, TableId, Version},
    schema::{Schema, Type, Violations},
};

/// Fills in what a CRD may leave out, and its status.
pub(crate) fn set_defaults(crd: &mut Json, now: jiff::Timestamp) {
    let Some(Value::Object(spec)) = crd.get_mut("spec") else {
        return;
    };
    spec.entry("conversion").or_insert_with(|| json!({ "strategy": "None" }));
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
    let names = spec.get("names").cloned().unwrap_or_default();
    let mut stored: Vec<Value> = crd
        .get("status")
        .and_then(|s| s.get("storedVersions"))
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let storage = versions(crd)
        .find(|v| v.get("storage") == Some(&Value::Bool(true)))
        .and_then(|v| v.get("name").cloned());
    stored.extend(storage.filter(|s| !stored.contains(s)));
    let conditions = crd.get("status").and_then(|s| s.get("conditions")).cloned();
    let conditions = conditions.unwrap_or_else(|| {
        let at = clock::seconds(now);
        json!([
            { "type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found",
              "lastTransitionTime": at },
            { "type": "Established", "status": "True", "reason": "InitialNamesAccepted",
              "message": "the initial names have been accepted", "lastTransitionTime": at },
        ])
    });
    let status = json!({ "acceptedNames": names, "storedVersions": stored, "conditions": conditions });
    crd.insert("status".into(), status);
}

fn versions(crd: &Json) -> impl Iterator<Item = &Value> {
    crd.get("spec").and_then(|s| s.get("versions")).and_then(Value::as_array).into_iter().flatten()
}

/// Checks a CRD and, when nothing is wrong, answers the resource that it defines.
pub(crate) fn establish(crd: &mut Json, old: Option<&Json>, errors: &mut Violations) -> Option<Resource> {
    let text = |path: &str| {
        crd.get("spec").and_then(|s| s.pointer(path)).and_then(Value::as_str).unwrap_or_default()
    };
    for (path, field) in [
        ("/group", "spec.group"),
        ("/scope", "spec.scope"),
        ("/names/plural", "spec.names.plural"),
        ("/names/kind", "spec.names.kind"),
    ] {
        if text(path).is_empty() {
            errors.push(FieldError::required(field, ""));
        }
    }
    check_names(crd, old, errors);
    check_conversion(crd, errors);
    check_versions(crd, errors);
    if old.is_some() {
        check_stored_versions(crd, errors);
    }
    let (fields, versions) = compile_versions(crd, errors);
    if !errors.is_empty() {
        return None;
    }
    let list = |name: &str| {
        let names = crd.get("spec").and_then(|s| s.get("names"));
        meta::strings(names.and_then(|n| n.get(name))).into_iter().map(str::to_owned).collect()
    };
    let storage = self::versions(crd).position(|v| v.get("storage") == Some(&Value::Bool(true)))?;
    Some(Resource {
        table: TableId(0),
        group: text("/group").into(),
        plural: text("/names/plural").into(),
        singular: text("/names/singular").into(),
        kind: text("/names/kind").into(),
        list_kind: text("/names/listKind").into(),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: text("/scope") == "Namespaced",
        versions,
        storage,
        fields: fields.into(),
        builtin: None,
    })
}

fn check_names(crd: &Json, old: Option<&Json>, errors: &mut Violations) {
    let spec = |o: &Json, path: &str| {
        o.get("spec").and_then(|s| s.pointer(path)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (plural, group, scope) = (spec(crd, "/names/plural"), spec(crd, "/group"), spec(crd, "/scope"));
    let name = meta::text(crd, "name");
    let wanted = format!("{plural}.{group}");
    if name != wanted && !plural.is_empty() && !group.is_empty() {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid_str("metadata.name", name, detail));
    }
    if !group.is_empty() {
        if let Some(why) = names::check_subdomain(&group) {
            errors.push(FieldError::invalid_str("spec.group", &group, &why));
        } else if !group.contains('.') {
            let detail = "should be a domain with at least one dot";
            errors.push(FieldError::invalid_str("spec.group", &group, detail));
        }
    }
    if !scope.is_empty() && !matches!(scope.as_str(), "Namespaced" | "Cluster") {
        let supported = ["Cluster", "Namespaced"].map(Value::from);
        errors.push(FieldError::not_supported("spec.scope", &scope.into(), &supported));
    }
    let Some(old) = old else { return };
    for (path, field) in [
        ("/group", "spec.group"),
        ("/scope", "spec.scope"),
        ("/names/plural", "spec.names.plural"),
        ("/names/kind", "spec.names.kind"),
    ] {
        if spec(old, path) != spec(crd, path) {
            errors.push(FieldError::invalid_str(field, &spec(crd, path), "field is immutable"));
        }
    }
}

/// Whether objects can be turned from one version into another: here that is a change of their `apiVersion`.
fn check_conversion(crd: &Json, errors: &mut Violations) {
    let conversion = crd.get("spec").and_then(|s| s.get("conversion"));
    let part = |name: &str| conversion.and_then(|c| c.get(name)).filter(|v| !v.is_null());
    let webhook = |name: &str| part("webhook").and_then(|w| w.get(name)).filter(|v| !v.is_null());
    // In the real server's internal form the parts of a webhook stand beside the strategy.
    let parts = [
        ("spec.conversion.webhookClientConfig", "clientConfig"),
        ("spec.conversion.conversionReviewVersions", "conversionReviewVersions"),
    ];
    match part("strategy").and_then(Value::as_str).unwrap_or_default() {
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "None" => {
            for (field, _) in parts.iter().filter(|(_, name)| webhook(name).is_some()) {
                let why = "should not be set when strategy is not set to Webhook";
                errors.push(FieldError::forbidden(*field, why));
            }
        }
        "Webhook" => {
            let missing: Vec<_> = parts.iter().filter(|(_, name)| webhook(name).is_none()).collect();
            for (field, name) in &missing {
                let why =
                    if *name == "clientConfig" { "required when strategy is set to Webhook" } else { "" };
                errors.push(FieldError::required(*field, why));
            }
            if missing.is_empty() {
                let why = "conversion webhooks are not supported by the embedded API: use None";
                errors.push(FieldError::forbidden("spec.conversion.strategy", why));
            }
        }
        other => {
            let supported = ["None", "Webhook"].map(Value::from);
            errors.push(FieldError::not_supported("spec.conversion.strategy", &other.into(), &supported));
        }
    }
}

fn check_versions(crd: &Json, errors: &mut Violations) {
    let storage = versions(crd).filter(|v| v.get("storage") == Some(&Value::Bool(true))).count();
    let names: Vec<Option<&Value>> = versions(crd).map(|v| v.get("name")).collect();
    let unique: BTreeSet<&str> = names.iter().flatten().filter_map(|name| name.as_str()).collect();
    if unique.len() < names.iter().flatten().count() {
        let all = Value::Array(names.iter().map(|n| n.cloned().unwrap_or_default()).collect());
        errors.push(FieldError::invalid("spec.versions", &all, "must contain unique version names"));
    }
    if versions(crd).next().is_none() {
        errors.push(FieldError::required("spec.versions", "must have at least one version"));
    } else if storage != 1 {
        let all = Value::Array(versions(crd).map(|v| v.get("name").cloned().unwrap_or_default()).collect());
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &all, detail));
    }
}

/// A version that objects may be stored in has to stay.
fn check_stored_versions(crd: &Json, errors: &mut Violations) {
    let stored = crd.get("status").and_then(|s| s.get("storedVersions"));
    let names: BTreeSet<&str> = versions(crd).filter_map(|v| v.get("name")?.as_str()).collect();
    for (index, name) in meta::strings(stored).into_iter().enumerate() {
        if !names.contains(name) {
            let field = format!("status.storedVersions[{index}]");
            errors.push(FieldError::invalid_str(
                field,
                name,
                "missing from spec.versions; must stay while objects are stored in it",
            ));
        }
    }
}

/// Where the parts of a version stand in error messages.
///
/// The real server lifts what is the same in all versions up into the `spec` (its internal form of old) before it checks.
struct Places<'a> {
    schema: Path<'a>,
    columns: Path<'a>,
    selectable: Path<'a>,
}

fn compile_versions(crd: &Json, errors: &mut Violations) -> (Vec<FieldDef>, Vec<Version>) {
    let mut fields = Vec::new();
    let (root, all) = (Path::ROOT, versions(crd).collect::<Vec<_>>());
    let spec = root.field("spec");
    let below = spec.field("versions");
    let validation = spec.field("validation");
    let same = |field: &str| all.windows(2).all(|w| w[0].get(field) == w[1].get(field));
    let lifted = ["schema", "additionalPrinterColumns", "selectableFields"].map(same);
    let mut compiled = Vec::new();
    for (index, version) in all.iter().enumerate() {
        let at = below.index(index);
        let schema = at.field("schema");
        let missing = version.pointer("/schema/openAPIV3Schema").is_none();
        let places = Places {
            schema: if lifted[0] && !missing { &validation } else { &schema }.field("openAPIV3Schema"),
            columns: if lifted[1] { &spec } else { &at }.field("additionalPrinterColumns"),
            selectable: if lifted[2] { &spec } else { &at }.field("selectableFields"),
        };
        let mut found = Vec::new();
        compiled.push(compile_version(version, &at, &places, &mut fields, &mut found));
        // What is the same in all versions is said once.
        errors.extend(found.into_iter().filter(|e| index == 0 || e.field.starts_with("spec.versions")));
    }
    (fields, compiled)
}

fn compile_version(
    version: &Value,
    path: &Path<'_>,
    places: &Places<'_>,
    fields: &mut Vec<FieldDef>,
    errors: &mut Violations,
) -> Version {
    let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
    if let Some(why) = names::check_label(name) {
        errors.push(FieldError::invalid_str(path.field("name").to_string(), name, &why));
    }
    let source = version.pointer("/schema/openAPIV3Schema").cloned();
    let schema = if let Some(source) = &source {
        Schema::compile(source, &places.schema, errors)
    } else {
        errors.push(FieldError::required(places.schema.to_string(), "schemas are required"));
        Schema::builtin(&json!({ "type": "object" }))
    };
    Version {
        name: name.into(),
        served: version.get("served") == Some(&Value::Bool(true)),
        has_status: version.pointer("/subresources/status").is_some_and(|s| !s.is_null()),
        columns: columns(version, &places.columns, errors).into(),
        selectable: selectable(version, &schema, &places.selectable, fields, errors).into(),
        schema,
        open_api: Arc::new(source.unwrap_or_default()),
    }
}

fn columns(version: &Value, path: &Path<'_>, errors: &mut Violations) -> Vec<Column> {
    let mut columns = vec![resource::name_column()];
    let declared = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (index, declared) in declared.into_iter().flatten().enumerate() {
        let text = |field: &str| declared.get(field).and_then(Value::as_str).unwrap_or_default();
        let at = path.index(index);
        if !matches!(text("type"), "boolean" | "date" | "integer" | "number" | "string") {
            let why = "must be one of boolean,date,integer,number,string";
            errors.push(FieldError::invalid_str(at.field("type").to_string(), text("type"), why));
        }
        match JsonPath::parse(text("jsonPath")) {
            Ok(path) => columns.push(Column {
                name: text("name").to_owned(),
                kind: text("type").to_owned(),
                format: text("format").to_owned(),
                description: text("description").to_owned(),
                priority: declared.get("priority").and_then(Value::as_i64).unwrap_or_default(),
                cell: Cell::Path(path),
            }),
            Err(why) => {
                errors.push(FieldError::invalid_str(
                    at.field("JSONPath").to_string(),
                    text("jsonPath"),
                    &format!("must be a simple json path starting with .: {why}"),
                ));
            }
        }
    }
    if declared.is_none_or(Vec::is_empty) {
        columns.push(resource::age_column());
    }
    columns
}

fn selectable(
    version: &Value,
    schema: &Schema,
    path: &Path<'_>,
    fields: &mut Vec<FieldDef>,
    errors: &mut Violations,
) -> Vec<usize> {
    let mut selected = Vec::new();
    let declared = version.get("selectableFields").and_then(Value::as_array);
    for (index, declared) in declared.into_iter().flatten().enumerate() {
        let text = declared.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        let at = path.index(index);
        let mut refuse = |why: &str| {
            errors.push(FieldError::invalid_str(at.field("jsonPath").to_string(), text, why));
        };
        let parsed = JsonPath::parse(text);
        let names = match &parsed {
            Err(why) => {
                refuse(&format!("is an invalid path: {why}"));
                continue;
            }
            Ok(path) => path.fields().filter(|f| !f.is_empty()),
        };
        let Some(names) = names else {
            refuse("is an invalid path: does not refer to a valid field");
            continue;
        };
        if names.first() == Some(&"metadata") {
            refuse("must not point to fields in metadata");
            continue;
        }
        match schema.below(&names) {
            None => {
                refuse("is an invalid path: does not refer to a valid field");
                continue;
            }
            Some(field) if !matches!(field.kind, Some(Type::String | Type::Boolean | Type::Integer)) => {
                refuse(
                    "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                     formats are allowed.",
                );
                continue;
            }
            Some(_) => {}
        }
        let name = names.join(".");
        let known = fields.iter().position(|f: &FieldDef| *f.name == *name);
        selected.push(known.unwrap_or_else(|| {
            fields.push(FieldDef::new(&name, &name, true));
            fields.len() - 1
        }));
    }
    selected
}
