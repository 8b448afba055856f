//! Whose check is begun next: one queue for each host, served in turn, so that a host that is slow, or has many
//! versions, does not hold up the others.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::object::ObjectName;
use crate::overlay::Moment;

/// How long a host counts as one of those that share the runners after its last check ended: a healthy one, whose queue
/// is empty most of the time, finds a free runner then, and not only when a slow one gives one back.
const STAYS: Duration = Duration::from_secs(10);

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

#[derive(Debug, Default)]
struct Host {
    /// By running number, in the order in which they came.
    waiting: BTreeMap<u64, (ObjectName, Moment)>,
    next: u64,
    running: usize,
    /// When its last check ended.
    ended: Moment,
}

/// The queues of all hosts, and how many checks of each run.
#[derive(Debug)]
pub struct Turns {
    runners: usize,
    bound: usize,
    hosts: BTreeMap<Arc<str>, Host>,
    places: BTreeMap<ObjectName, (Arc<str>, u64)>,
    running: usize,
    /// The host that was served last.
    last: Option<Arc<str>>,
}

impl Turns {
    /// Empty queues of at most `bound` versions for each host, for `runners` checks at once.
    pub fn new(runners: usize, bound: usize) -> Self {
        Self { runners, bound, hosts: BTreeMap::new(), places: BTreeMap::new(), running: 0, last: None }
    }

    /// Queues `version` for `host`, unless it stands there already; it leaves the queue of another host. Answers how many
    /// checks begin before its own while nobody else comes, `None` when the queue is full.
    ///
    /// Of two that stand in one queue, the later gets the higher number.
    pub fn stand(&mut self, version: &ObjectName, host: &str, due: Moment) -> Option<usize> {
        if let Some((at, number)) = self.places.get(version).cloned() {
            if *at == *host {
                return Some(self.before(&at, number));
            }
            self.leave(version);
        }
        let name = self.hosts.get_key_value(host).map_or_else(|| Arc::from(host), |(name, _)| name.clone());
        let queue = self.hosts.entry(name.clone()).or_default();
        if queue.waiting.len() >= self.bound {
            return None;
        }
        let number = queue.next;
        queue.next += 1;
        queue.waiting.insert(number, (version.clone(), due));
        self.places.insert(version.clone(), (name.clone(), number));
        Some(self.before(&name, number))
    }

    /// Takes `version` out of its queue.
    pub fn leave(&mut self, version: &ObjectName) {
        if let Some((host, number)) = self.places.remove(version)
            && let Some(queue) = self.hosts.get_mut(&host)
        {
            queue.waiting.remove(&number);
        }
    }

    /// How many begin before the one with this number of `host`: those before it there, and of each other host as many
    /// as have their turns until then. Numbers of those that left count, so it may be too many.
    fn before(&self, host: &Arc<str>, number: u64) -> usize {
        let Some(queue) = self.hosts.get(host) else { return 0 };
        let first = queue.waiting.first_key_value().map_or(number, |(first, _)| *first);
        let own = usize::try_from(number - first).unwrap_or(usize::MAX);
        let others = self.hosts.iter().filter(|(other, queue)| *other != host && !queue.waiting.is_empty());
        let others = others.map(|(other, queue)| {
            let rounds = own.saturating_add(usize::from(self.is_earlier(other, host)));
            queue.waiting.len().min(rounds)
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
        let share = (self.runners / self.hosts.len().max(1)).max(1);
        let order: Vec<Arc<str>> = match &self.last {
            None => self.hosts.keys().cloned().collect(),
            Some(last) => {
                let behind = self.hosts.range::<Arc<str>, _>((Bound::Excluded(last), Bound::Unbounded));
                let before = self.hosts.range::<Arc<str>, _>((Bound::Unbounded, Bound::Included(last)));
                behind.chain(before).map(|(host, _)| host.clone()).collect()
            }
        };
        for host in order {
            let Some(queue) = self.hosts.get_mut(&host).filter(|queue| queue.running < share) else {
                continue;
            };
            while let Some(head) = queue.waiting.first_entry() {
                if wanted(&head.get().0, &host) {
                    return Some(host);
                }
                let (gone, _) = head.remove();
                self.places.remove(&gone);
            }
        }
        None
    }

    /// Takes the head of the queue of `host`; its check runs from now on.
    pub fn begin(&mut self, host: &Arc<str>) -> Option<Turn> {
        let queue = self.hosts.get_mut(host)?;
        let (_, (version, due)) = queue.waiting.pop_first()?;
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
        self.hosts
            .retain(|_, queue| queue.running > 0 || !queue.waiting.is_empty() || now < queue.ended + STAYS);
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.places.len()
    }

    /// How many wait and run for each host, by name.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.hosts.iter().map(|(host, queue)| (&**host, queue.waiting.len(), queue.running))
    }
}
