//! Counts every request to the API server where its answer comes in: watches, lists and writes alike.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request, Response, Uri};
use tower::{Layer, Service};

/// Counts the requests that go through a service, in `solar_api_requests_total`.
#[derive(Clone, Copy, Debug)]
pub struct CountRequests;

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner }
    }
}

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let mut count = Count { asked: Asked::of(request.method(), request.uri()), code: None };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            match &answer {
                Ok(answer) => count.answered(answer.status().as_str()),
                Err(_) => count.answered("error"),
            }
            answer
        })
    }
}

/// Counts once, when it is dropped: also a request that nobody waits for any longer.
struct Count {
    asked: Asked,
    code: Option<String>,
}

impl Count {
    fn answered(&mut self, code: &str) {
        self.code = Some(code.to_owned());
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        let code = self.code.take().unwrap_or_else(|| "canceled".to_owned());
        let Asked { verb, kind } = self.asked;
        metrics::counter!("solar_api_requests_total", "verb" => verb, "kind" => kind, "code" => code)
            .increment(1);
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// Verb as in RBAC.
    verb: &'static str,
    /// Kind of the object, from a closed set.
    kind: &'static str,
}

impl Asked {
    fn of(method: &Method, uri: &Uri) -> Self {
        let resource = Resource::of(uri.path());
        let watch = uri
            .query()
            .is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")));
        let verb = match (method, resource.named) {
            (&Method::GET | &Method::HEAD, _) if watch => "watch",
            (&Method::GET | &Method::HEAD, false) if resource.plural.is_some() => "list",
            (&Method::GET | &Method::HEAD, _) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "delete",
            (&Method::DELETE, false) => "deletecollection",
            _ => "other",
        };
        Self { verb, kind: resource.plural.map_or("other", kind) }
    }
}

/// The resource that a path names.
struct Resource<'a> {
    plural: Option<&'a str>,
    named: bool,
}

impl<'a> Resource<'a> {
    /// `/api/v1/...` or `/apis/<group>/<version>/...`, then `namespaces/<namespace>/` where there is one, then the plural
    /// name, and perhaps a name.
    fn of(path: &'a str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let rest = match parts.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        match rest {
            ["namespaces", _, plural, more @ ..] | [plural, more @ ..] => {
                Self { plural: Some(plural), named: !more.is_empty() }
            }
            [] => Self { plural: None, named: false },
        }
    }
}

/// The kind of a plural name, of those that this program knows.
fn kind(plural: &str) -> &'static str {
    match plural {
        "componentversions" => "ComponentVersion",
        "components" => "Component",
        "events" => "Event",
        "leases" => "Lease",
        "profiles" => "Profile",
        "referencegrants" => "ReferenceGrant",
        "registries" => "Registry",
        "registrybindings" => "RegistryBinding",
        "releasebindings" => "ReleaseBinding",
        "releases" => "Release",
        "renderartifacts" => "RenderArtifact",
        "renderbindings" => "RenderBinding",
        "rendertasks" => "RenderTask",
        "secrets" => "Secret",
        "targets" => "Target",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_named_as_rbac_names_it() {
        let group = "/apis/solar.opendefense.cloud/v1alpha1";
        let cases = [
            (Method::GET, format!("{group}/targets?limit=500"), "list", "Target"),
            (Method::GET, format!("{group}/targets?watch=true&resourceVersion=7"), "watch", "Target"),
            (Method::GET, format!("{group}/namespaces/fleet/releases?"), "list", "Release"),
            (Method::GET, format!("{group}/namespaces/fleet/releases/web"), "get", "Release"),
            (Method::PATCH, format!("{group}/namespaces/fleet/targets/edge/status?"), "patch", "Target"),
            (Method::PUT, format!("{group}/namespaces/fleet/targets/edge"), "update", "Target"),
            (Method::DELETE, format!("{group}/namespaces/fleet/rendertasks/a"), "delete", "RenderTask"),
            (
                Method::DELETE,
                format!("{group}/namespaces/fleet/rendertasks"),
                "deletecollection",
                "RenderTask",
            ),
            (Method::GET, "/api/v1/namespaces/fleet/secrets/token".into(), "get", "Secret"),
            (Method::POST, "/apis/events.k8s.io/v1/namespaces/fleet/events?".into(), "create", "Event"),
            (Method::GET, "/api/v1/namespaces/fleet".into(), "get", "other"),
            (Method::GET, "/version".into(), "get", "other"),
            (Method::GET, "/apis/apps/v1/deployments".into(), "list", "other"),
        ];
        for (method, uri, verb, kind) in cases {
            assert_eq!(Asked::of(&method, &uri.parse().unwrap()), Asked { verb, kind }, "{method} {uri}");
        }
    }

    #[test]
    fn every_kind_of_this_project_is_known() {
        for crd in solar_api::crds() {
            assert_eq!(kind(&crd.spec.names.plural), crd.spec.names.kind);
        }
    }
}
