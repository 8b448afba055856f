//! A watch: lists and watches one kind into the cache, and tells the concerned actors that something changed.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use actix::fut::ActorFutureExt;
use actix::{Actor, ActorContext, AsyncContext, Context, Handler, Recipient, WrapFuture};
use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use solar_core::backoff;
use solar_core::object::ObjectName;
use solar_core::routes::Routed;
use tokio::time::Instant;

use super::supervision;
use super::system::Shared;
use crate::adapters::kubernetes::{Namespaced, WatchBackoff};
use crate::messages::object::Cause;
use crate::messages::root::{CriticalPartDied, KindSynced};
use crate::messages::watch::{StartWatching, StopWatching};

/// A watch loop that dies this often in a row ends the process: without it the controller is blind.
const RESTART_LIMIT: u32 = 5;
/// A loop that ran for so long does not die in a row with the one before.
const FORGIVEN_AFTER: Duration = Duration::from_secs(300);
/// First wait before a dead loop is started again.
const RESTART_BASE: Duration = Duration::from_secs(1);
/// Longest wait before a dead loop is started again.
const RESTART_CAP: Duration = Duration::from_secs(30);

/// Watches objects `K` into records `R`.
pub struct Watch<K, R> {
    shared: Arc<Shared>,
    root: Recipient<KindSynced>,
    restarts: u32,
    of: PhantomData<fn(K) -> R>,
}

impl<K, R> Watch<K, R>
where
    K: Namespaced,
    R: Routed + for<'a> From<&'a K>,
{
    /// A watch that tells `root` when its kind is listed.
    pub fn new(shared: Arc<Shared>, root: Recipient<KindSynced>) -> Self {
        Self { shared, root, restarts: 0, of: PhantomData }
    }

    fn run(&mut self, ctx: &mut Context<Self>) {
        let label = format!("watch of {}", kind_of::<K>());
        let began = Instant::now();
        let task =
            self.shared.spawner.spawn_pass(label, follow::<K, R>(self.shared.clone(), self.root.clone()));
        ctx.spawn(task.into_actor(self).map(move |ended, watch, ctx| {
            let reason = ended.err().map_or_else(|| "ended".to_owned(), |died| died.to_string());
            if began.elapsed() > FORGIVEN_AFTER {
                watch.restarts = 0;
            }
            watch.guarded(ctx, "the end of its loop", |watch, ctx| watch.ended(ctx, reason));
        }));
    }

    fn ended(&mut self, ctx: &mut Context<Self>, reason: String) {
        let part = format!("the watch of {}", kind_of::<K>());
        tracing::error!(part, reason, "a watch loop is started again");
        metrics::counter!("solar_watch_restarts_total", "kind" => kind_of::<K>()).increment(1);
        self.restarts += 1;
        if self.restarts > RESTART_LIMIT {
            self.shared.tell_of_death(CriticalPartDied { part, reason });
            return;
        }
        let wait = backoff::delay(self.restarts - 1, RESTART_BASE, RESTART_CAP, 0.5);
        ctx.run_later(wait, |watch, ctx| watch.guarded(ctx, "a new loop", Self::run));
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
        self.guarded(ctx, "its start", Self::run);
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

/// Follows one kind for ever. Nothing in it waits for an actor: a slow consumer would let the list's token expire.
async fn follow<K, R>(shared: Arc<Shared>, root: Recipient<KindSynced>)
where
    K: Namespaced,
    R: Routed + for<'a> From<&'a K>,
{
    let kind = kind_of::<K>();
    let api = kube::Api::<K>::all(shared.api.client());
    let backoff = WatchBackoff::new(shared.rng(&format!("watch {kind}")));
    let mut events = pin!(watcher::watcher(api, watcher::Config::default().page_size(500)).backoff(backoff));
    let mut listed: Option<BTreeSet<ObjectName>> = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed = Some(BTreeSet::new()),
            Ok(Event::InitApply(object)) => {
                let record = R::from(&object);
                if let Some(listed) = &mut listed {
                    listed.insert(record.meta().name.clone());
                }
                shared.wake_all(&shared.cache.apply(record, false), Cause::Change);
            }
            Ok(Event::InitDone) => {
                if let Some(listed) = listed.take() {
                    shared.wake_all(&shared.cache.sweep::<R>(&listed), Cause::Change);
                }
                // The root holds mail for every kind; a full box would mean that it has ended.
                if root.send(KindSynced { kind }).await.is_err() {
                    return;
                }
            }
            Ok(Event::Apply(object)) => {
                shared.wake_all(&shared.cache.apply(R::from(&object), true), Cause::Change);
            }
            Ok(Event::Delete(object)) => {
                let name = R::from(&object).meta().name.clone();
                shared.wake_all(&shared.cache.remove::<R>(&name), Cause::Change);
            }
            Err(error) => {
                metrics::counter!("solar_watch_errors_total", "kind" => kind).increment(1);
                tracing::debug!(kind, error = %describe(&error), "a watch was interrupted and goes on");
            }
        }
    }
}

fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error} ({source})"))
}

fn kind_of<K: Namespaced>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "other",
    }
}
