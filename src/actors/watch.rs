//! A watch: lists and watches one kind into the cache, and tells the concerned actors that something changed.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::fut::ActorFutureExt;
use actix::prelude::SendError;
use actix::{Actor, ActorContext, AsyncContext, Context, Handler, Recipient, WrapFuture};
use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event};
use solar_core::backoff;
use solar_core::object::{Meta, ObjectName};
use solar_core::routes::{Concerned, Routed};
use solar_core::target::EventOrder;
use tokio::time::Instant;

use super::supervision;
use super::system::Shared;
use crate::adapters::kubernetes::{Namespaced, Regarding, Seen, WatchBackoff, kind_name};
use crate::messages::object::Cause;
use crate::messages::root::{CriticalPartDied, KindSynced};
use crate::messages::watch::{StartWatching, StopWatching};

/// A watch loop that dies this often in a row ends the process: without it the controller is blind.
const RESTART_LIMIT: u32 = 5;
/// A loop that ran for so long does not die in a row with the one before.
const FORGIVEN_AFTER: Duration = Duration::from_secs(300);
/// Refusals in a row to watch from a version that the API server does not know yet, before everything is listed anew: one
/// of several servers may be behind the others for a moment.
const AHEAD_LIMIT: u32 = 3;
/// How soon the root is told again whose mailbox was full.
const ROOT_IS_FULL: Duration = Duration::from_millis(50);
/// First wait before a dead loop is started again.
const RESTART_BASE: Duration = Duration::from_secs(1);
/// Longest wait before a dead loop is started again: that of the last restart that the limit allows.
const RESTART_CAP: Duration = Duration::from_secs(16);

/// The namespaces that a watch follows, each by a stream of its own; one `None` stands for all of them.
struct Scopes {
    all: Vec<Option<Arc<str>>>,
    unlisted: Mutex<BTreeSet<Option<Arc<str>>>>,
}

impl Scopes {
    fn new(watched: Option<&[Arc<str>]>) -> Self {
        let all: Vec<_> = watched.map_or(vec![None], |some| some.iter().cloned().map(Some).collect());
        Self { unlisted: Mutex::new(all.iter().cloned().collect()), all }
    }

    /// Notes that `scope` is listed; answers whether all are.
    fn listed(&self, scope: Option<&Arc<str>>) -> bool {
        let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        unlisted.retain(|other| other.as_ref() != scope);
        unlisted.is_empty()
    }
}

/// Watches objects `K` into records `R`.
pub struct Watch<K, R> {
    shared: Arc<Shared>,
    root: Recipient<KindSynced>,
    restarts: u32,
    scopes: Arc<Scopes>,
    of: PhantomData<fn(K) -> R>,
}

impl<K, R> Watch<K, R>
where
    K: Namespaced,
    R: Routed + for<'a> From<&'a K>,
{
    /// A watch that tells `root` when its kind is listed.
    pub fn new(shared: Arc<Shared>, root: Recipient<KindSynced>) -> Self {
        let scopes = Arc::new(Scopes::new(shared.options.target.watched.as_deref()));
        Self { shared, root, restarts: 0, scopes, of: PhantomData }
    }

    fn run(&mut self, ctx: &mut Context<Self>, scope: Option<Arc<str>>) {
        let label = of_scope::<K>(scope.as_deref());
        let began = Instant::now();
        let stream = Stream {
            shared: self.shared.clone(),
            root: self.root.clone(),
            scopes: self.scopes.clone(),
            scope: scope.clone(),
        };
        let task = self.shared.spawner.spawn_pass(&label, stream.follow::<K, R>());
        ctx.spawn(task.into_actor(self).map(move |ended, watch, ctx| {
            let reason = ended.err().map_or_else(|| "ended".to_owned(), |died| died.to_string());
            if began.elapsed() > FORGIVEN_AFTER {
                watch.restarts = 0;
            }
            watch.guarded(ctx, "the end of its loop", |watch, ctx| watch.ended(ctx, scope, reason));
        }));
    }

    fn ended(&mut self, ctx: &mut Context<Self>, scope: Option<Arc<str>>, reason: String) {
        let part = format!("the {}", of_scope::<K>(scope.as_deref()));
        tracing::error!(part, reason, "a watch loop is started again");
        metrics::counter!("solar_watch_restarts_total", "kind" => kind_name::<K>()).increment(1);
        self.restarts += 1;
        if self.restarts > RESTART_LIMIT {
            self.shared.tell_of_death(CriticalPartDied { part, reason });
            return;
        }
        let wait = backoff::delay(self.restarts - 1, RESTART_BASE, RESTART_CAP, 0.5);
        ctx.run_later(wait, |watch, ctx| {
            watch.guarded(ctx, "a new loop", |watch, ctx| watch.run(ctx, scope));
        });
    }

    fn guarded(
        &mut self,
        ctx: &mut Context<Self>,
        message: &str,
        handle: impl FnOnce(&mut Self, &mut Context<Self>),
    ) {
        let shared = self.shared.clone();
        supervision::guard_critical(&shared, "a watch", message, self, ctx, handle);
    }
}

impl<K, R> Actor for Watch<K, R>
where
    K: Namespaced,
    R: Routed + for<'a> From<&'a K>,
{
    type Context = Context<Self>;
}

impl<K, R> Handler<StartWatching> for Watch<K, R>
where
    K: Namespaced,
    R: Routed + for<'a> From<&'a K>,
{
    type Result = ();

    fn handle(&mut self, _: StartWatching, ctx: &mut Context<Self>) {
        self.guarded(ctx, "its start", |watch, ctx| {
            for scope in watch.scopes.all.clone() {
                watch.run(ctx, scope);
            }
        });
    }
}

impl<K, R> Handler<StopWatching> for Watch<K, R>
where
    K: Namespaced,
    R: Routed + for<'a> From<&'a K>,
{
    type Result = ();

    fn handle(&mut self, _: StopWatching, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

/// Those whom the objects of a list concern. They are woken however the list ends: the next one tells nothing new of what
/// is in the cache already.
struct Unwoken<'a> {
    shared: &'a Arc<Shared>,
    keys: Concerned,
}

impl Unwoken<'_> {
    fn wake(&mut self) {
        self.shared.wake_all(&std::mem::take(&mut self.keys), Cause::Change);
    }
}

impl Drop for Unwoken<'_> {
    fn drop(&mut self) {
        self.wake();
    }
}

/// One stream of events: a kind in one namespace, or in all.
struct Stream {
    shared: Arc<Shared>,
    root: Recipient<KindSynced>,
    scopes: Arc<Scopes>,
    scope: Option<Arc<str>>,
}

impl Stream {
    /// Follows the stream for ever. Nothing in it waits for an actor: a slow consumer would let the list's token expire.
    async fn follow<K, R>(self)
    where
        K: Namespaced,
        R: Routed + for<'a> From<&'a K>,
    {
        let kind = kind_name::<K>();
        let shared = &self.shared;
        let api = match self.scope.as_deref() {
            None => kube::Api::<Seen<K, R>>::all(shared.api.client()),
            Some(namespace) => kube::Api::namespaced(shared.api.client(), namespace),
        };
        // The watcher begins every list with an event, also one that fails: only what was heard ends the waits.
        let mut backoff = WatchBackoff::new(shared.rng(&self.rng_name(kind)));
        let watch = || watcher::watcher(api.clone(), watcher::Config::default().page_size(500));
        let mut events = pin!(watch());
        let mut ahead = 0;
        let mut listed: Option<BTreeSet<ObjectName>> = None;
        let mut refused = false;
        // Those whom a list concerns are woken at its end: what is kept for long and what an awake actor needs do not lie
        // among each other in memory then, and what the actors leave can be given back when they rest.
        let mut concerned = Unwoken { shared, keys: Concerned::new() };
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed = Some(BTreeSet::new()),
                Ok(Event::InitApply(object)) => {
                    let name = object.name();
                    concerned.keys.extend(self.take_in(object, false));
                    if let Some(listed) = &mut listed {
                        // The record's own, where there is one: of a long list every name would be there twice.
                        let record = R::table(&shared.cache.read()).get(&name).cloned();
                        listed.insert(record.map_or(name, |record| record.meta().name.clone()));
                    }
                }
                Ok(Event::InitDone) => {
                    refused = false;
                    backoff.reset();
                    if let Some(listed) = listed.take() {
                        concerned.keys.extend(shared.cache.sweep::<R>(self.scope.as_deref(), &listed));
                    }
                    concerned.wake();
                    if self.scopes.listed(self.scope.as_ref()) && !tell_root(&self.root, kind).await {
                        return;
                    }
                }
                Ok(Event::Apply(object)) => {
                    backoff.reset();
                    shared.wake_all(&self.take_in(object, true), Cause::Change);
                }
                Ok(Event::Delete(object)) => {
                    backoff.reset();
                    shared.wake_all(&shared.cache.remove::<R>(&object.name()), Cause::Change);
                }
                Err(error) => {
                    concerned.wake();
                    self.interrupted::<K>(&error, &mut refused);
                    ahead = if is_ahead(&error) { ahead + 1 } else { 0 };
                    if ahead == AHEAD_LIMIT {
                        // kube would ask for the same version for ever, and what it then showed would have a gap.
                        let watch_of = of_scope::<K>(self.scope.as_deref());
                        tracing::warn!(
                            watch = watch_of,
                            "the API server knows only an earlier state than was watched, as after a restore from a backup: \
                             everything is listed anew"
                        );
                        events.set(watch());
                        ahead = 0;
                    }
                    tokio::time::sleep(backoff.wait()).await;
                }
            }
        }
    }

    /// Keeps what the object says, and answers whom it concerns. One that cannot be read is left out, as it was known
    /// before, and named.
    fn take_in<K, R>(&self, object: Seen<K, R>, live: bool) -> Concerned
    where
        K: Namespaced,
        R: Routed + for<'a> From<&'a K>,
    {
        let kind = kind_name::<K>();
        match object.record {
            Ok(record) => {
                // What is seen while another process leads was seen by that one.
                let leads = self.shared.leads();
                let (concerned, keeper) = self.shared.cache.apply(record, live && leads);
                if let Some(keeper) = keeper.filter(|keeper| leads && !concerned.contains(keeper)) {
                    let version = object.meta.resource_version.as_deref().unwrap_or_default();
                    self.shared.tell_of_status(&keeper, version);
                }
                concerned
            }
            Err(error) => {
                metrics::counter!("solar_unreadable_objects_total", "kind" => kind).increment(1);
                let meta = Meta::of(&object.meta);
                let name = &meta.name;
                tracing::warn!(kind, %name, %error, "an object cannot be read and is left out: correct or delete it");
                let note =
                    format!("this object cannot be read and is left out: {error}: correct or delete it");
                let order = EventOrder { warning: true, reason: "Unreadable", note };
                self.shared.events.emit(Regarding::new(kind, &meta), order);
                Concerned::new()
            }
        }
    }

    /// The name of this stream's generator.
    fn rng_name(&self, kind: &str) -> String {
        self.scope.as_ref().map_or_else(|| format!("watch {kind}"), |scope| format!("watch {kind} {scope}"))
    }

    /// Counts an interruption. A list that is refused is said aloud, once until the next one succeeds; a watch that
    /// breaks is an everyday thing.
    fn interrupted<K: Namespaced>(&self, error: &watcher::Error, refused: &mut bool) {
        let kind = kind_name::<K>();
        metrics::counter!("solar_watch_errors_total", "kind" => kind).increment(1);
        let text = describe(error);
        let watch = of_scope::<K>(self.scope.as_deref());
        match error {
            watcher::Error::InitialListFailed(error) if !std::mem::replace(refused, true) => {
                // A group without any definition is answered 404 in plain text, which names no reason.
                let missing = matches!(error, kube::Error::Api(status) if status.code == 404);
                let mend = if missing { "install the definitions of crds/; " } else { "" };
                tracing::warn!(watch, error = text, "objects cannot be listed; {mend}it is tried again");
            }
            _ => tracing::debug!(watch, error = text, "a watch was interrupted and goes on"),
        }
    }
}

/// Tells the root that a kind is listed; `false`: it has ended.
async fn tell_root(root: &Recipient<KindSynced>, kind: &'static str) -> bool {
    loop {
        match root.try_send(KindSynced { kind }) {
            Ok(()) => return true,
            Err(SendError::Closed(_)) => return false,
            Err(SendError::Full(_)) => tokio::time::sleep(ROOT_IS_FULL).await,
        }
    }
}

/// Whether the API server says that it does not know the version yet from which it is to watch.
fn is_ahead(error: &watcher::Error) -> bool {
    let (watcher::Error::WatchStartFailed(kube::Error::Api(status)) | watcher::Error::WatchError(status)) =
        error
    else {
        return false;
    };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "ResourceVersionTooLarge")
        || status.message.contains("Too large resource version")
}

fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error} ({source})"))
}

fn of_scope<K: Namespaced>(namespace: Option<&str>) -> String {
    let kind = kind_name::<K>();
    namespace
        .map_or_else(|| format!("watch of {kind}"), |namespace| format!("watch of {kind} in {namespace}"))
}
