//! What is refused, and with which words.

mod common;

use serde_json::{Value, json};
use solar_api::{BootstrapConfig, EntrypointType, ReleaseConfig, RenderTaskSpec, RenderTaskType};
use solar_render::{render, render_bootstrap, render_release};

type Change<T> = fn(&mut T);

fn release_error(change: Change<ReleaseConfig>) -> String {
    let mut config = common::release();
    change(&mut config);
    render_release(&config).expect_err("a fault").to_string()
}

fn bootstrap_error(change: Change<BootstrapConfig>) -> String {
    let mut config = common::bootstrap();
    change(&mut config);
    render_bootstrap(&config).expect_err("a fault").to_string()
}

fn release_values(values: Value) -> String {
    let mut config = common::release();
    config.values = common::object(values);
    render_release(&config).expect_err("a fault").to_string()
}

#[test]
fn a_wrong_entrypoint_is_named_with_the_mend() {
    let cases: [(Change<ReleaseConfig>, &str); 4] = [
        (
            |c| c.input.entrypoint.resource_name = "app".to_owned(),
            "the entrypoint \"app\" is not in spec.resources of the ComponentVersion: add it there, or correct \
             spec.entrypoint.resourceName",
        ),
        (
            |c| common::entrypoint(c).repository = String::new(),
            "the entrypoint \"chart\" has no repository: set spec.resources[\"chart\"].repository of the \
             ComponentVersion to <host>/<path>",
        ),
        (
            |c| common::entrypoint(c).tag = String::new(),
            "the entrypoint \"chart\" has no tag: set spec.resources[\"chart\"].tag of the ComponentVersion to a tag or \
             to a digest behind an @",
        ),
        (
            |c| c.input.entrypoint.type_ = EntrypointType::Kro,
            "spec.entrypoint.type of the ComponentVersion is kro, but only helm entrypoints can be rendered: name a \
             resource that is a Helm chart and set the type to helm",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(release_error(change), expected);
    }
}

#[test]
fn a_field_that_would_fail_later_is_refused_by_name() {
    let cases: [(Change<ReleaseConfig>, &str); 19] = [
        (
            |c| common::entrypoint(c).repository = "podinfo".to_owned(),
            "repository \"podinfo\" has no host or no path",
        ),
        (
            |c| common::entrypoint(c).repository = "ghcr.io/".to_owned(),
            "repository \"ghcr.io/\" has no host or no path",
        ),
        (
            |c| common::entrypoint(c).repository = "/podinfo".to_owned(),
            "repository \"/podinfo\" has no valid host",
        ),
        (|c| common::entrypoint(c).repository = "a b/c".to_owned(), "repository \"a b/c\" has no valid host"),
        (
            |c| common::entrypoint(c).repository = "ghcr.io/a:1".to_owned(),
            "repository \"ghcr.io/a:1\" carries a tag",
        ),
        (
            |c| common::entrypoint(c).repository = "ghcr.io/a@sha256:1".to_owned(),
            "carries a tag or digest: move it",
        ),
        (
            |c| common::entrypoint(c).repository = "ghcr.io/Apps".to_owned(),
            "repository \"ghcr.io/Apps\" is no OCI",
        ),
        (|c| common::entrypoint(c).repository = "ghcr.io/a/../b".to_owned(), "is no OCI repository"),
        (|c| common::entrypoint(c).tag = "1.0+build".to_owned(), "tag \"1.0+build\" is no tag"),
        (|c| common::entrypoint(c).tag = "@sha256:12".to_owned(), "tag \"sha256:12\" is no digest"),
        (|c| common::entrypoint(c).tag = "@".to_owned(), "tag \"\" is no digest"),
        (
            |c| common::entrypoint(c).pull_secret_name = Some("A".to_owned()),
            "pullSecretName \"A\" is no Kubernetes name",
        ),
        (
            |c| c.input.component.name = "acme.org/App".to_owned(),
            "component.name \"acme.org/App\" is no Kubernetes name",
        ),
        (|c| c.target_namespace = "a.b".to_owned(), "spec.release.targetNamespace \"a.b\" is no DNS label"),
        (|c| c.chart.name = "../x".to_owned(), "spec.release.chart.name \"../x\" is no name of a chart"),
        (|c| c.chart.name = String::new(), "spec.release.chart.name \"\" is no name of a chart"),
        (|c| c.chart.name = "a".repeat(251), "is no name of a chart: give 1 to 250"),
        (|c| c.chart.version = "v1".to_owned(), "spec.release.chart.version \"v1\" is no semantic version"),
        (|c| c.chart.version = "0.0.1-01234567".to_owned(), "is no semantic version (invalid leading zero"),
    ];
    for (change, expected) in cases {
        let error = release_error(change);
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
        assert!(error.starts_with("spec.release."), "{error:?} names no field");
    }
}

#[test]
fn a_wrong_bootstrap_release_is_named() {
    let cases: [(Change<BootstrapConfig>, &str); 6] = [
        (
            |c| c.input.releases.get_mut("on").expect("on").digest = String::new(),
            "spec.bootstrap.input.releases[\"on\"].digest \"\" is no digest: give sha256: and 64 lower-case hex digits",
        ),
        (
            |c| c.input.releases.get_mut("on").expect("on").tag = String::new(),
            "spec.bootstrap.input.releases[\"on\"].tag \"\" is no tag",
        ),
        (
            |c| c.input.releases.get_mut("on").expect("on").repository = String::new(),
            "spec.bootstrap.input.releases[\"on\"].repository \"\" has no valid host",
        ),
        (
            |c| {
                c.input.releases.insert("A.b".to_owned(), common::bootstrap_release("r.example/a", "v0.0.1"));
            },
            "a key of spec.bootstrap.input.releases \"A.b\" is no DNS label",
        ),
        (
            |c| c.input.userdata = common::object(json!({"id": 9_007_199_254_740_993_u64})),
            "spec.bootstrap.input.userdata.id is 9007199254740993, an integer beyond 2^53",
        ),
        (|c| c.chart.version = String::new(), "spec.bootstrap.chart.version \"\" is no semantic version"),
    ];
    for (change, expected) in cases {
        let error = bootstrap_error(change);
        assert!(error.starts_with(expected), "{error:?} does not begin with {expected:?}");
    }
}

#[test]
fn an_integer_that_helm_would_change_is_refused_with_its_path() {
    let cases = [
        (
            json!({"a": {"b.c": [0, {"n": 9_007_199_254_740_993_i64}]}}),
            "spec.release.values.a[\"b.c\"][1].n is 9007199254740993",
        ),
        (json!({"n": -9_007_199_254_740_993_i64}), "spec.release.values.n is -9007199254740993"),
        (json!({"n": u64::MAX}), "spec.release.values.n is 18446744073709551615"),
        (json!({"n": i64::MIN}), "spec.release.values.n is -9223372036854775808"),
    ];
    for (values, expected) in cases {
        let error = release_values(values);
        assert!(error.starts_with(expected), "{error:?} does not begin with {expected:?}");
    }
    assert_eq!(
        release_values(json!({"n": 9_007_199_254_740_993_i64})),
        "spec.release.values.n is 9007199254740993, an integer beyond 2^53, which Helm and Flux would change: write it as \
         a string (\"9007199254740993\")"
    );
}

#[test]
fn a_key_that_yaml_cannot_read_is_refused_with_its_place() {
    let long = "k".repeat(1023);
    assert_eq!(
        release_values(json!({"a": {long: 1}})),
        "spec.release.values.a has a key of 1025 bytes that begins with \"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\": YAML reads \
         keys of at most 1024 bytes, shorten it"
    );
    let mut config = common::release();
    config.values = common::object(json!({"k".repeat(1022): 1}));
    assert!(render_release(&config).is_ok(), "a key of 1024 bytes with its quotes is read");
}

#[test]
fn a_values_template_that_is_no_yaml_is_refused_without_repeating_it() {
    for text in [
        "a: [1, 2\nsecret: hunter2",
        "a: b: c: hunter2",
        "\"hunter2",
        "a:\n\t- hunter2",
        "a: *hunter2",
        "a: 1\n---\nb: hunter2",
    ] {
        let mut config = common::release();
        common::entrypoint(&mut config).helm.as_mut().expect("a Helm chart").values_template =
            Some(text.to_owned());
        let error = render_release(&config).expect_err(text).to_string();
        assert!(
            error.starts_with("helm.valuesTemplate of the resource \"chart\" is no valid YAML: "),
            "{error}"
        );
        assert!(error.contains("line"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_values_template_that_helm_reads_is_taken() {
    for text in [
        "",
        "# nothing",
        "a: 1\na: 2",
        "{{ x }}",
        "a: |\n  {{ .Values }}\n",
        "&x a: *x",
        "---\na: 1\n",
        "a: 010\n",
        "a: !!str 1",
    ] {
        let mut config = common::release();
        common::entrypoint(&mut config).helm.as_mut().expect("a Helm chart").values_template =
            Some(text.to_owned());
        let chart = render_release(&config).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let shipped = common::values(&chart)["valuesTemplate"].as_str().unwrap_or_default().to_owned();
        assert_eq!(shipped, text);
    }
}

#[test]
fn what_is_too_large_is_refused_with_its_size() {
    let mebibyte = 1024 * 1024;
    let mut config = common::release();
    config.values = common::object(json!({"text": "x".repeat(mebibyte)}));
    let chart = render_release(&config).expect("a megabyte of text is fine");
    assert!(!chart.is_large(), "it packs well");

    config.values = common::object(json!({"text": "x".repeat(5 * mebibyte)}));
    let error = render_release(&config).expect_err("a fault").to_string();
    assert!(error.starts_with("the chart's values.yaml has 52"), "{error}");
    assert!(error.contains("more than the 5242880 that Helm and Flux read"), "{error}");

    config.values = common::object(json!({"text": "x".repeat(5 * mebibyte - 1000)}));
    config.chart.description = "x".repeat(5 * mebibyte - 1000);
    let error = render_release(&config).expect_err("a fault").to_string();
    assert!(error.starts_with("the chart has 104"), "{error}");
    assert!(error.contains("more than the 10485760 that Flux reads"), "{error}");
}

#[test]
fn a_chart_that_packs_badly_is_marked_as_large() {
    // Hex digits of a simple generator: half a byte of information each.
    let mut state = 1_u32;
    let noise: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        format!("{state:08x}")
    })
    .take(150_000)
    .collect();
    let mut config = common::release();
    config.values = common::object(json!({"noise": noise}));
    assert!(render_release(&config).expect("a chart").is_large());
}

#[test]
fn a_task_without_the_configuration_of_its_type_is_refused() {
    let task = |type_, release, bootstrap| RenderTaskSpec {
        type_,
        release,
        bootstrap,
        repository: "edge/apps/release-podinfo".to_owned(),
        tag: "v0.0.1".to_owned(),
        base_url: "registry.example".to_owned(),
        registry_ref: None,
        push_secret_ref: None,
        plain_http: false,
        failed_job_ttl: None,
        owner_kind: "Target".to_owned(),
        owner_name: "edge".to_owned(),
        owner_namespace: "edge".to_owned(),
    };
    let cases = [
        (
            task(RenderTaskType::Release, None, Some(common::bootstrap())),
            "spec.type is release but spec.release is missing",
        ),
        (
            task(RenderTaskType::Bootstrap, Some(common::release()), None),
            "spec.type is bootstrap but spec.bootstrap is missing",
        ),
    ];
    for (spec, expected) in cases {
        let error = render(&spec).expect_err("a fault").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let release = task(RenderTaskType::Release, Some(common::release()), Some(common::bootstrap()));
    assert_eq!(render(&release).expect("a chart").name, "release-podinfo");
}

#[test]
fn a_repository_is_told_to_flux_with_its_own_host() {
    let cases = [
        ("ghcr.io/a/b", false, "oci://ghcr.io/a/b"),
        ("oci://GHCR.io:443/a/b/", false, "oci://ghcr.io/a/b"),
        ("registry/a", false, "oci://registry:443/a"),
        ("registry/a", true, "oci://registry:80/a"),
        ("registry:5000/a", true, "oci://registry:5000/a"),
        ("localhost/a", true, "oci://localhost/a"),
        ("[::1]:5000/a__b-c.d", true, "oci://[::1]:5000/a__b-c.d"),
    ];
    for (repository, insecure, expected) in cases {
        let mut config = common::release();
        let resource = common::entrypoint(&mut config);
        resource.repository = repository.to_owned();
        resource.insecure = insecure;
        let chart = render_release(&config).expect("a chart");
        assert_eq!(common::values(&chart)["chart"]["url"].as_str(), Some(expected), "{repository}");
    }
}

#[test]
fn a_component_name_that_is_too_long_for_a_label_is_fitted() {
    let mut config = common::release();
    config.input.component.name = format!("{}.{}", "a".repeat(53), "b".repeat(63));
    let component = common::values(&render_release(&config).expect("a chart"))["component"].clone();
    let label = component["label"].as_str().expect("a label");
    assert!(label.len() == 62 && label.starts_with(&format!("{}-", "a".repeat(53))), "{label}");
    assert_eq!(component["name"].as_str(), Some(config.input.component.name.as_str()));
}
