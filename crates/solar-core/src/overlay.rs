//! An actor's own writes, laid over what is watched until the watch has caught up.

use std::sync::Arc;
use std::time::Duration;

use crate::object::Meta;
use crate::world::Record;

/// Time since the process started, by a clock that never jumps.
pub type Moment = Duration;

/// What this actor last wrote or read of an object, kept until the watch has caught up.
#[derive(Clone, Debug, PartialEq)]
pub enum Own<R> {
    /// The object is like this.
    Present {
        /// The object.
        record: Arc<R>,
        /// When it was written or read.
        since: Moment,
    },
    /// The object with this uid is gone.
    Gone {
        /// Uid of the deleted object.
        uid: Box<str>,
    },
}

/// The newer of what is watched and what is known by own deed; forgets the latter once the watch has it.
pub fn settle<R: Record>(watched: Option<&Arc<R>>, own: &mut Option<Own<R>>) -> Option<Arc<R>> {
    match (watched, own.as_ref()) {
        (watched, None) => watched.cloned(),
        (None, Some(Own::Present { record, .. })) => Some(record.clone()),
        (None, Some(Own::Gone { .. })) => {
            *own = None;
            None
        }
        (Some(watched), Some(Own::Present { record, .. })) => {
            if caught_up(watched.meta(), record.meta()) {
                *own = None;
                Some(watched.clone())
            } else {
                Some(record.clone())
            }
        }
        (Some(watched), Some(Own::Gone { uid })) => {
            if watched.meta().uid == *uid {
                None
            } else {
                *own = None;
                Some(watched.clone())
            }
        }
    }
}

/// How long own writes may be ahead of the watch before they are read again.
pub const WATCH_LAG: Duration = Duration::from_secs(30);

/// Whether the watch has not shown what is known by own deed for so long that the API server is to be asked: it never will
/// where the store was restored from an older backup.
pub fn is_overdue<R: Record>(watched: Option<&Arc<R>>, own: Option<&Own<R>>, now: Moment) -> bool {
    match (watched, own) {
        (Some(watched), Some(Own::Present { record, since })) => {
            now >= *since + WATCH_LAG && !caught_up(watched.meta(), record.meta())
        }
        _ => false,
    }
}

/// Whether `watched` is at least as new as `own`.
///
/// Resource versions are numbers on every API server that exists; where they are not, only equality proves anything.
fn caught_up(watched: &Meta, own: &Meta) -> bool {
    match (watched.resource_version.parse::<u64>(), own.resource_version.parse::<u64>()) {
        (Ok(watched), Ok(own)) => watched >= own,
        _ => watched.resource_version == own.resource_version,
    }
}
