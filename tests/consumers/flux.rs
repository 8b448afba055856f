//! Flux's definitions on the shared API server.

use std::time::Duration;

use http::Request;
use kube::Client;
use serde_json::Value;
use test_bed::Cluster;
use tokio::sync::OnceCell;

/// A client of the shared API server, on which Flux's kinds are served; `None` where a part is missing.
pub async fn cluster() -> Option<Client> {
    static DEFINED: OnceCell<()> = OnceCell::const_new();
    let files = test_bed::crds_of_flux()?;
    let client = Cluster::shared()?.client();
    let define = async || {
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            define(&client, &serde_saphyr::from_str(&text).unwrap()).await;
        }
    };
    DEFINED.get_or_init(define).await;
    Some(client)
}

async fn define(client: &Client, crd: &Value) {
    post(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await.unwrap();
    let (group, plural) = (&crd["spec"]["group"], &crd["spec"]["names"]["plural"]);
    for version in crd["spec"]["versions"].as_array().unwrap() {
        let (group, version, plural) =
            (group.as_str().unwrap(), version["name"].as_str().unwrap(), plural.as_str().unwrap());
        let path = format!("/apis/{group}/{version}/{plural}");
        let served = async {
            // Not found at first, then refused for a moment.
            while client.request_text(Request::get(&path).body(Vec::new()).unwrap()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(test_bed::DEADLINE, served).await.expect(&path);
    }
}

/// The object as the server stored it, or what it says against it.
pub async fn post(client: &Client, path: &str, object: &Value) -> Result<Value, String> {
    let request = Request::post(path).header("content-type", "application/json");
    match client.request(request.body(object.to_string().into_bytes()).unwrap()).await {
        Ok(stored) => Ok(stored),
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => panic!("{error}"),
    }
}
