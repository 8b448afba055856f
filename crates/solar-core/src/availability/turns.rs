//! Whose check is begun next: one queue for each host, served in turn, so that a host that is slow, or has many
//! versions, does not hold up the others.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::object::ObjectName;
use crate::overlay::Moment;

/// How long after its last check a runner is kept free for a host: a healthy one, whose queue is empty most of the time,
/// finds it then, and not only when a slow one gives one back.
const STAYS: Duration = Duration::from_secs(10);

/// How many of one host stand in [`Lane::Soon`]; more are due as all others.
const SHORT: usize = 100;

/// Of those that were due before the start, these come before all older ones: a process that ended is mostly there again
/// by then. Shorter, and the oldest that were missed never have a turn where the budget is short; longer, and turns are
/// spent on what the process before has checked.
const STEP: Duration = Duration::from_secs(12);

/// How long a host is left alone that asks for it without saying how long.
const REST: Duration = Duration::from_secs(10);
/// The least that it is left alone, whatever it says.
const SHORTEST_REST: Duration = Duration::from_secs(1);

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
    /// Its time came before this process began, and it may have been checked then: behind all others. Those of the last
    /// [`STEP`] come first, for the process before may have been gone by then; within a step it begins at a place that
    /// differs from interval to interval, so that a process that never comes to the end leaves out different ones.
    LookBack {
        /// How long before this process began its time came.
        age: Duration,
    },
}

impl Lane {
    const fn index(self) -> usize {
        match self {
            Self::Soon => SOON,
            Self::Due => DUE,
            Self::LookBack { .. } => LOOK_BACK,
        }
    }
}

const SOON: usize = 0;
const DUE: usize = 1;
const LOOK_BACK: usize = 2;

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
    /// Until when it asked to be left alone.
    rests: Moment,
    /// Whether that was its last answer: then it is asked by one check at a time.
    refuses: bool,
    /// Until when it is not swept again.
    swept: Moment,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            lanes: Default::default(),
            next: 0,
            running: 0,
            ended: Moment::ZERO,
            soon: true,
            rests: Moment::ZERO,
            refuses: false,
            swept: Moment::ZERO,
        }
    }
}

impl Host {
    fn waiting(&self) -> usize {
        self.lanes.iter().map(BTreeMap::len).sum()
    }

    fn is_active(&self) -> bool {
        self.running > 0 || self.waiting() > 0
    }

    /// Whether it counts among those that share the runners.
    fn has_part(&self, now: Moment) -> bool {
        self.running > 0 || now >= self.rests
    }

    fn len(&self, lane: usize) -> usize {
        self.lanes[lane].len()
    }

    /// The lane whose head is next.
    fn lane(&self, looks_back: bool) -> Option<usize> {
        match (self.len(SOON) > 0, self.len(DUE) > 0) {
            (true, true) if self.soon => Some(SOON),
            (_, true) => Some(DUE),
            (true, false) => Some(SOON),
            (false, false) => (looks_back && self.len(LOOK_BACK) > 0).then_some(LOOK_BACK),
        }
    }

    /// How many of the host begin before the one with this key. Numbers of those that left count.
    fn before(&self, lane: usize, key: Key) -> usize {
        let first = self.lanes[lane].first_key_value().map_or(key, |(first, _)| *first);
        let own = usize::try_from(key.1.saturating_sub(first.1)).unwrap_or(usize::MAX);
        match lane {
            SOON => own.saturating_add(self.len(DUE).min(own.saturating_add(1))),
            DUE => own.saturating_add(self.len(SOON).min(own.saturating_add(1))),
            // Anywhere among them.
            _ => self.waiting().saturating_sub(1),
        }
    }
}

#[derive(Clone, Debug)]
struct Place {
    host: Arc<str>,
    lane: usize,
    key: Key,
}

/// The queues of all hosts, and how many checks of each run.
#[derive(Debug)]
pub struct Turns {
    runners: usize,
    bound: usize,
    /// Where each step of [`Lane::LookBack`] begins.
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

    /// The same; what was due before the start is served from a place on that is this interval's.
    #[must_use]
    pub fn starting_at(self, wall: Timestamp, interval: Duration) -> Self {
        let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
        // By the golden section two that follow each other lie far apart.
        let start =
            wall.as_millisecond().div_euclid(interval).cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { start, ..self }
    }

    /// Empty queues; hosts that asked to be left alone still are.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let rest = |queue: &Host| Host { rests: queue.rests, refuses: queue.refuses, ..Host::default() };
        let hosts = self.hosts.iter().filter(|(_, queue)| queue.refuses);
        Self {
            start: self.start,
            hosts: hosts.map(|(host, queue)| (host.clone(), rest(queue))).collect(),
            ..Self::new(self.runners, self.bound)
        }
    }

    /// Queues `version` for `host`. One that stands there already keeps its place unless `lane` is a better one; it leaves
    /// the queue of another host. Answers how many checks begin before its own while nobody else comes, `None` when the
    /// queue is full.
    ///
    /// Of two that stand in one lane of one host, the later gets the higher number.
    pub fn stand(&mut self, version: &ObjectName, host: &str, due: Moment, lane: Lane) -> Option<usize> {
        let stands = self.places.get(version).cloned();
        if let Some(place) = stands.as_ref().filter(|place| *place.host == *host) {
            if !self.is_better(lane, place) {
                return Some(self.before(place));
            }
        } else if self.hosts.get(host).is_some_and(|queue| queue.waiting() >= self.bound) {
            // It keeps what place it has, should it come back.
            return None;
        }
        self.leave(version);
        let name = self.hosts.get_key_value(host).map_or_else(|| Arc::from(host), |(name, _)| name.clone());
        let rank = match lane {
            Lane::LookBack { age } => self.rank(version, age),
            Lane::Soon | Lane::Due => 0,
        };
        let queue = self.hosts.entry(name.clone()).or_default();
        let lane = if lane == Lane::Soon && queue.len(SOON) >= SHORT { DUE } else { lane.index() };
        let key = (rank, queue.next);
        queue.next += 1;
        queue.lanes[lane].insert(key, Waiting { version: version.clone(), due, told: None });
        let place = Place { host: name, lane, key };
        self.places.insert(version.clone(), place.clone());
        Some(self.before(&place))
    }

    /// The place of one that was due `age` before the start, among those that were: the lower, the sooner.
    fn rank(&self, version: &ObjectName, age: Duration) -> u64 {
        let mut hasher = DefaultHasher::new();
        version.hash(&mut hasher);
        let step = age.as_nanos() / STEP.as_nanos();
        let within = hasher.finish().wrapping_sub(self.start);
        (u64::try_from(step).unwrap_or(u64::MAX).min(0xffff) << 48) | (within >> 16)
    }

    /// Whether one in `place` begins sooner at the end of `lane`.
    fn is_better(&self, lane: Lane, place: &Place) -> bool {
        let Some(queue) = self.hosts.get(&place.host).filter(|_| lane.index() < place.lane) else {
            return false;
        };
        let short = queue.len(SOON);
        lane != Lane::Soon
            || place.lane == LOOK_BACK
            || (short < SHORT && queue.before(place.lane, place.key) > 2 * short)
    }

    /// Takes `version` out of its queue.
    pub fn leave(&mut self, version: &ObjectName) {
        if let Some(place) = self.places.remove(version)
            && let Some(queue) = self.hosts.get_mut(&place.host)
        {
            queue.lanes[place.lane].remove(&place.key);
        }
    }

    /// When `version` is told to begin: at `estimate`, and while a queue stands at least `pace` later than whoever was told
    /// before. One that asks again before its time is told the same.
    pub fn tell(&mut self, version: &ObjectName, estimate: Moment, pace: Duration, now: Moment) -> Moment {
        let is_alone = self.places.len() <= 1;
        let Some(place) = self.places.get(version) else { return estimate };
        let Some(queue) = self.hosts.get_mut(&place.host) else { return estimate };
        let rests = queue.rests;
        let Some(waiting) = queue.lanes[place.lane].get_mut(&place.key) else { return estimate };
        if let Some(told) = waiting.told.filter(|told| *told > now) {
            return told;
        }
        if rests > now {
            // Nobody else's slot is later for it.
            let told = rests + estimate.saturating_sub(now);
            waiting.told = Some(told);
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
        let active = self.hosts.values().filter(|queue| queue.is_active() && queue.has_part(now)).count();
        let share = self.runners.div_ceil(active.max(1));
        let free = self.runners - self.running;
        let idle = self.hosts.values().filter(|queue| queue.running == 0 && queue.has_part(now)).count();
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
                let share = if queue.refuses { 1 } else { share };
                if queue.running >= share || !has_room || now < queue.rests {
                    continue;
                }
                while let Some(lane) = queue.lane(looks_back) {
                    let Some(head) = queue.lanes[lane].first_entry() else { break };
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
        let (_, Waiting { version, due, .. }) = queue.lanes[lane].pop_first()?;
        queue.soon = lane != SOON;
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
            queue.refuses = false;
            self.running -= 1;
        }
    }

    /// After its check has ended: `host` asked to be left alone, for how long it may have said. Its checks wait that long,
    /// but no longer than `interval`, and keep their places.
    pub fn rest(&mut self, host: &str, asked: Option<Duration>, interval: Duration, now: Moment) {
        if let Some(queue) = self.hosts.get_mut(host) {
            let rest = asked.unwrap_or(REST).max(SHORTEST_REST).min(interval);
            queue.rests = queue.rests.max(now + rest);
            queue.refuses = true;
        }
    }

    /// When the first host may be asked again that is left alone while its versions wait.
    pub fn rests_until(&self, now: Moment) -> Option<Moment> {
        let resting = self.hosts.values().filter(|queue| queue.waiting() > 0 && queue.rests > now);
        resting.map(|queue| queue.rests).min()
    }

    /// Drops those of a full queue that `wanted` denies, wherever they stand. It takes its time, and is not done again soon.
    pub fn sweep(&mut self, host: &str, now: Moment, mut wanted: impl FnMut(&ObjectName) -> bool) {
        let Some(queue) = self.hosts.get_mut(host) else { return };
        if queue.waiting() < self.bound || now < queue.swept {
            return;
        }
        queue.swept = now + STAYS;
        for lane in &mut queue.lanes {
            lane.retain(|_, waiting| {
                let stays = wanted(&waiting.version);
                if !stays {
                    self.places.remove(&waiting.version);
                }
                stays
            });
        }
    }

    fn forget_quiet(&mut self, now: Moment) {
        self.hosts.retain(|_, queue| queue.is_active() || now < queue.ended + STAYS || now < queue.rests);
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
