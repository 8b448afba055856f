//! Every rule of the schemas in `crds/` is tried: a rule that is new there is tried without another line here.

use serde_json::{Map, Value, json};

use crate::changes::on_change;
use crate::full::{Full, full};
use crate::rules::rules;
use crate::support::{Api, UNCHECKED, object, refusal, run};

/// A place in an object.
#[derive(Clone, Debug)]
struct Place {
    /// As a JSON pointer from the object's root.
    pointer: String,
    /// As the server writes it.
    field: String,
}

impl Place {
    fn below(&self, segment: &str) -> Self {
        let pointer = format!("{}/{segment}", self.pointer);
        let field = match (segment.parse::<usize>(), self.field.is_empty()) {
            (Ok(index), _) => format!("{}[{index}]", self.field),
            (_, true) => segment.to_owned(),
            _ => format!("{}.{segment}", self.field),
        };
        Self { pointer, field }
    }
}

/// A value that a rule is against, and what is said of it.
#[derive(Debug)]
struct Trial {
    place: Place,
    rule: String,
    /// Null: the field is left out.
    bad: Value,
    fault: String,
    /// One that is just within the rule.
    good: Option<Value>,
    /// Whether no other rule of the field is against it.
    is_alone: bool,
}

/// A text of this length that a pattern of ours takes.
fn text(length: u64, schema: &Value) -> Value {
    let length = usize::try_from(length).unwrap();
    match schema["pattern"].as_str() {
        // A duration, which is not too long for a number.
        Some(pattern) if pattern.contains("ms|s|m|h") => json!(format!("{:0>length$}", "1s")),
        _ => json!("a".repeat(length)),
    }
}

/// What a rule of the schema at `place` is against; `found` is what stands there.
fn trials_of(place: &Place, rule: &str, limit: &Value, schema: &Value, found: &Value) -> Vec<Trial> {
    let field = &place.field;
    let trial = |bad, fault, good| {
        let is_alone = schema.get("pattern").is_none();
        vec![Trial { place: place.clone(), rule: rule.to_owned(), bad, fault, good, is_alone }]
    };
    let number = limit.as_u64();
    let many = |count: u64| match found {
        Value::Array(items) => json!(vec![items[0].clone(); usize::try_from(count).unwrap()]),
        Value::Object(fields) => {
            let one = fields.values().next().unwrap();
            Value::Object((0..count).map(|n| (format!("r{n}"), one.clone())).collect::<Map<_, _>>())
        }
        other => panic!("{field}: {other} has no items"),
    };
    match (rule, number) {
        ("maxLength", Some(most)) => {
            let fault = format!("{field}: Too long: may not be more than {most} bytes");
            trial(text(most + 1, schema), fault, Some(text(most, schema)))
        }
        ("minLength", Some(1)) => {
            let says = format!("{field} in body should be at least 1 chars long");
            trial(json!(""), format!("{field}: Invalid value: \"\": {says}"), Some(json!("1s")))
        }
        ("pattern", _) => {
            let says = format!("{field} in body should match '{}'", limit.as_str().unwrap());
            trial(json!("!"), format!("{field}: Invalid value: \"!\": {says}"), None)
        }
        ("enum", _) => {
            let values: Vec<String> = limit.as_array().unwrap().iter().map(Value::to_string).collect();
            let says = format!("supported values: {}", values.join(", "));
            trial(json!("unknown"), format!("{field}: Unsupported value: \"unknown\": {says}"), None)
        }
        ("maxItems" | "maxProperties", Some(most)) => {
            let fault = format!("{field}: Too many: {}: must have at most {most} items", most + 1);
            trial(many(most + 1), fault, Some(many(most)))
        }
        ("minItems", Some(1)) => {
            let says = format!("{field} in body should have at least 1 items");
            trial(json!([]), format!("{field}: Invalid value: 0: {says}"), None)
        }
        ("required", _) => {
            let fields = limit.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            // What has a default is never missing.
            let fields = fields.filter(|name| schema["properties"][name].get("default").is_none());
            fields
                .flat_map(|name| {
                    let place = place.below(name);
                    let fault = format!("{}: Required value", place.field);
                    [Trial {
                        place,
                        rule: rule.to_owned(),
                        bad: Value::Null,
                        fault,
                        good: None,
                        is_alone: true,
                    }]
                })
                .collect()
        }
        // Tried by rows, see below, or in full.rs: fields of each type, lists by key, defaults.
        (
            "x-kubernetes-validations"
            | "type"
            | "format"
            | "default"
            | "nullable"
            | "description"
            | "title"
            | "x-kubernetes-list-type"
            | "x-kubernetes-list-map-keys"
            | "x-kubernetes-map-type"
            | "x-kubernetes-preserve-unknown-fields"
            | "properties"
            | "items"
            | "additionalProperties",
            _,
        ) => Vec::new(),
        _ => panic!("{field}: how is {rule}: {limit} to be tried?"),
    }
}

/// All trials for one object, where the schema goes together with what stands there.
fn trials(place: &Place, schema: &Value, found: &Value, all: &mut Vec<Trial>) {
    for (rule, limit) in schema.as_object().unwrap() {
        all.extend(trials_of(place, rule, limit, schema, found));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(found) = found.get(name) {
            trials(&place.below(name), inner, found, all);
        }
    }
    if let (Some(inner), Some(item)) = (schema.get("items"), found.get(0)) {
        trials(&place.below("0"), inner, item, all);
    }
    if let (Some(inner), Some((key, value))) = (
        schema.get("additionalProperties").filter(|inner| inner.is_object()),
        found.as_object().and_then(|fields| fields.iter().next()),
    ) {
        trials(&place.below(key), inner, value, all);
    }
}

/// How many places of a schema have rules, by its keywords; those that [`trials`] has to reach.
fn places(schema: &Value, at: &str, all: &mut Vec<String>) {
    for (rule, limit) in schema.as_object().unwrap() {
        match rule.as_str() {
            "required" => {
                for name in limit.as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
                    if schema["properties"][name].get("default").is_none() {
                        all.push(format!("{at}.{name} required"));
                    }
                }
            }
            "maxLength" | "minLength" | "pattern" | "enum" | "maxItems" | "minItems" | "maxProperties" => {
                all.push(format!("{at} {rule}"));
            }
            _ => {}
        }
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        places(inner, &format!("{at}.{name}"), all);
    }
    for inner in ["items", "additionalProperties"].into_iter().filter_map(|name| schema.get(name)) {
        if inner.is_object() {
            places(inner, &format!("{at}.*"), all);
        }
    }
}

/// A trial's place with the items of lists and maps as [`places`] names them.
fn place_of(trial: &Trial, schema: &Value) -> String {
    let (mut at, mut schema) = (String::new(), schema);
    for segment in trial.place.pointer.split('/').skip(1) {
        if let Some(inner) = schema["properties"].get(segment) {
            at = format!("{at}.{segment}");
            schema = inner;
        } else {
            at += ".*";
            schema = schema.get("items").or_else(|| schema.get("additionalProperties")).unwrap();
        }
    }
    format!("{at} {}", trial.rule)
}

fn root_schema(kind: &str) -> Value {
    let crd = solar_api::crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let schema = crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap();
    let mut schema = serde_json::to_value(schema).unwrap();
    // Of these no object is without.
    let fields = schema.as_object_mut().unwrap();
    fields.remove("required");
    let properties = fields["properties"].as_object_mut().unwrap();
    properties.retain(|name, _| matches!(name.as_str(), "spec" | "status"));
    schema
}

fn put(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    match object.pointer_mut(parent).unwrap() {
        Value::Object(fields) if value.is_null() => drop(fields.remove(field)),
        Value::Object(fields) => drop(fields.insert(field.to_owned(), value.clone())),
        Value::Array(items) => items[field.parse::<usize>().unwrap()] = value.clone(),
        other => panic!("{pointer}: {other} has no fields"),
    }
}

/// The object with a value in its spec as created, or in its status as patched.
async fn write(api: &Api, full: &Full, name: &str, pointer: &str, value: &Value) -> Result<Value, String> {
    let mut whole = json!({ "spec": full.spec, "status": full.status });
    put(&mut whole, pointer, value);
    if pointer.starts_with("/spec") {
        return api.create(full.plural, &object(full.kind, name, &whole["spec"])).await;
    }
    // A merge patch leaves what it does not name, so that the status is written as a whole.
    let mut stored = api.create(full.plural, &object(full.kind, name, &full.spec)).await.unwrap();
    stored["status"] = whole["status"].clone();
    api.replace(full.plural, &format!("{name}/status"), &stored).await
}

#[test]
fn every_rule_of_the_schemas_refuses_what_it_is_against() {
    run(async |api| {
        let mut tried = 0;
        for (number, full) in full().into_iter().enumerate() {
            let schema = root_schema(full.kind);
            let mut all = Vec::new();
            let whole = json!({ "spec": full.spec, "status": full.status });
            trials(&Place { pointer: String::new(), field: String::new() }, &schema, &whole, &mut all);
            for (index, trial) in all.into_iter().enumerate() {
                let (pointer, kind) = (&trial.place.pointer, full.kind);
                let name = format!("walk-{number}-{index}");
                let said = write(&api, &full, &name, pointer, &trial.bad).await;
                let said = said.expect_err(&format!("{kind} {pointer} {} refuses nothing", trial.rule));
                let fault = trial.fault.as_str();
                let alone = [refusal(kind, &name, &[fault]), refusal(kind, &name, &[fault, UNCHECKED])];
                let beside = !trial.is_alone && said.contains(fault);
                assert!(alone.contains(&said) || beside, "{kind} {pointer} {}: {said}", trial.rule);
                if let Some(good) = &trial.good {
                    let taken = write(&api, &full, &format!("{name}-fits"), pointer, good).await;
                    assert!(taken.is_ok(), "{kind} {pointer} {}: {:?}", trial.rule, taken.err());
                }
                tried += 1;
            }
        }
        assert!(tried > 200, "only {tried}");
    });
}

#[test]
fn the_full_objects_reach_every_rule_of_the_schemas() {
    for crd in solar_api::crds() {
        let kind = &crd.spec.names.kind;
        let schema = root_schema(kind);
        let mut reached = Vec::new();
        for full in full().into_iter().filter(|full| full.kind == kind) {
            let whole = json!({ "spec": full.spec, "status": full.status });
            let mut all = Vec::new();
            trials(&Place { pointer: String::new(), field: String::new() }, &schema, &whole, &mut all);
            reached.extend(all.iter().map(|trial| place_of(trial, &schema)));
        }
        let mut wanted = Vec::new();
        places(&schema, "", &mut wanted);
        let missed: Vec<_> = wanted.iter().filter(|place| !reached.contains(place)).collect();
        assert!(missed.is_empty(), "{kind}: {missed:?}");
    }
}

/// Field and message of every rule in CEL.
fn validations(schema: &Value, field: &str, all: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        all.push((field.to_owned(), rule["message"].as_str().unwrap().to_owned()));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let field = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
        validations(inner, &field, all);
    }
    for inner in ["items", "additionalProperties"].into_iter().filter_map(|name| schema.get(name)) {
        validations(inner, &format!("{field}.*"), all);
    }
}

#[test]
fn every_rule_in_cel_has_a_row_in_the_tables_of_refusals() {
    let rows = rules().into_iter().map(|(kind, _, _, _, fault)| (kind, fault));
    let changes = on_change().into_iter().map(|(kind, _, _, fault)| (kind, fault.to_owned()));
    let rows: Vec<(&str, String)> = rows.chain(changes).collect();
    let mut count = 0;
    for crd in solar_api::crds() {
        let kind = crd.spec.names.kind.as_str();
        let mut all = Vec::new();
        validations(&root_schema(kind), "", &mut all);
        for (field, message) in all {
            let begin = format!("{field}: Invalid value: ");
            let mut own = rows.iter().filter(|(of, _)| *of == kind);
            let has = own.any(|(_, fault)| fault.starts_with(&begin) && fault.ends_with(&message));
            assert!(has, "{kind} {field}: no row tries: {message}");
            count += 1;
        }
    }
    assert_eq!(count, 13);
}
