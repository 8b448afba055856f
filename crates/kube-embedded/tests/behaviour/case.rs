//! One case: a place of its own on the server, and requests.

use std::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures::FutureExt;
use http::Request;
use http_body_util::BodyExt;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_embedded::Server;
use serde_json::{Value, json};

/// How long a server may take for what it does in the background.
pub const DEADLINE: Duration = Duration::from_mins(3);

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A place on a server.
#[derive(Clone)]
pub struct Case {
    client: Client,
    embedded: bool,
    /// The namespace of the case.
    pub namespace: String,
    /// The API group of the kinds that the case defines.
    pub group: String,
}

/// Declares cases: each is two tests that get their [`Case`], one on either server, and whose leavings are removed.
macro_rules! cases {
    ($(async fn $name:ident($case:ident) $body:block)*) => {
        $(mod $name {
            #[allow(unused_imports, reason = "each case uses some")]
            use super::*;

            async fn case($case: $crate::case::Case) $body

            #[tokio::test]
            async fn embedded() {
                $crate::case::run(Some($crate::case::embedded()), case).await;
            }

            #[tokio::test]
            async fn real() {
                $crate::case::run($crate::case::real().await, case).await;
            }
        })*
    };
}
pub(crate) use cases;

/// Runs a case on a server, if there is one, and removes what it left.
pub async fn run(server: Option<(Client, bool)>, body: impl AsyncFnOnce(Case)) {
    let Some((client, embedded)) = server else { return };
    let case = Case::begin(client, embedded).await;
    let outcome = AssertUnwindSafe(body(case.clone())).catch_unwind().await;
    case.end().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// A client of an embedded server of its own.
#[allow(clippy::disallowed_methods, reason = "the server of a case needs a task of its own")]
pub fn embedded() -> (Client, bool) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder().build();
    // It ends with the runtime of the test.
    tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
    (without_retries(Config::new(url.parse().unwrap())), true)
}

/// A client of the real server, if there is one.
pub async fn real() -> Option<(Client, bool)> {
    let config = if let Some(path) = std::env::var_os("BEHAVIOUR_KUBECONFIG") {
        let kubeconfig = Kubeconfig::read_from(path).unwrap();
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
    } else {
        test_bed::Cluster::shared()?.config(test_bed::ADMIN)
    };
    Some((without_retries(config), false))
}

/// A client that shows every answer, also one that asks to try again.
fn without_retries(mut config: Config) -> Client {
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

impl Case {
    async fn begin(client: Client, embedded: bool) -> Self {
        let id = format!("b{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let case = Self { client, embedded, group: format!("{id}.example.com"), namespace: id };
        case.namespaces().create(json!({ "metadata": { "name": case.namespace } })).await.is(201);
        case
    }

    async fn end(self) {
        let crds = self.crds().list("").await.body;
        for crd in crds["items"].as_array().into_iter().flatten() {
            if crd["spec"]["group"] == self.group.as_str() {
                self.crds().delete(crd["metadata"]["name"].as_str().unwrap()).await;
            }
        }
        self.namespaces().delete(&self.namespace).await;
    }

    /// Whether the server is the embedded one.
    pub fn is_embedded(&self) -> bool {
        self.embedded
    }

    /// The server's minor version.
    pub async fn minor(&self) -> u32 {
        let version = self.send("GET", "/version", "", "").await.is(200);
        // Some providers put a plus behind it.
        let minor = version["minor"].as_str().map(|minor| minor.trim_end_matches('+'));
        minor.and_then(|minor| minor.parse().ok()).expect("a number")
    }

    /// Sends a request; again while the server says that it is not ready for this kind yet, as it does for a moment after
    /// a CRD was made or changed.
    pub async fn send(&self, method: &str, path: &str, media: &str, body: impl Into<Vec<u8>>) -> Answer {
        let body: Vec<u8> = body.into();
        let began = tokio::time::Instant::now();
        loop {
            let mut request = Request::builder().method(method).uri(path);
            if !media.is_empty() {
                request = request.header("content-type", media);
            }
            let answer = self.send_request(request.body(Body::from(body.clone())).unwrap()).await;
            if answer.code != 429 || began.elapsed() > DEADLINE {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Sends a request whose headers matter.
    pub async fn send_request(&self, request: Request<Body>) -> Answer {
        let sent = tokio::time::timeout(DEADLINE, self.client.send(request));
        let (parts, body) = sent.await.expect("an answer in time").unwrap().into_parts();
        let bytes = tokio::time::timeout(DEADLINE, body.collect()).await.expect("a body in time").unwrap();
        let text = String::from_utf8_lossy(&bytes.to_bytes()).into_owned();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { code: parts.status.as_u16(), headers: parts.headers, text, body }
    }

    fn collection(&self, base: &str, api_version: &str, kind: &str) -> Kind {
        Kind {
            case: self.clone(),
            base: base.to_owned(),
            api_version: api_version.to_owned(),
            type_name: kind.to_owned(),
        }
    }

    pub fn namespaces(&self) -> Kind {
        self.collection("/api/v1/namespaces", "v1", "Namespace")
    }

    pub fn crds(&self) -> Kind {
        let base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.collection(base, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
    }

    fn core(&self, plural: &str, kind: &str) -> Kind {
        self.collection(&format!("/api/v1/namespaces/{}/{plural}", self.namespace), "v1", kind)
    }

    pub fn maps(&self) -> Kind {
        self.core("configmaps", "ConfigMap")
    }

    pub fn secrets(&self) -> Kind {
        self.core("secrets", "Secret")
    }

    pub fn events(&self) -> Kind {
        self.core("events", "Event")
    }

    pub fn new_events(&self) -> Kind {
        let base = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.namespace);
        self.collection(&base, "events.k8s.io/v1", "Event")
    }

    pub fn leases(&self) -> Kind {
        let base = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace);
        self.collection(&base, "coordination.k8s.io/v1", "Lease")
    }

    /// A CRD of the group of this case, with one version and the schema of [`widget_schema`].
    pub fn widget_crd(&self) -> Value {
        json!({
            "metadata": { "name": format!("widgets.{}", self.group) },
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                    "selectableFields": [{ "jsonPath": ".spec.color" }],
                    "schema": { "openAPIV3Schema": widget_schema() },
                }],
            },
        })
    }

    /// Defines widgets and waits until they are served.
    pub async fn widgets(&self) -> Kind {
        self.define(self.widget_crd()).await
    }

    /// As [`Self::widgets`], with the properties of another `spec`.
    pub async fn widgets_with(&self, spec: Value) -> Kind {
        let mut crd = self.widget_crd();
        let version = &mut crd["spec"]["versions"][0];
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec;
        version.as_object_mut().unwrap().remove("selectableFields");
        self.define(crd).await
    }

    /// Creates a CRD and waits until it is established and its objects can be listed. Both, for kube-apiserver serves a kind as
    /// soon as its names are accepted, and says a moment later that it is established.
    pub async fn define(&self, crd: Value) -> Kind {
        let created = self.crds().create(crd.clone()).await.is(201);
        let names = &created["spec"]["names"];
        let version = crd["spec"]["versions"][0]["name"].as_str().unwrap().to_owned();
        let scope = if crd["spec"]["scope"] == "Cluster" {
            String::new()
        } else {
            format!("/namespaces/{}", self.namespace)
        };
        let base = format!("/apis/{}/{version}{scope}/{}", self.group, names["plural"].as_str().unwrap());
        let kind =
            self.collection(&base, &format!("{}/{version}", self.group), names["kind"].as_str().unwrap());
        let name = created["metadata"]["name"].as_str().unwrap();
        until("the kind is served and established", async || {
            let crd = self.crds().get(name).await.is(200);
            holds_condition(&crd, "Established") && kind.list("").await.code == 200
        })
        .await;
        kind
    }
}

/// Whether a condition of this object is `True`.
pub fn holds_condition(object: &Value, condition: &str) -> bool {
    let Some(conditions) = object["status"]["conditions"].as_array() else { return false };
    conditions.iter().any(|c| c["type"] == condition && c["status"] == "True")
}

/// The schema of widgets.
pub fn widget_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "color": { "type": "string", "maxLength": 10 },
                    "size": { "type": "integer", "minimum": 0, "maximum": 100 },
                    "mode": { "type": "string", "default": "auto" },
                    "tags": { "type": "object", "additionalProperties": { "type": "string" } },
                    "list": { "type": "array", "items": { "type": "string" } },
                },
            },
            "status": { "type": "object", "properties": {
                "note": { "type": "string" }, "observedGeneration": { "type": "integer" },
            } },
        },
    })
}

/// Waits for a level.
pub async fn until(what: &str, check: impl AsyncFn() -> bool) {
    let reached = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, reached).await.is_ok(), "never: {what}");
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: http::HeaderMap,
    pub text: String,
    /// The body, or `null` where it is no JSON.
    pub body: Value,
}

impl Answer {
    /// The body of an answer with this code.
    #[track_caller]
    pub fn is(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text);
        self.body
    }

    /// The `Status` of a refusal with this code and reason (empty: none).
    #[track_caller]
    pub fn refused(self, code: u16, reason: &str) -> Refusal {
        assert_eq!(self.code, code, "{}", self.text);
        assert_eq!(self.body["kind"], "Status", "{}", self.text);
        assert_eq!(self.body["status"], "Failure", "{}", self.text);
        assert_eq!(self.body["code"], code, "{}", self.text);
        assert_eq!(self.body["reason"].as_str().unwrap_or_default(), reason, "{}", self.text);
        Refusal(self.body)
    }
}

/// A `Status` that says no.
#[derive(Debug)]
pub struct Refusal(pub Value);

impl Refusal {
    /// Whether a cause names this field for this reason.
    #[track_caller]
    pub fn cause(self, reason: &str, field: &str) -> Self {
        let causes = self.0["details"]["causes"].as_array().cloned().unwrap_or_default();
        let named = causes.iter().any(|c| {
            c["reason"].as_str().unwrap_or_default() == reason
                && c["field"].as_str().unwrap_or_default() == field
        });
        assert!(named, "no cause {reason} of {field}: {}", self.0);
        self
    }

    /// Whether the message contains a text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.0["message"].as_str().unwrap_or_default().contains(text), "not {text:?}: {}", self.0);
        self
    }
}

/// The objects of one kind in one place.
#[derive(Clone)]
pub struct Kind {
    case: Case,
    /// The path of the collection.
    pub base: String,
    pub api_version: String,
    type_name: String,
}

impl Kind {
    fn complete(&self, mut object: Value) -> Vec<u8> {
        for (field, value) in [("apiVersion", &self.api_version), ("kind", &self.type_name)] {
            if object.get(field).is_none() {
                object[field] = value.as_str().into();
            }
        }
        object.to_string().into_bytes()
    }

    /// The same objects in another version, or in no namespace.
    pub fn at(&self, from: &str, to: &str) -> Self {
        Self {
            base: self.base.replace(from, to),
            api_version: self.api_version.replace(from, to),
            ..self.clone()
        }
    }

    pub async fn create(&self, object: Value) -> Answer {
        self.create_with("", object).await
    }

    pub async fn create_with(&self, query: &str, object: Value) -> Answer {
        self.case.send("POST", &format!("{}?{query}", self.base), JSON, self.complete(object)).await
    }

    /// Creates an object with this name and these fields.
    pub async fn make(&self, name: &str, fields: Value) -> Value {
        let mut object = fields;
        object["metadata"]["name"] = name.into();
        self.create(object).await.is(201)
    }

    pub async fn get(&self, name: &str) -> Answer {
        self.case.send("GET", &format!("{}/{name}", self.base), "", "").await
    }

    pub async fn put(&self, name: &str, object: Value) -> Answer {
        self.case.send("PUT", &format!("{}/{name}", self.base), JSON, self.complete(object)).await
    }

    async fn patch(&self, name: &str, media: &str, patch: &Value) -> Answer {
        self.case.send("PATCH", &format!("{}/{name}", self.base), media, patch.to_string()).await
    }

    /// A merge patch; `name` may have a subresource or a query behind it.
    pub async fn merge(&self, name: &str, patch: Value) -> Answer {
        self.patch(name, MERGE, &patch).await
    }

    pub async fn json_patch(&self, name: &str, operations: Value) -> Answer {
        self.patch(name, JSON_PATCH, &operations).await
    }

    pub async fn strategic(&self, name: &str, patch: Value) -> Answer {
        self.patch(name, STRATEGIC, &patch).await
    }

    pub async fn delete(&self, name: &str) -> Answer {
        self.case.send("DELETE", &format!("{}/{name}", self.base), "", "").await
    }

    pub async fn delete_with(&self, name: &str, mut options: Value) -> Answer {
        options["apiVersion"] = "v1".into();
        options["kind"] = "DeleteOptions".into();
        self.case.send("DELETE", &format!("{}/{name}", self.base), JSON, options.to_string()).await
    }

    pub async fn delete_all(&self, query: &str) -> Answer {
        self.case.send("DELETE", &format!("{}?{query}", self.base), "", "").await
    }

    pub async fn list(&self, query: &str) -> Answer {
        self.case.send("GET", &format!("{}?{query}", self.base), "", "").await
    }

    /// The names that a list shows.
    pub async fn names(&self, query: &str) -> Vec<String> {
        names(&self.list(query).await.is(200))
    }

    pub async fn gone(&self, name: &str) {
        until(&format!("{name} is gone"), async || self.get(name).await.code == 404).await;
    }

    /// Opens a watch.
    pub async fn watch(&self, query: &str) -> Watch {
        let request = Request::get(format!("{}?watch=true&{query}", self.base)).body(Body::empty()).unwrap();
        let sent = tokio::time::timeout(DEADLINE, self.case.client.send(request));
        let response = sent.await.expect("an answer in time").unwrap();
        assert_eq!(response.status(), 200);
        Watch { body: response.into_body(), rest: Vec::new() }
    }
}

/// The names in a list.
pub fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The resource version of an object or list.
#[track_caller]
pub fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().expect("a resource version").to_owned()
}

/// An open watch.
pub struct Watch {
    body: Body,
    rest: Vec<u8>,
}

impl Watch {
    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await.expect("an event in time")?;
            self.rest.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
        }
    }

    /// Type and name of the next event that is no bookmark.
    pub async fn event(&mut self) -> (String, String) {
        loop {
            let event = self.next().await.expect("an event");
            if event["type"] != "BOOKMARK" {
                let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
                return (text(&event["type"]), text(&event["object"]["metadata"]["name"]));
            }
        }
    }

    /// As [`Self::event`], as one text.
    pub async fn line(&mut self) -> String {
        let (kind, name) = self.event().await;
        format!("{kind} {name}")
    }
}
