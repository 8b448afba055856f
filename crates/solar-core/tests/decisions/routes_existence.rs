//! Who is concerned when an object comes or goes, for the kinds that refer to others.

use solar_core::record::{
    ComponentVersionRecord, RegistryBindingRecord, ReleaseBindingRecord, ReleaseRecord,
};
use solar_core::routes::{Concerned, Routed};
use solar_core::world::World;

use crate::support::{component_version, registry_binding, release, release_binding};

/// Release edge/web of version edge/web-1, bound to berlin by edge/berlin-web.
fn world() -> World {
    let mut world = World::default();
    world.insert(version());
    world.insert(web());
    world.insert(bound());
    world
}

fn version() -> ComponentVersionRecord {
    ComponentVersionRecord::from(&component_version("edge", "web-1", "web"))
}

fn web() -> ReleaseRecord {
    ReleaseRecord::from(&release("edge", "web", "web-1"))
}

fn bound() -> ReleaseBindingRecord {
    ReleaseBindingRecord::from(&release_binding("edge", "berlin-web", "berlin", "web"))
}

fn concerned<R: Routed>(old: Option<&R>, new: Option<&R>) -> Vec<String> {
    let mut to = Concerned::new();
    R::concerned(&world(), old, new, &mut to);
    to.iter().map(ToString::to_string).collect()
}

/// Checks that `record` concerns `wanted` when it comes and when it goes, and `going` once its deletion was asked for:
/// what it names is needed until it is gone.
fn check<R: Routed>(record: &R, terminating: &R, wanted: &[&str], going: &[&str]) {
    assert_eq!(concerned(None, Some(record)), wanted, "it comes");
    assert_eq!(concerned(Some(record), None), wanted, "it goes");
    assert_eq!(concerned(Some(record), Some(terminating)), going, "its deletion was asked for");
}

#[test]
fn a_release_binding_that_comes_or_goes_concerns_its_target_itself_and_the_protection_of_its_release() {
    let mut terminating = bound();
    terminating.meta.terminating = true;
    let wanted = ["ReleaseBinding edge/berlin-web", "ReleaseProtection edge/web", "Target edge/berlin"];
    check(&bound(), &terminating, &wanted, &[wanted[0], wanted[2]]);
}

#[test]
fn a_registry_binding_that_comes_or_goes_concerns_its_target_itself_and_the_protection_of_its_registry() {
    let binding =
        || RegistryBindingRecord::from(&registry_binding("platform", "rb", "edge/berlin", "charts"));
    let mut terminating = binding();
    terminating.meta.terminating = true;
    let wanted = ["RegistryBinding platform/rb", "RegistryProtection platform/charts", "Target edge/berlin"];
    check(&binding(), &terminating, &wanted, &[wanted[0], wanted[2]]);
}

#[test]
fn a_release_that_comes_or_goes_concerns_those_bound_to_it_and_the_protection_of_its_version() {
    let mut terminating = web();
    terminating.meta.terminating = true;
    let wanted = [
        "ComponentVersionProtection edge/web-1",
        "Release edge/web",
        "ReleaseBinding edge/berlin-web",
        "ReleaseProtection edge/web",
        "Target edge/berlin",
    ];
    check(&web(), &terminating, &wanted, &wanted[1..]);
}

#[test]
fn a_version_that_comes_or_goes_concerns_the_releases_that_name_it_and_the_protection_of_its_component() {
    let mut terminating = version();
    terminating.meta.terminating = true;
    let wanted = [
        "ComponentProtection edge/web",
        "ComponentVersion edge/web-1",
        "ComponentVersionProtection edge/web-1",
        "Release edge/web",
        "Target edge/berlin",
    ];
    check(&version(), &terminating, &wanted, &wanted[1..]);
}

#[test]
fn a_release_bindings_status_concerns_nobody() {
    let mut judged = bound();
    judged.meta.resource_version = "2".into();
    assert_eq!(concerned(Some(&bound()), Some(&judged)), Vec::<String>::new());
}
