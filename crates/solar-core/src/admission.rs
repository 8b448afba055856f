//! Who gets a render slot: first come, first served, and namespaces take turns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::object::ObjectName;
use crate::overlay::Moment;

/// How long a freed slot is kept for whoever was woken for it.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// Slots, and who was refused one.
#[derive(Debug, Default)]
pub struct Admissions {
    slots: usize,
    in_use: usize,
    /// Each namespace's line, by number: whoever came later has the higher one.
    waiting: BTreeMap<Arc<str>, BTreeMap<u64, ObjectName>>,
    /// The number of everybody who stands in line.
    numbers: BTreeMap<ObjectName, u64>,
    last_number: u64,
    last: Option<Arc<str>>,
    /// Slots kept for those who were woken, until when.
    kept: BTreeMap<ObjectName, Moment>,
}

impl Admissions {
    /// `slots` free slots; 0 means no cap.
    pub fn new(slots: usize) -> Self {
        Self { slots, ..Self::default() }
    }

    /// Takes a slot for `who`; `false`: none is free, and `who` stands in line.
    pub fn take(&mut self, who: &ObjectName, now: Moment) -> bool {
        self.kept.retain(|_, until| now < *until);
        let kept_for_others = self.kept.len() - usize::from(self.kept.contains_key(who));
        if self.slots == 0 || self.in_use + kept_for_others < self.slots {
            self.forget(who);
            self.in_use += 1;
            return true;
        }
        if !self.numbers.contains_key(who) {
            self.last_number += 1;
            self.numbers.insert(who.clone(), self.last_number);
            let line = self.waiting.entry(who.namespace.clone()).or_default();
            line.insert(self.last_number, who.clone());
        }
        false
    }

    /// Gives a slot back; answers whom to wake for it.
    pub fn give_back(&mut self, now: Moment) -> Option<ObjectName> {
        self.in_use = self.in_use.saturating_sub(1);
        let next = self.next()?;
        self.kept.insert(next.clone(), now + KEPT_FOR);
        Some(next)
    }

    /// `who` waits no more.
    pub fn forget(&mut self, who: &ObjectName) {
        self.kept.remove(who);
        let Some(number) = self.numbers.remove(who) else { return };
        if let Some(line) = self.waiting.get_mut(&who.namespace) {
            line.remove(&number);
            if line.is_empty() {
                self.waiting.remove(&who.namespace);
            }
        }
    }

    /// How many stand in line.
    pub fn waiting(&self) -> usize {
        self.numbers.len()
    }

    fn next(&mut self) -> Option<ObjectName> {
        let after = self.last.clone().and_then(|last| {
            self.waiting
                .range::<Arc<str>, _>((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded))
                .next()
        });
        let namespace = after.or_else(|| self.waiting.iter().next())?.0.clone();
        self.last = Some(namespace.clone());
        let line = self.waiting.get_mut(&namespace)?;
        let (_, next) = line.pop_first()?;
        if line.is_empty() {
            self.waiting.remove(&namespace);
        }
        self.numbers.remove(&next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(namespace: &str, name: &str) -> ObjectName {
        ObjectName::new(namespace, name)
    }

    #[test]
    fn a_freed_slot_is_kept_a_second_for_whoever_waited_longest() {
        let mut pool = Admissions::new(1);
        let t = Duration::from_secs;
        assert!(pool.take(&task("a", "1"), t(0)));
        assert!(!pool.take(&task("a", "2"), t(0)));
        assert!(!pool.take(&task("a", "3"), t(0)));
        assert_eq!(pool.give_back(t(1)), Some(task("a", "2")));
        assert!(!pool.take(&task("a", "3"), t(1)), "the slot is kept for 2");
        assert!(pool.take(&task("a", "2"), t(1)));
        assert_eq!(pool.give_back(t(2)), Some(task("a", "3")));
        assert!(pool.take(&task("a", "4"), t(3)), "3 did not come within a second");
    }

    #[test]
    fn whoever_is_refused_again_keeps_its_place_and_whoever_leaves_loses_it() {
        let mut pool = Admissions::new(1);
        let now = Duration::ZERO;
        for name in ["1", "2", "3", "4", "2"] {
            pool.take(&task("a", name), now);
        }
        assert_eq!(pool.waiting(), 3);
        pool.forget(&task("a", "3"));
        pool.take(&task("a", "3"), now);
        let mut woken = Vec::new();
        while let Some(next) = pool.give_back(now) {
            assert!(pool.take(&next, now), "its slot is kept");
            woken.push(next.name.to_string());
        }
        assert_eq!((woken, pool.waiting()), (vec!["2".into(), "4".into(), "3".into()], 0));
    }

    #[test]
    fn namespaces_take_turns() {
        let mut pool = Admissions::new(1);
        let now = Duration::ZERO;
        assert!(pool.take(&task("a", "1"), now));
        for name in ["2", "3"] {
            assert!(!pool.take(&task("a", name), now));
        }
        assert!(!pool.take(&task("b", "1"), now));
        assert_eq!(pool.give_back(now), Some(task("a", "2")));
        assert!(pool.take(&task("a", "2"), now));
        assert_eq!(pool.give_back(now), Some(task("b", "1")));
    }

    #[test]
    fn whoever_comes_too_late_for_its_slot_stands_in_line_again() {
        let mut pool = Admissions::new(1);
        let t = Duration::from_secs;
        assert!(pool.take(&task("a", "1"), t(0)));
        assert!(!pool.take(&task("a", "2"), t(0)));
        assert_eq!(pool.give_back(t(1)), Some(task("a", "2")));
        assert!(pool.take(&task("a", "3"), t(2)), "2 did not come within a second");
        assert!(!pool.take(&task("a", "2"), t(2)));
        assert_eq!(pool.waiting(), 1);
        assert_eq!(pool.give_back(t(3)), Some(task("a", "2")));
    }

    #[test]
    fn a_namespace_whose_last_one_left_the_line_keeps_no_slot_from_another() {
        let mut pool = Admissions::new(1);
        let now = Duration::ZERO;
        assert!(pool.take(&task("a", "1"), now));
        for waits in [task("b", "1"), task("c", "1")] {
            assert!(!pool.take(&waits, now));
        }
        pool.forget(&task("b", "1"));
        assert_eq!(pool.give_back(now), Some(task("c", "1")));
    }

    #[test]
    fn no_cap_admits_everybody() {
        let mut pool = Admissions::new(0);
        assert!((0..100).all(|n| pool.take(&task("a", &n.to_string()), Duration::ZERO)));
    }
}
