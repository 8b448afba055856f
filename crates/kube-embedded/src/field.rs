//! Field errors: which field of an object is wrong, in the words of the real server.

use serde_json::Value;

/// One wrong field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// Machine-readable, such as `FieldValueRequired`.
    pub reason: &'static str,
    /// The path, such as `spec.ports[0].name`.
    pub field: String,
    /// The message without the path.
    pub body: String,
    /// Whether rules that need a well-formed object can't run beside this error.
    pub blocks_rules: bool,
}

/// How much of a value or a list of values an error shows, in bytes.
const SHOWN: usize = 10_000;

impl FieldError {
    /// Stands for a field where the real server names none.
    pub const NO_FIELD: &str = "<nil>";

    fn new(reason: &'static str, field: impl Into<String>, body: String, blocks_rules: bool) -> Self {
        Self { reason, field: field.into(), body, blocks_rules }
    }

    /// Path and body, as they stand in the message of a `Status`.
    pub fn message(&self) -> String {
        format!("{}: {}", self.field, self.body)
    }

    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueRequired", field, with_detail("Required value", detail), true)
    }

    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let body = with_detail(&format!("Invalid value: {}", show(value)), detail);
        Self::new("FieldValueInvalid", field, body, false)
    }

    /// As [`Self::invalid`], for a value that is too big to be shown.
    pub fn invalid_unshown(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, with_detail("Invalid value", detail), false)
    }

    pub fn invalid_str(field: impl Into<String>, value: &str, detail: &str) -> Self {
        let body = with_detail(&format!("Invalid value: {}", quote(value)), detail);
        Self::new("FieldValueInvalid", field, body, false)
    }

    pub fn type_invalid(field: impl Into<String>, found: &str, detail: &str) -> Self {
        let body = with_detail(&format!("Invalid value: {}", quote(found)), detail);
        Self::new("FieldValueTypeInvalid", field, body, true)
    }

    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[Value]) -> Self {
        let mut names = String::new();
        for value in supported {
            if names.len() > SHOWN {
                break;
            }
            let name = value.as_str().map_or_else(|| quote(&value.to_string()), quote);
            names.push_str(if names.is_empty() { "" } else { ", " });
            names.push_str(&name);
        }
        let detail = cut(format!("supported values: {names}"));
        let body = with_detail(&format!("Unsupported value: {}", show(value)), &detail);
        Self::new("FieldValueNotSupported", field, body, true)
    }

    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, with_detail("Forbidden", detail), false)
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let body = format!("Duplicate value: {}", show(value));
        Self::new("FieldValueDuplicate", field, body, false)
    }

    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        let body = format!("Too long: may not be more than {max} bytes");
        Self::new("FieldValueTooLong", field, body, true)
    }

    pub fn too_many(field: impl Into<String>, actual: usize, max: u64) -> Self {
        let body = format!("Too many: {actual}: must have at most {max} items");
        Self::new("FieldValueTooMany", field, body, true)
    }
}

fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
}

fn quote(text: &str) -> String {
    cut(Value::from(text).to_string())
}

fn show(value: &Value) -> String {
    cut(value.to_string())
}

/// An object can break a rule in many places, and each error may show all of it.
fn cut(mut text: String) -> String {
    if text.len() > SHOWN {
        text.truncate(text.floor_char_boundary(SHOWN));
        text.push_str("...");
    }
    text
}

/// A path into an object that lives on the stack and is written out only when an error needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Segment<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub const ROOT: Path<'static> = Path { parent: None, segment: Segment::Root };

    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Field(name) }
    }

    pub fn key(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Key(name) }
    }

    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Index(index) }
    }
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at_root = self.parent.is_none_or(|p| matches!(p.segment, Segment::Root));
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.segment {
            Segment::Root => Ok(()),
            Segment::Field(name) if at_root => f.write_str(name),
            Segment::Field(name) => write!(f, ".{name}"),
            Segment::Key(name) => write!(f, "[{name}]"),
            Segment::Index(index) => write!(f, "[{index}]"),
        }
    }
}
