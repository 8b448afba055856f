//! The CEL rules of a schema (`x-kubernetes-validations`).

use std::{borrow::Cow, collections::BTreeMap};

use kube::core::cel::{
    CompilationError, CompiledSchema, ErrorKind, ValidationError, compile_schema, validate_compiled,
};
use serde_json::Value;

use super::{
    Additional, ListType, Schema,
    rule::{BUDGET, Shape, Size},
    validate::is_full,
};
use crate::{
    field::{FieldError, Path},
    identity::identity_of,
};

/// Why a rule may say that it is broken.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The rules of one node of a schema.
#[derive(Debug)]
pub(crate) struct Rules {
    compiled: CompiledSchema,
    /// The fields of the object that the rules speak of, when they speak of nothing else: only these are handed to the
    /// evaluator, whose price is the size of what it gets.
    fields: Option<Vec<String>>,
    /// How the rules and the expressions of their messages are built.
    shape: Shape,
}

/// Compiles the rules of one node, without those below it; `None` when the node itself has none.
pub(super) fn compile(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) -> Option<Box<Rules>> {
    let rules = schema.get("x-kubernetes-validations")?.as_array()?;
    if rules.is_empty() {
        return None;
    }
    let below = path.field("x-kubernetes-validations");
    let empty = |rule: &Value| rule.get("rule").and_then(Value::as_str).unwrap_or_default().trim().is_empty();
    if let Some(index) = rules.iter().position(empty) {
        let field = below.index(index).field("rule").to_string();
        errors.push(FieldError::required(field, "rule is not specified"));
        return None;
    }
    for (index, rule) in rules.iter().enumerate() {
        if let Some(reason) =
            rule.get("reason").filter(|r| !r.is_null() && !REASONS.contains(&r.as_str().unwrap_or_default()))
        {
            let field = below.index(index).field("reason").to_string();
            errors.push(FieldError::not_supported(field, reason, &REASONS.map(Value::from)));
        }
    }
    let shape = shape_of(rules, &below, errors)?;
    let fields = fields_of(rules);
    let own = own_part(schema, fields.as_deref());
    let compiled = shape.parse_with_stack(|| compile_schema(&own));
    for (index, result) in compiled.validations.iter().enumerate() {
        if let Err(error) = result {
            errors.push(compilation_error(&below.index(index), error));
        }
    }
    Some(Box::new(Rules { compiled, fields, shape }))
}

/// How the expressions of rules are built, taken together; `None`, with what is wrong, when the parser may not see one.
fn shape_of(rules: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) -> Option<Shape> {
    let (mut shape, before) = (Shape::default(), errors.len());
    for (index, rule) in rules.iter().enumerate() {
        for name in ["rule", "messageExpression"] {
            let source = rule.get(name).and_then(Value::as_str).unwrap_or_default();
            match Shape::of(source) {
                Ok(other) => shape.join(&other),
                Err(why) => {
                    let field = path.index(index).field(name).to_string();
                    let why = format!("compilation failed: {why}");
                    errors.push(FieldError::invalid_str(field, source, &why));
                }
            }
        }
    }
    (errors.len() == before).then_some(shape)
}

/// The fields that rules read from `self` and `oldSelf`; `None` when they use these as a whole.
fn fields_of(rules: &[Value]) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    for rule in rules {
        for source in ["rule", "messageExpression"] {
            collect_fields(rule.get(source).and_then(Value::as_str).unwrap_or_default(), &mut fields)?;
        }
    }
    fields.sort_unstable();
    fields.dedup();
    Some(fields)
}

/// Adds each `x` of `self.x`. Whatever else is done with `self`, such as a call or an index, takes the whole: `None`. A
/// `self` in a text counts too, which costs time and nothing else.
fn collect_fields(source: &str, fields: &mut Vec<String>) -> Option<()> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (at, _) in source.match_indices("elf") {
        let start = source[..at].rfind(|c| !is_word(c)).map_or(0, |i| i + 1);
        let rest = &source[at + 3..];
        if !matches!(&source[start..at], "s" | "oldS") || rest.starts_with(is_word) {
            continue;
        }
        let rest = rest.trim_start().strip_prefix('.')?.trim_start();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        if name.is_empty() || name.starts_with("__") || behind.trim_start().starts_with('(') {
            return None;
        }
        fields.push(name.to_owned());
    }
    Some(())
}

/// A schema without the rules below its root, and without the properties that its own do not speak of.
fn own_part(schema: &Value, fields: Option<&[String]>) -> Value {
    let mut own = schema.clone();
    let Value::Object(map) = &mut own else { return own };
    for (name, part) in map.iter_mut() {
        if name != "x-kubernetes-validations" {
            drop_rules(part);
        }
    }
    if let (Some(fields), Some(Value::Object(properties))) = (fields, map.get_mut("properties")) {
        properties.retain(|name, _| fields.contains(name));
    }
    own
}

fn drop_rules(part: &mut Value) {
    match part {
        Value::Object(map) => {
            map.retain(|name, rules| name != "x-kubernetes-validations" || !rules.is_array());
            map.values_mut().for_each(drop_rules);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_rules),
        _ => {}
    }
}

fn compilation_error(path: &Path<'_>, error: &CompilationError) -> FieldError {
    let (field, text) = match error {
        CompilationError::Parse { rule, .. } => ("rule", rule.as_str()),
        CompilationError::MessageExpressionParse { message_expression, .. } => {
            ("messageExpression", message_expression.as_str())
        }
        _ => ("rule", ""),
    };
    FieldError::invalid_str(path.field(field).to_string(), text, &format!("compilation failed: {error}"))
}

impl Schema {
    /// Runs the rules against an object that already passed the schema; `old` is what it replaces. When what they may
    /// cost exceeds the budget of one object, no more of them are run and the object is refused.
    pub fn check_rules(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        self.check_rules_within(&mut { BUDGET }, value, old, path, errors);
    }

    fn check_rules_within(
        &self,
        budget: &mut u64,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        if value.is_null() || *budget == 0 || is_full(errors) {
            return;
        }
        if let Some(rules) = &self.rules {
            let shown = self.shown(rules, value);
            let old = old.filter(|o| !o.is_null()).map(|o| self.shown(rules, o));
            let mut size = Size::default();
            size.add(&shown);
            if let Some(old) = &old {
                size.add(old);
            }
            let left = budget.checked_sub(rules.shape.cost(size));
            *budget = left.unwrap_or_default();
            if left.is_none() {
                let why = "validation failed due to running out of cost budget, no further validation rules will be run";
                errors.push(FieldError::invalid_str(path.to_string(), type_name(value), why));
                return;
            }
            rules.shape.run_with_stack(|| run(&rules.compiled, &shown, old.as_deref(), path, errors));
        }
        if self.rules_below {
            self.check_rules_below(budget, value, old, path, errors);
        }
    }

    /// The part of a value that rules speak of, as they see it.
    fn shown<'a>(&self, rules: &Rules, value: &'a Value) -> Cow<'a, Value> {
        let (Some(fields), Value::Object(map)) = (&rules.fields, value) else {
            return self.without_nulls(value);
        };
        let part = fields.iter().filter_map(|f| Some((f.clone(), map.get(f)?.clone()))).collect();
        let mut part = Value::Object(part);
        self.drop_null_fields(&mut part);
        Cow::Owned(part)
    }

    /// The value as rules see it: a field that is null counts as absent.
    fn without_nulls<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        if !self.has_null_field(value) {
            return Cow::Borrowed(value);
        }
        let mut value = value.clone();
        self.drop_null_fields(&mut value);
        Cow::Owned(value)
    }

    fn has_null_field(&self, value: &Value) -> bool {
        match value {
            Value::Object(map) => map.iter().any(|(name, child)| match self.properties.get(name) {
                Some(schema) => child.is_null() || schema.has_null_field(child),
                None => self.additional.schema().is_some_and(|schema| schema.has_null_field(child)),
            }),
            Value::Array(list) => self
                .items
                .as_ref()
                .is_some_and(|schema| list.iter().any(|child| schema.has_null_field(child))),
            _ => false,
        }
    }

    fn drop_null_fields(&self, value: &mut Value) {
        match value {
            Value::Object(map) => map.retain(|name, child| {
                let named = self.properties.get(name);
                if let Some(schema) = named.or(self.additional.schema()) {
                    schema.drop_null_fields(child);
                }
                named.is_none() || !child.is_null()
            }),
            Value::Array(list) => {
                if let Some(schema) = &self.items {
                    for child in list {
                        schema.drop_null_fields(child);
                    }
                }
            }
            _ => {}
        }
    }

    fn check_rules_below(
        &self,
        budget: &mut u64,
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        match value {
            Value::Object(map) => {
                for (name, child) in map {
                    let old = old.and_then(|o| o.get(name));
                    if let Some(schema) = self.properties.get(name) {
                        schema.check_rules_within(budget, child, old, &path.field(name), errors);
                    } else if let Additional::Schema(schema) = &self.additional {
                        schema.check_rules_within(budget, child, old, &path.key(name), errors);
                    }
                }
            }
            Value::Array(list) => {
                let Some(schema) = &self.items else { return };
                let before = self.by_keys(old);
                for (index, child) in list.iter().enumerate() {
                    let old = self.keys_of(child).and_then(|keys| before.get(&keys).copied());
                    schema.check_rules_within(budget, child, old, &path.index(index), errors);
                }
            }
            _ => {}
        }
    }

    /// The entries of an old list by what a new entry that replaces them has in common with them: only lists of type map
    /// know.
    fn by_keys<'a>(&self, old: Option<&'a Value>) -> BTreeMap<String, &'a Value> {
        let list = old.and_then(Value::as_array).into_iter().flatten();
        // Of several the first one counts.
        list.rev().filter_map(|entry| Some((self.keys_of(entry)?, entry))).collect()
    }

    fn keys_of(&self, entry: &Value) -> Option<String> {
        match &self.list_type {
            ListType::Map(keys) => {
                Some(identity_of(&keys.iter().map(|key| entry.get(key)).collect::<Vec<_>>()))
            }
            _ => None,
        }
    }
}

fn run(
    rules: &CompiledSchema,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Err(failed) = validate_compiled(rules, value, old) else {
        return;
    };
    let mut failed = failed.into_vec();
    // The evaluator walks properties in no fixed order.
    failed.sort_by(|a, b| a.field_path.cmp(&b.field_path));
    errors.extend(failed.iter().map(|e| to_field_error(e, value, path)));
}

fn to_field_error(error: &ValidationError, value: &Value, path: &Path<'_>) -> FieldError {
    let base = path.to_string();
    let below = error.field_path.as_str();
    let field = match (base.is_empty(), below.is_empty()) {
        (_, true) => base,
        (true, false) => below.trim_start_matches('.').to_owned(),
        (false, false) if below.starts_with(['.', '[']) => format!("{base}{below}"),
        (false, false) => format!("{base}.{below}"),
    };
    let message = match error.kind {
        ErrorKind::ValidationFailure => error.message.trim().to_owned(),
        _ => format!("{} evaluating rule: {}", error.message, error.rule),
    };
    match error.reason.as_deref() {
        Some("FieldValueRequired") => FieldError::required(field, &message),
        Some("FieldValueForbidden") => FieldError::forbidden(field, &message),
        _ => match (error.kind.clone(), at(value, below)) {
            (ErrorKind::ValidationFailure, Value::Object(_) | Value::Array(_)) => {
                FieldError::invalid_unshown(field, &message)
            }
            (ErrorKind::ValidationFailure, shown) => FieldError::invalid(field, shown, &message),
            // A rule that could not be run says something about the type, not about the value.
            (_, other) => FieldError::invalid_str(field, type_name(other), &message),
        },
    }
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    let mut found = value;
    for part in path.split(['.', '[']).filter(|p| !p.is_empty()) {
        let part = part.trim_end_matches(']');
        let next = match found {
            Value::Array(list) => part.parse::<usize>().ok().and_then(|i| list.get(i)),
            other => other.get(part),
        };
        match next {
            Some(next) => found = next,
            None => return found,
        }
    }
    found
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Null => "null",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_given_the_fields_that_they_speak_of() {
        let table = [
            ("self.a < 5", Some(vec!["a"])),
            ("!has(self.a) || self.b.c == oldSelf.d", Some(vec!["a", "b", "d"])),
            ("self.a.all(x, x == oldSelf . b)", Some(vec!["a", "b"])),
            ("true", Some(vec![])),
            ("myself.a == itself", Some(vec![])),
            ("self == oldSelf", None),
            ("self.all(x, x > 1)", None),
            ("self['a'] == 1", None),
            ("size(self) > 1", None),
            ("self.__size__ > 1", None),
            ("self.a == 1 && oldSelf != self", None),
        ];
        for (rule, wanted) in table {
            let found = fields_of(&[json!({ "rule": rule })]);
            let wanted = wanted.map(|w| w.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(found, wanted, "{rule}");
        }
    }
}
