//! Rows of the log: numbers little-endian, lengths before what has one, objects as they are.

use std::sync::Arc;

use bytes::Bytes;

use super::entry::{Attributes, Entry, Event, EventKind, Previous};
use super::key::Key;

/// Writes the parts of a row one after the other.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn part(&mut self, part: &[u8]) {
        self.number(part.len() as u64);
        self.0.extend_from_slice(part);
    }

    fn attributes(&mut self, attributes: &Attributes) {
        self.part(&serde_json::to_vec(attributes).unwrap_or_default());
    }

    fn entry(&mut self, entry: &Entry) {
        self.number(entry.revision);
        self.number(entry.created);
        self.number(entry.at.into());
        self.attributes(&entry.attributes);
        self.part(&entry.bytes);
    }
}

/// Reads them again; anything that does not fit is `None`.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }

    fn part(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }

    fn attributes(&mut self) -> Option<Arc<Attributes>> {
        serde_json::from_slice(self.part()?).ok().map(Arc::new)
    }

    fn entry(&mut self) -> Option<Entry> {
        let (revision, created) = (self.number()?, self.number()?);
        let at = u32::try_from(self.number()?).ok()?;
        let attributes = self.attributes()?;
        let bytes = Bytes::copy_from_slice(self.part()?);
        let digits = bytes.get(at as usize..)?;
        digits.starts_with(revision.to_string().as_bytes()).then_some(Entry {
            revision,
            created,
            bytes,
            at,
            attributes,
        })
    }

    fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// A row of the table of objects.
pub(crate) fn write_entry(entry: &Entry) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.entry(entry);
    writer.0
}

/// See [`write_entry`].
pub(crate) fn read_entry(row: &[u8]) -> Option<Entry> {
    let mut reader = Reader(row);
    let entry = reader.entry()?;
    reader.end(entry)
}

/// A row of the table of changes.
pub(crate) fn write_event(event: &Event) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.number(match event.kind {
        EventKind::Added => 1,
        EventKind::Modified => 2,
        EventKind::Deleted => 3,
    });
    writer.part(&event.key.to_bytes());
    if let Some(previous) = &event.previous {
        writer.number(1);
        writer.attributes(&previous.attributes);
    } else {
        writer.number(0);
    }
    writer.entry(&event.entry);
    writer.0
}

/// See [`write_event`].
pub(crate) fn read_event(row: &[u8]) -> Option<Event> {
    let mut reader = Reader(row);
    let kind = match reader.number()? {
        1 => EventKind::Added,
        2 => EventKind::Modified,
        3 => EventKind::Deleted,
        _ => return None,
    };
    let key = Key::from_bytes(reader.part()?)?;
    let previous = match reader.number()? {
        0 => None,
        1 => Some(Previous { attributes: reader.attributes()?, entry: None }),
        _ => return None,
    };
    let entry = Arc::new(reader.entry()?);
    reader.end(Event { key, kind, entry, previous })
}
