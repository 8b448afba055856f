//! Which objects a list or a watch is about.

use std::sync::Arc;

use crate::{
    ops::Target,
    selector::{self, LabelSelector},
    status::ApiError,
    store::object::Object,
};

/// Namespace, labels and fields; all must fit.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    pub namespace: Arc<str>,
    labels: LabelSelector,
    terms: Vec<Term>,
}

#[derive(Debug, Clone)]
struct Term {
    field: Field,
    value: String,
    negated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// Index into the resource's fields.
    Selectable(usize),
}

impl Filter {
    pub fn new(target: &Target, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let mut terms = selector::parse_fields(fields)?
            .into_iter()
            .map(|term| {
                Ok(Term { field: resolve(target, &term.field)?, value: term.value, negated: term.negated })
            })
            .collect::<Result<Vec<_>, ApiError>>()?;
        if !target.name.is_empty() {
            terms.push(Term { field: Field::Name, value: target.name.to_string(), negated: false });
        }
        Ok(Self { namespace: target.namespace.clone(), labels: LabelSelector::parse(labels)?, terms })
    }

    /// Whether only the namespace narrows the choice.
    pub fn takes_all(&self) -> bool {
        self.labels.is_empty() && self.terms.is_empty()
    }

    /// The one name that can fit, if there is one.
    pub fn name(&self) -> Option<&str> {
        self.terms.iter().find(|t| t.field == Field::Name && !t.negated).map(|t| t.value.as_str())
    }

    /// The fields that must have a value, with it.
    pub fn wanted(&self) -> impl Iterator<Item = (usize, &str)> {
        self.terms.iter().filter_map(|t| match t.field {
            Field::Selectable(index) if !t.negated && !t.value.is_empty() => Some((index, t.value.as_str())),
            _ => None,
        })
    }

    pub fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || self.namespace == object.key.namespace)
            && self.terms.iter().all(|t| t.holds(object))
            && self.labels.matches(&object.labels)
    }
}

impl Term {
    fn holds(&self, object: &Object) -> bool {
        let found = match self.field {
            Field::Name => &object.key.name,
            Field::Namespace => &object.key.namespace,
            Field::Selectable(index) => {
                object.fields.get(index).and_then(Option::as_deref).unwrap_or_default()
            }
        };
        (found == self.value) != self.negated
    }
}

fn resolve(target: &Target, name: &str) -> Result<Field, ApiError> {
    match name {
        "metadata.name" => return Ok(Field::Name),
        "metadata.namespace" if target.resource.namespaced => return Ok(Field::Namespace),
        _ => {}
    }
    let selectable = target.version().map(|v| &*v.selectable).unwrap_or_default();
    let found = selectable.iter().find(|i| target.resource.fields.get(**i).is_some_and(|f| *f.name == *name));
    found
        .map(|i| Field::Selectable(*i))
        .ok_or_else(|| ApiError::bad_request(format!("field label not supported: {name}")))
}
