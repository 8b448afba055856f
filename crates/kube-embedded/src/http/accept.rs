//! What form of answer a client wants.

use bytes::Bytes;
use http::{Request, header};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub shape: Shape,
    pub yaml: bool,
}

/// What stands in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    Table,
    Metadata,
    /// The aggregated form of discovery.
    Discovery,
    /// Nothing that this server can write.
    Unknown,
}

impl Format {
    pub fn of(request: &Request<Bytes>) -> Self {
        let accept: Vec<&str> = request
            .headers()
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|v| v.split(','))
            .map(str::trim)
            .filter(|v| !v.is_empty())
            .collect();
        if accept.is_empty() {
            return Self { shape: Shape::Object, yaml: false };
        }
        accept.iter().find_map(|a| parse(a)).unwrap_or(Self { shape: Shape::Unknown, yaml: false })
    }
}

fn parse(text: &str) -> Option<Format> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next()?;
    let params: Vec<(&str, &str)> = parts.filter_map(|p| p.split_once('=')).collect();
    let param = |name: &str| params.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    let yaml = match media {
        "application/json" | "*/*" | "application/*" => false,
        "application/yaml" | "application/x-yaml" | "text/yaml" => true,
        _ => return None,
    };
    let shape = match (param("as"), param("g"), param("v")) {
        (None, _, _) => Shape::Object,
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Shape::Table,
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => {
            Shape::Metadata
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => Shape::Discovery,
        _ => return None,
    };
    Some(Format { shape, yaml })
}
