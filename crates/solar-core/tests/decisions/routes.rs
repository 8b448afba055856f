//! Who is concerned by a change: old and new side, and nobody else.

use solar_api::{self as api};
use solar_core::record::{
    ComponentVersionRecord, GrantRecord, RegistryRecord, ReleaseBindingRecord, ReleaseRecord, TargetRecord,
};
use solar_core::routes::{Concerned, Routed};
use solar_core::world::World;

use crate::support::{component_version, grant, registry, release, release_binding, target};

/// Two Targets with a release each, of one version, on one registry of another namespace.
fn world() -> World {
    let mut world = World::default();
    for name in ["berlin", "hamburg"] {
        world.targets.insert(TargetRecord::from(&target("edge", name, "platform/charts")));
    }
    world.registries.insert(RegistryRecord::from(&registry("platform", "charts", "registry.example.com")));
    world.component_versions.insert(ComponentVersionRecord::from(&component_version("edge", "web-1", "web")));
    for (name, bound_to) in [("web", "berlin"), ("probe", "hamburg")] {
        world.releases.insert(ReleaseRecord::from(&release("edge", name, "web-1")));
        let binding = release_binding("edge", &format!("{bound_to}-{name}"), bound_to, name);
        world.release_bindings.insert(ReleaseBindingRecord::from(&binding));
    }
    world
}

fn concerned<R: Routed>(world: &World, old: Option<&R>, new: Option<&R>) -> Vec<String> {
    let mut to = Concerned::new();
    R::concerned(world, old, new, &mut to);
    to.iter().map(ToString::to_string).collect()
}

#[test]
fn a_binding_that_moves_concerns_both_targets_and_itself() {
    let world = world();
    let mut moved = release_binding("edge", "berlin-web", "hamburg", "web");
    moved.metadata.generation = Some(2);
    let old = ReleaseBindingRecord::from(&release_binding("edge", "berlin-web", "berlin", "web"));
    let found = concerned(&world, Some(&old), Some(&ReleaseBindingRecord::from(&moved)));
    assert_eq!(found, ["ReleaseBinding edge/berlin-web", "Target edge/berlin", "Target edge/hamburg"]);
}

#[test]
fn a_binding_that_names_another_release_concerns_the_protection_of_both() {
    let world = world();
    let mut changed = release_binding("edge", "berlin-web", "berlin", "probe");
    changed.metadata.generation = Some(2);
    let old = ReleaseBindingRecord::from(&release_binding("edge", "berlin-web", "berlin", "web"));
    let found = concerned(&world, Some(&old), Some(&ReleaseBindingRecord::from(&changed)));
    let wanted = [
        "ReleaseBinding edge/berlin-web",
        "ReleaseProtection edge/probe",
        "ReleaseProtection edge/web",
        "Target edge/berlin",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_release_concerns_only_the_targets_that_it_is_bound_to() {
    let world = world();
    let old = ReleaseRecord::from(&release("edge", "web", "web-1"));
    let mut changed = release("edge", "web", "web-1");
    changed.metadata.generation = Some(2);
    let found = concerned(&world, Some(&old), Some(&ReleaseRecord::from(&changed)));
    let wanted = [
        "Release edge/web",
        "ReleaseBinding edge/berlin-web",
        "ReleaseProtection edge/web",
        "Target edge/berlin",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_version_concerns_the_releases_that_name_it_and_their_targets() {
    let world = world();
    let old = ComponentVersionRecord::from(&component_version("edge", "web-1", "web"));
    let mut changed = component_version("edge", "web-1", "web");
    changed.metadata.generation = Some(2);
    let found = concerned(&world, Some(&old), Some(&ComponentVersionRecord::from(&changed)));
    let wanted = [
        "ComponentVersionProtection edge/web-1",
        "Release edge/probe",
        "Release edge/web",
        "Target edge/berlin",
        "Target edge/hamburg",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_registry_concerns_the_targets_that_render_to_it() {
    let world = world();
    let found =
        concerned(&world, None, Some(&RegistryRecord::from(&registry("platform", "charts", "other"))));
    assert_eq!(found, ["RegistryProtection platform/charts", "Target edge/berlin", "Target edge/hamburg"]);
}

#[test]
fn a_target_that_moves_concerns_the_protection_of_both_registries() {
    let world = world();
    let old = TargetRecord::from(&target("edge", "berlin", "platform/charts"));
    let mut moved = target("edge", "berlin", "platform/other");
    moved.metadata.generation = Some(2);
    let found = concerned(&world, Some(&old), Some(&TargetRecord::from(&moved)));
    let wanted =
        ["RegistryProtection platform/charts", "RegistryProtection platform/other", "Target edge/berlin"];
    assert_eq!(found, wanted);
}

#[test]
fn a_target_is_not_concerned_by_its_own_status_or_added_finalizer() {
    let world = world();
    let old = TargetRecord::from(&target("edge", "berlin", "platform/charts"));
    let mut written = target("edge", "berlin", "platform/charts");
    written.status = Some(api::TargetStatus { bootstrap_version: 3, ..Default::default() });
    written.metadata.finalizers = Some(vec!["solar.opendefense.cloud/target-finalizer".into()]);
    let written = TargetRecord::from(&written);
    assert_eq!(concerned(&world, Some(&old), Some(&written)), Vec::<String>::new());
    let found = concerned(&world, Some(&written), Some(&old));
    assert_eq!(found, ["Target edge/berlin"], "a finalizer that somebody took is put back");
}

#[test]
fn a_grant_concerns_those_whose_references_it_allows_and_nobody_else() {
    let world = world();
    let fits = GrantRecord::from(&grant("platform", "g", &[("Target", "edge")], &["Registry"]));
    assert_eq!(concerned(&world, None, Some(&fits)), ["Target edge/berlin", "Target edge/hamburg"]);
    assert_eq!(concerned(&world, Some(&fits), None), ["Target edge/berlin", "Target edge/hamburg"]);
    for other in [
        grant("platform", "g", &[("Target", "elsewhere")], &["Registry"]),
        grant("elsewhere", "g", &[("Target", "edge")], &["Registry"]),
        grant("platform", "g", &[("Profile", "edge")], &["Registry"]),
    ] {
        assert_eq!(concerned(&world, None, Some(&GrantRecord::from(&other))), Vec::<String>::new());
    }
}
