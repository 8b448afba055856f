//! The test bed itself: its parts start, end, come back with their data, and end with the tests.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use test_bed::{ADMIN, Cluster, wait_until};

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        data: Some(BTreeMap::from([("a".to_owned(), "b".to_owned())])),
        ..Default::default()
    }
}

#[tokio::test]
async fn an_api_server_and_etcd_come_back_with_their_data() {
    let Some(cluster) = Cluster::builder().user("nobody", &[]).start() else { return };
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    maps.create(&PostParams::default(), &map("kept")).await.unwrap();

    cluster.api.stop();
    assert!(!cluster.api.is_running());
    assert!(maps.get("kept").await.is_err(), "nobody answers");
    cluster.start_api();
    assert!(maps.get("kept").await.is_ok());

    cluster.api.kill();
    cluster.etcd.kill();
    cluster.start_etcd();
    cluster.start_api();
    assert!(maps.get("kept").await.is_ok());

    let stranger = kube::Client::try_from(cluster.config("nobody")).unwrap();
    let refused = Api::<ConfigMap>::namespaced(stranger, "default").get("kept").await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
}

#[tokio::test]
async fn the_shared_cluster_empties_namespaces_that_are_deleted() {
    let Some(cluster) = Cluster::shared() else { return };
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let metadata = ObjectMeta { name: Some("team".to_owned()), ..Default::default() };
    namespaces.create(&PostParams::default(), &Namespace { metadata, ..Default::default() }).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "team");
    maps.create(&PostParams::default(), &map("m")).await.unwrap();
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let gone = async {
        while namespaces.get_opt("team").await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(test_bed::DEADLINE, gone).await.unwrap();
}

fn runs(pid: &str) -> bool {
    // A process that nobody has waited for yet has ended all the same.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Not a test: the process that the next one kills.
#[test]
#[ignore = "waits to be killed"]
fn victim() {
    let Some(cluster) = Cluster::builder().with_controllers().start() else { return };
    let pids = [&cluster.etcd, &cluster.api, &cluster.controllers].map(|part| part.id().unwrap().to_string());
    println!("victim {} {}", cluster.kubeconfig(ADMIN).display(), pids.join(" "));
    std::io::stdin().lines().next();
}

#[test]
fn a_killed_process_of_tests_leaves_nothing_behind() {
    if test_bed::tool("kube-apiserver").is_none() {
        return;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "victim", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(victim.stdout.take().unwrap());
    // The test runner writes the name of the test in front.
    let line = output.lines().map(Result::unwrap).find(|line| line.contains("victim /")).expect("a line");
    let mut words = line.split("victim ").last().unwrap().split(' ');
    let kubeconfig = words.next().unwrap().to_owned();
    let pids: Vec<&str> = words.collect();
    assert!(pids.len() == 3 && pids.iter().all(|pid| runs(pid)), "{line}");
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_until("all have ended", || !pids.iter().any(|pid| runs(pid))).unwrap();
    wait_until("the folder is gone", || !std::path::Path::new(&kubeconfig).exists()).unwrap();
}
