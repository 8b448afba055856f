//! The definitions as files.

use kube::ResourceExt as _;

/// File name and YAML text of each definition, sorted by name: what `crds/` holds.
///
/// # Errors
/// When a definition cannot be written as YAML.
pub fn crd_files() -> Result<Vec<(String, String)>, serde_saphyr::SerializeError> {
    let files = crate::crds().into_iter().map(|crd| {
        let name = format!("{}.yaml", crd.name_any());
        Ok((name, serde_saphyr::to_string(&crd)?))
    });
    files.collect()
}
