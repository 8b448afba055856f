//! A tree of values as JSON text that Helm, Flux and Kubernetes read as the same tree.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use crate::error::RenderError;
use crate::text::write_quoted;

/// The largest integer up to which a 64-bit float holds every integer.
const MAX_EXACT: u64 = 1 << 53;
/// The longest key that YAML reads in a mapping, in bytes as written.
const MAX_KEY: usize = 1024;

/// `object` as indented JSON with sorted keys, which is YAML 1.1 and 1.2 too.
///
/// `path` is where the object stands in the RenderTask. The text has one line for each key and item, no line break
/// within a string and no leading space on its first line.
///
/// Integers beyond 2^53 and keys of more than 1,024 bytes are refused. A float is written with all digits that tell it
/// from its neighbours, with a point and a signed exponent (`1.0e+300`), for YAML 1.1 takes `1e300` for text.
pub(crate) fn to_json(object: &Map<String, Value>, path: &str) -> Result<String, RenderError> {
    let mut writer = Writer { out: String::new(), root: path, path: Vec::new() };
    writer.object(object)?;
    Ok(writer.out)
}

enum Step<'a> {
    Key(&'a str),
    Item(usize),
}

struct Writer<'a> {
    out: String,
    root: &'a str,
    path: Vec<Step<'a>>,
}

impl<'a> Writer<'a> {
    fn value(&mut self, value: &'a Value) -> Result<(), RenderError> {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Number(number) => self.number(number)?,
            Value::String(text) => write_quoted(&mut self.out, text),
            Value::Array(items) => self.array(items)?,
            Value::Object(object) => self.object(object)?,
        }
        Ok(())
    }

    fn array(&mut self, items: &'a [Value]) -> Result<(), RenderError> {
        if items.is_empty() {
            self.out.push_str("[]");
            return Ok(());
        }
        self.out.push('[');
        for (position, item) in items.iter().enumerate() {
            self.separate(position);
            self.path.push(Step::Item(position));
            self.indent();
            self.value(item)?;
            self.path.pop();
        }
        self.indent();
        self.out.push(']');
        Ok(())
    }

    fn object(&mut self, object: &'a Map<String, Value>) -> Result<(), RenderError> {
        if object.is_empty() {
            self.out.push_str("{}");
            return Ok(());
        }
        // The map keeps insertion order where another crate of the build asks serde_json for it.
        let mut entries: Vec<(&String, &Value)> = object.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        self.out.push('{');
        for (position, (key, value)) in entries.into_iter().enumerate() {
            self.separate(position);
            self.key(key)?;
            self.out.push_str(": ");
            self.value(value)?;
            self.path.pop();
        }
        self.indent();
        self.out.push('}');
        Ok(())
    }

    /// Writes a key on a line of its own, and leaves it on the path.
    fn key(&mut self, key: &'a str) -> Result<(), RenderError> {
        self.path.push(Step::Key(key));
        self.indent();
        let start = self.out.len();
        write_quoted(&mut self.out, key);
        let length = self.out.len() - start;
        if length > MAX_KEY {
            self.path.pop();
            return Err(RenderError::LongKey {
                path: self.path_text(),
                beginning: key.chars().take(32).collect(),
                length,
                limit: MAX_KEY,
            });
        }
        Ok(())
    }

    fn number(&mut self, number: &Number) -> Result<(), RenderError> {
        let inexact = match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => integer.unsigned_abs() > MAX_EXACT,
            (None, Some(integer)) => integer > MAX_EXACT,
            (None, None) => false,
        };
        if inexact {
            return Err(RenderError::InexactNumber { path: self.path_text(), number: number.to_string() });
        }
        write_number(&mut self.out, &number.to_string());
        Ok(())
    }

    fn separate(&mut self, position: usize) {
        if position > 0 {
            self.out.push(',');
        }
    }

    /// Begins a line, two spaces for each step of the path.
    fn indent(&mut self) {
        self.out.push('\n');
        for _ in &self.path {
            self.out.push_str("  ");
        }
    }

    /// The path as people write it: `spec.release.values.ports[0]["a.b"]`.
    fn path_text(&self) -> String {
        let mut text = self.root.to_owned();
        for step in &self.path {
            // Writing to a String cannot fail.
            let _ = match step {
                Step::Key(key) if is_plain(key) => write!(text, ".{key}"),
                Step::Key(key) => write!(text, "[{key:?}]"),
                Step::Item(position) => write!(text, "[{position}]"),
            };
        }
        text
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Writes JSON's text of a number so that YAML 1.1 takes it for a number too.
fn write_number(out: &mut String, text: &str) {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else {
        out.push_str(text);
        return;
    };
    out.push_str(mantissa);
    if !mantissa.contains('.') {
        out.push_str(".0");
    }
    out.push('e');
    if !exponent.starts_with(['+', '-']) {
        out.push('+');
    }
    out.push_str(exponent);
}
