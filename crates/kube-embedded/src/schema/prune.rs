//! Pruning: fields that the schema does not name are dropped, and named in `dropped`.

use serde_json::{Map, Value};

use super::{Additional, Schema};
use crate::field::Path;

/// Fields that every embedded object has.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Drops what the schema does not name. `whole` says that the value is a whole object, whose type and metadata
    /// are no matter of the schema.
    pub fn prune(&self, value: &mut Value, whole: bool, path: &Path<'_>, dropped: &mut Vec<String>) {
        match value {
            Value::Object(map) => self.prune_object(map, whole || self.embedded, path, dropped),
            Value::Array(list) => {
                let Some(schema) = &self.items else { return };
                for (index, child) in list.iter_mut().enumerate() {
                    schema.prune(child, false, &path.index(index), dropped);
                }
            }
            _ => {}
        }
    }

    /// As [`Self::prune`], for an object that is held as a map.
    pub fn prune_object(
        &self,
        map: &mut Map<String, Value>,
        whole: bool,
        path: &Path<'_>,
        dropped: &mut Vec<String>,
    ) {
        map.retain(|name, child| {
            if whole && OBJECT_FIELDS.contains(&name.as_str()) {
                return true;
            }
            let below = path.field(name);
            if let Some(schema) = self.properties.get(name) {
                return schema.keep(child, &below, dropped);
            }
            match &self.additional {
                Additional::Schema(schema) => schema.keep(child, &below, dropped),
                // A value under `additionalProperties: true` has no schema, so nothing in it is named.
                Additional::Any => {
                    if !self.preserve_unknown {
                        empty(child, &below, dropped);
                    }
                    true
                }
                Additional::None if self.preserve_unknown => true,
                Additional::None => {
                    dropped.push(below.to_string());
                    false
                }
            }
        });
    }
}

impl Schema {
    /// Prunes a value; `false` for a `null` that stands for a missing field.
    fn keep(&self, value: &mut Value, path: &Path<'_>, dropped: &mut Vec<String>) -> bool {
        if value.is_null() && !self.nullable && self.default.is_none() {
            return false;
        }
        self.prune(value, false, path, dropped);
        true
    }
}

fn empty(value: &mut Value, path: &Path<'_>, dropped: &mut Vec<String>) {
    if let Value::Object(map) = value {
        dropped.extend(map.keys().map(|name| path.field(name).to_string()));
        map.clear();
    }
}
