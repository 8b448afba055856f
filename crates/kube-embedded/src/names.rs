//! What names, labels and finalizers may look like.

use std::sync::LazyLock;

use regex::Regex;

const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// A pattern of ours that did not compile would match nothing, and no object could be created.
fn anchored(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("^(?:{pattern})$")).ok()
}

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|p| p.is_match(text))
}

static SUBDOMAIN_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| anchored(SUBDOMAIN));
static LABEL_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| anchored(LABEL));
static QUALIFIED_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| anchored(QUALIFIED));
static VALUE_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| anchored(VALUE));

/// What is wrong with a DNS subdomain, if anything.
pub(crate) fn check_subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    (!matches(&SUBDOMAIN_PATTERN, text)).then(|| {
        format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{SUBDOMAIN}')"
        )
    })
}

/// What is wrong with a DNS label, if anything.
pub(crate) fn check_label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 characters".to_owned());
    }
    (!matches(&LABEL_PATTERN, text)).then(|| {
        format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')"
        )
    })
}

/// What is wrong with the key of a label, an annotation or a finalizer, if anything.
pub(crate) fn check_qualified(text: &str) -> Option<String> {
    let name = match text.split_once('/') {
        Some((prefix, name)) => {
            if prefix.is_empty() {
                return Some("prefix part must be non-empty".to_owned());
            }
            if let Some(why) = check_subdomain(prefix) {
                return Some(format!("prefix part {why}"));
            }
            name
        }
        None => text,
    };
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 characters".to_owned());
    }
    (!matches(&QUALIFIED_PATTERN, name)).then(|| {
        format!(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '{QUALIFIED}')"
        )
    })
}

/// What is wrong with the value of a label, if anything.
pub(crate) fn check_label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!matches(&VALUE_PATTERN, text)).then(|| {
        format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '{VALUE}')"
        )
    })
}
