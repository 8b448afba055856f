use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use solar_core::selector::{SelectorError, matches, validate};

use crate::support::labels;

fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: (!values.is_empty()).then(|| values.iter().map(ToString::to_string).collect()),
    }
}

fn selector(match_labels: &[(&str, &str)], expressions: Vec<LabelSelectorRequirement>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels(match_labels)), match_expressions: Some(expressions) }
}

#[test]
fn selectors_match_as_kubernetes_does() {
    let web = labels(&[("app", "web"), ("zone", "a")]);
    for (selector, expected) in [
        (LabelSelector::default(), true),
        (selector(&[("app", "web")], vec![]), true),
        (selector(&[("app", "db")], vec![]), false),
        (selector(&[("tier", "web")], vec![]), false),
        (selector(&[], vec![requirement("app", "In", &["db", "web"])]), true),
        (selector(&[], vec![requirement("tier", "In", &["web"])]), false),
        (selector(&[], vec![requirement("app", "NotIn", &["db"])]), true),
        (selector(&[], vec![requirement("app", "NotIn", &["web"])]), false),
        (selector(&[], vec![requirement("tier", "NotIn", &["web"])]), true),
        (selector(&[], vec![requirement("app", "Exists", &[])]), true),
        (selector(&[], vec![requirement("tier", "Exists", &[])]), false),
        (selector(&[], vec![requirement("tier", "DoesNotExist", &[])]), true),
        (selector(&[("app", "web")], vec![requirement("zone", "DoesNotExist", &[])]), false),
    ] {
        assert_eq!(matches(&selector, &web), Ok(expected), "{selector:?}");
    }
    assert_eq!(matches(&LabelSelector::default(), &BTreeMap::new()), Ok(true));
}

#[test]
fn a_selector_that_cannot_be_read_says_where() {
    let operator = |text: &str| text.to_owned();
    for (expression, error) in [
        (requirement("", "Exists", &[]), SelectorError::NoKey { position: 0 }),
        (
            requirement("a", "Equals", &["b"]),
            SelectorError::Operator { position: 0, operator: operator("Equals") },
        ),
        (requirement("a", "In", &[]), SelectorError::NoValues { position: 0, operator: operator("In") }),
        (
            requirement("a", "NotIn", &[]),
            SelectorError::NoValues { position: 0, operator: operator("NotIn") },
        ),
        (
            requirement("a", "Exists", &["b"]),
            SelectorError::Values { position: 0, operator: operator("Exists") },
        ),
    ] {
        let selector = selector(&[("no", "match")], vec![expression]);
        assert_eq!(validate(&selector), Err(error.clone()));
        assert_eq!(matches(&selector, &BTreeMap::new()), Err(error));
    }
}
