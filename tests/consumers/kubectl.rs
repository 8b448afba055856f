//! The commands of README.md say the same to `dev` and to a real API server with `run` beside it.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use solar_controller::adapters::clock::Clock;
use solar_controller::adapters::oci::{HttpRegistry, HttpRegistryOptions};
use solar_controller::dev::push_descriptor;
use test_bed::{ADMIN, Cluster, DEADLINE, EXAMPLE_USERS, Generation, Guarded, Process, Registry, wait_until};

use crate::program::tells_no_secret;
use crate::readme;

const EXAMPLES: [&str; 4] =
    ["01-platform.yaml", "02-releases.yaml", "03-targets.yaml", "04-descriptors.yaml"];

/// A controller with an API server and a registry.
pub struct World {
    kubectl: PathBuf,
    /// Of a user who may do everything.
    pub kubeconfig: PathBuf,
    /// For files of the test.
    pub folder: PathBuf,
    /// The registry's host.
    pub registry: String,
    /// `dev` or `run`.
    pub program: Process,
    /// Beside `run`; ended with the test.
    servers: Option<(Cluster, Registry)>,
}

impl Drop for World {
    fn drop(&mut self) {
        // `dev` prints the password of its registry.
        if !thread::panicking() && self.servers.is_some() {
            tells_no_secret(&self.program.log());
        }
    }
}

fn program(folder: &Path) -> Process {
    Process::new(Path::new(env!("CARGO_BIN_EXE_solar-controller")), &folder.join("log"))
}

impl World {
    /// All in one process.
    fn dev(kubectl: &Path) -> Self {
        let folder = test_bed::folder("dev");
        let port = test_bed::free_port();
        let process = program(&folder).args([
            "dev".to_owned(),
            "--no-examples".to_owned(),
            "--api-address=127.0.0.1:0".to_owned(),
            format!("--registry-address=127.0.0.1:{port}"),
            format!("--data-dir={}", folder.join("data").display()),
        ]);
        process.start_until(|| process.log().contains("Ctrl-C ends it"));
        Self {
            kubectl: kubectl.to_owned(),
            kubeconfig: folder.join("data/kubeconfig"),
            folder,
            registry: format!("127.0.0.1:{port}"),
            program: process,
            servers: None,
        }
    }

    /// A process for each part; `run` has the permissions of deploy/base and no others.
    pub fn real(kubectl: &Path) -> Option<Self> {
        // It asks for a permission where an owner reference blocks a deletion.
        let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
        let cluster = Cluster::builder().flag(plugin).with_controllers().start()?;
        let registry = Registry::builder(Generation::Three).htpasswd(EXAMPLE_USERS).start()?;
        let folder = test_bed::folder("run");
        let own = folder.join("own.kubeconfig");
        let program = program(&folder).args([
            "run".to_owned(),
            format!("--kubeconfig={}", own.display()),
            "--health-bind-address=off".to_owned(),
            "--metrics-bind-address=off".to_owned(),
            // As in `dev`: nobody was here before.
            "--takeover-wait=0s".to_owned(),
        ]);
        // What is said of an event that was refused.
        let program = program.env("SOLAR_LOG", "warn,kube_client=error,solar_controller=debug");
        let kubeconfig = cluster.kubeconfig(ADMIN);
        let world = Self {
            kubectl: kubectl.to_owned(),
            kubeconfig: kubeconfig.clone(),
            folder,
            registry: registry.host(),
            program,
            servers: Some((cluster, registry)),
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for line in readme::commands("Run it") {
            world.succeeds(&line.command);
        }
        world.ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=2m"]);
        world.ok(&["apply", "-k", root.join("deploy/base").to_str().unwrap()]);

        let token = world.ok(&["create", "token", "solar-controller", "-n", "solar-system"]);
        let mut config: Value = serde_json::from_slice(&std::fs::read(kubeconfig).unwrap()).unwrap();
        config["users"][0]["user"] = json!({ "token": token.trim() });
        // Where its pod would be: there it may have a Lease.
        config["contexts"][0]["context"]["namespace"] = json!("solar-system");
        std::fs::write(own, config.to_string()).unwrap();
        world.program.start();
        Some(world)
    }

    /// Waits until the change of README.md has arrived.
    fn is_changed(&self) {
        wait_until("the change has arrived", || {
            let path = "jsonpath={.status.bootstrapVersion}";
            self.ok(&["get", "target", "lab", "-n", "fleet", "-o", path]) == "2"
        })
        .unwrap();
        self.settled();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.folder);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command prints that succeeds.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {error}\n{}", self.program.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// A line of README.md as a shell runs it in this repository, with this world's registry.
    fn line(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        let line = line.replace("127.0.0.1:5000", &self.registry);
        let programs = std::env::var_os("PATH").unwrap_or_default();
        let programs = std::env::split_paths(&programs).collect::<Vec<_>>();
        let folders = [self.kubectl.parent().unwrap().to_owned()].into_iter().chain(programs);
        command.args(["-c", &format!("exec {line}")]).current_dir(env!("CARGO_MANIFEST_DIR"));
        command.env("PATH", std::env::join_paths(folders).unwrap());
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.folder).stdin(Stdio::null());
        command
    }

    /// What a line of README.md says, which succeeds.
    fn succeeds(&self, line: &str) -> String {
        let output = self.line(line).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}\n{}", self.program.log());
        self.without_differences(&output)
    }

    /// Exit code and all that a command prints, without what differs between any two clusters.
    fn said(&self, arguments: &[&str]) -> String {
        self.without_differences(&self.run(arguments))
    }

    fn without_differences(&self, output: &Output) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&self.registry, "REGISTRY");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        format!("{:?}\n{}\n{}", output.status.code(), plain(&out), plain(&err))
    }

    /// Puts the descriptor of the examples into the registry.
    fn push_descriptor(&self) {
        rustls::crypto::ring::default_provider().install_default().ok();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pushed = async {
            let client = HttpRegistry::new(&HttpRegistryOptions::default(), Clock::machine()).unwrap();
            push_descriptor(&client, &self.registry).await
        };
        runtime.block_on(pushed).unwrap();
    }

    fn apply_examples(&self) -> String {
        let apply = |name| self.said(&["apply", "-f", self.example(name).to_str().unwrap()]);
        EXAMPLES.into_iter().map(apply).collect()
    }

    /// A file of `examples/` with this world's registry.
    pub fn example(&self, name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let file = self.folder.join(name);
        std::fs::write(&file, text.replace("127.0.0.1:5000", &self.registry)).unwrap();
        file
    }

    /// Waits until all Targets are ready with what they should have now, and the descriptor is found.
    fn settled(&self) {
        let every = |path: &str| -> Vec<String> {
            let path = format!("jsonpath={{range .items[*]}}{path}{{\"\\n\"}}{{end}}");
            let shown = self.ok(&["get", "targets", "-n", "fleet", "-o", &path]);
            shown.lines().map(str::to_owned).collect()
        };
        wait_until("all Targets are ready", || {
            let ready = every(
                "{.metadata.generation}={.status.conditions[?(@.type==\"Ready\")].observedGeneration} \
                 {.status.conditions[?(@.type==\"Ready\")].status}",
            );
            ready.len() == 4
                && ready.iter().all(|line| {
                    let (generations, status) = line.split_once(' ').unwrap();
                    let (wanted, seen) = generations.split_once('=').unwrap();
                    wanted == seen && status == "True"
                })
        })
        .unwrap_or_else(|late| panic!("{late}\n{:?}\n{}", every("{.status}"), self.program.log()));
        let reason = "jsonpath={.status.conditions[?(@.type==\"Available\")].reason}";
        let version = ["get", "componentversion", "described-1.0.0", "-n", "fleet", "-o", reason];
        wait_until("the descriptor is found", || self.ok(&version) == "DescriptorAvailable")
            .unwrap_or_else(|late| panic!("{late}\n{}", self.program.log()));
    }
}

/// Without times, ages, versions of objects, hashes in names, uids and widths of columns. Lines that follow each other and
/// had hashes are in the order of what is left; all others stay where they are.
fn plain(text: &str) -> String {
    let is_version = |line: &&str| line.contains("resourceVersion:") || line.contains("Resource Version:");
    let words = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = text.lines().filter(|line| !is_version(line)).map(words).collect();
    let has_hash = |line: &String| line.contains("HASH");
    lines.chunk_by_mut(|a, b| has_hash(a) && has_hash(b)).for_each(<[String]>::sort);
    lines.join("\n")
}

fn word(word: &str) -> String {
    let is_uid = word.len() == 36 && word.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let is_time = word.trim_matches('"').parse::<jiff::Timestamp>().is_ok();
    if is_uid || is_time {
        return "ANY".to_owned();
    }
    let is_age = word.len() < 8
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(['s', 'm'])
        && word.chars().all(|c| c.is_ascii_digit() || "ms".contains(c));
    if is_age {
        return "AGE".to_owned();
    }
    // A hash is eight hexadecimal digits or more between other characters.
    let mut shown = String::new();
    for part in word.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let (body, end) = match part.char_indices().next_back() {
            Some((at, last)) if !last.is_ascii_alphanumeric() => part.split_at(at),
            _ => (part, ""),
        };
        let is_hash = body.len() >= 8 && body.chars().all(|c| c.is_ascii_hexdigit());
        shown += if is_hash { "HASH" } else { body };
        shown += end;
    }
    shown
}

#[test]
fn hashes_and_ages_are_left_out_and_nothing_else() {
    assert_eq!(plain("b  2m10s\na   v0.0.1-0a1b2c3d 5s 10"), "b AGE\na v0.0.1-HASH AGE 10");
    assert_eq!(plain("c-0a1b2c3d z\nc-1a1b2c3d y\nb\na"), "c-HASH y\nc-HASH z\nb\na");
    assert_eq!(plain("render-rel-web-e3118c6a:True deadline"), "render-rel-web-HASH:True deadline");
}

/// What else than by the commands of README.md a user looks with.
fn looks() -> Vec<Vec<&'static str>> {
    let mut looks: Vec<Vec<&str>> = [
        "get releases -n fleet",
        "get targets -n fleet",
        "get all -n fleet",
        "get tgt,rel,rlb,prf,cv,comp,reg,rb,rg -A",
        "get target edge-1 -n fleet -o jsonpath={.spec}",
        "get releases -A --field-selector spec.componentVersionRef.name=web-1.0.0 -o name",
        "get targets -A -l stage=production -o name",
        "get target nobody -n fleet",
        "get rendertasks -n fleet -o custom-columns=KIND:.kind,NAME:.metadata.name,OWNER:.spec.ownerName,TYPE:.spec.type",
        "api-resources --api-group solar.opendefense.cloud",
        "describe target edge-1 -n fleet --show-events=false",
        "get release web-next -n fleet -o yaml",
        "explain target.spec",
        "explain release.spec.values",
        "wait --for=condition=Ready target --all -n fleet --timeout=1m",
        "auth can-i create targets -n fleet",
    ]
    .iter()
    .map(|line| line.split(' ').collect())
    .collect();
    // Deletions and refusals, all without effect.
    for line in [
        "delete target edge-1 -n fleet --dry-run=server",
        "patch release web-next -n fleet --type merge --dry-run=server -p {\"spec\":{\"priority\":\"high\"}}",
        "patch release web-next -n fleet --type merge -p {\"spec\":{\"uniqueName\":\"Not-A-Label\"}}",
        "label target edge-1 -n fleet a=!!",
    ] {
        looks.push(line.split(' ').collect());
    }
    looks
}

/// The first lines that a watch prints.
#[allow(clippy::disallowed_methods, reason = "a real process is read, with a deadline in real time")]
fn watched(world: &World, mut command: Command, lines: usize) -> String {
    let mut child = Guarded::spawn(command.stdout(Stdio::piped()));
    let output = BufReader::new(child.stdout().unwrap());
    let (tell, told) = mpsc::channel();
    // It ends when the child does.
    let reader = thread::spawn(move || {
        // Nobody listens any more where enough has been read.
        output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)).ok();
    });
    let deadline = Instant::now() + DEADLINE;
    let mut text = Vec::new();
    while text.len() < lines {
        match told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => text.push(line),
            Err(error) => {
                panic!("{} of {lines} lines, then {error}: {text:?}\n{}", text.len(), world.program.log())
            }
        }
    }
    drop(child);
    reader.join().unwrap();
    plain(&text.join("\n"))
}

#[test]
fn kubectl_says_the_same_of_dev_and_of_a_real_cluster() {
    let Some(kubectl) = test_bed::tool("kubectl") else { return };
    let Some(real) = World::real(&kubectl) else { return };
    let dev = World::dev(&kubectl);
    let both = [&dev, &real];
    assert!(test_bed::tool("curl").is_some(), "README.md has commands for it");

    both.into_iter().for_each(World::push_descriptor);
    let [applied, expected] = both.map(World::apply_examples);
    assert_eq!(applied, expected, "kubectl apply");
    assert_eq!(applied.matches(" created").count(), 26, "{applied}");
    both.into_iter().for_each(World::settled);

    let mut differences = Vec::new();
    let mut compare = |arguments: &[&str]| {
        let [dev, real] = both.map(|world| world.said(arguments));
        if dev != real {
            differences.push(format!("kubectl {}\ndev says {dev}\nreal says {real}", arguments.join(" ")));
        }
    };
    for arguments in looks() {
        compare(&arguments);
    }
    for line in readme::commands("Try it") {
        let command = &line.command;
        if !line.is_typed {
            let printed = command.replace("127.0.0.1:5000", &dev.registry);
            assert!(dev.program.log().contains(&printed), "dev does not print {printed}");
        }
        let [said, expected] = both.map(|world| match command.strip_suffix(" --watch") {
            Some(once) => {
                let now = world.line(once).output().unwrap();
                let lines = String::from_utf8(now.stdout).unwrap().lines().count();
                watched(world, world.line(command), lines)
            }
            None => world.succeeds(command),
        });
        assert_eq!(said, expected, "dev and real: {command}");
        if command.starts_with("curl ") {
            assert!(said.contains("fleet/bootstrap-edge-1"), "{command}: {said}");
        }
        if command.contains(" patch ") {
            both.into_iter().for_each(World::is_changed);
        }
        if !line.output.is_empty() {
            assert_eq!(said, format!("Some(0)\n{}\n", plain(&line.output)), "README.md shows: {command}");
        }
    }
    both.into_iter().for_each(renders_a_task_that_was_saved);
    compare(&["delete", "target", "lab", "-n", "fleet", "--timeout=2m"]);
    for world in both {
        wait_until("its charts are gone", || {
            let path = "jsonpath={.items[*].spec.repository}";
            !world.ok(&["get", "renderartifacts", "-n", "fleet", "-o", path]).contains("bootstrap-lab")
        })
        .unwrap();
    }
    for kind in ["rendertasks", "renderartifacts", "renderbindings", "targets"] {
        // What the Target shared with others goes at its own pace.
        let list = ["get", kind, "-n", "fleet", "-o", "name"];
        wait_until("as much is left", || dev.said(&list) == real.said(&list)).ok();
        compare(&list);
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    tells_by_events(&real);
    let log = real.program.log();
    assert!(!log.contains("orbidden"), "a permission is missing: {log}");
}

/// What kubectl saves of a task is a manifest for `render`.
fn renders_a_task_that_was_saved(world: &World) {
    let task = world.ok(&["get", "rendertask", "render-tgt-edge-1-1", "-n", "fleet", "-o", "yaml"]);
    let (saved, chart) = (world.folder.join("task.yaml"), world.folder.join("chart"));
    std::fs::write(&saved, task).unwrap();
    let mut render = Command::new(env!("CARGO_BIN_EXE_solar-controller"));
    let rendered = render.arg("render").arg(&saved).arg("-o").arg(&chart).output().unwrap();
    assert!(rendered.status.success(), "{rendered:?}");
    let entries = std::fs::read_to_string(chart.join("Chart.yaml")).unwrap();
    assert!(entries.contains(r#"name: "bootstrap-edge-1""#), "{entries}");
}

/// Each chart is told of by an event, and one that is made again with the same result by the same event.
fn tells_by_events(world: &World) {
    let events = || -> Vec<Value> {
        let list = world.ok(&["get", "events.events.k8s.io", "-n", "fleet", "-o", "json"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    let names = world.ok(&["get", "rendertasks", "-n", "fleet", "-o", "name"]);
    let tasks: BTreeSet<&str> = names.lines().map(|name| name.rsplit('/').next().unwrap()).collect();
    let told = |reached: &dyn Fn(&Value) -> bool| -> BTreeSet<String> {
        let succeeded =
            events().into_iter().filter(|event| event["reason"] == "JobSucceeded" && reached(event));
        succeeded.map(|event| event["regarding"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let until = |what: &str, level: &dyn Fn() -> bool| {
        let late = |late| panic!("{late}\n{:?}\n{}", events(), world.program.log());
        wait_until(what, level).unwrap_or_else(late);
    };
    until("every task is told of", &|| {
        let told = told(&|_| true);
        !tasks.is_empty() && tasks.iter().all(|task| told.contains(*task))
    });
    // Somebody takes away what the status of one says and asks for it again.
    let task = tasks.first().unwrap();
    let patch = ["--subresource=status", "--type=merge", "-p", r#"{"status":null}"#];
    world.ok(&[&["patch", "rendertask", task, "-n", "fleet"], &patch[..]].concat());
    world.ok(&[
        "annotate",
        "rendertask",
        task,
        "-n",
        "fleet",
        "solar.opendefense.cloud/render-request=again",
    ]);
    until("its event says that it happened twice", &|| {
        told(&|event| event["series"]["count"].as_u64() >= Some(2)) == BTreeSet::from([(*task).to_owned()])
    });
}
