//! Requests to the API server: bounded in time and number, and never without a precondition where one counts.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use solar_core::object::ObjectName;
use tokio::sync::Semaphore;

use super::error::{ApiError, Problem};
use super::patch::merge_difference;
use super::seen::{Seen, Whole};
use crate::adapters::leadership::Leadership;

/// Requests in flight at once. kube speaks HTTP/1.1: each one is a connection.
const IN_FLIGHT: usize = 32;
/// No request takes longer; the client has no read timeout of its own.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Tries of a read inside one attempt at something larger.
const READ_TRIES: u32 = 3;
/// Wait before the second try; doubled before the third.
const READ_DELAY: Duration = Duration::from_millis(500);
/// An API server that wants to be left alone for longer than this ends the attempt.
const LONGEST_READ_DELAY: Duration = Duration::from_secs(5);
/// Objects asked for at once in a list.
const PAGE: u32 = 500;

/// What an object must still be like for a write to happen.
#[derive(Clone, Copy, Debug)]
pub struct Expect<'a> {
    /// Uid of the object.
    pub uid: &'a str,
    /// Version that the write was decided upon; `None` where only the identity counts.
    pub resource_version: Option<&'a str>,
}

/// An object kind that lives in namespaces.
pub trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// An object of a list.
pub type Listed<K> = Seen<K, Whole<K>>;

impl<K: Namespaced> Listed<K> {
    /// The object, where it can be read.
    pub fn whole(self) -> Result<K, ApiError> {
        let name = self.name();
        self.record.map(|Whole(object)| object).map_err(|wrong| {
            let problem = Problem::Unreadable(wrong);
            ApiError { verb: "list", kind: kind_name::<K>(), name: name.to_string(), problem }
        })
    }
}

/// The API server. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    client: Client,
    permits: Arc<Semaphore>,
    lead: Leadership,
}

impl Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    /// Requests through `client`, which should not retry by itself; [`bounded`](super::bounded) counts them.
    pub fn new(client: Client) -> Self {
        Self { client, permits: Arc::new(Semaphore::new(IN_FLIGHT)), lead: Leadership::always() }
    }

    /// The same, that writes only while `lead` is valid. Reading is always allowed.
    pub fn led_by(self, lead: Leadership) -> Self {
        Self { lead, ..self }
    }

    /// What writes wait for.
    pub fn lead(&self) -> &Leadership {
        &self.lead
    }

    /// The client, for watches: they are not counted among the requests in flight.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    fn of<K: Namespaced>(&self, name: &ObjectName) -> kube::Api<K> {
        kube::Api::namespaced(self.client.clone(), &name.namespace)
    }

    /// The object, `None` when there is none. For a name that no object can have nothing is sent.
    pub async fn get<K: Namespaced>(&self, name: &ObjectName) -> Result<Option<K>, ApiError> {
        if !name.is_possible() {
            return Ok(None);
        }
        let api = self.of::<K>(name);
        let got = self.run::<K, _>("get", name.to_string(), api.get(&name.name)).await;
        absent(got)
    }

    /// As [`Self::get`], for whoever has no quick retry of its own: where the connection fails or the server answers 429
    /// or 5xx, up to three tries within seconds, with the waits that the server asks for.
    pub async fn get_persistently<K: Namespaced>(&self, name: &ObjectName) -> Result<Option<K>, ApiError> {
        for failures in 0..READ_TRIES - 1 {
            match self.get(name).await {
                Err(error) => match read_delay(&error.problem, failures) {
                    Some(delay) => tokio::time::sleep(delay).await,
                    None => return Err(error),
                },
                found => return found,
            }
        }
        self.get(name).await
    }

    /// All objects whose `field` is `value`, in `namespace` or everywhere; an error where one of them cannot be read.
    pub async fn list_by<K: Namespaced>(
        &self,
        namespace: Option<&str>,
        field: &str,
        value: &str,
    ) -> Result<Vec<K>, ApiError> {
        let listed = self.list_leniently_by(namespace, field, value).await?;
        listed.into_iter().map(Listed::whole).collect()
    }

    /// As [`Self::list_by`], for whoever can do something about those that cannot be read.
    pub async fn list_leniently_by<K: Namespaced>(
        &self,
        namespace: Option<&str>,
        field: &str,
        value: &str,
    ) -> Result<Vec<Listed<K>>, ApiError> {
        let api = match namespace {
            Some(namespace) => kube::Api::namespaced(self.client.clone(), namespace),
            None => kube::Api::all(self.client.clone()),
        };
        let what = format!("{}/* with {field}={value}", namespace.unwrap_or("*"));
        let params = ListParams::default().fields(&field_selector(field, value));
        self.list(api, params, &what).await
    }

    /// All objects in `namespace`, also those that cannot be read.
    pub async fn list_in<K: Namespaced>(&self, namespace: &str) -> Result<Vec<Listed<K>>, ApiError> {
        let api = kube::Api::namespaced(self.client.clone(), namespace);
        self.list(api, ListParams::default(), &format!("{namespace}/*")).await
    }

    /// Page by page.
    async fn list<K: Namespaced>(
        &self,
        api: kube::Api<Listed<K>>,
        params: ListParams,
        what: &str,
    ) -> Result<Vec<Listed<K>>, ApiError> {
        let mut params = params.limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page = self.run::<K, _>("list", what.to_owned(), api.list(&params)).await?;
            found.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// Creates `object`.
    pub async fn create<K: Namespaced>(&self, object: &K) -> Result<K, ApiError> {
        let name = ObjectName::new(
            object.meta().namespace.as_deref().unwrap_or_default(),
            object.meta().name.as_deref().unwrap_or_default(),
        );
        let api = self.of::<K>(&name);
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        self.run::<K, _>("create", name.to_string(), api.create(&params, object)).await
    }

    /// Applies `patch` to the object.
    pub async fn patch<K: Namespaced>(&self, name: &ObjectName, patch: &Patch<Value>) -> Result<K, ApiError> {
        let api = self.of::<K>(name);
        let params = patch_params();
        self.run::<K, _>("patch", name.to_string(), api.patch(&name.name, &params, patch)).await
    }

    /// Merges `change` into the object, provided that it is as expected.
    pub async fn merge<K: Namespaced>(
        &self,
        name: &ObjectName,
        expect: Expect<'_>,
        change: Value,
    ) -> Result<K, ApiError> {
        let body = Patch::Merge(with_preconditions(expect, change));
        self.patch(name, &body).await
    }

    /// Writes the difference between two statuses, provided that the object is as expected. `None`: nothing differs,
    /// and nothing was sent.
    pub async fn write_status<K: Namespaced, S: Serialize + Sync>(
        &self,
        name: &ObjectName,
        expect: Expect<'_>,
        stored: &S,
        wanted: &S,
    ) -> Result<Option<K>, ApiError> {
        let Some(change) = merge_difference(&value_of(stored), &value_of(wanted)) else { return Ok(None) };
        let body = Patch::Merge(with_preconditions(expect, json!({ "status": change })));
        let api = self.of::<K>(name);
        let params = patch_params();
        let written =
            self.run::<K, _>("patch", name.to_string(), api.patch_status(&name.name, &params, &body)).await?;
        Ok(Some(written))
    }

    /// Asks for the deletion of the object, provided that it is as expected; its children go in the background.
    ///
    /// Answers the object while finalizers hold it, and `None` when it is gone, or was gone before.
    pub async fn delete<K: Namespaced>(
        &self,
        name: &ObjectName,
        expect: Expect<'_>,
    ) -> Result<Option<K>, ApiError> {
        Ok(self.ask_to_delete(name, expect).await?.and_then(either::Either::left))
    }

    /// As [`delete`](Self::delete); answers whether the object was there.
    pub async fn delete_if_there<K: Namespaced>(
        &self,
        name: &ObjectName,
        expect: Expect<'_>,
    ) -> Result<bool, ApiError> {
        Ok(self.ask_to_delete::<K>(name, expect).await?.is_some())
    }

    async fn ask_to_delete<K: Namespaced>(
        &self,
        name: &ObjectName,
        expect: Expect<'_>,
    ) -> Result<Option<either::Either<K, kube::core::Status>>, ApiError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(expect.uid.to_owned()),
                resource_version: expect.resource_version.map(ToOwned::to_owned),
            }),
            ..DeleteParams::background()
        };
        let api = self.of::<K>(name);
        absent(self.run::<K, _>("delete", name.to_string(), api.delete(&name.name, &params)).await)
    }

    async fn run<K: Namespaced, T>(
        &self,
        verb: &'static str,
        name: String,
        request: impl Future<Output = Result<T, kube::Error>> + Send,
    ) -> Result<T, ApiError> {
        let kind = kind_name::<K>();
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let reads = matches!(verb, "get" | "list");
        let bounded = tokio::time::timeout(TIMEOUT, request);
        let answer = if reads { Ok(bounded.await) } else { self.lead.while_valid(bounded).await };
        let result = match answer {
            Ok(Ok(result)) => result.map_err(Problem::from),
            Ok(Err(_)) => Err(Problem::TimedOut(TIMEOUT)),
            Err(not_leading) => Err(not_leading.into()),
        };
        result.map_err(|problem| ApiError { verb, kind, name, problem })
    }
}

/// Selects the objects whose `field` is exactly `value`, whatever characters that has.
fn field_selector(field: &str, value: &str) -> String {
    let mut selector = format!("{field}=");
    for character in value.chars() {
        if matches!(character, '\\' | ',' | '=') {
            selector.push('\\');
        }
        selector.push(character);
    }
    selector
}

/// How long to wait before a read is tried again; `None` where it should not be.
fn read_delay(problem: &Problem, failures: u32) -> Option<Duration> {
    let backoff = READ_DELAY * 2_u32.saturating_pow(failures);
    let delay = match problem {
        Problem::Throttled(retry_after) => retry_after.unwrap_or(backoff),
        Problem::Unreachable(_) => backoff,
        Problem::Server { code, .. } if *code >= 500 => backoff,
        _ => return None,
    };
    (delay <= LONGEST_READ_DELAY).then_some(delay)
}

/// Who wrote a field, in `managedFields`.
pub(super) const FIELD_MANAGER: &str = "solar-controller";

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// The kind's name, from the closed set of kinds that this program knows.
pub fn kind_name<K: Namespaced>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "other",
    }
}

fn absent<T>(result: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.problem == Problem::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn value_of<S: Serialize>(status: &S) -> Value {
    // The types of solar-api always serialize.
    serde_json::to_value(status).unwrap_or_default()
}

fn with_preconditions(expect: Expect<'_>, mut change: Value) -> Value {
    change["metadata"]["uid"] = json!(expect.uid);
    if let Some(version) = expect.resource_version {
        change["metadata"]["resourceVersion"] = json!(version);
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_selector_asks_for_the_value_as_it_is() {
        for (value, wanted) in [
            ("web", "spec.a=web"),
            ("a,b=c", r"spec.a=a\,b\=c"),
            (r"a\", r"spec.a=a\\"),
            ("x,metadata.name!=y", r"spec.a=x\,metadata.name!\=y"),
            ("", "spec.a="),
        ] {
            assert_eq!(field_selector("spec.a", value), wanted);
        }
    }
}
