//! Objects as lists and watches take them in: each for itself.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use solar_core::object::ObjectName;

use super::api::Namespaced;
use super::error::nests_too_deeply;

/// What is wrong with an object that is deeper than this program reads: the API server takes ten thousand levels.
const TOO_DEEP: &str = "it nests deeper than 127 levels";

/// What a list or a watch tells of an object `K`: the record `R` that is made from it, or why it cannot be read. One that
/// is not as it should be must not blind the controller for its kind, nor for what else a list holds.
///
/// The object itself is dropped as soon as it is read: a page of a list holds hundreds.
#[derive(Clone, Debug)]
pub struct Seen<K, R> {
    /// Namespace, name, uid, version and owners.
    pub meta: ObjectMeta,
    /// The record, or what is wrong.
    pub record: Result<R, String>,
    of: PhantomData<fn(K) -> R>,
}

impl<K, R> Seen<K, R> {
    /// The object's name.
    pub fn name(&self) -> ObjectName {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        ObjectName::new(text(&self.meta.namespace), text(&self.meta.name))
    }
}

/// The whole object as a record of itself.
#[derive(Clone, Debug)]
pub struct Whole<K>(pub K);

impl<K: Clone> From<&K> for Whole<K> {
    fn from(object: &K) -> Self {
        Self(object.clone())
    }
}

/// What of an object can be read however strange the rest is: `managedFields` repeat its shape, and nest as deep.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    metadata: MetaOutline,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaOutline {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<MetaOutline> for ObjectMeta {
    fn from(outline: MetaOutline) -> Self {
        let MetaOutline { namespace, name, uid, resource_version, owner_references } = outline;
        Self { namespace, name, uid, resource_version, owner_references, ..Self::default() }
    }
}

impl<'de, K, R> Deserialize<'de> for Seen<K, R>
where
    K: Namespaced,
    R: for<'a> From<&'a K>,
{
    /// Only from JSON text, and from a watch only where the type of an event stands before its object, as kube-apiserver
    /// writes it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let (meta, record) = match read::<K>(text.get()) {
            Ok(mut object) => {
                let record = R::from(&object);
                (std::mem::take(object.meta_mut()), Ok(record))
            }
            Err(wrong) => {
                let outline: Outline = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                (outline.metadata.into(), Err(wrong))
            }
        };
        let ObjectMeta { namespace, name, uid, resource_version, owner_references, .. } = meta;
        let meta =
            ObjectMeta { namespace, name, uid, resource_version, owner_references, ..ObjectMeta::default() };
        Ok(Self { meta, record, of: PhantomData })
    }
}

/// The object, or what is wrong with it.
fn read<K: Namespaced>(text: &str) -> Result<K, String> {
    serde_json::from_str(text).or_else(|_| {
        // Once more, for words without a place in a text that nobody sees.
        let object: Value = serde_json::from_str(text).map_err(|error| {
            if nests_too_deeply(&error) { TOO_DEEP.to_owned() } else { error.to_string() }
        })?;
        serde_json::from_value(object).map_err(|error| error.to_string())
    })
}

impl<K: Namespaced, R> Resource for Seen<K, R> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectList;
    use serde_json::json;
    use solar_api::Release;

    use super::*;

    fn release(name: &str, spec: &str) -> String {
        format!(
            r#"{{"apiVersion":"solar.opendefense.cloud/v1alpha1","kind":"Release","metadata":{{"name":"{name}",
            "namespace":"fleet","uid":"u","resourceVersion":"7","managedFields":[{{"fieldsV1":{spec}}}],
            "ownerReferences":[{{"apiVersion":"v1","kind":"K","name":"o","uid":"owner"}}]}},"spec":{spec}}}"#
        )
    }

    /// With values that nest this deep.
    fn spec(depth: usize) -> String {
        let (open, close) = (r#"{"a":"#.repeat(depth), "}".repeat(depth));
        format!(r#"{{"componentVersionRef":{{"name":"web-1"}},"values":{open}1{close}}}"#)
    }

    #[test]
    fn one_that_cannot_be_read_says_why_and_the_rest_of_the_list_is_read() {
        let wrong = json!({ "componentVersionRef": { "name": "x" }, "priority": "high" }).to_string();
        let (deep, good) = (spec(5_000), spec(3));
        let items =
            [release("good", &good), release("deep", &deep), release("wrong", &wrong), release("none", "1")];
        let list = format!(
            r#"{{"kind":"ReleaseList","apiVersion":"v1","metadata":{{}},"items":[{}]}}"#,
            items.join(",")
        );
        let list: ObjectList<Seen<Release, Whole<Release>>> = serde_json::from_str(&list).unwrap();
        let said: Vec<_> = list
            .items
            .iter()
            .map(|seen| {
                assert_eq!(seen.meta.owner_references.as_ref().unwrap()[0].uid, "owner");
                assert_eq!(seen.meta.resource_version.as_deref(), Some("7"));
                let name = seen.meta.name.as_deref().unwrap();
                (name, seen.record.as_ref().err().map(String::as_str))
            })
            .collect();
        assert_eq!(said[0], ("good", None));
        assert_eq!(said[1], ("deep", Some(TOO_DEEP)));
        assert_eq!(said[2], ("wrong", Some("invalid type: string \"high\", expected i32")));
        assert!(
            matches!(said[3], ("none", Some(text)) if text.contains("expected struct ReleaseSpec")),
            "{:?}",
            said[3]
        );
    }
}
