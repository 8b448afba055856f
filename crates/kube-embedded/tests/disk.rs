//! A server whose objects outlive it.

mod common;

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
};

use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
        WatchParams,
    },
};
use kube_embedded::{Opened, Server, StorageError};
use serde_json::{Value, json};

const CHILD: &str = "KUBE_EMBEDDED_TEST_LOG";

fn open(path: &Path) -> Opened {
    Server::builder().seed(1).open(path).unwrap()
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "b" } })
}

fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name },
        "spec": { "ownerName": "ada" }, "status": {},
    })
}

fn uids(server: &Server) -> BTreeSet<String> {
    server.snapshot().iter().map(|o| o["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn everything_is_as_it_was_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let first = open(&log);
    assert!(first.fresh && first.torn.is_none());
    first.server.apply_crd(common::widget_crd()).unwrap();
    first.server.install(widget("one")).unwrap();
    first.server.install(map("one")).unwrap();
    let (left, revision) = (first.server.snapshot(), first.server.resource_version());
    drop(first);

    for _ in 0..2 {
        let again = open(&log);
        assert!(!again.fresh && again.torn.is_none());
        assert_eq!(again.server.snapshot(), left);
        assert_eq!(again.server.resource_version(), revision);
        // What is the same already is not written.
        again.server.apply_crd(common::widget_crd()).unwrap();
        assert_eq!(again.server.resource_version(), revision);
    }

    let again = open(&log);
    again.server.install(widget("two")).unwrap();
    assert!(again.server.resource_version() > revision);
    assert_eq!(uids(&again.server).len(), left.len() + 1, "a uid came twice");
}

#[test]
fn a_changed_definition_and_a_deleted_one_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let first = open(&log).server;
    first.apply_crd(common::widget_crd()).unwrap();
    first.install(widget("one")).unwrap();
    let mut changed = common::widget_crd();
    let properties = &mut changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    properties["properties"]["colour"] = json!({ "type": "string", "default": "red" });
    first.apply_crd(changed).unwrap();
    let left = first.snapshot();
    assert_eq!(first.get_object("Widget", "default", "one").unwrap()["spec"]["colour"], "red");
    assert_eq!(open(&log).server.snapshot(), left);
}

#[tokio::test]
async fn a_deletion_is_kept_with_what_follows_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let first = open(&log).server;
    first.install(map("owner")).unwrap();
    let owner = first.get_object("ConfigMap", "default", "owner").unwrap();
    let mut owned = map("owned");
    owned["metadata"]["ownerReferences"] = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"] }]);
    first.install(owned).unwrap();
    drop(first);

    // The owner is known after the restart too.
    let second = open(&log).server;
    let api: Api<ConfigMap> = Api::default_namespaced(second.client("default"));
    api.delete("owner", &DeleteParams::default()).await.unwrap();
    assert_eq!(second.count("ConfigMap"), 0);
    let revision = second.resource_version();
    let third = open(&log).server;
    assert_eq!(third.count("ConfigMap"), 0);
    assert_eq!(third.resource_version(), revision);
}

#[tokio::test]
async fn a_watch_from_before_the_restart_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let first = open(&log).server;
    let before = first.resource_version().to_string();
    first.install(map("one")).unwrap();
    let now = first.resource_version().to_string();
    let api: Api<ConfigMap> = Api::default_namespaced(open(&log).server.client("default"));
    let too_old = api.watch(&WatchParams::default(), &before).await;
    let expired = match too_old {
        Err(kube::Error::Api(status)) => status.code == 410,
        Ok(events) => {
            let first = futures::StreamExt::next(&mut Box::pin(events)).await;
            matches!(first, Some(Ok(kube::api::WatchEvent::Error(status))) if status.code == 410)
        }
        Err(_) => false,
    };
    assert!(expired);
    let listed = api.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(listed.metadata.resource_version.as_ref(), Some(&now));
}

#[test]
fn a_torn_end_is_named_and_cut() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let first = open(&log).server;
    first.install(map("one")).unwrap();
    let whole = std::fs::read(&log).unwrap();
    first.install(map("two")).unwrap();
    drop(first);
    let longer = std::fs::read(&log).unwrap();
    std::fs::write(&log, &longer[..longer.len() - 5]).unwrap();

    let again = open(&log);
    let torn = again.torn.unwrap();
    assert_eq!((&torn.path, torn.offset, torn.bytes), (&log, whole.len(), longer.len() - 5 - whole.len()));
    assert!(again.server.get_object("ConfigMap", "default", "one").is_some());
    assert!(again.server.get_object("ConfigMap", "default", "two").is_none());
    again.server.install(map("three")).unwrap();
    drop(again.server);
    let last = open(&log);
    assert_eq!((last.server.count("ConfigMap"), last.torn), (2, None));
}

#[test]
fn damage_is_refused_by_name_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let first = open(&log).server;
    let middle = std::fs::metadata(&log).unwrap().len();
    first.install(map("one")).unwrap();
    first.install(map("two")).unwrap();
    drop(first);
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[usize::try_from(middle).unwrap() + 40] ^= 1;
    std::fs::write(&log, &bytes).unwrap();

    let refused = Server::builder().open(&log).unwrap_err();
    let said = refused.to_string();
    assert!(matches!(&refused, StorageError::Corrupt { path, offset, .. }
        if *path == log && *offset as u64 == middle));
    assert!(said.contains("api.log is damaged at byte"), "{said}");
    assert_eq!(std::fs::read(&log).unwrap(), bytes);
}

/// Not a test of its own: what [`a_killed_process_loses_nothing_that_was_answered`] kills.
#[test]
#[ignore = "run by another test"]
fn writes_until_it_is_killed() {
    let Some(log) = std::env::var_os(CHILD) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = open(Path::new(&log)).server;
        let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
        for number in 0.. {
            let made = serde_json::from_value(map(&format!("map-{number}"))).unwrap();
            let made = api.create(&PostParams::default(), &made).await.unwrap();
            println!("answered {} {}", made.metadata.name.unwrap(), made.metadata.resource_version.unwrap());
        }
    });
}

#[test]
fn a_killed_process_loses_nothing_that_was_answered() {
    for after in [1, 40, 300] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("api.log");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "writes_until_it_is_killed"])
            .env(CHILD, &log)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut printed = String::new();
        while printed.matches("answered").count() < after {
            assert!(output.read_line(&mut printed).unwrap() > 0, "the child ended by itself");
        }
        child.kill().unwrap();
        output.read_to_string(&mut printed).unwrap();
        child.wait().unwrap();

        let server = open(&log).server;
        // The last line may be half of one.
        let whole = printed.rsplit_once('\n').unwrap().0;
        let answered: Vec<Vec<&str>> = whole
            .lines()
            .filter_map(|line| Some(line.split_once("answered ")?.1.split(' ').collect()))
            .collect();
        assert!(answered.len() >= after);
        for words in answered {
            let kept = server.get_object("ConfigMap", "default", words[0]);
            assert_eq!(kept.unwrap()["metadata"]["resourceVersion"], words[1]);
        }
    }
}

/// Not a test of its own: what [`a_kill_while_the_log_is_written_anew_loses_nothing_that_was_answered`] kills.
#[test]
#[ignore = "run by another test"]
fn writes_much_until_it_is_killed() {
    let Some(log) = std::env::var_os(CHILD) else { return };
    let server = open(Path::new(&log)).server;
    let mut large = map("large");
    large["data"]["a"] = "b".repeat(1_000_000).into();
    for number in 0_u64.. {
        large["metadata"]["name"] = format!("map-{}", number % 6).into();
        large["data"]["number"] = number.to_string().into();
        server.install(large.clone()).unwrap();
        println!("answered {number}");
    }
}

#[test]
fn a_kill_while_the_log_is_written_anew_loses_nothing_that_was_answered() {
    let mut unfinished = 0;
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("api.log");
        let new = folder.path().join("api.log.new");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "writes_much_until_it_is_killed"])
            .env(CHILD, &log)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut printed = String::new();
        while printed.matches("answered").count() < 6 {
            assert!(output.read_line(&mut printed).unwrap() > 0, "the child ended by itself");
        }
        // From here on it is written anew again and again. The bound is only there so that a failure ends.
        let writing = (0..1_000_000_000_u64).find(|_| new.exists());
        assert!(writing.is_some(), "never written anew");
        child.kill().unwrap();
        output.read_to_string(&mut printed).unwrap();
        child.wait().unwrap();

        let left_over = new.exists();
        let opened = open(&log);
        assert_eq!(opened.unfinished, left_over.then(|| new.clone()));
        assert!(!new.exists());
        let whole = printed.rsplit_once('\n').unwrap().0;
        let answered = whole
            .lines()
            .filter_map(|line| line.split_once("answered ")?.1.parse::<u64>().ok())
            .max()
            .unwrap();
        for number in answered.saturating_sub(5)..=answered {
            let kept =
                opened.server.get_object("ConfigMap", "default", &format!("map-{}", number % 6)).unwrap();
            let kept: u64 = kept["data"]["number"].as_str().unwrap().parse().unwrap();
            // The next one may have been written and not answered.
            assert!(kept >= number && kept <= answered + 1, "round {round}: {kept} in the place of {number}");
        }
        unfinished += usize::from(left_over);
        if unfinished >= 3 {
            return;
        }
    }
    panic!("the log was being written anew at {unfinished} kills only");
}

#[cfg(unix)]
#[test]
fn a_log_is_for_the_eyes_of_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let mode = || std::fs::metadata(&log).unwrap().permissions().mode() & 0o777;
    drop(open(&log));
    assert_eq!(mode(), 0o600);
    // One from before, and what a killed process left, may be open to others.
    for file in [log.clone(), folder.path().join("api.log.new")] {
        std::fs::copy(&log, folder.path().join("copy")).unwrap();
        std::fs::rename(folder.path().join("copy"), &file).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    assert!(open(&log).unfinished.is_some());
    assert_eq!(mode(), 0o600);
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let server = open(&log).server;
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    // A file can be added to without its folder, but not written anew, which comes when most of it is history.
    folder.close().unwrap();
    let mut large = map("large");
    large["data"]["a"] = "b".repeat(1_000_000).into();
    let mut refused = None;
    for number in 0..20 {
        large["data"]["b"] = number.to_string().into();
        refused = refused.or(server.install(large.clone()).err());
    }
    let refused = refused.expect("the log was never written anew");
    assert_eq!(refused.code, 500);
    assert!(refused.message.contains("api.log"), "{}", refused.message);
    assert!(matches!(api.get("large").await, Err(kube::Error::Api(status)) if status.code == 500));
    assert_eq!(server.storage_failed().await, refused.message);
}

#[test]
fn history_is_dropped_from_the_log_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let server = open(&log).server;
    let mut large = map("large");
    large["data"]["a"] = "b".repeat(1_000_000).into();
    for number in 0..40 {
        large["data"]["b"] = number.to_string().into();
        server.install(large.clone()).unwrap();
    }
    assert!(std::fs::metadata(&log).unwrap().len() < 20_000_000);
    let left = server.snapshot();
    drop(server);
    assert_eq!(open(&log).server.snapshot(), left);
}

#[tokio::test]
async fn a_definition_that_was_applied_twice_still_takes_its_objects_along() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("api.log");
    let server = open(&log).server;
    for _ in 0..2 {
        server.apply_crd(common::widget_crd()).unwrap();
    }
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.install(held).unwrap();
    server.install(widget("free")).unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(server.client("default"));
    crds.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    assert_eq!((server.count("Widget"), server.count("CustomResourceDefinition")), (1, 1));
    drop((server, crds));

    // What the deletion waits for is known after a restart, and so is that it was over.
    let server = open(&log).server;
    assert_eq!((server.count("Widget"), server.count("CustomResourceDefinition")), (1, 1));
    let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(server.client("default"), &widgets);
    let let_go = Patch::Merge(json!({ "metadata": { "finalizers": [] } }));
    widgets.patch("held", &PatchParams::default(), &let_go).await.unwrap();
    assert_eq!(server.count("CustomResourceDefinition"), 0);
    let left = server.snapshot();
    drop(server);
    assert_eq!(open(&log).server.snapshot(), left);
}
