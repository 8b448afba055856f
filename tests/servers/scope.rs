//! `run` that is to look after a part only: of the namespaces, or of the kinds.

use std::collections::BTreeSet;

use crate::pipeline::settled;
use crate::world::{Kind, World, name};

fn texts(of: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    of.into_iter().collect()
}

pub fn only_the_named_namespaces_are_looked_at(kind: Kind) {
    let Some(world) = World::new(kind, "scope") else { return };
    world.install_examples();
    let [fleet, platform] = ["fleet", "platform"].map(|namespace| world.namespace(namespace));
    let mut program = world.run("narrow", &["--watch-namespace", &fleet]);
    world.until("the Registry's namespace is missed", Some(&program.log), || {
        let condition = world.condition("targets/edge-1", "RegistryResolved");
        condition.is_some_and(|[_, reason, _]| reason == "NotWatched")
    });
    program.signal("-TERM");
    assert_eq!(world.code(&mut program), Some(0));

    let both = format!("{platform},{fleet}");
    let mut program = world.run("wide", &["--watch-namespace", &both, "--watch-namespace", &fleet]);
    settled(&world, &program.log);
    assert_eq!(program.health("/readyz").0, 200);
    // Watches are told of when they have ended.
    program.signal("-TERM");
    assert_eq!(world.code(&mut program), Some(0));
    for (who, expected) in [("narrow", texts([fleet.clone()])), ("wide", texts([fleet, platform]))] {
        let watched = || world.asked(who).into_iter().filter(|it| it.verb == "watch").map(|it| it.namespace);
        world.until("its watches are told of", None, || watched().count() > 0);
        world.until("all of them", None, || texts(watched()) == expected);
    }
}

pub fn only_the_named_controllers_run_and_only_what_they_need_is_watched(kind: Kind) {
    let Some(world) = World::new(kind, "part") else { return };
    world.install_examples();
    let program = world.run("run", &["--controllers", "Release,ReleaseBinding"]);
    world.until("it is ready itself", Some(&program.log), || program.health("/readyz").0 == 200);
    world.until("Releases are looked after", Some(&program.log), || {
        let releases = world.list("releases");
        !releases.is_empty()
            && releases.iter().all(|release| {
                let path = format!("releases/{}", name(release));
                world.condition(&path, "ComponentVersionResolved").is_some()
                    && release["metadata"]["finalizers"].is_array()
            })
    });
    for target in world.list("targets") {
        assert!(target["status"].is_null() && target["metadata"]["finalizers"].is_null(), "{target}");
    }
    let listed = world.asked("run").into_iter().filter(|it| it.verb == "list").map(|it| it.resource);
    let needed = ["componentversions", "referencegrants", "releasebindings", "releases", "targets"];
    assert_eq!(texts(listed), texts(needed.map(ToOwned::to_owned)));
}
