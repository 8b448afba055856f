//! What a Release's status says, and what holds a protected object.

use solar_api as api;
use solar_core::object::ObjectName;
use solar_core::protection::Protected;
use solar_core::record::{
    ComponentVersionRecord, GrantRecord, RegistryBindingRecord, ReleaseBindingRecord, ReleaseRecord,
    RenderArtifactRecord, TargetRecord,
};
use solar_core::release::{self, Resolved};
use solar_core::world::{IndexKey, World};

use crate::support::{
    at, component_version, grant, meta, registry_binding, release as a_release, release_binding, target,
};

fn version(finalizer: bool, terminating: bool) -> ComponentVersionRecord {
    let mut version = component_version("team", "web-1", "web");
    version.metadata.finalizers = finalizer.then(|| vec![api::names::COMPONENT_VERSION_REF_FINALIZER.into()]);
    let mut record = ComponentVersionRecord::from(&version);
    record.meta.terminating = terminating;
    record
}

/// What a Release of namespace edge that names team/web-1 resolves to, and its status.
fn resolve(
    granted: bool,
    version: Option<ComponentVersionRecord>,
    unique_name: Option<&str>,
) -> (Resolved, Option<api::ReleaseStatus>) {
    let mut world = World::default();
    if granted {
        let grant = grant("team", "g", &[("Release", "edge")], &["ComponentVersion"]);
        world.insert(GrantRecord::from(&grant));
    }
    if let Some(version) = version {
        world.insert(version);
    }
    let mut release = a_release("edge", "web", "team/web-1");
    release.spec.unique_name = unique_name.map(Into::into);
    let record = ReleaseRecord::from(&release);
    let resolved = release::resolve(&world, &record, None);
    let status = release::status(&world, &record, &resolved, at(1));
    if let Some(status) = &status {
        release.status = Some(status.clone());
        let again = release::status(&world, &ReleaseRecord::from(&release), &resolved, at(2));
        assert_eq!(again, None, "nothing is written twice");
    }
    (resolved, status)
}

#[test]
fn a_release_whose_version_lies_where_nobody_looks_says_so() {
    let release = ReleaseRecord::from(&a_release("edge", "web", "team/web-1"));
    let world = World::default();
    let resolved = release::resolve(&world, &release, Some(&["edge".into()]));
    assert_eq!(resolved, Resolved::NotWatched);
    let status = release::status(&world, &release, &resolved, at(1)).unwrap();
    assert_eq!(status.conditions[0].reason, "NotWatched");
    assert!(status.conditions[0].message.contains("--watch-namespace"));
    assert_eq!(
        release::resolve(&world, &release, Some(&["edge".into(), "team".into()])),
        Resolved::NotGranted
    );
}

#[test]
fn a_release_says_whether_its_version_resolves_and_under_which_name_it_is_installed() {
    let found = |unprotected| Resolved::Found { unprotected };
    let rows = [
        (true, Some(version(false, false)), None, found(true), "True Resolved", Some("web")),
        (true, Some(version(true, false)), None, found(false), "True Resolved", Some("web")),
        (true, Some(version(true, true)), None, found(false), "True Resolved", Some("web")),
        (true, Some(version(true, false)), Some("shop"), found(false), "True Resolved", Some("shop")),
        (true, Some(version(true, false)), Some(""), found(false), "True Resolved", Some("web")),
        // What is going can be held no more.
        (true, Some(version(false, true)), None, Resolved::NotFound, "False NotFound", None),
        (true, None, None, Resolved::NotFound, "False NotFound", None),
        (true, None, Some("shop"), Resolved::NotFound, "False NotFound", Some("shop")),
        // Without a grant nothing is told of the version, not even its component.
        (false, Some(version(true, false)), None, Resolved::NotGranted, "False NotGranted", None),
        (false, None, None, Resolved::NotGranted, "False NotGranted", None),
    ];
    for (number, (granted, version, unique, wanted, said, name)) in rows.into_iter().enumerate() {
        let (resolved, status) = resolve(granted, version, unique);
        let status = status.expect("a first status is always written");
        assert_eq!(resolved, wanted, "row {number}");
        let [condition] = status.conditions.as_slice() else { panic!("one condition") };
        assert_eq!(condition.type_, "ComponentVersionResolved");
        assert_eq!(format!("{} {}", condition.status, condition.reason), said, "row {number}");
        assert_eq!(status.effective_unique_name.as_deref(), name, "row {number}");
    }
}

#[test]
fn a_release_whose_version_vanishes_keeps_the_name_that_it_had() {
    let mut release = a_release("edge", "web", "web-1");
    release.status =
        Some(api::ReleaseStatus { effective_unique_name: Some("web".into()), ..Default::default() });
    let world = World::default();
    let record = ReleaseRecord::from(&release);
    let status = release::status(&world, &record, &release::resolve(&world, &record, None), at(1)).unwrap();
    assert_eq!(status.effective_unique_name.as_deref(), Some("web"));
}

fn artifact_of(registry: &str) -> RenderArtifactRecord {
    let (namespace, name) = registry.split_once('/').unwrap();
    let spec = api::RenderArtifactSpec {
        registry_ref: Some(api::ObjectReference { name: name.into(), namespace: Some(namespace.into()) }),
        ..Default::default()
    };
    let artifact = api::RenderArtifact { metadata: meta("edge", "render-art-1"), spec, status: None };
    RenderArtifactRecord::from(&artifact)
}

/// A protected object, what puts a referrer of it into the world, and that referrer.
type Case = (Protected, ObjectName, fn(&mut World), &'static str);

#[test]
fn every_kind_of_referrer_holds_what_it_names_and_nothing_else() {
    let registry = ObjectName::new("edge", "charts");
    let cases: [Case; 6] = [
        (
            Protected::Registry,
            registry.clone(),
            |world| drop(world.insert(TargetRecord::from(&target("west", "berlin", "edge/charts")))),
            "Target west/berlin",
        ),
        (
            Protected::Registry,
            registry.clone(),
            |world| {
                let binding = registry_binding("edge", "rb", "berlin", "charts");
                world.insert(RegistryBindingRecord::from(&binding));
            },
            "RegistryBinding edge/rb",
        ),
        (
            Protected::Registry,
            registry,
            |world| drop(world.insert(artifact_of("edge/charts"))),
            "RenderArtifact edge/render-art-1",
        ),
        (
            Protected::Release,
            ObjectName::new("edge", "web"),
            |world| {
                let binding = release_binding("edge", "b", "berlin", "web");
                world.insert(ReleaseBindingRecord::from(&binding));
            },
            "ReleaseBinding edge/b",
        ),
        (
            Protected::ComponentVersion,
            ObjectName::new("team", "web-1"),
            |world| drop(world.insert(ReleaseRecord::from(&a_release("edge", "web", "team/web-1")))),
            "Release edge/web",
        ),
        (
            Protected::Component,
            ObjectName::new("team", "web"),
            |world| drop(world.insert(version(true, false))),
            "ComponentVersion team/web-1",
        ),
    ];
    for (kind, name, put, wanted) in cases {
        let mut world = World::default();
        assert_eq!(kind.a_referrer(&world, &name), None, "{kind:?}");
        put(&mut world);
        assert_eq!(kind.a_referrer(&world, &name).as_deref(), Some(wanted));
        for other in [name.sibling("other"), ObjectName::new("other", name.name.clone())] {
            assert_eq!(kind.a_referrer(&world, &other), None, "{kind:?} {other}");
        }
    }
}

#[test]
fn a_referrer_that_is_going_still_holds() {
    let mut world = World::default();
    let mut artifact = artifact_of("edge/charts");
    artifact.meta.terminating = true;
    world.insert(artifact);
    let referrer = Protected::Registry.a_referrer(&world, &ObjectName::new("edge", "charts"));
    assert_eq!(referrer.as_deref(), Some("RenderArtifact edge/render-art-1"));
}

#[test]
fn each_protected_kind_has_its_finalizer_and_the_referrers_that_are_read_by_field() {
    let rows = [
        (
            Protected::Registry,
            "solar.opendefense.cloud/registry-ref",
            "Target spec.renderRegistryRef.name true, RegistryBinding spec.registryRef.name false, \
             RenderArtifact spec.registryRef.name true",
        ),
        (
            Protected::Release,
            "solar.opendefense.cloud/release-ref",
            "ReleaseBinding spec.releaseRef.name false, Profile spec.releaseRef.name false",
        ),
        (
            Protected::ComponentVersion,
            "solar.opendefense.cloud/componentversion-ref",
            "Release spec.componentVersionRef.name true",
        ),
        (
            Protected::Component,
            "solar.opendefense.cloud/component-ref",
            "ComponentVersion spec.componentRef.name false",
        ),
    ];
    for (kind, finalizer, referrers) in rows {
        assert_eq!(kind.finalizer(), finalizer);
        let said = kind.referrers().iter();
        let said: Vec<_> = said.map(|r| format!("{} {} {}", r.kind, r.field, r.cross_namespace)).collect();
        assert_eq!(said.join(", "), referrers);
    }
}

#[test]
fn a_table_finds_a_record_by_its_present_keys_only() {
    let mut world = World::default();
    let key = |name: &str| IndexKey::Registry(ObjectName::new("edge", name));
    let found = |world: &World, name: &str| world.targets.by(&key(name)).count();
    world.insert(TargetRecord::from(&target("edge", "berlin", "one")));
    world.insert(TargetRecord::from(&target("edge", "hamburg", "one")));
    assert_eq!((world.targets.len(), found(&world, "one"), found(&world, "two")), (2, 2, 0));
    let old = world.insert(TargetRecord::from(&target("edge", "berlin", "two"))).unwrap();
    assert_eq!(&*old.registry.name, "one");
    assert_eq!((world.targets.len(), found(&world, "one"), found(&world, "two")), (2, 1, 1));
    world.remove::<TargetRecord>(&ObjectName::new("edge", "berlin"));
    world.remove::<TargetRecord>(&ObjectName::new("edge", "hamburg"));
    assert!(world.targets.is_empty());
    assert_eq!((found(&world, "one"), found(&world, "two")), (0, 0));
}
