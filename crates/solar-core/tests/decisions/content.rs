use std::collections::BTreeMap;

use serde_json::json;
use solar_api as api;
use solar_core::content::{self, ContentHash, ReleaseContent};
use solar_core::hash::PayloadHash;

use crate::support;

fn config() -> api::ReleaseConfig {
    let version = support::component_version("team", "web-1", "web");
    api::ReleaseConfig {
        chart: api::ChartConfig::default(),
        input: api::ReleaseInput {
            component: api::LocalReference { name: "web".into() },
            resources: version
                .spec
                .resources
                .into_iter()
                .map(|(name, access)| {
                    (name, api::ResolvedResourceAccess::new(access, Some("ghcr-pull".into())))
                })
                .collect(),
            entrypoint: version.spec.entrypoint,
        },
        target_namespace: "web".into(),
        values: support::object(&json!({"replicas": 2})),
    }
}

#[test]
fn records_and_configuration_give_one_hash_of_the_fixed_lines() {
    let config = config();
    let expected = "64f9deb67543e469a47b96c13a08a4cc08d53b74d838db8b9f4accc275289c21";
    assert_eq!(content::of_release(&config).to_hex(), expected);
    let secrets = BTreeMap::from([("ghcr.io".into(), "ghcr-pull".into())]);
    let from_records = ReleaseContent {
        component: "web",
        resources: PayloadHash::of(&support::component_version("team", "web-1", "web").spec.resources),
        entrypoint: &config.input.entrypoint,
        values: PayloadHash::of_object(Some(&config.values)),
        target_namespace: "web",
        pull_secrets: &secrets,
    };
    assert_eq!(from_records.hash().to_hex(), expected);
}

#[test]
fn a_release_without_values_namespace_or_secret_has_the_hash_of_their_absence() {
    let mut config = config();
    config.target_namespace = String::new();
    config.values = serde_json::Map::new();
    for resource in config.input.resources.values_mut() {
        resource.pull_secret_name = None;
    }
    let expected = "6d2455d7b5be5bf5d301a0a256c114cb53ce249fffd2e585464fa476e3918210";
    assert_eq!(content::of_release(&config).to_hex(), expected);
}

#[test]
fn everything_that_decides_a_chart_changes_its_hash() {
    type Change = fn(&mut api::ReleaseConfig);
    let changes: [(&str, Change); 8] = [
        ("component", |c| c.input.component.name = "web2".into()),
        ("resource tag", |c| c.input.resources.get_mut("chart").unwrap().tag = "1.2.4".into()),
        ("insecure", |c| c.input.resources.get_mut("chart").unwrap().insecure = true),
        ("pull secret", |c| {
            c.input.resources.get_mut("chart").unwrap().pull_secret_name = Some("other".into());
        }),
        ("no pull secret", |c| c.input.resources.get_mut("chart").unwrap().pull_secret_name = None),
        ("entrypoint", |c| c.input.entrypoint.type_ = api::EntrypointType::Kro),
        ("target namespace", |c| c.target_namespace = "web2".into()),
        ("values", |c| c.values = support::object(&json!({"replicas": 3}))),
    ];
    for (what, change) in changes {
        let mut changed = config();
        change(&mut changed);
        assert_ne!(content::of_release(&changed), content::of_release(&config()), "{what}");
    }
    let mut same = config();
    same.chart.version = "v0.0.9-1a2b3c4d".into();
    assert_eq!(content::of_release(&same), content::of_release(&config()), "the version is no content");
}

#[test]
fn one_host_with_two_answers_is_never_taken_for_one_with_one() {
    let mut mixed = config();
    let mut anonymous = mixed.input.resources["chart"].clone();
    anonymous.pull_secret_name = None;
    mixed.input.resources.insert("other".into(), anonymous.clone());
    let mut both = mixed.clone();
    both.input.resources.get_mut("other").unwrap().pull_secret_name = Some("ghcr-pull".into());
    assert_ne!(content::of_release(&mixed), content::of_release(&both));
}

#[test]
fn a_text_with_a_newline_does_not_run_into_the_next_line() {
    let (mut a, mut b) = (config(), config());
    a.input.component.name = "web\"\nentrypoint helm".into();
    b.input.component.name = "web".into();
    assert_ne!(content::of_release(&a), content::of_release(&b));
}

#[test]
fn a_bootstrap_input_is_hashed_by_release_and_userdata() {
    let release = api::BootstrapRelease {
        repository: "registry.example.com/edge/team/release-web".into(),
        tag: "v0.0.1-1a2b3c4d".into(),
        pull_secret_name: Some("pull".into()),
        digest: "sha256:aa".into(),
        ..Default::default()
    };
    let releases = BTreeMap::from([("web".to_owned(), release)]);
    let hash = content::bootstrap_input(&releases, PayloadHash::of_object(None));
    assert_eq!(hash.to_hex(), "c2a05955b46f796a931dd92e4b7221ed9bde867077aa39ce444122acca28e2b9");
    let mut task = support::bootstrap_task_spec();
    task.bootstrap.as_mut().unwrap().input.releases = releases;
    assert_eq!(content::of_task(&task), hash);
}

#[test]
fn a_task_without_its_configuration_has_the_hash_of_nothing() {
    let mut task = support::bootstrap_task_spec();
    task.bootstrap = None;
    let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(content::of_task(&task).to_hex(), nothing);
}

#[test]
fn the_hash_in_a_tag_is_the_first_window_with_a_letter() {
    // The digests of "" and of "47", whose first eight characters are digits.
    assert_eq!(ContentHash::of(PayloadHash::of_bytes(b"")).as_str(), "e3b0c442");
    assert_eq!(ContentHash::of(PayloadHash::of_bytes(b"47")).as_str(), "1489056e");
    assert_eq!(ContentHash::parse("12345678"), None);
    assert_eq!(ContentHash::parse("1234567g"), None);
}

#[test]
fn a_release_tag_must_fit_its_content_where_it_promises_to() {
    let mut task = support::bootstrap_task_spec();
    task.type_ = api::RenderTaskType::Release;
    task.release = Some(config());
    task.bootstrap = None;
    for (tag, fits) in
        [("v0.0.1-64f9deb6", true), ("v0.0.9-64f9deb6", true), ("v0.0.1-64f9deb7", false), ("1.0.0", true)]
    {
        task.tag = tag.into();
        assert_eq!(content::tag_matches_content(&task), fits, "{tag}");
    }
    assert!(content::tag_matches_content(&support::bootstrap_task_spec()));
}
