//! Label and field selectors.

use crate::{meta::Json, names, status::ApiError};

/// One condition on labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    Greater,
    Less,
}

/// Conditions on labels; all must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let refuse = |part: &str| {
            ApiError::bad_request(format!(
                "unable to parse requirement: found {part:?} in label selector {text:?}"
            ))
        };
        split_outside_parentheses(text)
            .into_iter()
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| {
                let requirement = parse_requirement(part).ok_or_else(|| refuse(part))?;
                match requirement.fault() {
                    Some(why) => Err(ApiError::bad_request(format!("unable to parse requirement: {why}"))),
                    None => Ok(requirement),
                }
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Self)
    }

    pub fn matches(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.0.iter().all(|r| {
            let found = labels
                .binary_search_by(|(k, _)| (**k).cmp(r.key.as_str()))
                .ok()
                .and_then(|i| labels.get(i))
                .map(|(_, v)| &**v);
            r.holds(found)
        })
    }
}

impl Requirement {
    /// What is wrong with the key or a value, if anything.
    fn fault(&self) -> Option<String> {
        let invalid = |text: &str, why: &str| format!("<nil>: Invalid value: {text:?}: {why}");
        if let Some(why) = names::check_qualified(&self.key) {
            return Some(invalid(&self.key, &why));
        }
        let number = matches!(self.operator, Operator::Greater | Operator::Less);
        self.values.iter().find_map(|value| {
            if number && value.parse::<i64>().is_err() {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                return Some(invalid(value, why));
            }
            names::check_label_value(value).map(|why| invalid(value, &why))
        })
    }

    fn holds(&self, found: Option<&str>) -> bool {
        let listed = |v: &str| self.values.iter().any(|w| w == v);
        let number = |v: &str| v.parse::<i64>().ok();
        let limit = || self.values.first().and_then(|v| number(v));
        match self.operator {
            Operator::In => found.is_some_and(listed),
            Operator::NotIn => !found.is_some_and(listed),
            Operator::Exists => found.is_some(),
            Operator::Absent => found.is_none(),
            Operator::Greater => found.and_then(number).zip(limit()).is_some_and(|(v, l)| v > l),
            Operator::Less => found.and_then(number).zip(limit()).is_some_and(|(v, l)| v < l),
        }
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_requirement(part: &str) -> Option<Requirement> {
    let build = |key: &str, operator, values: Vec<String>| {
        let key = key.trim();
        let fits = !key.is_empty()
            && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
        fits.then(|| Requirement { key: key.to_owned(), operator, values })
    };
    let one = |v: &str| vec![v.trim().to_owned()];
    if let Some((key, values)) = part.strip_suffix(')').and_then(|p| p.split_once('(')) {
        let (key, word) = key.trim_end().rsplit_once(char::is_whitespace)?;
        let values = values.split(',').map(|v| v.trim().to_owned()).collect();
        return match word {
            "in" => build(key, Operator::In, values),
            "notin" => build(key, Operator::NotIn, values),
            _ => None,
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return build(key, Operator::NotIn, one(value));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return build(key, Operator::In, one(value));
    }
    if let Some((key, value)) = part.split_once('>') {
        return build(key, Operator::Greater, one(value));
    }
    if let Some((key, value)) = part.split_once('<') {
        return build(key, Operator::Less, one(value));
    }
    match part.strip_prefix('!') {
        Some(key) => build(key, Operator::Absent, Vec::new()),
        None => build(part, Operator::Exists, Vec::new()),
    }
}

/// One condition on a field: name, wanted text, and whether it must differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldTerm {
    pub field: String,
    pub value: String,
    pub negated: bool,
}

/// Reads a field selector.
pub(crate) fn parse_fields(text: &str) -> Result<Vec<FieldTerm>, ApiError> {
    split_escaped(text)
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (field, value, negated) = if let Some((f, v)) = part.split_once("!=") {
                (f, v, true)
            } else if let Some((f, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (f, v, false)
            } else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            Ok(FieldTerm { field: field.to_owned(), value: unescape(value), negated })
        })
        .collect()
}

fn split_escaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    plain
}

/// The labels of an object, sorted by key.
pub(crate) fn labels_of(object: &Json) -> Box<[(Box<str>, Box<str>)]> {
    crate::meta::metadata(object)
        .and_then(|m| m.get("labels"))
        .and_then(serde_json::Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.as_str().into(), v.as_str()?.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_follow_the_table() {
        let labels: Vec<(Box<str>, Box<str>)> = vec![("app".into(), "web".into()), ("n".into(), "5".into())];
        let table = [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app=web", true),
            ("app==web,n=5", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (api, web)", true),
            ("app notin (api,web)", false),
            ("other notin (a)", true),
            ("n>4", true),
            ("n<5", false),
        ];
        for (text, wanted) in table {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.matches(&labels), wanted, "{text}");
        }
    }

    #[test]
    fn field_selectors_take_escaped_commas() {
        let terms = parse_fields(r"a=x\,y,b!=z").unwrap();
        assert_eq!(terms[0].value, "x,y");
        assert!(terms[1].negated);
        assert!(parse_fields("a").is_err());
    }
}
