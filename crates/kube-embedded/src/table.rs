//! Answers as tables, as `kubectl get` asks for them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    convert,
    http::render::metadata_only,
    ops::Target,
    resource::{Cell, Column},
    store::object::Object,
};

/// A table; the column definitions are left out of all but the first of a watch.
pub(crate) fn table(target: &Target, meta: Value, rows: Vec<Value>, with_columns: bool) -> Value {
    let columns: Vec<Value> =
        if with_columns { columns(target).iter().map(definition).collect() } else { Vec::new() };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": columns, "rows": rows,
    })
}

fn columns(target: &Target) -> &[Column] {
    target.version().map(|v| &*v.columns).unwrap_or_default()
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format, "description": column.description,
        "priority": column.priority,
    })
}

/// The row of one object; `include` says how much of the object comes with it.
pub(crate) fn row(target: &Target, object: &Object, include: &str, now: Timestamp) -> Value {
    let value = Value::Object(convert::to_version(&target.resource, target.version, object.parse()));
    let cells: Vec<Value> = columns(target).iter().map(|c| cell(c, &value, now)).collect();
    let object = match include {
        "None" => Value::Null,
        "Object" => value,
        _ => metadata_only(object),
    };
    let mut row = json!({ "cells": cells });
    if !object.is_null() {
        row["object"] = object;
    }
    row
}

fn cell(column: &Column, value: &Value, now: Timestamp) -> Value {
    let found = match &column.cell {
        Cell::Name => value.pointer("/metadata/name").cloned(),
        Cell::Count(fields) => {
            let count = |f: &&str| value.get(*f).map_or(0, entries);
            return Value::from(fields.iter().map(count).sum::<usize>().to_string());
        }
        Cell::Path(path) => path.first(value).cloned(),
        Cell::Reference(path) => path.first(value).map(|reference| {
            let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
            format!("{}/{}", text("kind").to_lowercase(), text("name")).into()
        }),
        Cell::FirstOf(paths) => {
            paths.iter().filter_map(|path| path.first(value)).find(|found| !found.is_null()).cloned()
        }
    };
    match (column.kind.as_str(), found) {
        ("date", None | Some(Value::Null)) => "<unknown>".into(),
        (_, None | Some(Value::Null)) => Value::Null,
        ("date", Some(Value::String(at))) => match at.parse::<Timestamp>() {
            Ok(at) => age(at, now).into(),
            Err(_) => "<invalid>".into(),
        },
        ("string", Some(Value::String(text))) => text.into(),
        ("string", Some(other)) => other.to_string().into(),
        (_, Some(other)) => other,
    }
}

fn entries(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.len(),
        Value::Array(list) => list.len(),
        _ => 0,
    }
}

/// The time since `at`, as the real server writes it: two units where the larger one is small.
pub(crate) fn age(at: Timestamp, now: Timestamp) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let seconds = now.as_second() - at.as_second();
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        let (whole, rest) = (seconds / big, seconds % big / small);
        if rest == 0 { format!("{whole}{big_unit}") } else { format!("{whole}{big_unit}{rest}{small_unit}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(MINUTE, "m", 1, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(HOUR, "h", MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(DAY, "d", HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(YEAR, "y", DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_by_the_real_server() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let table = [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600 + 60, "3h1m"),
            (9 * 3600, "9h"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (9 * 86400, "9d"),
            (3 * 365 * 86400, "3y"),
        ];
        for (seconds, wanted) in table {
            let at = Timestamp::from_second(1_000_000_000 - seconds).unwrap();
            assert_eq!(age(at, now), wanted, "{seconds}");
        }
    }
}
