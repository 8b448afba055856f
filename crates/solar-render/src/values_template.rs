//! Values that discovery rendered: YAML text that must be readable where it arrives.

use serde::de::IgnoredAny;
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::error::RenderError;

/// Nesting that a values template may have; Kubernetes itself reads no deeper JSON.
const MAX_DEPTH: usize = 256;

/// Checks that `text` is one YAML document. The parser's words are kept, the text itself is not.
pub(crate) fn check(resource: &str, text: &str) -> Result<(), RenderError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        // Helm takes the last one.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<IgnoredAny>(text, options).map(drop).map_err(|error| {
        RenderError::ValuesTemplate { resource: resource.to_owned(), problem: error.to_string() }
    })
}
