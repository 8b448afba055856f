//! Requests in the order in which they are served, with one of each asker at most.

use std::collections::BTreeMap;

/// Requests of type `T`, some of them under the key of whoever asks. Nothing that is done with it walks over it.
#[derive(Debug)]
pub struct Queue<K, T> {
    entries: BTreeMap<i64, (Option<K>, T)>,
    places: BTreeMap<K, i64>,
}

impl<K, T> Default for Queue<K, T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), places: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, T> Queue<K, T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a request of `asker` waits.
    pub fn holds(&self, asker: &K) -> bool {
        self.places.contains_key(asker)
    }

    /// Takes the first.
    pub fn pop_front(&mut self) -> Option<T> {
        let (_, (asker, request)) = self.entries.pop_first()?;
        if let Some(asker) = asker {
            self.places.remove(&asker);
        }
        Some(request)
    }

    /// Puts `request` behind all others, or in the place of the one of its asker.
    pub fn push_back(&mut self, asker: Option<K>, request: T) {
        let behind = self.entries.last_key_value().map_or(0, |(last, _)| last + 1);
        self.put(behind, asker, request);
    }

    /// Puts `request` before all others, or in the place of the one of its asker.
    pub fn push_front(&mut self, asker: Option<K>, request: T) {
        let before = self.entries.first_key_value().map_or(0, |(first, _)| first - 1);
        self.put(before, asker, request);
    }

    fn put(&mut self, place: i64, asker: Option<K>, request: T) {
        let place = match &asker {
            Some(asker) => *self.places.entry(asker.clone()).or_insert(place),
            None => place,
        };
        self.entries.insert(place, (asker, request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(mut queue: Queue<&str, u8>) -> Vec<u8> {
        let served = std::iter::from_fn(|| queue.pop_front()).collect();
        assert!(queue.is_empty() && queue.places.is_empty());
        served
    }

    #[test]
    fn a_later_request_takes_the_place_of_the_earlier_one_of_its_asker() {
        let mut queue = Queue::default();
        for (asker, request) in [(Some("a"), 1), (None, 2), (Some("b"), 3), (Some("a"), 4), (None, 5)] {
            queue.push_back(asker, request);
        }
        assert_eq!(queue.len(), 4);
        queue.push_front(Some("b"), 6);
        queue.push_front(None, 7);
        assert_eq!(drained(queue), [7, 4, 2, 6, 5]);
    }

    #[test]
    fn an_asker_whose_request_was_taken_stands_behind_the_others_again() {
        let mut queue = Queue::default();
        queue.push_back(Some("a"), 1);
        queue.push_back(Some("b"), 2);
        assert_eq!(queue.pop_front(), Some(1));
        assert!(!queue.holds(&"a") && queue.holds(&"b"));
        queue.push_back(Some("a"), 3);
        queue.push_front(None, 4);
        assert_eq!(drained(queue), [4, 2, 3]);
    }
}
