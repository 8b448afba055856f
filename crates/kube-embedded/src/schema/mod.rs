//! Structural schemas: what a CRD says about its objects, compiled once.

mod cel;
mod defaults;
mod prune;
mod rule;
mod structure;
mod validate;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regex::Regex;
use serde_json::Value;

use crate::{
    field::{FieldError, Path},
    identity::identity_of,
};

pub(crate) use validate::{Violations, unchanged};

/// What an object may hold beside its named properties.
#[derive(Debug)]
pub(crate) enum Additional {
    /// Nothing: unknown fields are pruned.
    None,
    /// Anything.
    Any,
    /// Values of one schema under any key.
    Schema(Box<Schema>),
}

impl Additional {
    /// The schema of values under keys without one of their own.
    fn schema(&self) -> Option<&Schema> {
        match self {
            Self::Schema(schema) => Some(schema),
            Self::None | Self::Any => None,
        }
    }
}

/// The JSON type that a schema asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// How the entries of a list relate to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    Map(Vec<String>),
}

/// Limits on lengths, counts and numbers.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
}

/// The values that a field may have; any when there are none.
#[derive(Debug)]
pub(crate) struct Allowed {
    pub values: Vec<Value>,
    /// Of many values, so that they can be looked up.
    identities: BTreeSet<String>,
}

impl Allowed {
    fn new(values: Vec<Value>) -> Self {
        // A few are looked through faster than looked up.
        let many = Some(&values).filter(|values| values.len() > 16);
        let identities = many.into_iter().flatten().map(identity_of).collect();
        Self { values, identities }
    }

    pub fn takes(&self, value: &Value) -> bool {
        if self.identities.is_empty() {
            return self.values.is_empty() || self.values.contains(value);
        }
        self.identities.contains(&identity_of(value))
    }
}

/// One node of a structural schema.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a keyword of the schema language")]
pub(crate) struct Schema {
    pub kind: Option<Type>,
    pub nullable: bool,
    pub properties: BTreeMap<String, Schema>,
    pub additional: Additional,
    pub items: Option<Box<Schema>>,
    pub required: Vec<String>,
    pub allowed: Allowed,
    pub pattern: Option<Regex>,
    pub format: Option<String>,
    pub limits: Limits,
    pub preserve_unknown: bool,
    pub int_or_string: bool,
    pub embedded: bool,
    pub list_type: ListType,
    pub default: Option<Value>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    /// Whether this node or one below it has a default.
    pub has_defaults: bool,
    /// Rules of this node.
    pub rules: Option<Box<cel::Rules>>,
    /// Whether a node below this one has rules.
    pub rules_below: bool,
}

impl Schema {
    /// Compiles a schema that the server itself wrote; what it can't read is left out.
    pub fn builtin(schema: &Value) -> Arc<Self> {
        let mut errors = Vec::new();
        Arc::new(Self::parse(schema, &Path::ROOT, &mut errors, Place::Inside))
    }

    /// Compiles the schema of a CRD; everything wrong with it is added to `errors`.
    pub fn compile(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) -> Arc<Self> {
        let parsed = Self::parse(schema, path, errors, Place::Root);
        structure::check(schema, path, errors);
        if parsed.kind != Some(Type::Object) {
            let error = match parsed.kind {
                None => FieldError::required(path.field("type").to_string(), "must not be empty at the root"),
                Some(found) => FieldError::invalid_str(
                    path.field("type").to_string(),
                    found.as_str(),
                    "must be object at the root",
                ),
            };
            errors.push(error);
        }
        Arc::new(parsed)
    }

    fn parse(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>, place: Place) -> Self {
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let preserve_unknown = flag("x-kubernetes-preserve-unknown-fields");
        let int_or_string = flag("x-kubernetes-int-or-string");
        let kind = parse_type(schema, path, errors);
        if kind.is_none() && place == Place::Inside && !int_or_string && !preserve_unknown {
            errors.push(FieldError::required(
                path.field("type").to_string(),
                "must not be empty for specified object fields",
            ));
        }
        let properties = parse_properties(schema, path, errors, place);
        let items = schema
            .get("items")
            .map(|s| Box::new(Self::parse(s, &path.field("items"), errors, place.below())));
        let additional = parse_additional(schema, path, errors, place);
        let branches =
            |name: &'static str, errors: &mut Vec<FieldError>| parse_branches(schema, name, path, errors);
        let all_of = branches("allOf", errors);
        let any_of = branches("anyOf", errors);
        let one_of = branches("oneOf", errors);
        let not =
            schema.get("not").map(|s| Box::new(Self::parse(s, &path.field("not"), errors, Place::Branch)));
        let mut parsed = Self {
            kind,
            nullable: flag("nullable"),
            properties,
            additional,
            items,
            required: text_list(schema.get("required")),
            allowed: Allowed::new(schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default()),
            pattern: parse_pattern(schema, path, errors),
            format: schema.get("format").and_then(Value::as_str).map(str::to_owned),
            limits: parse_limits(schema),
            preserve_unknown,
            int_or_string,
            embedded: flag("x-kubernetes-embedded-resource"),
            list_type: parse_list_type(schema),
            default: schema.get("default").filter(|d| !d.is_null()).cloned(),
            all_of,
            any_of,
            one_of,
            not,
            has_defaults: false,
            rules: None,
            rules_below: false,
        };
        if let Some(default) = &parsed.default
            && place != Place::Branch
        {
            parsed.check_default(default, path, errors);
        }
        let (mut defaults, mut rules) = (parsed.default.is_some(), false);
        for child in parsed.children() {
            defaults |= child.has_defaults;
            rules |= child.has_rules();
        }
        (parsed.has_defaults, parsed.rules_below) = (defaults, rules);
        parsed.rules = cel::compile(schema, path, errors);
        parsed
    }

    /// Whether a default fits the schema that it stands in.
    fn check_default(&self, default: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        let (mut default, mut found) = (default.clone(), Vec::new());
        self.apply_defaults(&mut default);
        self.validate(&default, &Path::ROOT, &mut found);
        let at = path.field("default").to_string();
        errors.extend(found.into_iter().map(|mut error| {
            let inner = std::mem::take(&mut error.field);
            error.field = if inner.is_empty() { at.clone() } else { format!("{at}.{inner}") };
            error
        }));
    }

    /// The schema of a field, by the names that lead to it.
    pub fn below(&self, names: &[&str]) -> Option<&Self> {
        names.iter().try_fold(self, |schema, name| schema.properties.get(*name))
    }

    fn children(&self) -> impl Iterator<Item = &Schema> {
        let additional = match &self.additional {
            Additional::Schema(schema) => Some(&**schema),
            _ => None,
        };
        self.properties.values().chain(self.items.as_deref()).chain(additional)
    }
}

/// Where in a schema a node stands; branches of `allOf` and the like need no type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Inside,
    Branch,
}

impl Place {
    fn below(self) -> Self {
        match self {
            Self::Branch => Self::Branch,
            _ => Self::Inside,
        }
    }
}

fn parse_type(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) -> Option<Type> {
    let name = schema.get("type").and_then(Value::as_str).filter(|n| !n.is_empty())?;
    let kind = Type::parse(name);
    if kind.is_none() {
        let supported = ["array", "boolean", "integer", "number", "object", "string"].map(Value::from);
        errors.push(FieldError::not_supported(path.field("type").to_string(), &name.into(), &supported));
    }
    kind
}

fn parse_properties(
    schema: &Value,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
    place: Place,
) -> BTreeMap<String, Schema> {
    let below = path.field("properties");
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, s)| {
            // The shape of these three is fixed for every object; a CRD may leave it out.
            let fixed = place == Place::Root && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            let place = if fixed { Place::Branch } else { place.below() };
            (name.clone(), Schema::parse(s, &below.key(name), errors, place))
        })
        .collect()
}

fn parse_additional(
    schema: &Value,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
    place: Place,
) -> Additional {
    match schema.get("additionalProperties") {
        Some(Value::Bool(true)) => Additional::Any,
        Some(s @ Value::Object(_)) => {
            let below = path.field("additionalProperties");
            Additional::Schema(Box::new(Schema::parse(s, &below, errors, place.below())))
        }
        _ => Additional::None,
    }
}

fn parse_branches(
    schema: &Value,
    name: &'static str,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) -> Vec<Schema> {
    let below = path.field(name);
    schema
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(i, s)| Schema::parse(s, &below.index(i), errors, Place::Branch))
        .collect()
}

fn parse_pattern(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) -> Option<Regex> {
    let pattern = schema.get("pattern").and_then(Value::as_str).filter(|p| !p.is_empty())?;
    match Regex::new(pattern) {
        Ok(regex) => Some(regex),
        Err(error) => {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            errors.push(FieldError::invalid_str(path.field("pattern").to_string(), pattern, &detail));
            None
        }
    }
}

fn parse_limits(schema: &Value) -> Limits {
    let count = |name: &str| schema.get(name).and_then(Value::as_u64);
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
    Limits {
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        minimum: number("minimum"),
        maximum: number("maximum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
    }
}

fn parse_list_type(schema: &Value) -> ListType {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(text_list(schema.get("x-kubernetes-list-map-keys"))),
        _ => ListType::Atomic,
    }
}

fn text_list(value: Option<&Value>) -> Vec<String> {
    crate::meta::strings(value).into_iter().map(str::to_owned).collect()
}

impl Schema {
    /// Whether any rule stands in this schema.
    pub fn has_rules(&self) -> bool {
        self.rules.is_some() || self.rules_below
    }
}
