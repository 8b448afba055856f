//! Defaulting: fields that an object leaves out and its schema fills in.

use serde_json::Value;

use super::{Additional, Schema};

impl Schema {
    /// Fills in the defaults of missing fields, and of `null` where the schema allows no `null`.
    pub fn apply_defaults(&self, value: &mut Value) {
        if !self.has_defaults {
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, schema) in self.properties.iter().filter(|(_, s)| s.has_defaults) {
                    let missing = map.get(name).is_none_or(|v| v.is_null() && !schema.nullable);
                    if let (true, Some(default)) = (missing, &schema.default) {
                        map.insert(name.clone(), default.clone());
                    }
                    if let Some(child) = map.get_mut(name) {
                        schema.apply_defaults(child);
                    }
                }
                let Additional::Schema(schema) = &self.additional else {
                    return;
                };
                for (name, child) in map.iter_mut() {
                    if !self.properties.contains_key(name) {
                        schema.apply_defaults(child);
                    }
                }
            }
            Value::Array(list) => {
                let Some(schema) = &self.items else { return };
                for child in list {
                    schema.apply_defaults(child);
                }
            }
            _ => {}
        }
    }
}
