//! OpenAPI v2, in the protobuf form and as far as kubectl reads it: which kinds take `fieldValidation` in a patch.
//!
//! kubectl turns to it for kinds that the documents of v3 say nothing of, such as the `List` around several manifests.
//! There are no schemas in it, so that kubectl checks nothing itself. The field numbers are those of the published
//! `OpenAPIv2.proto`.

use crate::{resource::Resource, store::registry::Registry};

/// The media type of the document.
pub(crate) const MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// A field that holds bytes, a text or a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap_or_default());
    bytes.extend_from_slice(content);
    bytes
}

/// The document of everything that is served.
pub(crate) fn document(registry: &Registry) -> Vec<u8> {
    let paths: Vec<u8> = registry
        .iter()
        .filter(|r| r.verbs().contains(&"patch"))
        .flat_map(|r| r.versions.iter().filter(|v| v.served).map(move |v| (r, &*v.name)))
        .flat_map(|(resource, version)| field(2, &path(resource, version)))
        .collect();
    let info = [field(1, b"kube-embedded"), field(2, b"v1.36.0")].concat();
    [field(1, b"2.0"), field(2, &info), field(8, &paths)].concat()
}

fn path(resource: &Resource, version: &str) -> Vec<u8> {
    let base =
        if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let name = format!("{base}/{version}{scope}/{}/{{name}}", resource.plural);
    [field(1, name.as_bytes()), field(2, &field(8, &patch(resource, version)))].concat()
}

fn patch(resource: &Resource, version: &str) -> Vec<u8> {
    let parameters: Vec<u8> = ["dryRun", "fieldManager", "fieldValidation"]
        .iter()
        .flat_map(|name| field(8, &query(name)))
        .collect();
    let kind =
        format!("group: \"{}\"\nversion: \"{version}\"\nkind: \"{}\"\n", resource.group, resource.kind);
    let extension =
        [field(1, b"x-kubernetes-group-version-kind"), field(2, &field(2, kind.as_bytes()))].concat();
    [parameters, field(13, &extension)].concat()
}

/// A parameter, inside the three messages that say that it is one of the query.
fn query(name: &str) -> Vec<u8> {
    let parameter = [field(2, b"query"), field(4, name.as_bytes()), field(6, b"string")].concat();
    field(1, &field(2, &field(3, &parameter)))
}
