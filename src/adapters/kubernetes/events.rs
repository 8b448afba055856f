//! Kubernetes events, written by one task from one bounded queue: an actor never waits for an event.

use std::num::NonZeroUsize;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Resource;
use lru::LruCache;
use serde_json::json;
use solar_core::condition::fit_text;
use solar_core::hash::hash8;
use solar_core::object::{Meta, ObjectName};
use solar_core::target::EventOrder;
use tokio::sync::{mpsc, oneshot};

use super::api::{Api, Expect, FIELD_MANAGER};
use crate::adapters::clock::Clock;

/// Events waiting to be written. More than this at once is a storm, of which the first tell enough.
const QUEUE: usize = 1_024;
/// Distinct events whose repetitions are counted instead of written.
const REMEMBERED: usize = 1_024;
/// The API server's limit for a note, in bytes.
const NOTE_LIMIT: usize = 1_024;

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// Kind of the object.
    pub kind: &'static str,
    /// Its name.
    pub name: ObjectName,
    /// Its uid.
    pub uid: Box<str>,
}

impl Regarding {
    /// The object of `kind` with this metadata.
    pub fn new(kind: &'static str, meta: &Meta) -> Self {
        Self { kind, name: meta.name.clone(), uid: meta.uid.clone() }
    }
}

#[derive(Debug)]
struct Note {
    regarding: Regarding,
    order: EventOrder,
}

#[derive(Debug)]
enum Mail {
    Note(Note),
    /// Answered when everything before it was written, or given up.
    Flush(oneshot::Sender<()>),
}

/// Takes events without waiting.
#[derive(Clone, Debug)]
pub struct EventSink {
    queue: mpsc::Sender<Mail>,
}

/// The other end of an [`EventSink`].
#[derive(Debug)]
pub struct EventQueue {
    queue: mpsc::Receiver<Mail>,
}

impl EventSink {
    /// A sink and the queue that [`deliver`] empties.
    pub fn new() -> (Self, EventQueue) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self { queue: sender }, EventQueue { queue: receiver })
    }

    /// Queues an event; one too many is dropped and counted.
    pub fn emit(&self, regarding: Regarding, order: EventOrder) {
        if self.queue.try_send(Mail::Note(Note { regarding, order })).is_err() {
            metrics::counter!("solar_events_dropped_total").increment(1);
        }
    }

    /// Waits until every event that was queued before is written, or was refused.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.queue.send(Mail::Flush(done)).await.is_ok() {
            // A queue that nobody empties any more has nothing left to wait for.
            let _ = written.await;
        }
    }
}

struct Known {
    name: ObjectName,
    uid: String,
    count: i32,
}

/// Writes events until every sink is gone.
pub async fn deliver(mut queue: EventQueue, api: Api, clock: Clock, instance: Arc<str>) {
    let mut known = LruCache::<(Regarding, String), Known>::new(
        NonZeroUsize::new(REMEMBERED).unwrap_or(NonZeroUsize::MIN),
    );
    while let Some(mail) = queue.queue.recv().await {
        let note = match mail {
            Mail::Note(note) => note,
            Mail::Flush(done) => {
                // Whoever waits may have given up.
                let _ = done.send(());
                continue;
            }
        };
        let key = (note.regarding.clone(), format!("{} {}", note.order.reason, note.order.note));
        let result = match known.get_mut(&key) {
            Some(known) => repeat(&api, &clock, known).await,
            None => match api.create(&event(&note, &clock, &instance)).await {
                Ok(event) => {
                    let name = note.regarding.name.sibling(event.metadata.name.clone().unwrap_or_default());
                    let uid = event.metadata.uid.unwrap_or_default();
                    known.put(key.clone(), Known { name, uid, count: 1 });
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = result {
            // An event that has expired meanwhile is written anew the next time.
            known.pop(&key);
            if !error.problem.is_quiet() {
                tracing::debug!(%error, reason = note.order.reason, "an event was not written");
            }
        }
    }
}

async fn repeat(api: &Api, clock: &Clock, known: &mut Known) -> Result<(), super::ApiError> {
    known.count += 1;
    let series = EventSeries { count: known.count, last_observed_time: MicroTime(clock.wall()) };
    let expect = Expect { uid: &known.uid, resource_version: None };
    api.merge::<Event>(&known.name, expect, json!({ "series": series })).await.map(drop)
}

fn event(note: &Note, clock: &Clock, instance: &str) -> Event {
    let regarding = &note.regarding;
    let now = clock.wall();
    let identity = format!(
        "{} {} {} {} {}",
        regarding.uid,
        note.order.reason,
        note.order.note,
        now,
        clock.elapsed().as_nanos()
    );
    let stem: String = regarding.name.name.chars().take(200).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{stem}.{}{}", hash8(&identity), hash8(&format!("{identity}.")))),
            namespace: Some(regarding.name.namespace.to_string()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(format!("{}/{FIELD_MANAGER}", solar_api::GROUP)),
        reporting_instance: Some(instance.to_owned()),
        action: Some("Reconcile".to_owned()),
        reason: Some(note.order.reason.to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(solar_api::Target::api_version(&()).into_owned()),
            kind: Some(regarding.kind.to_owned()),
            name: Some(regarding.name.name.to_string()),
            namespace: Some(regarding.name.namespace.to_string()),
            uid: Some(regarding.uid.to_string()),
            ..ObjectReference::default()
        }),
        note: Some(fit_text(&note.order.note, NOTE_LIMIT)),
        type_: Some(if note.order.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}
