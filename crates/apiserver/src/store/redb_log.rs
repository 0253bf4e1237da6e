//! The log on redb: objects, recent changes, floors and the newest revision, one transaction a commit.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::batch::Commit;
use super::entry::EventKind;
use super::key::Key;
use super::log::{Loaded, Log, LogError};
use super::row;

const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
const FLOORS: TableDefinition<'_, &str, u64> = TableDefinition::new("floors");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const FORMAT: u64 = 1;
/// redb's own default is 1 GiB. Objects are read from memory, so this only serves writing.
const CACHE_BYTES: usize = 4 << 20;

/// The log in one file.
#[derive(Debug)]
pub struct RedbLog {
    database: Database,
}

fn failed(error: impl Into<redb::Error>) -> LogError {
    LogError::Storage(Box::new(error.into()))
}

impl RedbLog {
    /// Opens the log, new or as the last server left it, and reads all of it.
    ///
    /// # Errors
    /// Another process has it open, the disk fails, or the file is not ours.
    pub fn open(path: &Path) -> Result<(Self, Loaded), LogError> {
        let open = |source| LogError::Open { path: path.display().to_string(), source: Box::new(source) };
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(open)?;
        let log = Self { database };
        log.prepare()?;
        let loaded = log.load()?;
        Ok((log, loaded))
    }

    /// Creates the tables and the first revision in a new file.
    fn prepare(&self) -> Result<(), LogError> {
        let write = self.database.begin_write().map_err(failed)?;
        {
            write.open_table(OBJECTS).map_err(failed)?;
            write.open_table(EVENTS).map_err(failed)?;
            write.open_table(FLOORS).map_err(failed)?;
            let mut meta = write.open_table(META).map_err(failed)?;
            let found = meta.get("format").map_err(failed)?.map(|format| format.value());
            match found {
                Some(FORMAT) => {}
                Some(found) => return Err(LogError::Format { found, known: FORMAT }),
                None => {
                    meta.insert("format", FORMAT).map_err(failed)?;
                    meta.insert("revision", Loaded::default().revision).map_err(failed)?;
                }
            }
        }
        write.commit().map_err(failed)
    }

    fn load(&self) -> Result<Loaded, LogError> {
        let read = self.database.begin_read().map_err(failed)?;
        let meta = read.open_table(META).map_err(failed)?;
        let number = |name: &str| meta.get(name).map(|row| row.map(|row| row.value())).map_err(failed);
        let revision = number("revision")?.ok_or(LogError::Damaged { table: "meta" })?;
        let mut loaded = Loaded { revision, floor: number("floor")?.unwrap_or(0), ..Loaded::default() };
        for row in read.open_table(FLOORS).map_err(failed)?.iter().map_err(failed)? {
            let (resource, floor) = row.map_err(failed)?;
            loaded.floors.push((Arc::from(resource.value()), floor.value()));
        }
        for row in read.open_table(OBJECTS).map_err(failed)?.iter().map_err(failed)? {
            let (key, entry) = row.map_err(failed)?;
            let pair = Key::from_bytes(key.value()).zip(row::read_entry(entry.value()));
            loaded.objects.push(pair.ok_or(LogError::Damaged { table: "objects" })?);
        }
        for row in read.open_table(EVENTS).map_err(failed)?.iter().map_err(failed)? {
            let (revision, event) = row.map_err(failed)?;
            let event = row::read_event(event.value()).filter(|event| event.revision() == revision.value());
            loaded.events.push(event.ok_or(LogError::Damaged { table: "events" })?);
        }
        Ok(loaded)
    }

    /// Fills a new log with what an export had.
    ///
    /// # Errors
    /// The disk fails; the file is then to be removed.
    pub(crate) fn fill(&mut self, loaded: &Loaded) -> Result<(), LogError> {
        let write = self.database.begin_write().map_err(failed)?;
        {
            let mut objects = write.open_table(OBJECTS).map_err(failed)?;
            for (key, entry) in &loaded.objects {
                let row = row::write_entry(entry);
                objects.insert(key.to_bytes().as_slice(), row.as_slice()).map_err(failed)?;
            }
            let mut meta = write.open_table(META).map_err(failed)?;
            meta.insert("revision", loaded.revision).map_err(failed)?;
            meta.insert("floor", loaded.floor).map_err(failed)?;
        }
        write.commit().map_err(failed)
    }
}

impl Log for RedbLog {
    fn commit(&mut self, commit: &Commit) -> Result<(), LogError> {
        let mut write = self.database.begin_write().map_err(failed)?;
        write.set_durability(Durability::Immediate).map_err(failed)?;
        {
            let mut objects = write.open_table(OBJECTS).map_err(failed)?;
            let mut events = write.open_table(EVENTS).map_err(failed)?;
            for event in &commit.events {
                let key = event.key.to_bytes();
                match event.kind {
                    EventKind::Added | EventKind::Modified => {
                        let row = row::write_entry(&event.entry);
                        objects.insert(key.as_slice(), row.as_slice()).map_err(failed)?;
                    }
                    EventKind::Deleted => {
                        objects.remove(key.as_slice()).map_err(failed)?;
                    }
                }
                let row = row::write_event(event);
                events.insert(event.revision(), row.as_slice()).map_err(failed)?;
            }
            for revision in &commit.forgotten {
                events.remove(revision).map_err(failed)?;
            }
            if !commit.floors.is_empty() {
                let mut floors = write.open_table(FLOORS).map_err(failed)?;
                for (resource, floor) in &commit.floors {
                    floors.insert(&**resource, floor).map_err(failed)?;
                }
            }
            write.open_table(META).map_err(failed)?.insert("revision", commit.revision).map_err(failed)?;
        }
        write.commit().map_err(failed)
    }
}
