//! Watches: the changes of a resource as a stream of lines.
//!
//! A watch holds a revision and looks for what came after it; the changes themselves stay in the table, where all watches
//! share them. Nothing is queued for a slow reader: one that falls out of the window of changes is told 410.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::{
    faults::WatchFault,
    http::{
        accept::Shape,
        render::{metadata_only, object_json},
    },
    ops::{Target, filter::Filter, read},
    server::Inner,
    status::ApiError,
    store::{
        State,
        object::Object,
        table::{Change, Cut, Watcher},
    },
    table,
};

/// How often an idle watch is told where it stands.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How many changes are looked at under the lock at once.
const BATCH: usize = 64;

/// Parameters of a watch.
#[derive(Debug)]
pub(crate) struct WatchOptions {
    pub resource_version: Option<u64>,
    pub bookmarks: bool,
    pub initial: bool,
    pub timeout: Option<Duration>,
    pub fault: WatchFault,
    pub shape: Shape,
    pub include: String,
}

/// One open watch.
pub(crate) struct WatchStream {
    inner: Arc<Inner>,
    target: Target,
    filter: Filter,
    options: WatchOptions,
    id: u64,
    /// Everything up to this revision was seen.
    seen: u64,
    initial: VecDeque<Arc<Object>>,
    initial_bookmark: bool,
    frames: VecDeque<Bytes>,
    end: Option<End>,
    columns_sent: bool,
    events: usize,
    timeout: Option<Pin<Box<Sleep>>>,
    bookmark: Option<Pin<Box<Sleep>>>,
    late: Option<Pin<Box<Sleep>>>,
}

/// How a stream ends once its frames are out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Clean,
    Broken,
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream")
            .field("info", &self.target.info)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl WatchStream {
    /// Opens a watch.
    pub fn open(
        inner: &Arc<Inner>,
        target: Target,
        filter: Filter,
        options: WatchOptions,
    ) -> Result<Self, ApiError> {
        let (id, seen, initial) = inner.with(|state| register(state, &target, &filter, &options))?;
        let timeout = options.timeout.map(|t| Box::pin(sleep(t)));
        let bookmark = (options.bookmarks && !options.fault.withhold_bookmarks)
            .then(|| Box::pin(sleep_until(Instant::now() + BOOKMARK_EVERY)));
        Ok(Self {
            inner: inner.clone(),
            target,
            filter,
            initial_bookmark: options.initial,
            options,
            id,
            seen,
            initial,
            frames: VecDeque::new(),
            end: None,
            columns_sent: false,
            events: 0,
            timeout,
            bookmark,
            late: None,
        })
    }

    /// The next bytes of the stream: a line comes in up to three pieces, of which the middle is shared.
    pub fn poll_next_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, std::io::Error>>> {
        loop {
            if self.waits_for_delay(cx) {
                return Poll::Pending;
            }
            if let Some(frame) = self.frames.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            match self.end {
                Some(End::Clean) => return Poll::Ready(None),
                Some(End::Broken) => {
                    self.end = Some(End::Clean);
                    let error = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the watch was cut");
                    return Poll::Ready(Some(Err(error)));
                }
                None => {}
            }
            if !self.advance(cx) {
                return Poll::Pending;
            }
            if let (Some(delay), false) = (self.options.fault.delay, self.frames.is_empty()) {
                self.late = Some(Box::pin(sleep(delay)));
            }
        }
    }

    fn waits_for_delay(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(late) = &mut self.late
            && late.as_mut().poll(cx).is_pending()
        {
            return true;
        }
        self.late = None;
        false
    }

    /// Makes frames or an end; `false` when there is nothing to do before a waker strikes.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(object) = self.initial.pop_front() {
            self.emit("ADDED", &object);
            return true;
        }
        if std::mem::take(&mut self.initial_bookmark) {
            self.emit_bookmark(true);
            return true;
        }
        let news = {
            let (id, seen, target) = (self.id, self.seen, &self.target);
            self.inner.with(|state| look(state, target, id, seen, cx))
        };
        match news {
            News::Changes(changes) => {
                for change in &changes {
                    self.seen = change.revision;
                    self.emit_change(change);
                }
                true
            }
            News::Ended(cut) => {
                self.finish(cut);
                true
            }
            News::Expired(floor) => {
                let message = format!("too old resource version: {} ({floor})", self.seen);
                self.emit_error(&ApiError::expired(message));
                true
            }
            News::Nothing(revision, stale) => {
                drop(stale);
                // Nothing of this resource happened up to here.
                self.seen = self.seen.max(revision);
                self.wait(cx)
            }
        }
    }

    fn wait(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(timeout) = &mut self.timeout
            && timeout.as_mut().poll(cx).is_ready()
        {
            if self.bookmark.is_some() {
                self.emit_bookmark(false);
            }
            self.end = Some(End::Clean);
            return true;
        }
        if let Some(bookmark) = &mut self.bookmark
            && bookmark.as_mut().poll(cx).is_ready()
        {
            bookmark.as_mut().reset(Instant::now() + BOOKMARK_EVERY);
            self.emit_bookmark(false);
            return true;
        }
        false
    }

    fn finish(&mut self, cut: Option<Cut>) {
        match cut {
            Some(Cut::Gone) => {
                self.emit_error(&ApiError::expired("the watch was ended: too old resource version"));
            }
            Some(Cut::Broken) => self.end = Some(End::Broken),
            None => self.end = Some(End::Clean),
        }
    }

    fn emit_change(&mut self, change: &Change) {
        let is = !change.deleted && self.filter.matches(&change.new);
        let was = change.old.as_ref().is_some_and(|o| self.filter.matches(o));
        match (was, is) {
            (false, true) => self.emit("ADDED", &change.new),
            (true, true) => self.emit("MODIFIED", &change.new),
            (true, false) if change.deleted => self.emit("DELETED", &change.new),
            (true, false) => {
                // It left the selection: the last state that was in it, at the revision of the change.
                if let Some(old) = &change.old {
                    let last = old.at_revision(&self.target.resource, change.revision);
                    self.emit("DELETED", &last);
                }
            }
            (false, false) => {}
        }
    }

    fn emit(&mut self, kind: &'static str, object: &Object) {
        if self.end.is_some() {
            return;
        }
        let body = match self.options.shape {
            Shape::Table => {
                let meta = json!({ "resourceVersion": object.revision.to_string() });
                let row = table::row(&self.target, object, &self.options.include, self.inner.now());
                let first = !std::mem::replace(&mut self.columns_sent, true);
                table::table(&self.target, meta, vec![row], first).to_string().into()
            }
            Shape::Metadata => metadata_only(object).to_string().into(),
            _ => object_json(&self.target, object),
        };
        self.line(kind, body);
        self.events += 1;
        if self.options.fault.cut_after.is_some_and(|n| self.events >= n) {
            let cut = if self.options.fault.gone { Cut::Gone } else { Cut::Broken };
            self.finish(Some(cut));
        }
    }

    fn emit_bookmark(&mut self, initial: bool) {
        let mut meta = json!({ "resourceVersion": self.seen.to_string(), "creationTimestamp": null });
        if initial {
            meta["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let body = match self.options.shape {
            Shape::Table => {
                let object = json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta });
                let meta = json!({ "resourceVersion": self.seen.to_string() });
                let first = !std::mem::replace(&mut self.columns_sent, true);
                table::table(&self.target, meta, vec![json!({ "cells": [], "object": object })], first)
            }
            Shape::Metadata => {
                json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta })
            }
            _ => json!({
                "kind": &*self.target.resource.kind,
                "apiVersion": self.target.resource.api_version(self.target.version),
                "metadata": meta,
            }),
        };
        self.line("BOOKMARK", body.to_string().into());
    }

    fn emit_error(&mut self, error: &ApiError) {
        self.line("ERROR", Value::to_string(&error.to_json()).into());
        self.end = Some(End::Clean);
    }

    fn line(&mut self, kind: &'static str, body: Bytes) {
        let head = match kind {
            "ADDED" => Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":"),
            "MODIFIED" => Bytes::from_static(b"{\"type\":\"MODIFIED\",\"object\":"),
            "DELETED" => Bytes::from_static(b"{\"type\":\"DELETED\",\"object\":"),
            "BOOKMARK" => Bytes::from_static(b"{\"type\":\"BOOKMARK\",\"object\":"),
            _ => Bytes::from_static(b"{\"type\":\"ERROR\",\"object\":"),
        };
        self.frames.extend([head, body, Bytes::from_static(b"}\n")]);
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        let (table, id) = (self.target.resource.table, self.id);
        // What is removed is dropped outside the lock, for a task may end with its waker.
        let gone = self.inner.with(|state| state.tables.get_mut(&table).and_then(|t| t.watchers.remove(&id)));
        drop(gone);
    }
}

/// What a look at the table found.
enum News {
    Changes(Vec<Change>),
    Ended(Option<Cut>),
    /// The changes up to here are forgotten.
    Expired(u64),
    /// Nothing up to this revision. The waker that was replaced is dropped outside the lock, for a task may end with it.
    Nothing(u64, Option<Waker>),
}

fn look(state: &mut State, target: &Target, id: u64, seen: u64, cx: &Context<'_>) -> News {
    let revision = state.revision;
    let Some(table) = state.tables.get_mut(&target.resource.table) else {
        return News::Ended(None);
    };
    if let Some(cut) = table.watchers.get(&id).map(|w| w.cut) {
        if cut.is_some() {
            return News::Ended(cut);
        }
    } else {
        return News::Ended(None);
    }
    if seen < table.floor {
        return News::Expired(table.floor);
    }
    let changes: Vec<Change> = table.changes_after(seen).take(BATCH).cloned().collect();
    if !changes.is_empty() {
        return News::Changes(changes);
    }
    let stale = table.watchers.get_mut(&id).and_then(|w| w.waker.replace(cx.waker().clone()));
    News::Nothing(revision, stale)
}

type Start = (u64, u64, VecDeque<Arc<Object>>);

fn register(
    state: &mut State,
    target: &Target,
    filter: &Filter,
    options: &WatchOptions,
) -> Result<Start, ApiError> {
    let current = state.revision;
    let asked = options.resource_version.unwrap_or_default();
    if asked > current {
        return Err(read::too_new(asked, current));
    }
    if state.fenced.contains(&target.info.actor) {
        return Err(ApiError::new(503, "ServiceUnavailable", "the actor is fenced"));
    }
    state.next_watcher += 1;
    let id = state.next_watcher;
    let table = state.tables.get_mut(&target.resource.table).ok_or_else(ApiError::unknown_path)?;
    let from_now = options.initial || asked == 0;
    let initial = if from_now {
        table.range(&filter.namespace, None).filter(|o| filter.matches(o)).cloned().collect()
    } else {
        VecDeque::new()
    };
    let asked = match options.fault.repeat {
        0 => asked,
        count => table.revision_before(asked, count),
    };
    table.watchers.insert(id, Watcher { info: target.info.clone(), waker: None, cut: None });
    Ok((id, if from_now { current } else { asked }, initial))
}
