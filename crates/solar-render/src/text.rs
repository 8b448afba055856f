//! Texts as YAML that every reader reads alike.

use std::fmt::Write as _;

/// Writes `text` in double quotes, as a JSON string that YAML 1.1 and 1.2 read as the same text.
///
/// Beyond what JSON asks for, everything that a YAML reader refuses or takes for a line break is escaped: DEL, the C1
/// controls with NEL, the line and paragraph separators, the byte order mark and the two non-characters of the BMP.
/// Characters beyond the BMP stand as they are: JSON's surrogate pairs mean nothing in YAML.
pub(crate) fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (position, c) in text.char_indices() {
        if !needs_escape(c) {
            continue;
        }
        out.push_str(&text[plain..position]);
        write_escape(out, c);
        plain = position + c.len_utf8();
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

fn needs_escape(c: char) -> bool {
    matches!(c, '"' | '\\') || is_special(c) || c == '\n'
}

/// Whether a YAML reader refuses `c` outside an escape, or takes it for a line break. The line feed is none of them: it
/// breaks lines everywhere.
pub(crate) fn is_special(c: char) -> bool {
    c != '\n'
        && matches!(c, '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn write_escape(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ => {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
    }
}
