//! Which resources are served, by group and plural.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    builtins::builtins,
    resource::{FIRST_CUSTOM, Resource, TableId},
};

/// Resources by (group, plural).
#[derive(Debug)]
pub(crate) struct Registry {
    resources: BTreeMap<(Arc<str>, Arc<str>), Arc<Resource>>,
    next_table: u32,
}

impl Registry {
    pub fn new() -> Self {
        let resources =
            builtins().into_iter().map(|r| ((r.group.clone(), r.plural.clone()), Arc::new(r))).collect();
        Self { resources, next_table: FIRST_CUSTOM }
    }

    pub fn get(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.into(), plural.into()))
    }

    /// All resources, by group and then by plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The resource of a kind.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.iter().find(|r| *r.group == *group && *r.kind == *kind)
    }

    /// Adds or replaces a resource; a replaced one keeps its table.
    pub fn define(&mut self, mut resource: Resource) -> Arc<Resource> {
        let key = (resource.group.clone(), resource.plural.clone());
        if let Some(old) = self.resources.get(&key) {
            resource.table = old.table;
        } else {
            resource.table = TableId(self.next_table);
            self.next_table += 1;
        }
        let resource = Arc::new(resource);
        self.resources.insert(key, resource.clone());
        resource
    }

    pub fn undefine(&mut self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.resources.remove(&(group.into(), plural.into()))
    }

    /// Each group with its versions, preferred one first.
    pub fn groups(&self) -> BTreeMap<Arc<str>, Vec<Arc<str>>> {
        let mut groups: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
        for resource in self.iter() {
            let versions = groups.entry(resource.group.clone()).or_default();
            for version in resource.versions.iter().filter(|v| v.served) {
                if !versions.contains(&version.name) {
                    versions.push(version.name.clone());
                }
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|v| std::cmp::Reverse(priority(v)));
        }
        groups.retain(|_, versions| !versions.is_empty());
        groups
    }
}

/// Stable before beta before alpha, then the higher number; other names come last.
fn priority(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse() else {
        return (0, 0, 0);
    };
    let tail = &rest[digits..];
    let minor = |word: &str| tail.strip_prefix(word).and_then(|n| n.parse().ok());
    if tail.is_empty() {
        (3, major, 0)
    } else if let Some(minor) = minor("beta") {
        (2, major, minor)
    } else if let Some(minor) = minor("alpha") {
        (1, major, minor)
    } else {
        (0, 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn versions_are_ordered_by_stability_and_number() {
        let mut versions = ["v1alpha1", "v2", "foo", "v1beta2", "v1", "v1beta1", "v10"];
        versions.sort_by_key(|v| std::cmp::Reverse(priority(v)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }
}
