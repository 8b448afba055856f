//! Label selectors, as Kubernetes reads them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// What is wrong with a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// An expression without a key.
    #[error("matchExpressions[{position}] has no key")]
    NoKey {
        /// Counted from 0.
        position: usize,
    },
    /// An operator that does not exist.
    #[error(
        "matchExpressions[{position}] has the operator {operator:?}: use In, NotIn, Exists or DoesNotExist"
    )]
    Operator {
        /// Counted from 0.
        position: usize,
        /// As given.
        operator: String,
    },
    /// `In` or `NotIn` without values.
    #[error("matchExpressions[{position}] has the operator {operator} and no values: give at least one")]
    NoValues {
        /// Counted from 0.
        position: usize,
        /// `In` or `NotIn`.
        operator: String,
    },
    /// `Exists` or `DoesNotExist` with values.
    #[error("matchExpressions[{position}] has the operator {operator} and values: remove the values")]
    Values {
        /// Counted from 0.
        position: usize,
        /// `Exists` or `DoesNotExist`.
        operator: String,
    },
}

/// Whether `selector` is one that can be asked.
pub fn validate(selector: &LabelSelector) -> Result<(), SelectorError> {
    let mut expressions = selector.match_expressions.iter().flatten().enumerate();
    expressions.try_for_each(|(position, expression)| check(position, expression))
}

fn check(position: usize, expression: &LabelSelectorRequirement) -> Result<(), SelectorError> {
    if expression.key.is_empty() {
        return Err(SelectorError::NoKey { position });
    }
    let operator = expression.operator.clone();
    let has_values = expression.values.iter().flatten().next().is_some();
    match (expression.operator.as_str(), has_values) {
        ("In" | "NotIn", true) | ("Exists" | "DoesNotExist", false) => Ok(()),
        ("In" | "NotIn", false) => Err(SelectorError::NoValues { position, operator }),
        ("Exists" | "DoesNotExist", true) => Err(SelectorError::Values { position, operator }),
        _ => Err(SelectorError::Operator { position, operator }),
    }
}

/// Whether `selector` selects an object with `labels`. A selector without any requirement selects everything.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> Result<bool, SelectorError> {
    validate(selector)?;
    let labelled = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    Ok(labelled && selector.match_expressions.iter().flatten().all(|expression| holds(expression, labels)))
}

fn holds(expression: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let label = labels.get(&expression.key);
    let listed = || label.is_some_and(|label| expression.values.iter().flatten().any(|value| value == label));
    match expression.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => label.is_some(),
        _ => label.is_none(),
    }
}
