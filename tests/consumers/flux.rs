//! Flux's definitions on the shared API server, and its source-controller, which pulls what the charts point to.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use kube::Client;
use serde_json::{Value, json};
use test_bed::{Cluster, Process, free_port, wait_until};
use tokio::sync::OnceCell;

use crate::helm::{Helm, documents};
use crate::kubectl::World;

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

/// What `run`, a registry and source-controller are to a cluster that is deployed to.
struct Edge {
    world: World,
    helm: Helm,
    source: Process,
}

const LOGIN: [&str; 5] = ["--username", "solar", "--password", "solar-dev", "--plain-http"];

impl Edge {
    fn start() -> Option<Self> {
        let definitions = test_bed::crds_of_flux()?;
        let (helm, kubectl) = (Helm::find()?, test_bed::tool("kubectl")?);
        let program = test_bed::tool("source-controller")?;
        let world = World::real(&kubectl)?;
        for file in definitions {
            world.ok(&["apply", "--server-side", "-f", file.to_str().unwrap()]);
        }
        world.ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=2m"]);
        world.ok(&["create", "namespace", "edge"]);
        let address = |flag: &str| format!("--{flag}=127.0.0.1:{}", free_port());
        let storage = free_port();
        let source = Process::new(&program, &world.folder.join("source-controller.log"))
            .env("RUNTIME_NAMESPACE", "edge")
            .env("KUBECONFIG", &world.kubeconfig)
            .env("HOME", &world.folder)
            .args([
                format!("--storage-path={}", world.folder.join("storage").display()),
                format!("--storage-addr=127.0.0.1:{storage}"),
                format!("--storage-adv-addr=127.0.0.1:{storage}"),
                address("metrics-addr"),
                address("health-addr"),
                "--events-addr=".to_owned(),
                "--watch-all-namespaces=false".to_owned(),
            ]);
        std::fs::create_dir(world.folder.join("storage")).unwrap();
        source.start();
        Some(Self { world, helm, source })
    }

    fn apply(&self, objects: &[Value]) {
        let file = self.world.folder.join("applied.json");
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        std::fs::write(&file, list.to_string()).unwrap();
        self.world.ok(&["apply", "-f", file.to_str().unwrap()]);
    }

    fn get(&self, namespace: &str, what: &str) -> Value {
        serde_json::from_str(&self.world.ok(&["get", what, "-n", namespace, "-o", "json"])).unwrap()
    }

    /// Waits, and tells what was found instead.
    fn until(&self, what: &str, level: impl FnMut() -> bool) {
        let told = wait_until(what, level);
        told.unwrap_or_else(|late| {
            let looks = ["ocirepositories -n edge", "renderartifacts,targets -n fleet"];
            let shown = looks.map(|look| {
                let arguments: Vec<&str> =
                    ["get"].into_iter().chain(look.split(' ')).chain(["-o", "yaml"]).collect();
                self.world.ok(&arguments)
            });
            panic!("{late}\n{}\n{}\n{}", shown.join("\n"), self.world.program.log(), self.source.log())
        });
    }

    /// Puts a chart with one ConfigMap to where the component's chart is looked for. Answers its digest.
    fn push_component(&self) -> String {
        let chart = self.helm.folder.join("podinfo");
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: podinfo\n";
        std::fs::write(chart.join("templates/map.yaml"), map).unwrap();
        std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: podinfo\nversion: 6.7.0\n").unwrap();
        self.helm.run(&["package", "podinfo"]);
        let charts = format!("oci://{}/charts", self.world.registry);
        self.helm.run(&[&["push", "podinfo-6.7.0.tgz", &charts], &LOGIN[..]].concat());
        let (code, digest) = head(&self.world.registry, &format!("{charts}/podinfo:6.7.0"));
        assert_eq!(code, "200");
        digest
    }

    /// A Target with one release, whose chart lies in the same registry and needs the same pull secret.
    fn deploy(&self) {
        let host = &self.world.registry;
        self.world.ok(&["apply", "-f", self.world.example("01-platform.yaml").to_str().unwrap()]);
        let solar = |namespace: &str, kind: &str, name: &str, spec: Value| {
            json!({
                "apiVersion": "solar.opendefense.cloud/v1alpha1",
                "kind": kind,
                "metadata": { "name": name, "namespace": namespace },
                "spec": spec,
            })
        };
        let chart = json!({
            "repository": format!("{host}/charts/podinfo"),
            "tag": "6.7.0",
            "insecure": true,
            "helm": { "name": "podinfo", "version": "6.7.0" },
        });
        let charts = json!({ "name": "charts", "namespace": "platform" });
        let auths = json!({ "auths": { host: { "username": "solar", "password": "solar-dev" } } });
        let group = "solar.opendefense.cloud";
        self.apply(&[
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "name": "charts-pull", "namespace": "edge" },
                "type": "kubernetes.io/dockerconfigjson",
                "stringData": { ".dockerconfigjson": auths.to_string() },
            }),
            solar(
                "fleet",
                "ReferenceGrant",
                "platform-binds",
                json!({
                    "from": [{ "group": group, "kind": "RegistryBinding", "namespace": "platform" }],
                    "to": [{ "group": group, "kind": "Target" }],
                }),
            ),
            solar(
                "platform",
                "RegistryBinding",
                "edge",
                json!({
                    "targetRef": { "name": "edge", "namespace": "fleet" },
                    "registryRef": { "name": "charts" },
                }),
            ),
            solar(
                "fleet",
                "Component",
                "podinfo",
                json!({ "scheme": "oci", "registry": host, "repository": "charts/podinfo" }),
            ),
            solar(
                "fleet",
                "ComponentVersion",
                "podinfo",
                json!({
                    "componentRef": { "name": "podinfo" },
                    "tag": "6.7.0",
                    "resources": { "chart": chart },
                    "entrypoint": { "resourceName": "chart", "type": "helm" },
                }),
            ),
            solar(
                "fleet",
                "Release",
                "web",
                json!({
                    "componentVersionRef": { "name": "podinfo" },
                    "uniqueName": "web",
                    "values": { "replicaCount": 1 },
                }),
            ),
            solar("fleet", "Target", "edge", json!({ "renderRegistryRef": charts })),
            solar(
                "fleet",
                "ReleaseBinding",
                "edge-web",
                json!({ "targetRef": { "name": "edge" }, "releaseRef": { "name": "web" } }),
            ),
        ]);
    }

    /// Waits until the Target is ready with this version of its bootstrap chart.
    fn until_ready(&self, version: u64) {
        self.until("the Target is ready", || {
            let target = self.get("fleet", "target/edge");
            let conditions = target["status"]["conditions"].as_array().cloned().unwrap_or_default();
            target["status"]["bootstrapVersion"] == version
                && conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
        });
    }

    /// `<tag>@<digest>` of the RenderArtifact with this address.
    fn revision_of(&self, url: &str) -> Option<String> {
        let artifacts = self.get("fleet", "renderartifacts");
        let artifacts = artifacts["items"].as_array().unwrap();
        let artifact = artifacts.iter().find(|it| it["status"]["chartURL"] == url)?;
        let (tag, digest) = (&artifact["spec"]["tag"], &artifact["status"]["digest"]);
        Some(format!("{}@{}", tag.as_str()?, digest.as_str()?))
    }

    /// Pulls a chart and applies what it renders to, as helm-controller would. Answers its OCIRepositories.
    fn install(&self, release: &str, url: &str) -> Vec<Value> {
        let (repository, version) = url.rsplit_once(':').unwrap();
        let arguments = ["template", release, repository, "--version", version, "--namespace", "edge"];
        let objects = documents(&self.helm.run(&[&arguments[..], &LOGIN].concat()));
        self.apply(&objects);
        objects.into_iter().filter(|object| object["kind"] == "OCIRepository").collect()
    }

    /// Waits until source-controller has fetched `digest` for the repository, and reads that it says so of its newest
    /// generation. Answers the digest of the file that it serves.
    fn until_fetched(&self, repository: &Value, digest: &str) -> Value {
        assert!(digest.starts_with("sha256:"), "{digest}");
        let name = format!("ocirepository/{}", repository["metadata"]["name"].as_str().unwrap());
        let mut found = Value::Null;
        self.until(&format!("{name} is ready with {digest}"), || {
            found = self.get("edge", &name);
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let revision = found["status"]["artifact"]["revision"].as_str().unwrap_or_default();
            found["status"]["observedGeneration"] == found["metadata"]["generation"]
                && revision.ends_with(digest)
                && conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
        });
        found["status"]["artifact"]["digest"].clone()
    }
}

/// Code and digest of the registry's answer to who asks for a tag with the password.
fn head(registry: &str, url: &str) -> (String, String) {
    let path = url.strip_prefix(&format!("oci://{registry}/")).unwrap();
    let (repository, tag) = path.rsplit_once(':').unwrap();
    let accepted = "application/vnd.oci.image.manifest.v1+json";
    let request = format!(
        "HEAD /v2/{repository}/manifests/{tag} HTTP/1.1\r\nHost: {registry}\r\nAccept: {accepted}\r\n\
         Authorization: Basic {}\r\nConnection: close\r\n\r\n",
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "solar:solar-dev"),
    );
    let mut stream = std::net::TcpStream::connect(registry).unwrap();
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    let digest = answer.lines().find_map(|line| line.strip_prefix("Docker-Content-Digest: "));
    (answer.split(' ').nth(1).unwrap().to_owned(), digest.unwrap_or_default().to_owned())
}

#[test]
fn source_controller_fetches_what_the_charts_point_to_follows_changes_and_finds_nothing_after_the_end() {
    let Some(edge) = Edge::start() else { return };
    let component = edge.push_component();
    edge.deploy();
    edge.until_ready(1);
    let chart_url = || edge.get("fleet", "target/edge")["status"]["chartURL"].as_str().unwrap().to_owned();
    let mut urls = vec![chart_url()];

    let round = |bootstrap: &str| {
        let repositories = edge.install("edge", bootstrap);
        let [repository] = &repositories[..] else { panic!("{repositories:?}") };
        assert_eq!(repository["spec"]["secretRef"]["name"], "charts-pull");
        assert_eq!(repository["spec"]["insecure"], true);
        let reference = &repository["spec"]["ref"];
        let url =
            format!("{}:{}", repository["spec"]["url"].as_str().unwrap(), reference["tag"].as_str().unwrap());
        let revision = edge.revision_of(&url).unwrap_or_else(|| panic!("no artifact is at {url}"));
        let (_, digest) = revision.split_once('@').unwrap();
        (repository["metadata"]["name"].clone(), url, edge.until_fetched(repository, digest))
    };
    let (name, first, fetched) = round(&urls[0]);
    // One layer further: the release's chart points to the component's.
    let nested = edge.install("edge-web", &first);
    let [nested] = &nested[..] else { panic!("{nested:?}") };
    assert_eq!(nested["spec"]["url"], format!("oci://{}/charts/podinfo", edge.world.registry));
    assert_eq!(nested["spec"]["secretRef"]["name"], "charts-pull");
    assert_eq!(nested["spec"]["insecure"], true);
    edge.until_fetched(nested, &component);

    let values = r#"{"spec":{"values":{"replicaCount":3}}}"#;
    edge.world.ok(&["patch", "release", "web", "-n", "fleet", "--type", "merge", "-p", values]);
    edge.until_ready(2);
    urls.push(chart_url());
    let (name_then, second, fetched_then) = round(&urls[1]);
    // The object that a cluster has is told another chart; it is not another object.
    assert_eq!(name_then, name);
    assert_ne!(second, first);
    assert_ne!(fetched_then, fetched);
    urls.extend([first, second.clone()]);
    let live = [&urls[1], &second].map(|url| head(&edge.world.registry, url).0);
    assert_eq!(live, ["200", "200"]);

    edge.world.ok(&["delete", "target", "edge", "-n", "fleet", "--timeout=2m"]);
    edge.until("no artifact is left", || {
        edge.get("fleet", "renderartifacts")["items"].as_array().is_some_and(Vec::is_empty)
    });
    let answers: BTreeMap<&String, String> =
        urls.iter().map(|url| (url, head(&edge.world.registry, url).0)).collect();
    assert!(answers.len() == 4 && answers.values().all(|code| code == "404"), "{answers:?}");
    // It has finalizers on them.
    edge.world.ok(&["delete", "ocirepositories", "--all", "-n", "edge", "--timeout=2m"]);
    edge.source.stop();
}
