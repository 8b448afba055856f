//! What a rule may be: seen from its text, for its parser and its evaluator work by recursion and cannot be stopped.

use serde_json::Value;

/// How deep the expression of a rule may nest, as in the real server.
const MAX_DEPTH: usize = 250;
/// How long a rule may be, in characters; as in the real server.
const MAX_LENGTH: usize = 100_000;
/// What the rules of one object may cost together, about as in the real server.
pub(crate) const BUDGET: u64 = 10_000_000;

/// What an evaluation costs before its first step.
const EACH: u64 = 100;

/// The macros that run a part of the rule for every entry of a list or map.
const LOOPS: [&str; 8] =
    ["all", "exists", "exists_one", "existsOne", "map", "filter", "transformList", "transformMap"];

/// How an expression is built: how deep, and how often each part of it can run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    depth: usize,
    /// The steps of constant price, by the number of loops around them.
    plain: Vec<u32>,
    /// The steps whose price may be the size of what they work on, by the same number.
    linear: Vec<u32>,
    /// The entries of lists and maps that stand in the rule itself, at most.
    literals: usize,
    /// How often lists of lists are made one.
    flattens: u32,
    /// Whether texts are made lists.
    splits: bool,
}

/// What a rule is run on.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Size {
    /// The entries of the largest list or map.
    entries: usize,
    /// The bytes of the longest text.
    text: usize,
}

impl Size {
    pub fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text = self.text.max(text.len()),
            Value::Array(list) => {
                self.entries = self.entries.max(list.len());
                for child in list {
                    self.add(child);
                }
            }
            Value::Object(map) => {
                self.entries = self.entries.max(map.len());
                for child in map.values() {
                    self.add(child);
                }
            }
            _ => {}
        }
    }
}

/// One bracket that is open.
#[derive(Debug, Default)]
struct Level {
    /// The operators since the last `&&`, `||` or comma; each takes what stands before it as its first operand.
    chain: usize,
    /// The `&&` and `||` since the last comma, which the parser balances.
    logic: usize,
    /// The conditions since the last comma, which nest to the right.
    conditions: usize,
    is_loop: bool,
}

impl Level {
    fn depth(&self) -> usize {
        let logic = (usize::BITS - self.logic.leading_zeros()) as usize;
        self.chain + logic + self.conditions + 1
    }
}

impl Shape {
    /// Looks at an expression.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn of(source: &str) -> Result<Self, String> {
        let length = source.chars().count();
        if length > MAX_LENGTH {
            return Err(format!(
                "expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"
            ));
        }
        let mut shape = Self::default();
        let mut levels = vec![Level::default()];
        // The depth and the loops of all levels but the last.
        let (mut outer, mut loops) = (0, 0);
        let mut tokens = Tokens(source).peekable();
        let mut before = "";
        while let Some(token) = tokens.next() {
            let Some(level) = levels.last_mut() else { break };
            match token {
                "(" | "[" | "{" => {
                    let is_loop = token == "(" && LOOPS.contains(&before);
                    if token == "(" && is_word(before) && !is_loop && before != "has" {
                        count(&mut shape.linear, loops);
                    }
                    outer += level.depth();
                    loops += usize::from(is_loop);
                    levels.push(Level { is_loop, ..Level::default() });
                }
                ")" | "]" | "}" => {
                    if levels.len() > 1
                        && let Some(closed) = levels.pop()
                        && let Some(level) = levels.last_mut()
                    {
                        loops -= usize::from(closed.is_loop);
                        outer -= level.depth();
                        level.chain += 1;
                    }
                }
                "," => {
                    (level.chain, level.logic, level.conditions) = (0, 0, 0);
                    shape.literals += 1;
                }
                "&&" | "||" => {
                    level.chain = 0;
                    level.logic += 1;
                    count(&mut shape.plain, loops);
                }
                "?" => {
                    level.conditions += 1;
                    count(&mut shape.plain, loops);
                }
                "in" | "+" | "==" | "!=" => {
                    level.chain += 1;
                    count(&mut shape.linear, loops);
                }
                "flatten" => shape.flattens += 1,
                "split" | "findAll" => shape.splits = true,
                "range" if tokens.peek() == Some(&"(") => {
                    return Err("lists.range is not supported by the embedded API".to_owned());
                }
                word if is_word(word) => count(&mut shape.plain, loops),
                ":" | "\"" => {}
                _ => {
                    level.chain += 1;
                    count(&mut shape.plain, loops);
                }
            }
            before = token;
            shape.depth = shape.depth.max(outer + levels.last().map_or(0, Level::depth));
            if shape.depth > MAX_DEPTH {
                return Err(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
            }
        }
        Ok(shape)
    }

    /// Takes another expression in, as if one ran after the other.
    pub fn join(&mut self, other: &Self) {
        self.depth = self.depth.max(other.depth);
        for (own, other) in [(&mut self.plain, &other.plain), (&mut self.linear, &other.linear)] {
            own.resize(own.len().max(other.len()), 0);
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
        self.literals = self.literals.max(other.literals);
        self.flattens = self.flattens.max(other.flattens);
        self.splits |= other.splits;
    }

    /// What one evaluation costs at most, about in steps.
    pub fn cost(&self, size: Size) -> u64 {
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let mut entries = wide(size.entries.max(self.literals)).max(1);
        if self.splits {
            entries = entries.max(wide(size.text));
        }
        let entries = entries.saturating_pow(self.flattens + 1);
        let whole = (wide(size.text).saturating_add(entries) / 100).saturating_add(1);
        let sum = |steps: &[u32], price: u64| {
            steps.iter().enumerate().fold(0_u64, |sum, (loops, steps)| {
                let runs = entries.saturating_pow(u32::try_from(loops).unwrap_or(u32::MAX));
                sum.saturating_add(runs.saturating_mul(u64::from(*steps)).saturating_mul(price))
            })
        };
        sum(&self.plain, 1).saturating_add(sum(&self.linear, whole)).saturating_add(EACH)
    }

    /// Runs the parser with a stack that is deep enough.
    pub fn parse_with_stack<R>(&self, parse: impl FnOnce() -> R) -> R {
        grow((self.depth + 4) * PARSER_FRAMES, parse)
    }

    /// Runs the evaluator with a stack that is deep enough.
    pub fn run_with_stack<R>(&self, run: impl FnOnce() -> R) -> R {
        grow((self.depth + 4) * EVALUATOR_FRAMES + VALUE_FRAMES, run)
    }
}

/// Whether the frames of functions are as large as those of a debug build, which are several times those of others.
const LARGE: usize = if cfg!(debug_assertions) { 4 } else { 1 };
/// What one level of an expression takes of the parser's stack, in bytes, at most: about twice of what was measured.
const PARSER_FRAMES: usize = LARGE * 96 * 1024;
/// The same of the evaluator's stack.
const EVALUATOR_FRAMES: usize = LARGE * 24 * 1024;
/// What turning the deepest value into one of the evaluator takes.
const VALUE_FRAMES: usize = LARGE * 128 * 1024;

fn grow<R>(bytes: usize, what: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(bytes, bytes, what)
}

fn count(steps: &mut Vec<u32>, loops: usize) {
    if steps.len() <= loops {
        steps.resize(loops + 1, 0);
    }
    steps[loops] += 1;
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

/// The words, brackets and operators of an expression. A text comes as a single quote character; comments do not come.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.0 = self.0.trim_start();
            match self.0.strip_prefix("//") {
                Some(comment) => self.0 = comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => break,
            }
        }
        let first = self.0.chars().next()?;
        let word = self.0.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.0.len());
        let prefix = word <= 2 && self.0[..word].chars().all(|c| matches!(c, 'r' | 'R' | 'b' | 'B'));
        if prefix && self.0[word..].starts_with(['"', '\'']) {
            let raw = self.0[..word].contains(['r', 'R']);
            self.0 = behind_text(&self.0[word..], raw);
            return Some("\"");
        }
        let length = match first {
            _ if word > 0 => word,
            '(' | ')' | '[' | ']' | '{' | '}' | ',' | '.' | '?' | ':' => 1,
            _ => {
                let operator = |c: char| !"+-*/%<>=!&|".contains(c);
                self.0.find(operator).filter(|end| *end > 0).unwrap_or(first.len_utf8())
            }
        };
        let (token, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

/// What comes after the text at the beginning of `source`.
fn behind_text(source: &str, raw: bool) -> &str {
    let quote = &source[..1];
    let long = quote.repeat(3);
    let end = if source.starts_with(&long) { &*long } else { quote };
    let mut rest = &source[end.len()..];
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(end) {
            return behind;
        }
        let mut chars = rest.chars();
        if chars.next() == Some('\\') && !raw {
            chars.next();
        }
        rest = chars.as_str();
    }
    rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn depth(source: &str) -> usize {
        Shape::of(source).unwrap().depth
    }

    #[test]
    fn the_depth_of_an_expression_is_never_told_too_small() {
        let table = [
            ("true", 1),
            ("((true))", 3),
            ("[[1]]", 3),
            ("1 + 1 + 1", 3),
            ("a.b.c", 3),
            ("a && b && c && d", 3),
            ("a.b == 1 && c.d == 2", 4),
            ("f(a, b + c, d)", 3),
            ("a ? b : c ? d : e", 3),
            (r#""((((" + '((('"#, 2),
            (r#"r"\" + '\'(('"#, 2),
            (r#""""a"((""" == b"#, 2),
            ("a // ((((\n + b", 2),
            ("!!!!a", 2),
        ];
        for (source, wanted) in table {
            assert!(depth(source) >= wanted, "{source}: {}", depth(source));
            assert!(depth(source) <= wanted + 2, "{source}: {}", depth(source));
        }
    }

    #[test]
    fn too_deep_and_too_long_is_refused_and_what_the_real_server_takes_is_not() {
        let pairs = |n: usize, open: &str, close: &str| format!("{}true{}", open.repeat(n), close.repeat(n));
        for fine in [
            pairs(240, "(", ")"),
            pairs(240, "[", "]"),
            vec!["1"; 240].join("+"),
            vec!["true"; 10_000].join(" || "),
            format!("self{}", ".trim".repeat(240)),
            format!("size(\"{}\")", "(".repeat(99_000)),
            "a == 1 && ".repeat(5_000) + "true",
        ] {
            assert!(Shape::of(&fine).is_ok(), "{}", &fine[..20]);
        }
        for wrong in [
            pairs(260, "(", ")"),
            pairs(260, "[", "]"),
            vec!["1"; 260].join("+"),
            format!("self{}", ".trim()".repeat(260)),
            "true ? true : ".repeat(260) + "true",
            format!("size(\"{}\")", "x".repeat(100_000)),
            "lists.range(1000000000).size() > 0".to_owned(),
        ] {
            assert!(Shape::of(&wrong).is_err(), "{}", &wrong[..20]);
        }
    }

    #[test]
    fn a_cost_grows_with_the_loops_and_the_value() {
        let cost = |source: &str, value: &Value| {
            let mut size = Size::default();
            size.add(value);
            Shape::of(source).unwrap().cost(size)
        };
        let list = |n: usize| json!({ "l": vec![1; n] });
        let thrice = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))";
        assert!(cost(thrice, &list(600)) > BUDGET);
        assert!(cost(thrice, &list(50)) < BUDGET);
        let twice = "self.l.all(a, self.l.exists_one(b, a.name == b.name))";
        assert!(cost(twice, &list(500)) < BUDGET);
        assert!(cost(twice, &list(5_000)) > BUDGET);
        let once = "self.l.all(a, a >= 0) && self.l.exists(a, a == 1)";
        assert!(cost(once, &list(100_000)) < BUDGET * 30);
        assert!(
            cost(
                "self.t.split('').map(a, self.t.split('')).flatten().size() > 0",
                &json!({ "t": "x".repeat(9_000) })
            ) > BUDGET
        );
        assert!(
            cost("self.name.startsWith('a') && self.size <= 3", &json!({ "name": "x", "size": 3 }))
                < 2 * EACH
        );
    }
}
