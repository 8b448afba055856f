//! Query parameters.

use bytes::Bytes;
use http::Request;
use serde_json::Value;

use crate::{
    field::FieldError,
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

    /// Whether a parameter says yes: anything does but `false` and `0`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.text(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing {}: invalid syntax",
                    Value::from(text)
                ))
            }),
        }
    }

    /// Whether versions, tokens and initial events fit together in a list or a watch.
    pub fn check_list_options(&self, watch: bool) -> Result<(), ApiError> {
        let text = |name: &str| self.text(name);
        let (matching, continues) = (text("resourceVersionMatch"), text("continue"));
        let mut errors = Vec::new();
        let mut forbid = |field: &str, why: &str| errors.push(FieldError::forbidden(field, why));
        if watch && self.get("sendInitialEvents").is_some() {
            if matching != "NotOlderThan" {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                forbid("resourceVersionMatch", why);
            }
        } else if watch && !matching.is_empty() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            forbid("resourceVersionMatch", why);
        } else if !watch && self.get("sendInitialEvents").is_some() {
            forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if !watch && !matching.is_empty() {
            if text("resourceVersion").is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                forbid("resourceVersionMatch", why);
            }
            if !continues.is_empty() {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                forbid("resourceVersionMatch", why);
            }
            if matching == "Exact" && text("resourceVersion") == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                forbid("resourceVersionMatch", why);
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                let supported = ["Exact", "NotOlderThan"].map(Value::from);
                errors.push(FieldError::not_supported("resourceVersionMatch", &matching.into(), &supported));
            }
        }
        self.number("timeoutSeconds")?;
        if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("ListOptions", &errors)) }
    }

    pub fn list_options(&self) -> Result<ListOptions, ApiError> {
        Ok(ListOptions {
            limit: self.number("limit")?.and_then(|l| usize::try_from(l).ok()).unwrap_or_default(),
            continues: self.text("continue").to_owned(),
            resource_version: self.text("resourceVersion").to_owned(),
            version_match: self.text("resourceVersionMatch").to_owned(),
            stale: 0,
        })
    }

    /// Reads the options of a write; `kind` is the name of the options, such as `CreateOptions`.
    pub fn write_options(&self, kind: &str) -> Result<WriteOptions, ApiError> {
        let refuse = |field: &str, value: Value, supported: &[&str]| {
            let supported: Vec<Value> = supported.iter().map(|s| Value::from(*s)).collect();
            Err(ApiError::invalid_options(kind, &[FieldError::not_supported(field, &value, &supported)]))
        };
        let dry_run = match self.get("dryRun") {
            None => false,
            Some("All") => true,
            Some(other) => return refuse("dryRun", Value::from(vec![other]), &["All"]),
        };
        let fields = match self.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => return refuse("fieldValidation", other.into(), &["Ignore", "Strict", "Warn"]),
        };
        Ok(WriteOptions { dry_run, fields, ..WriteOptions::default() })
    }
}
