use std::sync::Arc;

use solar_core::grant::allowed;
use solar_core::record::GrantRecord;
use solar_core::world::World;

use crate::support;

fn world(from: &[(&str, &str, &str)], to: &[(&str, &str)]) -> World {
    let mut world = World::default();
    let mut grant = support::grant("infra", "g", &[], &[]);
    grant.spec.from = from
        .iter()
        .map(|(group, kind, namespace)| solar_api::GrantFrom {
            group: (*group).into(),
            kind: (*kind).into(),
            namespace: (*namespace).into(),
        })
        .collect();
    grant.spec.to = to
        .iter()
        .map(|(group, kind)| solar_api::GrantTo { group: (*group).into(), kind: (*kind).into() })
        .collect();
    world.insert(GrantRecord::from(&grant));
    world
}

#[test]
fn a_reference_into_another_namespace_needs_a_grant_of_exactly_its_kinds() {
    const SOLAR: &str = "solar.opendefense.cloud";
    let ns = |name: &str| -> Arc<str> { Arc::from(name) };
    let to = [(SOLAR, "Registry")];
    for (what, from, to, expected) in [
        ("all right", (SOLAR, "Target", "edge"), to, true),
        ("other group", ("apps", "Target", "edge"), to, false),
        ("other kind", (SOLAR, "RenderArtifact", "edge"), to, false),
        ("other namespace", (SOLAR, "Target", "west"), to, false),
        ("other object", (SOLAR, "Target", "edge"), [(SOLAR, "Release")], false),
        ("other object group", (SOLAR, "Target", "edge"), [("", "Registry")], false),
    ] {
        let world = world(&[from], &to);
        assert_eq!(allowed(&world, "Target", &ns("edge"), "Registry", &ns("infra")), expected, "{what}");
    }
    let none = World::default();
    assert!(allowed(&none, "Target", &ns("edge"), "Registry", &ns("edge")), "same namespace");
    let granted = world(&[(SOLAR, "Target", "edge")], &to);
    assert!(
        !allowed(&granted, "Target", &ns("infra"), "Registry", &ns("edge")),
        "grants do not work backwards"
    );
}
