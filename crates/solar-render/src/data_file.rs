//! YAML files of a chart: mappings of texts, flags and mappings, written for people to read.

use crate::text::{is_special, write_quoted};

/// Writes a YAML mapping entry by entry.
///
/// Every text and every key that is not a constant stands in double quotes or in a literal block, so that no reader
/// takes it for a number, a flag, a date or nothing, and none changes a character of it.
pub(crate) struct DataFile {
    out: String,
    depth: usize,
}

impl DataFile {
    pub fn new() -> Self {
        Self { out: String::new(), depth: 0 }
    }

    pub fn comment(&mut self, line: &'static str) {
        self.indent();
        self.out.push_str("# ");
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// A text that is part of the format, not of the input.
    pub fn word(&mut self, key: &'static str, word: &'static str) {
        self.key(key);
        self.out.push(' ');
        self.out.push_str(word);
        self.out.push('\n');
    }

    pub fn flag(&mut self, key: &'static str, flag: bool) {
        self.word(key, if flag { "true" } else { "false" });
    }

    pub fn text(&mut self, key: &'static str, text: &str) {
        self.key(key);
        self.out.push(' ');
        if let Some(header) = block_header(text) {
            self.block(header, text);
        } else {
            write_quoted(&mut self.out, text);
            self.out.push('\n');
        }
    }

    /// A text, unless it is empty.
    pub fn text_if_any(&mut self, key: &'static str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    pub fn section(&mut self, key: &'static str, write: impl FnOnce(&mut Self)) {
        self.key(key);
        self.nested(write);
    }

    /// A section whose key comes from the input.
    pub fn named_section(&mut self, key: &str, write: impl FnOnce(&mut Self)) {
        self.indent();
        write_quoted(&mut self.out, key);
        self.out.push(':');
        self.nested(write);
    }

    pub fn empty_section(&mut self, key: &'static str) {
        self.word(key, "{}");
    }

    pub fn finish(self) -> Vec<u8> {
        self.out.into_bytes()
    }

    fn nested(&mut self, write: impl FnOnce(&mut Self)) {
        self.out.push('\n');
        self.depth += 1;
        write(self);
        self.depth -= 1;
    }

    fn key(&mut self, key: &'static str) {
        self.indent();
        self.out.push_str(key);
        self.out.push(':');
    }

    fn block(&mut self, header: &'static str, text: &str) {
        self.out.push_str(header);
        self.out.push('\n');
        self.depth += 1;
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            self.indent();
            self.out.push_str(line);
            self.out.push('\n');
        }
        self.depth -= 1;
    }

    fn indent(&mut self) {
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
    }
}

/// How `text` stands as a literal block, where it can: it has several lines, no character that YAML refuses, no empty
/// first or last line, and its first line does not begin with a space, which would be taken for indentation.
fn block_header(text: &str) -> Option<&'static str> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let several = body.contains('\n');
    let blank_edge =
        body.starts_with([' ', '\n']) || body.ends_with('\n') || body.rsplit('\n').next()?.trim().is_empty();
    let readable = !text.chars().any(|c| c != '\t' && is_special(c));
    let tabs_first = body.split('\n').any(|line| line.starts_with('\t'));
    if !several || blank_edge || !readable || tabs_first {
        return None;
    }
    Some(if text.len() == body.len() { "|-" } else { "|" })
}
