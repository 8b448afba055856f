//! The server: what a program holds of it.

use std::{
    collections::VecDeque,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::channel::oneshot;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::SetOnce;

use crate::{
    clock::{Clock, SystemClock},
    disk::{self, Journal, StorageError, Torn},
    faults::{FaultPlan, FaultRule},
    http::{Held, service::EmbeddedService},
    log::{RequestLog, RequestRecord},
    meta::Json,
    ops::{Failure, Outcome, Target, WriteOptions, create, update},
    request::{RequestInfo, Verb},
    resource::{Builtin, Resource},
    status::ApiError,
    store::{
        State,
        object::{Key, Object},
        table::Cut,
    },
};

/// An in-memory Kubernetes API server.
///
/// It is a value: no thread, no task, no socket until [`Server::serve`]. Clones are cheap and share everything. When the
/// last clone, client and watch is gone, so is the server.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("revision", &self.inner.with(|s| s.revision)).finish_non_exhaustive()
    }
}

/// Settings of a [`Server`].
pub struct Builder {
    clock: Arc<dyn Clock>,
    seed: u64,
    faults: FaultPlan,
    log_capacity: usize,
    watch_window: usize,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("seed", &self.seed)
            .field("watch_window", &self.watch_window)
            .finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            seed: 0,
            faults: FaultPlan::new(),
            log_capacity: 10_000,
            watch_window: 4_096,
        }
    }
}

impl Builder {
    /// Where the time of day comes from; the machine's clock unless set.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The seed of uids and generated names; 0 unless set. Equal seeds and equal requests give equal answers.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What goes wrong on purpose; nothing unless set.
    pub fn faults(mut self, faults: FaultPlan) -> Self {
        self.faults = faults;
        self
    }

    /// How many requests the log keeps; 10,000 unless set. Counters are kept for all.
    pub fn request_log_capacity(mut self, requests: usize) -> Self {
        self.log_capacity = requests;
        self
    }

    /// How many changes per kind a watch or a paged list can look back to; 4,096 unless set, and fewer of large objects
    /// (64 MiB per kind). What is older is answered with 410.
    pub fn watch_window(mut self, changes: usize) -> Self {
        self.watch_window = changes.max(1);
        self
    }

    /// Makes the server, with the namespaces `default` and `kube-system` in it.
    pub fn build(self) -> Server {
        let state = State::new(self.seed, self.watch_window);
        let server = self.around(state);
        for name in ["default", "kube-system"] {
            let namespace = serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            });
            // A fresh server refuses no namespace; if it did, the first request would say so.
            let _ = server.install(namespace);
        }
        server
    }

    /// Makes a server that keeps its objects in the file `path` and goes on where the last one left off.
    ///
    /// A write is in the file before it is answered, so that a process that is killed at any moment loses at most writes
    /// that were not answered (a machine that loses power may lose more: nothing waits for the disk). Resource versions go
    /// on, and no uid comes twice, whatever the seed. Watches and pages from before the restart are answered with 410. When
    /// a write to the file fails, that request and all later ones are answered with 500 and watches break. The file is
    /// written anew here, and when most of it is history.
    ///
    /// The file belongs to one server at a time; the caller sees to that.
    ///
    /// # Errors
    /// When the file cannot be read or written, or when it is damaged: then it is left as it is. An incomplete record at
    /// its end is no error but [`Opened::torn`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Opened, StorageError> {
        let path = path.as_ref();
        let unfinished = Some(disk::unfinished(path)).filter(|new| new.exists());
        let (server, fresh, torn) = match disk::load(path, self.seed, self.watch_window)? {
            Some(loaded) => (self.around(loaded.state), false, loaded.torn),
            None => (self.build(), true, None),
        };
        server.inner.with(|state| {
            state.journal = Some(Journal::start(path, state)?);
            Ok(())
        })?;
        Ok(Opened { server, fresh, torn, unfinished })
    }

    fn around(self, state: State) -> Server {
        Server {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                clock: self.clock,
                faults: Mutex::new(self.faults),
                log: Mutex::new(RequestLog::new(self.log_capacity)),
                held: Mutex::new(VecDeque::new()),
                storage_failure: SetOnce::new(),
            }),
        }
    }
}

/// A server that keeps its objects on disk.
#[derive(Debug)]
pub struct Opened {
    /// The server.
    pub server: Server,
    /// Whether there was no file before.
    pub fresh: bool,
    /// What was cut off the end of the file. It should be told to whoever starts the server.
    pub torn: Option<Torn>,
    /// A file that was to take the place of the log when the process was killed, and that was removed. All that was in it
    /// is in the log, unless that was taken away.
    pub unfinished: Option<PathBuf>,
}

/// Why [`Server::install`] refused an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct InstallError {
    /// HTTP code that a request would have got.
    pub code: u16,
    /// `reason` of the `Status`.
    pub reason: String,
    /// `message` of the `Status`.
    pub message: String,
}

impl From<ApiError> for InstallError {
    fn from(error: ApiError) -> Self {
        Self { code: error.code, reason: error.reason, message: error.message }
    }
}

impl Server {
    /// Settings for a new server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client of the actor `client`. Needs an ambient tokio runtime: the client starts a worker there and ends with it.
    pub fn client(&self, default_namespace: &str) -> kube::Client {
        self.client_for("client", default_namespace)
    }

    /// A client whose requests carry the name of an actor, by which faults, log and fences tell them apart.
    pub fn client_for(&self, actor: &str, default_namespace: &str) -> kube::Client {
        kube::Client::new(self.service_for(actor), default_namespace)
    }

    /// The server as a [`tower::Service`], for a client with layers of its own.
    pub fn service(&self) -> EmbeddedService {
        self.service_for("client")
    }

    /// As [`Self::service`], with the name of an actor.
    pub fn service_for(&self, actor: &str) -> EmbeddedService {
        EmbeddedService::new(self.clone(), actor)
    }

    /// Serves HTTP/1.1 on a listener until `shutdown` is ready; then open connections are dropped and the port is free.
    ///
    /// Requests over HTTP come from the actor `http`, or from the one that an `x-actor` header names. The future starts
    /// tasks for its connections, which end with it, and carries requests out on tokio's threads for what blocks, so that
    /// one that computes for long holds no other up. When the process has no file left for a connection it tries again.
    ///
    /// # Errors
    /// None at present.
    pub async fn serve(
        &self,
        listener: tokio::net::TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> std::io::Result<()> {
        crate::http::serve::serve(self.clone(), listener, shutdown).await
    }

    /// A kubeconfig for a server that is served at `url`, such as `http://127.0.0.1:7443`.
    pub fn kubeconfig(&self, url: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: embedded\nclusters:\n- name: embedded\n  cluster:\n    \
             server: {}\ncontexts:\n- name: embedded\n  context:\n    cluster: embedded\n    namespace: default\n    \
             user: embedded\nusers:\n- name: embedded\n  user: {{}}\n",
            Value::from(url)
        )
    }

    /// Puts another plan of faults in force.
    pub fn set_faults(&self, faults: FaultPlan) {
        *lock(&self.inner.faults) = faults;
    }

    /// Adds a rule behind those that are in force.
    pub fn add_fault(&self, rule: FaultRule) {
        lock(&self.inner.faults).push(rule);
    }

    /// Refuses every request of an actor from now on: on arrival, before it changes anything, and before its answer. Its
    /// watches break.
    pub fn fence(&self, actor: &str) {
        self.inner.with(|state| {
            state.fenced.insert(actor.into());
            state.cut(Cut::Broken, &|info| *info.actor == *actor);
        });
    }

    /// Breaks the open watches that a predicate picks; answers how many there were.
    pub fn cut_watches(&self, pick: impl Fn(&RequestInfo) -> bool) -> usize {
        self.inner.with(|state| state.cut(Cut::Broken, &pick))
    }

    /// Ends the open watches that a predicate picks with an error event 410; answers how many there were.
    pub fn expire_watches(&self, pick: impl Fn(&RequestInfo) -> bool) -> usize {
        self.inner.with(|state| state.cut(Cut::Gone, &pick))
    }

    /// Forgets the history up to now: older resource versions and continue tokens are answered with 410.
    pub fn compact(&self) {
        self.inner.with(|state| {
            let revision = state.revision;
            state.tables.values_mut().for_each(|t| t.compact(revision));
        });
    }

    /// Carries out the oldest request that [`Fault::Hold`](crate::Fault::Hold) took in; `false` when there is none. Its
    /// client gets the answer if it still waits.
    pub fn release_held(&self) -> bool {
        let held = lock(&self.inner.held).pop_front();
        match held {
            Some(held) => {
                held.release(self);
                true
            }
            None => false,
        }
    }

    /// The number of requests that wait to be released.
    pub fn held(&self) -> usize {
        lock(&self.inner.held).len()
    }

    /// The last requests, oldest first, in order of arrival.
    pub fn requests(&self) -> Vec<RequestRecord> {
        lock(&self.inner.log).records()
    }

    /// How many requests of a verb came for a resource (plural name; empty: paths that are no resource, and resources that
    /// were not served).
    pub fn count_requests(&self, verb: Verb, resource: &str) -> u64 {
        lock(&self.inner.log).count(verb, resource)
    }

    /// How many requests came at all.
    pub fn request_count(&self) -> u64 {
        lock(&self.inner.log).total()
    }

    /// Empties the log and sets its counters to 0.
    pub fn reset_requests(&self) {
        lock(&self.inner.log).reset();
    }

    /// Waits until a change could not be kept on disk, and tells why. From then on every request is answered with 500. A
    /// server without a file never gets there.
    pub async fn storage_failed(&self) -> String {
        self.inner.storage_failure.wait().await.clone()
    }

    /// The last resource version that was given out.
    pub fn resource_version(&self) -> u64 {
        self.inner.with(|state| state.revision)
    }

    /// Installs a CRD, as a create or, when it is there, a replacement of its spec.
    pub fn apply_crd(&self, crd: impl serde::Serialize) -> Result<(), InstallError> {
        let crd = serde_json::to_value(crd).map_err(|e| ApiError::bad_request(e.to_string()))?;
        self.install(crd)
    }

    /// Creates an object without a request: no fault, no log. One that is there is replaced, its status too.
    pub fn install(&self, object: impl Into<Value>) -> Result<(), InstallError> {
        let Value::Object(object) = object.into() else {
            return Err(ApiError::bad_request("not an object").into());
        };
        self.put_in_place(object)?;
        match self.inner.storage_failure() {
            Some(why) => Err(ApiError::new(500, "InternalError", why).into()),
            None => Ok(()),
        }
    }

    fn put_in_place(&self, object: Json) -> Result<(), InstallError> {
        let target = self.inner.target_of(&object)?;
        let status = object.get("status").cloned();
        match create::create(&self.inner, &target, object.clone(), &WriteOptions::default()) {
            Err(Failure::Api(error)) if error.reason == "AlreadyExists" => {
                self.replace(&target, object)?;
            }
            Err(failure) => return Err(refusal(failure)),
            Ok(_) => {}
        }
        match status {
            Some(status) if target.has_status() && target.resource.builtin.is_none() => {
                let target = Target { status: true, ..target };
                let make = |mut old: Json| {
                    old.insert("status".into(), status.clone());
                    Ok(old)
                };
                done(update::update(&self.inner, &target, &WriteOptions::default(), false, &make))
            }
            _ => Ok(()),
        }
    }

    fn replace(&self, target: &Target, object: Json) -> Result<(), InstallError> {
        let make = |old: Json| {
            let mut new = object.clone();
            let version = crate::meta::text(&old, "resourceVersion").to_owned();
            let finalizers = crate::meta::metadata(&old).and_then(|m| m.get("finalizers")).cloned();
            let meta = crate::meta::metadata_mut(&mut new);
            meta.insert("resourceVersion".into(), version.into());
            // A definition is written without the finalizer that the server gave it, which stays all the same.
            if let (Some(Builtin::Crd), Some(finalizers)) = (target.resource.builtin, finalizers) {
                meta.entry("finalizers").or_insert(finalizers);
            }
            Ok(new)
        };
        done(update::update(&self.inner, target, &WriteOptions::default(), true, &make))
    }

    /// One stored object in its storage version; `namespace` is empty for cluster-wide kinds.
    ///
    /// `kind` is a kind or plural name, such as `Widget` or `widgets`. Where several groups have it, the group belongs
    /// behind it: `Widget.example.com`; without one the first group in alphabetical order is meant. The same holds for
    /// [`Self::objects`] and [`Self::count`].
    pub fn get_object(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = Key::new(namespace, name);
        let object = self.inner.with(|state| {
            let resource = find(state, kind)?;
            state.get(resource.table, &key).cloned()
        })?;
        Some(Value::Object(object.parse()))
    }

    /// The stored objects of a kind (or plural name), by namespace and name.
    pub fn objects(&self, kind: &str) -> impl Iterator<Item = Value> + use<> {
        let objects: Vec<Arc<Object>> = self.inner.with(|state| {
            let table = find(state, kind).and_then(|r| state.tables.get(&r.table));
            table.into_iter().flat_map(|t| t.iter().cloned()).collect()
        });
        objects.into_iter().map(|o| Value::Object(o.parse()))
    }

    /// Everything that is stored, by group, plural, namespace and name.
    pub fn snapshot(&self) -> Vec<Value> {
        let objects: Vec<Arc<Object>> = self.inner.with(|state| {
            let mut tables: Vec<_> = state.tables.values().collect();
            tables.sort_by_key(|t| (t.resource.group.clone(), t.resource.plural.clone()));
            tables.iter().flat_map(|t| t.iter().cloned()).collect()
        });
        objects.iter().map(|o| Value::Object(o.parse())).collect()
    }

    /// The number of stored objects of a kind (or plural name).
    pub fn count(&self, kind: &str) -> usize {
        self.inner.with(|state| {
            find(state, kind)
                .and_then(|r| state.tables.get(&r.table))
                .map_or(0, crate::store::table::Table::len)
        })
    }
}

/// The resource of a kind or plural name, with or without its group behind a dot.
fn find(state: &State, kind: &str) -> Option<Arc<Resource>> {
    let is = |resource: &&Arc<Resource>| {
        [&resource.kind, &resource.plural].into_iter().any(|name| {
            let group = kind.strip_prefix(&**name);
            group.is_some_and(|group| group.is_empty() || group.strip_prefix('.') == Some(&*resource.group))
        })
    };
    state.registry.iter().find(is).cloned()
}

fn refusal(failure: Failure) -> InstallError {
    match failure {
        Failure::Api(error) => (*error).into(),
        Failure::Fenced => ApiError::new(403, "Forbidden", "the actor is fenced").into(),
    }
}

fn done(result: Result<Outcome, Failure>) -> Result<(), InstallError> {
    result.map(drop).map_err(refusal)
}

/// Locks, also after a panic elsewhere: what is behind these locks is whole after every statement that can panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all clones share.
pub(crate) struct Inner {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    pub faults: Mutex<FaultPlan>,
    pub log: Mutex<RequestLog>,
    pub held: Mutex<VecDeque<Held>>,
    storage_failure: SetOnce<String>,
}

/// The channel on which a held request gets its answer.
pub(crate) type Reply = oneshot::Sender<crate::http::Answer>;

impl Inner {
    /// Runs `f` on the state, keeps what it changed, then wakes the watches that it concerns.
    pub fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = lock(&self.state);
        let result = f(&mut state);
        if let Err(error) = state.keep() {
            // Only the first one can come: nothing is kept after it.
            let _ = self.storage_failure.set(format!("cannot keep changes on disk: {error}"));
            state.cut(Cut::Broken, &|_| true);
        }
        let wakers = state.take_wakers();
        drop(state);
        for waker in wakers {
            waker.wake();
        }
        result
    }

    /// Why nothing can be kept on disk any more, if so.
    pub fn storage_failure(&self) -> Option<&str> {
        self.storage_failure.get().map(String::as_str)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Where an object belongs, by its own words.
    fn target_of(&self, object: &Json) -> Result<Target, ApiError> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = match text("apiVersion").rsplit_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text("apiVersion")),
        };
        let kind = text("kind");
        let resource = self.with(|state| state.registry.by_kind(group, kind).cloned()).ok_or_else(|| {
            ApiError::new(
                404,
                "NotFound",
                format!("no matches for kind \"{kind}\" in version \"{}\"", text("apiVersion")),
            )
        })?;
        let version = resource.version_index(version).ok_or_else(ApiError::unknown_path)?;
        let namespace = match crate::meta::text(object, "namespace") {
            _ if !resource.namespaced => "",
            "" => "default",
            named => named,
        };
        let info = RequestInfo {
            number: 0,
            actor: "install".into(),
            verb: Verb::Create,
            group: resource.group.clone(),
            version: resource.versions.get(version).map_or_else(|| "".into(), |v| v.name.clone()),
            resource: resource.plural.clone(),
            kind: resource.kind.clone(),
            subresource: "".into(),
            namespace: namespace.into(),
            name: crate::meta::text(object, "name").into(),
            field_selector: "".into(),
            path: "".into(),
        };
        Ok(Target {
            namespace: namespace.into(),
            name: info.name.clone(),
            version,
            status: false,
            info: Arc::new(info),
            resource,
        })
    }

    /// Whether requests of an actor are refused.
    pub fn is_fenced(&self, actor: &str) -> bool {
        self.with(|state| state.fenced.contains(actor))
    }
}
