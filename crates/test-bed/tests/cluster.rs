//! The test bed itself: its parts start, end, come back with their data, and end with the tests.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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

/// Starts a cluster and tells where it is; returns when the process that has started this one knows.
fn start_victim() -> Option<Cluster> {
    let cluster = Cluster::builder().with_controllers().start()?;
    let pids = [&cluster.etcd, &cluster.api, &cluster.controllers].map(|part| part.id().unwrap().to_string());
    println!("victim {} {}", cluster.kubeconfig(ADMIN).display(), pids.join(" "));
    std::io::stdin().lines().next();
    Some(cluster)
}

/// Not a test: the process that one of the next kills.
#[test]
#[ignore = "waits to be killed"]
fn victim() {
    start_victim();
}

/// Not a test: the process that one of the next sees fail.
#[test]
#[ignore = "fails"]
fn failing_victim() {
    let _cluster = start_victim();
    panic!("as a test does that fails");
}

/// A process of tests with a cluster.
struct Victim {
    process: Child,
    kubeconfig: PathBuf,
    pids: Vec<String>,
}

impl Victim {
    /// `None` where a part is missing.
    fn start(test: &str, temporary: &Path) -> Option<Self> {
        test_bed::tool("kube-apiserver")?;
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", test, "--nocapture"])
            .env("TMPDIR", temporary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        // The test runner writes the name of the test in front.
        let line = output.lines().map(Result::unwrap).find(|line| line.contains("victim /")).expect("a line");
        let mut words = line.split("victim ").last().unwrap().split(' ').map(str::to_owned);
        let kubeconfig = PathBuf::from(words.next().unwrap());
        let pids: Vec<String> = words.collect();
        assert!(pids.len() == 3 && pids.iter().all(|pid| runs(pid)), "{line}");
        Some(Self { process, kubeconfig, pids })
    }

    fn until_its_parts_have_ended(&self) {
        wait_until("all have ended", || !self.pids.iter().any(|pid| runs(pid))).unwrap();
    }
}

/// Whether a process was started with this folder among its arguments.
fn is_in_use(folder: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    // One that ends meanwhile uses nothing.
    let mut commands = processes.filter_map(|it| std::fs::read_to_string(it.path().join("cmdline")).ok());
    commands.any(|command| command.contains(folder.to_str().unwrap()))
}

#[test]
fn a_killed_process_of_tests_leaves_nothing_behind() {
    let temporary = test_bed::folder("killed");
    let Some(mut victim) = Victim::start("victim", &temporary) else { return };
    victim.process.kill().unwrap();
    victim.process.wait().unwrap();
    victim.until_its_parts_have_ended();
    wait_until("the folder is gone", || !victim.kubeconfig.exists()).unwrap();
}

#[test]
fn a_test_that_fails_leaves_the_logs_of_its_servers_and_nothing_else_behind() {
    let temporary = test_bed::folder("failed");
    let Some(mut victim) = Victim::start("failing_victim", &temporary) else { return };
    assert!(is_in_use(&temporary));
    drop(victim.process.stdin.take());
    assert!(!victim.process.wait().unwrap().success());
    victim.until_its_parts_have_ended();
    // Whoever cleans up has had its turn.
    wait_until("nobody uses the folder", || !is_in_use(&temporary)).unwrap();
    for log in ["etcd.log", "kube-apiserver.log", "kube-controller-manager.log"] {
        let log = victim.kubeconfig.with_file_name(log);
        assert!(std::fs::metadata(&log).is_ok_and(|log| log.len() > 0), "{}", log.display());
    }
}
