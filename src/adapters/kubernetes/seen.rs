//! Objects as a watch takes them in.

use std::borrow::Cow;
use std::error::Error as _;
use std::marker::PhantomData;

use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::{DynamicObject, NamespaceResourceScope};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::api::Namespaced;

/// What a list or a watch tells of an object `K`: the record `R` that is made from it, or why it cannot be read. One that
/// is not as it should be must not blind the controller for its kind.
///
/// The object itself is dropped as soon as it is read: a page of a list holds hundreds.
#[derive(Clone, Debug)]
pub struct Seen<K, R> {
    /// Namespace, name, uid and version.
    pub meta: ObjectMeta,
    /// The record, or what is wrong.
    pub record: Result<R, String>,
    of: PhantomData<fn(K) -> R>,
}

impl<K, R> Seen<K, R> {
    fn new(meta: ObjectMeta, record: Result<R, String>) -> Self {
        let ObjectMeta { namespace, name, uid, resource_version, .. } = meta;
        let meta = ObjectMeta { namespace, name, uid, resource_version, ..ObjectMeta::default() };
        Self { meta, record, of: PhantomData }
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
        if let Ok(mut object) = serde_json::from_str::<K>(text.get()) {
            let record = R::from(&object);
            return Ok(Self::new(std::mem::take(object.meta_mut()), Ok(record)));
        }
        let object: DynamicObject = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let meta = object.metadata.clone();
        // Read once more, for words without a place in a text that nobody sees.
        let record = object.try_parse::<K>().map(|object| R::from(&object));
        // The source without the words that are the same for all.
        let record = record.map_err(|error| error.source().map_or_else(|| error.to_string(), ToString::to_string));
        Ok(Self::new(meta, record))
    }
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
