//! The JSONPath dialect of printer columns: `.a.b`, `['a']`, `[0]`, `[*]` and filters such as `[?(@.type=="Ready")]`.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter(Filter),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Vec<Step>,
    test: Test,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Exists,
    Compare(Operator, Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

impl JsonPath {
    /// Parses a path; the error says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { steps: parse_steps(text.trim())? })
    }

    /// The first value that the path leads to.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        follow(&self.steps, value)
    }

    /// The field names of a path that has nothing but fields.
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|s| match s {
                Step::Field(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }
}

fn follow<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        Step::Field(name) => follow(rest, value.get(name)?),
        Step::Index(index) => {
            let list = value.as_array()?;
            let index = if *index < 0 {
                list.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
            } else {
                usize::try_from(*index).ok()?
            };
            follow(rest, list.get(index)?)
        }
        Step::All => children(value).find_map(|child| follow(rest, child)),
        Step::Filter(filter) => {
            children(value).filter(|child| filter.passes(child)).find_map(|child| follow(rest, child))
        }
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => Box::new(std::iter::empty()),
    }
}

impl Filter {
    fn passes(&self, value: &Value) -> bool {
        let found = follow(&self.left, value);
        match &self.test {
            Test::Exists => found.is_some(),
            Test::Compare(operator, wanted) => found.is_some_and(|f| operator.holds(f, wanted)),
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        use std::cmp::Ordering;
        let order = match (left, right) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Number(a), Value::Number(b)) => {
                a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b))
            }
            (a, b) if a == b => Some(Ordering::Equal),
            _ => None,
        };
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

fn parse_steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = if let Some(after) = rest.strip_prefix('[') {
            let end = closing_bracket(after).ok_or_else(|| format!("unterminated array in {text:?}"))?;
            steps.push(parse_bracket(&after[..end])?);
            &after[end + 1..]
        } else if let Some(after) = rest.strip_prefix('.') {
            parse_field(after, &mut steps)
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        };
    }
    Ok(steps)
}

/// Reads one field name, in which a backslash makes the next character an ordinary one.
fn parse_field<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => {
                end = at;
                break;
            }
            other => name.push(other),
        }
    }
    if name == "*" {
        steps.push(Step::All);
    } else if !name.is_empty() {
        steps.push(Step::Field(name));
    }
    &text[end..]
}

/// The position of the bracket that closes what was opened before `text`.
fn closing_bracket(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn parse_bracket(inner: &str) -> Result<Step, String> {
    let inner = inner.trim();
    if inner == "*" {
        return Ok(Step::All);
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return parse_filter(filter.trim()).map(Step::Filter);
    }
    if let Some(name) = unquote(inner) {
        return Ok(Step::Field(name.to_owned()));
    }
    inner.parse().map(Step::Index).map_err(|_| format!("invalid array index {inner}"))
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|q| text.strip_prefix(*q).and_then(|t| t.strip_suffix(*q)))
}

fn parse_filter(text: &str) -> Result<Filter, String> {
    let left = |text: &str| {
        let path = text
            .trim()
            .strip_prefix('@')
            .ok_or_else(|| format!("a filter must begin with @, not {text:?}"))?;
        parse_steps(path)
    };
    for (sign, operator) in OPERATORS {
        if let Some((path, wanted)) = text.split_once(sign) {
            let wanted = wanted.trim();
            let wanted = match unquote(wanted) {
                Some(text) => Value::from(text),
                None => serde_json::from_str(wanted)
                    .map_err(|_| format!("unreadable value {wanted} in a filter"))?,
            };
            return Ok(Filter { left: left(path)?, test: Test::Compare(operator, wanted) });
        }
    }
    Ok(Filter { left: left(text)?, test: Test::Exists })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_their_first_match() {
        let value = json!({
            "metadata": { "labels": { "a.b/c": "dotted" } },
            "spec": { "list": [{ "n": 1 }, { "n": 2 }] },
            "status": { "conditions": [
                { "type": "Available", "status": "False" },
                { "type": "Ready", "status": "True", "reason": "All" },
            ] },
        });
        let table = [
            (".spec.list[1].n", Some(json!(2))),
            (".spec.list[-1].n", Some(json!(2))),
            (".spec.list[*].n", Some(json!(1))),
            (".spec.list[?(@.n>1)].n", Some(json!(2))),
            (".metadata.labels['a.b/c']", Some(json!("dotted"))),
            (r".metadata.labels.a\.b/c", Some(json!("dotted"))),
            (r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True"))),
            (".status.conditions[?(@.status=='True')].type", Some(json!("Ready"))),
            (".status.conditions[?(@.reason)].type", Some(json!("Ready"))),
            (".status.conditions[?(@.type=='None')].status", None),
            (".spec.missing", None),
        ];
        for (path, wanted) in table {
            let parsed = JsonPath::parse(path).unwrap();
            assert_eq!(parsed.first(&value).cloned(), wanted, "{path}");
        }
    }

    #[test]
    fn a_path_that_begins_with_a_name_is_refused() {
        let error = JsonPath::parse("spec.name").unwrap_err();
        assert_eq!(error, "expected [ or . but got: spec.name");
    }
}
