//! Query parameters.

use bytes::Bytes;
use http::Request;

use crate::{
    ops::{FieldValidation, WriteOptions, read::ListOptions},
    status::ApiError,
};

/// The query of a request.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub fn of(request: &Request<Bytes>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// A text; empty where it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Whether a parameter says yes.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1" | "True" | "TRUE" | "t" | "T"))
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        match self.text(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!("{name}: Invalid value: \"{text}\": must be a number"))
            }),
        }
    }

    pub fn list_options(&self) -> Result<ListOptions, ApiError> {
        Ok(ListOptions {
            limit: self.number("limit")?.and_then(|l| usize::try_from(l).ok()).unwrap_or_default(),
            continues: self.text("continue").to_owned(),
            resource_version: self.text("resourceVersion").to_owned(),
            version_match: self.text("resourceVersionMatch").to_owned(),
        })
    }

    pub fn write_options(&self) -> Result<WriteOptions, ApiError> {
        let dry_run = match self.get("dryRun") {
            None => false,
            Some("All") => true,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "dryRun: Unsupported value: \"{other}\": supported values: \"All\""
                )));
            }
        };
        let fields = match self.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                return Err(ApiError::bad_request(format!(
                    "fieldValidation: Unsupported value: \"{other}\": supported values: \"Ignore\", \"Strict\", \"Warn\""
                )));
            }
        };
        Ok(WriteOptions { dry_run, fields, repeated: Vec::new() })
    }
}
