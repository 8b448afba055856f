//! The end of an incarnation at any point: a poll of any of its tasks, a request, or the moment after a request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube_embedded::{Fault as ApiFault, RequestInfo};
use solar_controller::actors::pass::Verdict;
use solar_controller::dev::registry::{Fault as OciFault, RegistryOperation};
use tokio::sync::Notify;

/// Where the incarnation ends; points are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Never.
    Never,
    /// Before this poll of a pass, job, errand or loop.
    Poll(u64),
    /// When this write arrives at the API server, before it has an effect.
    BeforeWrite(u64),
    /// After this write took effect, before its answer.
    AfterWrite(u64),
    /// When this PUT or DELETE of a manifest arrives at a registry, before it has an effect.
    BeforeRegistry(u64),
    /// After this PUT or DELETE of a manifest took effect, before its answer.
    AfterRegistry(u64),
}

/// What becomes of the requests that are under way at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// They have no effect any more.
    Fenced,
    /// So many of them land late, up to [`LATEST`] after the end.
    Late(u32),
}

/// How late a request may land.
pub const LATEST: Duration = Duration::from_secs(28);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Alive,
    /// The end has begun: so many more requests are sent, and land late.
    Dying(u32),
    Dead,
}

/// Ends one incarnation.
pub struct Kill {
    /// Name of the incarnation's requests.
    pub actor: String,
    point: Point,
    remains: Remains,
    state: Mutex<State>,
    ended: Notify,
}

struct State {
    phase: Phase,
    polls: u64,
    writes: u64,
    registry: u64,
    polls_left: u32,
    rng: fastrand::Rng,
}

impl Kill {
    /// Ends the incarnation `actor` at `point`.
    pub fn new(actor: String, point: Point, remains: Remains, seed: u64) -> Arc<Self> {
        let state = State {
            phase: Phase::Alive,
            polls: 0,
            writes: 0,
            registry: 0,
            polls_left: 40,
            rng: fastrand::Rng::with_seed(seed),
        };
        Arc::new(Self { actor, point, remains, state: Mutex::new(state), ended: Notify::new() })
    }

    /// Whether late requests may follow.
    pub fn leaves_late_requests(&self) -> bool {
        matches!(self.remains, Remains::Late(_))
    }

    /// Whether it has ended.
    pub fn is_dead(&self) -> bool {
        self.lock().phase == Phase::Dead
    }

    /// Ready when the incarnation has ended.
    pub async fn ended(&self) {
        while !self.is_dead() {
            self.ended.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn die(&self, state: &mut State) {
        state.phase = match self.remains {
            Remains::Fenced => Phase::Dead,
            Remains::Late(requests) => Phase::Dying(requests),
        };
        self.note_death(state);
    }

    fn note_death(&self, state: &State) {
        if state.phase == Phase::Dead {
            self.ended.notify_one();
        }
    }

    /// Spends one of the last requests; `false` when there is none left.
    fn spend(&self, state: &mut State) -> bool {
        let Phase::Dying(left) = state.phase else { return false };
        state.phase = if left <= 1 { Phase::Dead } else { Phase::Dying(left - 1) };
        self.note_death(state);
        true
    }

    /// What becomes of a poll.
    pub fn on_poll(&self, label: &str) -> Verdict {
        let mut state = self.lock();
        if label.contains(" handles ") {
            // A message changes nothing outside by itself.
            return Verdict::Go;
        }
        match state.phase {
            Phase::Dead => return Verdict::Freeze,
            Phase::Dying(_) => {
                state.polls_left -= 1;
                if state.polls_left == 0 {
                    state.phase = Phase::Dead;
                    self.note_death(&state);
                }
            }
            Phase::Alive => {}
        }
        state.polls += 1;
        if state.phase == Phase::Alive && self.point == Point::Poll(state.polls) {
            self.die(&mut state);
        }
        if state.phase == Phase::Dead { Verdict::Freeze } else { Verdict::Go }
    }

    /// What becomes of a request to the API server; `None`: nothing special.
    pub fn on_api(&self, request: &RequestInfo) -> Option<ApiFault> {
        let mut state = self.lock();
        let is_write = request.verb.is_write();
        let counts = is_write && *request.resource != *"events";
        if state.phase == Phase::Alive && counts {
            state.writes += 1;
            if self.point == Point::AfterWrite(state.writes) {
                state.phase = Phase::Dead;
                self.note_death(&state);
                return Some(ApiFault::LoseAnswer);
            }
            if self.point == Point::BeforeWrite(state.writes) {
                self.die(&mut state);
            }
        }
        let before = state.phase;
        let spent = counts && self.spend(&mut state);
        match before {
            Phase::Alive => None,
            Phase::Dying(_) if spent => Some(ApiFault::Hold),
            Phase::Dying(_) | Phase::Dead => Some(ApiFault::Hang),
        }
    }

    /// What becomes of a request to a registry; `None`: nothing special.
    pub fn on_registry(&self, operation: RegistryOperation) -> Option<OciFault> {
        let mut state = self.lock();
        let is_write = matches!(
            operation,
            RegistryOperation::PutManifest | RegistryOperation::DeleteTag | RegistryOperation::DeleteDigest
        );
        if state.phase == Phase::Alive && is_write {
            state.registry += 1;
            if self.point == Point::AfterRegistry(state.registry) {
                state.phase = Phase::Dead;
                self.note_death(&state);
                return Some(OciFault::HangAfterEffect);
            }
            if self.point == Point::BeforeRegistry(state.registry) {
                self.die(&mut state);
            }
        }
        let before = state.phase;
        let spent = is_write && self.spend(&mut state);
        match before {
            Phase::Alive => None,
            Phase::Dying(_) if spent => {
                let later = LATEST.mul_f64(state.rng.f64());
                Some(OciFault::CutAndLandLater(later))
            }
            Phase::Dying(_) | Phase::Dead => Some(OciFault::Hang),
        }
    }
}
