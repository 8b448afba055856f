//! Whose check is begun next: one queue for each host, served in turn, so that a host that is slow, or has many
//! versions, does not hold up the others.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::object::ObjectName;
use crate::overlay::Moment;

/// How long after its last check a runner is kept free for a host: a healthy one, whose queue is empty most of the time,
/// finds it then, and not only when a slow one gives one back.
const STAYS: Duration = Duration::from_secs(10);

/// How many of one host stand in [`Lane::Soon`]; more are due as all others.
const SHORT: usize = 100;

/// A check that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The version.
    pub version: ObjectName,
    /// Its host.
    pub host: Arc<str>,
    /// Since when the check is due.
    pub due: Moment,
}

/// In which order those of one host are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Somebody waits for the answer: every other turn while there are others.
    Soon,
    /// Its time has come.
    Due,
    /// Its time came before this process began, and it may have been checked then: behind all others, from a place on that
    /// differs with each start, so that a process that never comes to the end leaves out different ones each time.
    LookBack,
}

#[derive(Debug)]
struct Waiting {
    version: ObjectName,
    due: Moment,
    /// When it was told to begin.
    told: Option<Moment>,
}

/// A rank, and below that a running number: the order in which they came.
type Key = (u64, u64);

#[derive(Debug)]
struct Host {
    lanes: [BTreeMap<Key, Waiting>; 3],
    next: u64,
    running: usize,
    /// When its last check ended.
    ended: Moment,
    /// Whether those for whom somebody waits have the next turn.
    soon: bool,
}

impl Default for Host {
    fn default() -> Self {
        Self { lanes: Default::default(), next: 0, running: 0, ended: Moment::ZERO, soon: true }
    }
}

impl Host {
    fn waiting(&self) -> usize {
        self.lanes.iter().map(BTreeMap::len).sum()
    }

    fn is_active(&self) -> bool {
        self.running > 0 || self.waiting() > 0
    }

    fn len(&self, lane: Lane) -> usize {
        self.lanes[lane as usize].len()
    }

    /// The lane whose head is next.
    fn lane(&self, looks_back: bool) -> Option<Lane> {
        match (self.len(Lane::Soon) > 0, self.len(Lane::Due) > 0) {
            (true, true) if self.soon => Some(Lane::Soon),
            (_, true) => Some(Lane::Due),
            (true, false) => Some(Lane::Soon),
            (false, false) => (looks_back && self.len(Lane::LookBack) > 0).then_some(Lane::LookBack),
        }
    }

    /// How many of the host begin before the one with this key. Numbers of those that left count.
    fn before(&self, lane: Lane, key: Key) -> usize {
        let first = self.lanes[lane as usize].first_key_value().map_or(key, |(first, _)| *first);
        let own = usize::try_from(key.1.saturating_sub(first.1)).unwrap_or(usize::MAX);
        match lane {
            Lane::Soon => own.saturating_add(self.len(Lane::Due).min(own.saturating_add(1))),
            Lane::Due => own.saturating_add(self.len(Lane::Soon).min(own.saturating_add(1))),
            // Anywhere among them.
            Lane::LookBack => self.waiting().saturating_sub(1),
        }
    }
}

#[derive(Clone, Debug)]
struct Place {
    host: Arc<str>,
    lane: Lane,
    key: Key,
}

/// The queues of all hosts, and how many checks of each run.
#[derive(Debug)]
pub struct Turns {
    runners: usize,
    bound: usize,
    /// Where [`Lane::LookBack`] begins.
    start: u64,
    hosts: BTreeMap<Arc<str>, Host>,
    places: BTreeMap<ObjectName, Place>,
    running: usize,
    /// The host that was served last.
    last: Option<Arc<str>>,
    /// The latest time that anybody was told.
    told: Option<Moment>,
}

impl Turns {
    /// Empty queues of at most `bound` versions for each host, for `runners` checks at once.
    pub fn new(runners: usize, bound: usize) -> Self {
        Self {
            runners,
            bound,
            start: 0,
            hosts: BTreeMap::new(),
            places: BTreeMap::new(),
            running: 0,
            last: None,
            told: None,
        }
    }

    /// The same; [`Lane::LookBack`] begins at a place that differs with `start`.
    #[must_use]
    pub fn starting_at(self, start: u64) -> Self {
        Self { start, ..self }
    }

    /// Queues `version` for `host`. One that stands there already keeps its place unless `lane` is a better one; it leaves
    /// the queue of another host. Answers how many checks begin before its own while nobody else comes, `None` when the
    /// queue is full.
    ///
    /// Of two that stand in one lane of one host, the later gets the higher number.
    pub fn stand(&mut self, version: &ObjectName, host: &str, due: Moment, lane: Lane) -> Option<usize> {
        if let Some(place) = self.places.get(version).cloned() {
            if *place.host == *host && !self.is_better(lane, &place) {
                return Some(self.before(&place));
            }
            self.leave(version);
        }
        let name = self.hosts.get_key_value(host).map_or_else(|| Arc::from(host), |(name, _)| name.clone());
        let queue = self.hosts.entry(name.clone()).or_default();
        if queue.waiting() >= self.bound {
            return None;
        }
        let lane = if lane == Lane::Soon && queue.len(lane) >= SHORT { Lane::Due } else { lane };
        let rank = if lane == Lane::LookBack { rank(version).wrapping_sub(self.start) } else { 0 };
        let key = (rank, queue.next);
        queue.next += 1;
        queue.lanes[lane as usize].insert(key, Waiting { version: version.clone(), due, told: None });
        let place = Place { host: name, lane, key };
        self.places.insert(version.clone(), place.clone());
        Some(self.before(&place))
    }

    /// Whether one in `place` begins sooner at the end of `lane`.
    fn is_better(&self, lane: Lane, place: &Place) -> bool {
        let Some(queue) = self.hosts.get(&place.host).filter(|_| lane < place.lane) else { return false };
        let short = queue.len(Lane::Soon);
        lane != Lane::Soon
            || place.lane == Lane::LookBack
            || (short < SHORT && queue.before(place.lane, place.key) > 2 * short)
    }

    /// Takes `version` out of its queue.
    pub fn leave(&mut self, version: &ObjectName) {
        if let Some(place) = self.places.remove(version)
            && let Some(queue) = self.hosts.get_mut(&place.host)
        {
            queue.lanes[place.lane as usize].remove(&place.key);
        }
    }

    /// When `version` is told to begin: at `estimate`, and while a queue stands at least `pace` later than whoever was told
    /// before. One that asks again before its time is told the same.
    pub fn tell(&mut self, version: &ObjectName, estimate: Moment, pace: Duration, now: Moment) -> Moment {
        let is_alone = self.places.len() <= 1;
        let Some(place) = self.places.get(version) else { return estimate };
        let waiting = self.hosts.get_mut(&place.host);
        let waiting = waiting.and_then(|queue| queue.lanes[place.lane as usize].get_mut(&place.key));
        let Some(waiting) = waiting else { return estimate };
        if let Some(told) = waiting.told.filter(|told| *told > now) {
            return told;
        }
        let behind = self.told.filter(|_| !is_alone).map_or(Moment::ZERO, |last| last + pace);
        let told = estimate.max(behind);
        waiting.told = Some(told);
        self.told = Some(told);
        told
    }

    /// How many begin before the one in `place`: those before it there, and of each other host as many as have their turns
    /// until then. It may be too many.
    fn before(&self, place: &Place) -> usize {
        let Some(queue) = self.hosts.get(&place.host) else { return 0 };
        let own = queue.before(place.lane, place.key);
        let others = self.hosts.iter().filter(|(other, _)| **other != place.host);
        let others = others.map(|(other, queue)| {
            let rounds = own.saturating_add(usize::from(self.is_earlier(other, &place.host)));
            queue.waiting().min(rounds)
        });
        others.fold(own, usize::saturating_add)
    }

    /// Whether `a` has its next turn before `b`.
    fn is_earlier(&self, a: &Arc<str>, b: &Arc<str>) -> bool {
        let behind = |host: &Arc<str>| self.last.as_ref().is_none_or(|last| host > last);
        match (behind(a), behind(b)) {
            (true, false) => true,
            (false, true) => false,
            _ => a < b,
        }
    }

    /// The host whose turn it is, with one that is still wanted at the head of its queue: those that `wanted` denies are
    /// dropped. `None`: nobody waits, every runner is busy, or those who wait have their share.
    pub fn first(
        &mut self,
        now: Moment,
        mut wanted: impl FnMut(&ObjectName, &str) -> bool,
    ) -> Option<Arc<str>> {
        if self.running >= self.runners {
            return None;
        }
        self.forget_quiet(now);
        let active = self.hosts.values().filter(|queue| queue.is_active()).count();
        let share = self.runners.div_ceil(active.max(1));
        let free = self.runners - self.running;
        let idle = self.hosts.values().filter(|queue| queue.running == 0).count();
        let order: Vec<Arc<str>> = match &self.last {
            None => self.hosts.keys().cloned().collect(),
            Some(last) => {
                let behind = self.hosts.range::<Arc<str>, _>((Bound::Excluded(last), Bound::Unbounded));
                let before = self.hosts.range::<Arc<str>, _>((Bound::Unbounded, Bound::Included(last)));
                behind.chain(before).map(|(host, _)| host.clone()).collect()
            }
        };
        for looks_back in [false, true] {
            for host in &order {
                let Some(queue) = self.hosts.get_mut(host) else { continue };
                // The last free runner is kept for a host that has none.
                let has_room = queue.running == 0 || free > 1 || idle == 0;
                if queue.running >= share || !has_room {
                    continue;
                }
                while let Some(lane) = queue.lane(looks_back) {
                    let Some(head) = queue.lanes[lane as usize].first_entry() else { break };
                    if wanted(&head.get().version, host) {
                        return Some(host.clone());
                    }
                    let gone = head.remove();
                    self.places.remove(&gone.version);
                }
            }
        }
        None
    }

    /// Takes the head of the queue of `host`; its check runs from now on.
    pub fn begin(&mut self, host: &Arc<str>) -> Option<Turn> {
        let queue = self.hosts.get_mut(host)?;
        let lane = queue.lane(true)?;
        let (_, Waiting { version, due, .. }) = queue.lanes[lane as usize].pop_first()?;
        queue.soon = lane != Lane::Soon;
        queue.running += 1;
        self.running += 1;
        self.places.remove(&version);
        self.last = Some(host.clone());
        Some(Turn { version, host: host.clone(), due })
    }

    /// A check of `host` has ended.
    pub fn ended(&mut self, host: &str, now: Moment) {
        if let Some(queue) = self.hosts.get_mut(host)
            && queue.running > 0
        {
            queue.running -= 1;
            queue.ended = now;
            self.running -= 1;
        }
    }

    fn forget_quiet(&mut self, now: Moment) {
        self.hosts.retain(|_, queue| queue.is_active() || now < queue.ended + STAYS);
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.places.len()
    }

    /// How many wait and run for each host, by name.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.hosts.iter().map(|(host, queue)| (&**host, queue.waiting(), queue.running))
    }
}

/// The same for one version in every process, and far from that of its neighbours.
fn rank(version: &ObjectName) -> u64 {
    let mut hasher = DefaultHasher::new();
    version.hash(&mut hasher);
    hasher.finish()
}
