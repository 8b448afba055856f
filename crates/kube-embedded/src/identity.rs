//! What makes a JSON value the same as another, as a text that can be looked up.

use serde_json::Value;

/// A text that two values share just when they are equal, whatever the order of their fields.
pub(crate) fn identity_of<T: Identity + ?Sized>(value: &T) -> String {
    let mut text = String::new();
    value.write(&mut text);
    text
}

/// What has an identity.
pub(crate) trait Identity {
    fn write(&self, text: &mut String);
}

impl Identity for Value {
    fn write(&self, text: &mut String) {
        match self {
            Self::Array(list) => {
                text.push('[');
                for child in list {
                    child.write(text);
                    text.push(',');
                }
                text.push(']');
            }
            Self::Object(map) => {
                let mut fields: Vec<_> = map.iter().collect();
                fields.sort_unstable_by_key(|(name, _)| *name);
                text.push('{');
                for (name, child) in fields {
                    text.push_str(&Self::from(name.as_str()).to_string());
                    text.push(':');
                    child.write(text);
                    text.push(',');
                }
                text.push('}');
            }
            other => text.push_str(&other.to_string()),
        }
    }
}

/// Some of the fields of an object, of which those may be missing that are `None`.
impl Identity for Vec<Option<&Value>> {
    fn write(&self, text: &mut String) {
        for field in self {
            if let Some(value) = field {
                value.write(text);
            }
            text.push(',');
        }
    }
}
