//! What requests do: read, create, update, patch, delete.

pub(crate) mod admit;
mod builtin;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod filter;
pub(crate) mod read;
pub(crate) mod update;

use std::sync::Arc;

use serde_json::Value;

use crate::{
    meta::Json,
    request::RequestInfo,
    resource::{Resource, Version},
    status::ApiError,
    store::object::Object,
};

/// The resource, version and object that a request is about.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub resource: Arc<Resource>,
    pub version: usize,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub status: bool,
    pub info: Arc<RequestInfo>,
}

impl Target {
    pub fn version(&self) -> Option<&Version> {
        self.resource.versions.get(self.version)
    }

    pub fn has_status(&self) -> bool {
        self.version().is_some_and(|v| v.has_status)
    }
}

/// What is done with fields that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Parameters that all writes take.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    pub dry_run: bool,
    pub fields: FieldValidation,
    /// Whether the object is made by a patch, which changes what is said of input that can't be read.
    pub patch: bool,
    /// What is said of fields that stand twice in the body.
    pub repeated: Vec<String>,
}

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It is answered with an error.
    Api(Box<ApiError>),
    /// Its actor is fenced: there is no answer.
    Fenced,
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Api(Box::new(error))
    }
}

/// What a request came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    One {
        code: u16,
        object: Arc<Object>,
        warnings: Vec<String>,
    },
    Many {
        objects: Vec<Arc<Object>>,
        revision: u64,
        continues: Option<String>,
        remaining: Option<usize>,
    },
    /// An answer that is no stored object, with its code.
    Value(u16, Value),
}

impl Outcome {
    pub fn one(code: u16, object: Arc<Object>, warnings: Vec<String>) -> Self {
        Self::One { code, object, warnings }
    }
}

/// An object that was received, with the fields of it that were dropped.
#[derive(Clone)]
pub(crate) struct Received {
    pub object: Json,
    pub warnings: Vec<String>,
}
