//! One request from its arrival to its answer, faults and fences included.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, header};
use tokio::time::Instant;

use super::answer::Refusal;
use super::fault::{Fault, RequestInfo};
use super::log::LogEntry;
use super::request::ParsedRequest;
use super::{RegistryStore, State};

/// The connection ends without an answer.
pub(super) struct Cut;

/// A request that lost its connection and takes effect later.
pub(super) struct LateRequest {
    due: Instant,
    actor: String,
    request: ParsedRequest,
}

impl State {
    /// Serves the late requests whose time has come, in the order of their times.
    pub(super) fn land_due_requests(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let now = Instant::now();
        let (mut due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late).into_iter().partition(|late| late.due <= now);
        self.late = later;
        due.sort_by_key(|late| late.due);
        for late in due {
            if !self.fenced.contains(&late.actor) {
                self.registry.serve(&late.request);
            }
        }
    }

    fn arrive(&mut self, actor: &str, request: &ParsedRequest) -> (RequestInfo, Fault) {
        self.sequence += 1;
        let nth = self.arrived.entry(request.operation).or_default();
        *nth += 1;
        let info = RequestInfo {
            sequence: self.sequence,
            nth: *nth,
            actor: actor.to_owned(),
            operation: request.operation,
            repository: request.repository.clone(),
            reference: request.reference.clone(),
        };
        let fault = self.faults.as_mut().map_or(Fault::None, |hook| hook(&info));
        (info, fault)
    }

    fn record(&mut self, info: RequestInfo, request: &ParsedRequest, status: Option<u16>) {
        self.log.push(LogEntry {
            sequence: info.sequence,
            actor: info.actor,
            operation: info.operation,
            repository: info.repository,
            reference: info.reference,
            host: request.header(header::HOST).to_owned(),
            presented: request.presented(),
            status,
        });
    }
}

impl RegistryStore {
    /// Brings one request of `actor` to the registry. A request that hangs, or whose actor is
    /// fenced, never ends: dropping the future is the caller's timeout.
    pub(super) async fn exchange(
        &self,
        actor: &str,
        request: http::Request<Bytes>,
    ) -> Result<Response<Bytes>, Cut> {
        self.ignore_if_fenced(actor).await;
        let request = ParsedRequest::new(request);
        let (info, fault) = self.lock().arrive(actor, &request);
        if let Fault::Latency(delay) = fault {
            tokio::time::sleep(delay).await;
            self.ignore_if_fenced(actor).await;
        }
        let outcome = self.commit(info, request, &fault);
        self.ignore_if_fenced(actor).await;
        match outcome {
            Outcome::Answer(response) => Ok(response),
            Outcome::Cut => Err(Cut),
            Outcome::Silence => std::future::pending().await,
        }
    }

    /// Performs the request, as far as its fault lets it, in one step.
    fn commit(&self, info: RequestInfo, request: ParsedRequest, fault: &Fault) -> Outcome {
        let mut state = self.lock();
        let outcome = match fault {
            Fault::None | Fault::Latency(_) => Outcome::Answer(state.registry.serve(&request)),
            Fault::Status { status, code, retry_after } => {
                Outcome::Answer(injected(*status, code, *retry_after))
            }
            Fault::Hang => Outcome::Silence,
            Fault::Cut | Fault::CutAndLandLater(_) => Outcome::Cut,
            Fault::HangAfterEffect => {
                state.registry.serve(&request);
                Outcome::Silence
            }
            Fault::CutAfterEffect => {
                state.registry.serve(&request);
                Outcome::Cut
            }
        };
        let status = match &outcome {
            Outcome::Answer(response) => Some(response.status().as_u16()),
            Outcome::Cut | Outcome::Silence => None,
        };
        let actor = info.actor.clone();
        state.record(info, &request, status);
        if let Fault::CutAndLandLater(delay) = fault {
            state.late.push(LateRequest { due: due(*delay), actor, request });
        }
        outcome
    }

    async fn ignore_if_fenced(&self, actor: &str) {
        let fenced = self.lock().fenced.contains(actor);
        if fenced {
            std::future::pending::<()>().await;
        }
    }
}

enum Outcome {
    Answer(Response<Bytes>),
    Cut,
    Silence,
}

fn due(delay: Duration) -> Instant {
    Instant::now() + delay
}

fn injected(status: u16, code: &'static str, retry_after: Option<u64>) -> Response<Bytes> {
    let refusal = Refusal::new(status, code);
    let refusal = match retry_after {
        Some(seconds) => refusal.header(header::RETRY_AFTER, &seconds.to_string()),
        None => refusal,
    };
    refusal.into_response()
}
