//! To a watch.

use actix::Message;

/// Begin to list and watch.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct StartWatching;

/// Watch no more.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct StopWatching;
