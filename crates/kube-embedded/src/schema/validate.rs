//! Validation of a value against a schema, with the real server's words.

use std::collections::BTreeSet;

use jiff::{Timestamp, civil};
use serde_json::{Map, Value};

use super::{Additional, Limits, ListType, Schema, Type};
use crate::{
    field::{FieldError, Path},
    identity::identity_of,
};

/// What is wrong with an object.
pub(crate) type Violations = Vec<FieldError>;

/// How much that is wrong with an object is told about; a schema and an object can make any number of errors.
const MAX_ERRORS: usize = 1_000;

/// Whether enough is said. What comes last says that there may be more, and that an update cannot let through.
pub(super) fn is_full(errors: &mut Violations) -> bool {
    if errors.len() < MAX_ERRORS {
        return false;
    }
    let last = FieldError::invalid_str(FieldError::NO_FIELD, "", "too many errors: the rest was not checked");
    if errors.last() != Some(&last) {
        errors.push(last);
    }
    true
}

impl Schema {
    /// Checks a value. Errors come in the order of the schema's fields.
    pub fn validate(&self, value: &Value, path: &Path<'_>, errors: &mut Violations) {
        if value.is_null() && self.nullable || is_full(errors) {
            return;
        }
        if !self.check_type(value, path, errors) {
            return;
        }
        if !self.allowed.takes(value) {
            errors.push(FieldError::not_supported(path.to_string(), value, &self.allowed.values));
        }
        match value {
            Value::String(text) => self.check_string(text, path, errors),
            Value::Number(number) => {
                self.limits.check_number(number.as_f64().unwrap_or_default(), value, path, errors);
            }
            Value::Array(list) => self.check_list(list, path, errors),
            Value::Object(map) => self.check_object(map, path, errors),
            _ => {}
        }
        self.check_branches(value, path, errors);
    }

    /// Checks the value of an update, where what is wrong already and did not change is let through.
    pub fn validate_update(&self, value: &Value, old: &Value, errors: &mut Violations) {
        let mut found = Vec::new();
        self.validate(value, &Path::ROOT, &mut found);
        errors.extend(found.into_iter().filter(|e| !unchanged(value, old, &e.field)));
    }

    fn check_type(&self, value: &Value, path: &Path<'_>, errors: &mut Violations) -> bool {
        if self.int_or_string {
            if value.is_string() || is_integer(value) {
                return true;
            }
            push_type_error("integer,string", value, path, errors);
            return false;
        }
        let Some(kind) = self.kind else { return true };
        let fits = match kind {
            Type::Object => value.is_object(),
            Type::Array => value.is_array(),
            Type::String => value.is_string(),
            Type::Boolean => value.is_boolean(),
            Type::Integer => is_integer(value) && self.fits_integer_format(value, path, errors),
            Type::Number => value.is_number(),
        };
        // An integer out of range was already said.
        if !(fits || kind == Type::Integer && is_integer(value)) {
            push_type_error(kind.as_str(), value, path, errors);
        }
        fits
    }

    /// Whether an integer is in the range of `format`; says so where it is not.
    fn fits_integer_format(&self, value: &Value, path: &Path<'_>, errors: &mut Violations) -> bool {
        let fits = match self.format.as_deref() {
            Some("int32") => {
                value.as_f64().is_some_and(|n| (-2_147_483_648.0..=2_147_483_647.0).contains(&n))
            }
            Some("int64") => value.is_i64() || value.is_f64(),
            _ => return true,
        };
        if !fits {
            let format = self.format.as_deref().unwrap_or_default();
            let detail = format!("Checked value must be of type integer with format {format} in {path}");
            errors.push(FieldError::invalid_str(FieldError::NO_FIELD, "", &detail));
        }
        fits
    }

    fn check_string(&self, text: &str, path: &Path<'_>, errors: &mut Violations) {
        let length = || text.chars().count() as u64;
        if let Some(max) = self.limits.max_length
            && length() > max
        {
            errors.push(FieldError::too_long(path.to_string(), max));
        }
        if let Some(min) = self.limits.min_length
            && length() < min
        {
            let detail = format!("{path} in body should be at least {min} chars long");
            errors.push(FieldError::invalid_str(path.to_string(), text, &detail));
        }
        if let Some(pattern) = &self.pattern
            && !pattern.is_match(text)
        {
            let detail = format!("{path} in body should match '{}'", pattern.as_str());
            errors.push(FieldError::invalid_str(path.to_string(), text, &detail));
        }
        if let Some(format) = &self.format
            && !has_format(text, format)
        {
            let detail = format!("{path} in body must be of type {format}: {}", Value::from(text));
            errors.push(FieldError::type_invalid(path.to_string(), text, &detail));
        }
    }

    fn check_list(&self, list: &[Value], path: &Path<'_>, errors: &mut Violations) {
        if let Some(max) = self.limits.max_items
            && list.len() as u64 > max
        {
            errors.push(FieldError::too_many(path.to_string(), list.len(), max));
        }
        if let Some(min) = self.limits.min_items
            && (list.len() as u64) < min
        {
            let detail = format!("{path} in body should have at least {min} items");
            errors.push(FieldError::invalid(path.to_string(), &Value::from(list.len()), &detail));
        }
        if let Some(items) = &self.items {
            for (index, child) in list.iter().enumerate() {
                items.validate(child, &path.index(index), errors);
            }
        }
        self.check_uniqueness(list, path, errors);
    }

    fn check_uniqueness(&self, list: &[Value], path: &Path<'_>, errors: &mut Violations) {
        let identity = |entry: &Value| match &self.list_type {
            ListType::Atomic => None,
            ListType::Set => Some(entry.clone()),
            ListType::Map(keys) => {
                let object = entry.as_object()?;
                let picked: Map<String, Value> =
                    keys.iter().filter_map(|k| object.get(k).map(|v| (k.clone(), v.clone()))).collect();
                Some(Value::Object(picked))
            }
        };
        if self.list_type == ListType::Atomic {
            return;
        }
        let mut seen = BTreeSet::new();
        for (index, entry) in list.iter().enumerate() {
            if let Some(id) = identity(entry)
                && !seen.insert(identity_of(&id))
            {
                if is_full(errors) {
                    return;
                }
                errors.push(FieldError::duplicate(path.index(index).to_string(), &id));
            }
        }
    }

    fn check_object(&self, map: &Map<String, Value>, path: &Path<'_>, errors: &mut Violations) {
        for name in &self.required {
            // A `null` for a field that allows none was dropped before, so it is missing too.
            if !map.contains_key(name) {
                errors.push(FieldError::required(path.field(name).to_string(), ""));
            }
        }
        if let Some(max) = self.limits.max_properties
            && map.len() as u64 > max
        {
            errors.push(FieldError::too_many(path.to_string(), map.len(), max));
        }
        if let Some(min) = self.limits.min_properties
            && (map.len() as u64) < min
        {
            let detail = format!("{path} in body should have at least {min} properties");
            errors.push(FieldError::invalid(path.to_string(), &Value::from(map.len()), &detail));
        }
        for (name, child) in map {
            if let Some(schema) = self.properties.get(name) {
                schema.validate(child, &path.field(name), errors);
            } else if let Additional::Schema(schema) = &self.additional {
                schema.validate(child, &path.field(name), errors);
            }
        }
    }

    fn check_branches(&self, value: &Value, path: &Path<'_>, errors: &mut Violations) {
        let found = |schema: &Schema| {
            let mut found = Vec::new();
            schema.validate(value, path, &mut found);
            found
        };
        // The real server names no field here and quotes the path.
        let failed =
            |detail: &str| FieldError::invalid_str(FieldError::NO_FIELD, "", &format!("\"{path}\" {detail}"));
        // Each branch is looked at once: two looks at each level would be too many for schemas that nest.
        let any_of: Vec<Violations> = self.any_of.iter().map(found).collect();
        if !any_of.is_empty() && any_of.iter().all(|errors| !errors.is_empty()) {
            errors.push(failed("must validate at least one schema (anyOf)"));
            errors.extend(nearest(any_of));
        } else if !self.one_of.is_empty() {
            let one_of: Vec<Violations> = self.one_of.iter().map(found).collect();
            match one_of.iter().filter(|errors| errors.is_empty()).count() {
                1 => {}
                0 => {
                    errors.push(failed("must validate one and only one schema (oneOf). Found none valid"));
                    errors.extend(nearest(one_of));
                }
                count => errors.push(failed(&format!(
                    "must validate one and only one schema (oneOf). Found {count} valid alternatives"
                ))),
            }
        }
        if self.not.as_deref().is_some_and(|schema| found(schema).is_empty()) {
            errors.push(failed("must not validate the schema (not)"));
        }
        for schema in &self.all_of {
            schema.validate(value, path, errors);
        }
    }
}

/// What is wrong with the branch that comes nearest.
fn nearest(branches: Vec<Violations>) -> Violations {
    branches.into_iter().min_by_key(Vec::len).unwrap_or_default()
}

impl Limits {
    fn check_number(&self, number: f64, value: &Value, path: &Path<'_>, errors: &mut Violations) {
        let mut fail = |detail: String| {
            let detail = format!("{path} in body should be {detail}");
            errors.push(FieldError::invalid(path.to_string(), value, &detail));
        };
        match self.minimum {
            Some(min) if self.exclusive_minimum && number <= min => {
                fail(format!("greater than {min}"));
            }
            Some(min) if number < min => fail(format!("greater than or equal to {min}")),
            _ => {}
        }
        match self.maximum {
            Some(max) if self.exclusive_maximum && number >= max => {
                fail(format!("less than {max}"));
            }
            Some(max) if number > max => fail(format!("less than or equal to {max}")),
            _ => {}
        }
        if let Some(step) = self.multiple_of
            && step != 0.0
            && (number / step).fract() != 0.0
        {
            fail(format!("a multiple of {step}"));
        }
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
}

fn push_type_error(wanted: &str, value: &Value, path: &Path<'_>, errors: &mut Violations) {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let shown = path.to_string();
    let detail = format!("{shown} in body must be of type {wanted}: \"{found}\"");
    errors.push(FieldError::type_invalid(shown, found, &detail));
}

/// Formats that the real server knows; others are not checked.
fn has_format(text: &str, format: &str) -> bool {
    match format {
        "date-time" => text.parse::<Timestamp>().is_ok(),
        "date" => text.parse::<civil::Date>().is_ok() && text.len() == 10,
        "uri" => text
            .parse::<http::Uri>()
            .is_ok_and(|u| !text.is_empty() && (u.scheme().is_some() || text.starts_with('/'))),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "uuid" => is_uuid(text),
        "byte" => is_base64(text),
        "duration" => is_go_duration(text),
        _ => true,
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(i, c)| match i {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

/// Standard base64 with padding.
pub(crate) fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// `1h2m3.5s` and the like.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if digits == 0 || rest[..digits].parse::<f64>().is_err() {
            return false;
        }
        rest = &rest[digits..];
        let Some(unit) = ["ns", "us", "µs", "ms", "s", "m", "h"].iter().find(|u| rest.starts_with(**u))
        else {
            return false;
        };
        rest = &rest[unit.len()..];
    }
    true
}

/// Whether the value that an error names is the same in both objects. The path is the one that errors print.
pub(crate) fn unchanged(new: &Value, old: &Value, field: &str) -> bool {
    let mut pair = (new, old);
    for part in field.split('.').flat_map(|p| p.split_inclusive('[')) {
        let part = part.trim_end_matches(['[', ']']);
        if part.is_empty() {
            continue;
        }
        pair = match (child(pair.0, part), child(pair.1, part)) {
            (Some(a), Some(b)) => (a, b),
            // A missing required field counts as unchanged when its parent is.
            (None, None) => return pair.0 == pair.1,
            _ => return false,
        };
    }
    pair.0 == pair.1
}

fn child<'a>(value: &'a Value, part: &str) -> Option<&'a Value> {
    match value {
        Value::Array(list) => part.parse::<usize>().ok().and_then(|i| list.get(i)),
        other => other.get(part),
    }
}
