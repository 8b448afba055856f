//! An OCI registry inside this process: for the `dev` command, for tests, for the simulation.
//!
//! One store, two fronts: [`serve`] speaks HTTP, [`RegistryHandle`] implements the controller's port
//! without sockets. Both bring every request, as an HTTP request, to the same function, so they
//! cannot drift apart. The store can behave like the registries that are out there ([`Behaviour`]),
//! ask for credentials ([`Access`]), fail on demand ([`Fault`]) and tell what it was asked.
//!
//! Content lives in memory and, if wanted, in a folder too ([`RegistryStore::open`]). It is bounded; what no
//! tag refers to is dropped when room is needed.

mod access;
mod answer;
mod behaviour;
mod content;
mod decide;
mod disk;
mod exchange;
mod fault;
mod front;
mod handle;
mod log;
mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::adapters::oci::{Digest, Reference, Timeouts};

pub use access::Access;
pub use behaviour::{Behaviour, DigestDelete, TagDelete};
pub use disk::RegistryStorageError;
pub use fault::{Fault, FaultHook, RequestInfo};
pub use front::serve;
pub use handle::RegistryHandle;
pub use log::{LogEntry, Presented};
pub use request::RegistryOperation;

use decide::Registry;
use exchange::LateRequest;
use log::RequestLog;

/// How much a registry holds by default, in bytes.
const DEFAULT_LIMIT: usize = 256 * 1024 * 1024;

/// The store, cheap to clone; all clones are one registry.
#[derive(Clone)]
pub struct RegistryStore {
    state: Arc<Mutex<State>>,
}

struct State {
    registry: Registry,
    log: RequestLog,
    arrived: BTreeMap<RegistryOperation, u64>,
    sequence: u64,
    connections: u64,
    fenced: BTreeSet<String>,
    late: Vec<LateRequest>,
    faults: Option<Box<FaultHook>>,
}

impl Default for RegistryStore {
    fn default() -> Self {
        Self::new(Behaviour::default(), Access::Open)
    }
}

impl RegistryStore {
    /// An empty registry that holds up to 256 MiB.
    pub fn new(behaviour: Behaviour, access: Access) -> Self {
        Self::with_limit(behaviour, access, DEFAULT_LIMIT)
    }

    /// An empty registry that holds up to `limit` bytes of blobs and manifests.
    pub fn with_limit(behaviour: Behaviour, access: Access, limit: usize) -> Self {
        let state = State {
            registry: Registry::new(behaviour, access, limit),
            log: RequestLog::default(),
            arrived: BTreeMap::new(),
            sequence: 0,
            connections: 0,
            fenced: BTreeSet::new(),
            late: Vec::new(),
            faults: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A registry of up to 256 MiB that keeps its content in a folder and goes on where the last one left
    /// off; answers the files in it that were being written when the last one was killed, which are
    /// removed.
    ///
    /// A write is in the folder before it is answered. When that fails, it and all later requests are
    /// answered with 500. The folder belongs to one registry at a time; the caller sees to that.
    ///
    /// # Errors
    /// When a file cannot be read or written, or is damaged: then it is named and left as it is.
    pub fn open(
        behaviour: Behaviour,
        access: Access,
        folder: &Path,
    ) -> Result<(Self, Vec<PathBuf>), RegistryStorageError> {
        let store = Self::new(behaviour, access);
        let torn = store.lock().registry.content.open(folder)?;
        Ok((store, torn))
    }

    /// Waits until content could not be kept in the folder, and tells why. A registry without a folder never gets there.
    pub async fn storage_failed(&self) -> String {
        let failed = self.lock().registry.content.failed();
        match failed {
            Some(failed) => failed.wait().await.clone(),
            None => std::future::pending().await,
        }
    }

    /// The port without sockets, for one actor, with the usual time limits. It serves every host
    /// name alike.
    pub fn handle(&self, actor: impl Into<String>) -> RegistryHandle {
        self.handle_with(actor, Timeouts::default())
    }

    /// The port without sockets, with time limits of its own.
    pub fn handle_with(&self, actor: impl Into<String>, timeouts: Timeouts) -> RegistryHandle {
        RegistryHandle::new(self.clone(), actor.into(), timeouts)
    }

    /// From now on ignores this actor: requests that arrive, that are under way and that would land
    /// later have no effect and no answer.
    pub fn fence(&self, actor: &str) {
        self.lock().fenced.insert(actor.to_owned());
    }

    /// Decides the faults of all further requests; replaces the earlier hook.
    pub fn set_faults(&self, hook: impl FnMut(&RequestInfo) -> Fault + Send + 'static) {
        self.lock().faults = Some(Box::new(hook));
    }

    /// No more faults.
    pub fn clear_faults(&self) {
        self.lock().faults = None;
    }

    /// Changes how the registry behaves from now on.
    pub fn set_behaviour(&self, behaviour: Behaviour) {
        self.lock().registry.behaviour = behaviour;
    }

    /// Changes who may do what from now on; tokens given out are void.
    pub fn set_access(&self, access: Access) {
        let mut state = self.lock();
        state.registry.access = access;
        state.registry.tokens.revoke_all();
    }

    /// Voids all tokens given out.
    pub fn revoke_tokens(&self) {
        self.lock().registry.tokens.revoke_all();
    }

    /// Performs all deletions that were accepted.
    pub fn settle(&self) {
        self.lock().registry.settle();
    }

    /// Takes a tag away from outside, as a person would.
    pub fn remove_tag(&self, repository: &str, tag: &str) {
        self.lock().registry.content.untag(repository, tag);
    }

    /// Lets a tag resolve to what another tag of the repository holds, as a person would. `false`
    /// when there is nothing to copy.
    pub fn copy_tag(&self, repository: &str, from: &str, to: &str) -> bool {
        let mut state = self.lock();
        let held = state.registry.content.repository(repository);
        let manifest =
            held.and_then(|held| held.resolve(&Reference::tag(from))).map(|(_, manifest)| manifest.clone());
        manifest.is_some_and(|manifest| {
            state.registry.content.put_manifest(repository, Some(to), manifest).is_ok()
        })
    }

    /// What a tag or digest resolves to.
    pub fn resolve(&self, repository: &str, reference: &Reference) -> Option<Digest> {
        let state = self.lock();
        let found = state.registry.content.repository(repository)?.resolve(reference);
        found.map(|(digest, _)| digest.clone())
    }

    /// The bytes of a manifest.
    pub fn manifest(&self, repository: &str, reference: &Reference) -> Option<Bytes> {
        let state = self.lock();
        let found = state.registry.content.repository(repository)?.resolve(reference);
        found.map(|(_, manifest)| manifest.bytes.clone())
    }

    /// All tags of all repositories, with what they resolve to.
    pub fn all_tags(&self) -> BTreeMap<(String, String), Digest> {
        let state = self.lock();
        let content = &state.registry.content;
        let repositories = content.names().filter_map(|name| Some((name, content.repository(name)?)));
        let tags = repositories.flat_map(|(name, held)| {
            held.tags.iter().map(move |(tag, digest)| ((name.clone(), tag.clone()), digest.clone()))
        });
        tags.collect()
    }

    /// The latest requests, oldest first.
    pub fn log(&self) -> Vec<LogEntry> {
        self.lock().log.entries()
    }

    /// How many requests there were by operation and answer (`None`: no answer).
    pub fn counts(&self) -> BTreeMap<(RegistryOperation, Option<u16>), u64> {
        self.lock().log.counts()
    }

    /// How many requests of one operation there were, however answered.
    pub fn count(&self, operation: RegistryOperation) -> u64 {
        self.lock()
            .log
            .counts()
            .iter()
            .filter(|((counted, _), _)| *counted == operation)
            .map(|(_, n)| n)
            .sum()
    }

    /// Forgets the log and its counts.
    pub fn clear_log(&self) {
        self.lock().log.clear();
    }

    /// How many connections the HTTP front has accepted.
    pub fn connections(&self) -> u64 {
        self.lock().connections
    }

    /// The state, with everything done that was due.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.land_due_requests();
        state
    }
}
