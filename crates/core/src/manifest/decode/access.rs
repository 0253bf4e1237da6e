//! The insides of lists and objects as serde sees them. Each remembers the way for its values, leaves out what was
//! set aside, and blames a value that its type refuses.

use std::cell::RefCell;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess};

use super::deserializer::{NodeDeserializer, Trail};
use super::findings::{Notes, Refused};
use crate::manifest::tree::{Entry, Node};

fn read<'de, T: DeserializeSeed<'de>>(
    seed: T,
    node: &Node,
    trail: &Trail<'_>,
    notes: &RefCell<Notes>,
) -> Result<T::Value, Refused> {
    seed.deserialize(NodeDeserializer::new(node, trail, notes))
        .map_err(|refused| notes.borrow_mut().blame(refused, node, || trail.path()))
}

/// Entries, in order, without those set aside. Where a key comes twice, both are given: the last one wins.
struct Entries<'n, 't> {
    rest: std::slice::Iter<'n, Entry>,
    current: Option<&'n Entry>,
    trail: &'t Trail<'t>,
    notes: &'t RefCell<Notes>,
}

impl<'n, 't> Entries<'n, 't> {
    fn new(entries: &'n [Entry], trail: &'t Trail<'t>, notes: &'t RefCell<Notes>) -> Self {
        Self { rest: entries.iter(), current: None, trail, notes }
    }

    fn next_key<'de, K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        self.current = self.rest.find(|entry| !self.notes.borrow().is_set_aside(&entry.value));
        let Some(entry) = self.current else { return Ok(None) };
        let key: StrDeserializer<'_, Refused> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }
}

/// An object that is a struct.
pub(super) struct FieldsAccess<'n, 't>(Entries<'n, 't>);

impl<'n, 't> FieldsAccess<'n, 't> {
    pub(super) fn new(entries: &'n [Entry], trail: &'t Trail<'t>, notes: &'t RefCell<Notes>) -> Self {
        Self(Entries::new(entries, trail, notes))
    }
}

impl<'de> MapAccess<'de> for FieldsAccess<'_, '_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        self.0.next_key(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let Some(entry) = self.0.current else { return Err(out_of_turn()) };
        read(seed, &entry.value, &Trail::Field(self.0.trail, &entry.key), self.0.notes)
    }
}

/// An object that is a map.
pub(super) struct MapAccessOf<'n, 't>(Entries<'n, 't>);

impl<'n, 't> MapAccessOf<'n, 't> {
    pub(super) fn new(entries: &'n [Entry], trail: &'t Trail<'t>, notes: &'t RefCell<Notes>) -> Self {
        Self(Entries::new(entries, trail, notes))
    }
}

impl<'de> MapAccess<'de> for MapAccessOf<'_, '_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        self.0.next_key(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let Some(entry) = self.0.current else { return Err(out_of_turn()) };
        read(seed, &entry.value, &Trail::Key(self.0.trail, &entry.key), self.0.notes)
    }
}

/// A list.
pub(super) struct ItemsAccess<'n, 't> {
    items: std::iter::Enumerate<std::slice::Iter<'n, Node>>,
    trail: &'t Trail<'t>,
    notes: &'t RefCell<Notes>,
}

impl<'n, 't> ItemsAccess<'n, 't> {
    pub(super) fn new(items: &'n [Node], trail: &'t Trail<'t>, notes: &'t RefCell<Notes>) -> Self {
        Self { items: items.iter().enumerate(), trail, notes }
    }
}

impl<'de> SeqAccess<'de> for ItemsAccess<'_, '_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        let Some((index, node)) = self.items.find(|(_, node)| !self.notes.borrow().is_set_aside(node)) else {
            return Ok(None);
        };
        read(seed, node, &Trail::Index(self.trail, index), self.notes).map(Some)
    }
}

fn out_of_turn() -> Refused {
    serde::de::Error::custom("a value was asked for before its key")
}
