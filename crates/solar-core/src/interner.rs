//! What many records say, kept once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::object::{ControllerRef, Meta, NameParts, ObjectName};
use crate::target::Coordinates;

/// Values that records share. One that nobody has any more goes with one of the next changes.
#[derive(Debug, Default)]
pub struct Interner {
    names: Shelf<NameParts>,
    texts: Shelf<str>,
    finalizers: Shelf<[Box<str>]>,
    controllers: Shelf<ControllerRef>,
    coordinates: Shelf<Coordinates>,
}

impl Interner {
    /// Has `meta` share what can be shared, and the name with `old`, what was known of the object before. A name that
    /// others refer to is shared by [`Self::name`] besides.
    pub fn meta(&mut self, meta: &mut Meta, old: Option<&Meta>) {
        match old {
            Some(old) if old.name == meta.name => meta.name = old.name.clone(),
            _ => self.namespace(&mut meta.name),
        }
        self.finalizers.share(&mut meta.finalizers);
    }

    /// Has `name` be one with all that are equal.
    pub fn name(&mut self, name: &mut ObjectName) {
        self.namespace(name);
        self.names.share(&mut name.0);
    }

    /// Has `controller` be one with all that are equal.
    pub fn controller(&mut self, controller: &mut Arc<ControllerRef>) {
        self.controllers.share(controller);
    }

    /// Has `coordinates` be one with all that are equal.
    pub fn coordinates(&mut self, coordinates: &mut Arc<Coordinates>) {
        if let Some(coordinates) = Arc::get_mut(coordinates) {
            self.texts.share(&mut coordinates.base_url);
        }
        self.coordinates.share(coordinates);
    }

    /// Has `text` be one with all that are equal.
    pub fn text(&mut self, text: &mut Arc<str>) {
        self.texts.share(text);
    }

    /// How many values are kept, those included that nobody has any more.
    pub fn kept(&self) -> usize {
        let Self { names, texts, finalizers, controllers, coordinates } = self;
        names.values.len()
            + texts.values.len()
            + finalizers.values.len()
            + controllers.values.len()
            + coordinates.values.len()
    }

    /// Notes that a record came or went.
    pub(crate) fn changed(&mut self) {
        let Self { names, texts, finalizers, controllers, coordinates } = self;
        names.changed();
        texts.changed();
        finalizers.changed();
        controllers.changed();
        coordinates.changed();
    }

    /// Only the namespace of a name that is nobody else's yet.
    fn namespace(&mut self, name: &mut ObjectName) {
        if let Some(parts) = Arc::get_mut(&mut name.0) {
            self.texts.share(&mut parts.namespace);
        }
    }
}

/// Values of one kind.
#[derive(Debug)]
struct Shelf<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// How many values were left when the shelf was cleared last, and the changes since then.
    left: usize,
    changes: usize,
}

impl<T: ?Sized> Default for Shelf<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), left: 0, changes: 0 }
    }
}

impl<T: ?Sized + Eq + Hash> Shelf<T> {
    fn share(&mut self, value: &mut Arc<T>) {
        match self.values.get(value) {
            Some(kept) => *value = kept.clone(),
            None => drop(self.values.insert(value.clone())),
        }
    }

    /// Takes out what only the shelf has, each time after half as many changes as values were left: so that costs about
    /// as much as the changes do, and of values that go one after the other only a few are ever left.
    fn changed(&mut self) {
        self.changes += 1;
        if self.changes > self.left / 2 + 8 {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            if self.values.len() < self.values.capacity() / 4 {
                self.values.shrink_to_fit();
            }
            self.left = self.values.len();
            self.changes = 0;
        }
    }
}
