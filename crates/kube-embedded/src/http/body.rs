//! The body of an answer.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::watch::WatchStream;

/// The body of an answer: all at once, or the lines of a watch as they come.
pub struct ResponseBody(Kind);

enum Kind {
    Once(Option<Bytes>),
    Watch(Box<WatchStream>),
}

// What is in a body may be a secret.
impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Once(bytes) => write!(f, "ResponseBody({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Kind::Watch(stream) => write!(f, "ResponseBody({stream:?})"),
        }
    }
}

impl ResponseBody {
    pub(crate) fn once(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Once(Some(bytes.into()).filter(|b: &Bytes| !b.is_empty())))
    }

    pub(crate) fn watch(stream: WatchStream) -> Self {
        Self(Kind::Watch(Box::new(stream)))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match &mut self.0 {
            Kind::Once(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Kind::Watch(stream) => stream.poll_next_bytes(cx).map(|next| next.map(|r| r.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Once(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Once(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Kind::Watch(_) => SizeHint::default(),
        }
    }
}
