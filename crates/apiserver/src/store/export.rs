//! All objects as lines of JSON: insurance against a damaged log, and the way to another version.
//!
//! The first line says what it is and the newest revision; each other line is one object with its place. History is not in it:
//! after an import watches begin anew, and revisions go on above the exported ones.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::entry::{Attributes, Draft, Entry};
use super::handle::Store;
use super::key::Key;
use super::log::{Loaded, LogError};
use super::redb_log::RedbLog;
use super::writer::read;

const FORMAT: &str = "minke-api-export/1";

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    revision: u64,
    objects: usize,
}

#[derive(Serialize, Deserialize)]
struct Line {
    resource: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    revision: u64,
    created: u64,
    attributes: Attributes,
    object: Value,
}

/// Why an export stopped.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The place that it goes to fails.
    #[error("can't write the export")]
    Write(#[source] std::io::Error),
    /// An object can't be read.
    #[error("{key} can't be read")]
    Object {
        /// Which one.
        key: Key,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// Why an import is refused. Nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The place that it comes from fails.
    #[error("can't read the export")]
    Read(#[source] std::io::Error),
    /// A line is not what an export has.
    #[error("line {line} of the export can't be read")]
    Line {
        /// Which, from 1.
        line: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A line says what no object can be.
    #[error("line {line} of the export is no object's: {why}")]
    Wrong {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// The first line names another format.
    #[error("this is no export of this version: it says {0:?}")]
    Format(String),
    /// There are fewer or more objects than the first line says.
    #[error("the export is incomplete: it has {found} of {promised} objects")]
    Incomplete {
        /// Objects found.
        found: usize,
        /// Objects that the header promised.
        promised: usize,
    },
    /// The log to fill has objects already.
    #[error("there are objects already; import into a new directory")]
    NotEmpty,
    /// The log failed.
    #[error("can't fill the log")]
    Log(#[source] LogError),
}

impl Store {
    /// Writes all objects as of one moment.
    ///
    /// # Errors
    /// The writer fails, or an object can't be read.
    pub fn export(&self, to: &mut dyn Write) -> Result<(), ExportError> {
        let (revision, all) = {
            let state = read(&self.shared.state);
            let all: Vec<(Key, Arc<Entry>)> = state.all().map(|(key, entry)| (key, entry.clone())).collect();
            (state.revision(), all)
        };
        let mut line = |value: &dyn erased::Json| -> Result<(), ExportError> {
            to.write_all(&value.to_line()).map_err(ExportError::Write)
        };
        line(&Header { format: FORMAT.to_owned(), revision, objects: all.len() })?;
        for (key, entry) in all {
            let object = entry.parse().map_err(|source| ExportError::Object { key: key.clone(), source })?;
            line(&Line {
                resource: key.resource.to_string(),
                namespace: key.namespace.to_string(),
                name: key.name.to_string(),
                revision: entry.revision,
                created: entry.created,
                attributes: (*entry.attributes).clone(),
                object,
            })?;
        }
        Ok(())
    }

    /// Fills a new log at `path` with an export.
    ///
    /// # Errors
    /// The export is not whole, or the log is not empty.
    pub fn import(path: &Path, from: &mut dyn BufRead) -> Result<(), ImportError> {
        let loaded = Loaded::of_export(from)?;
        let (mut log, found) = RedbLog::open(path).map_err(ImportError::Log)?;
        if !found.objects.is_empty() {
            return Err(ImportError::NotEmpty);
        }
        let newer = found.revision.max(loaded.revision);
        log.fill(&Loaded { revision: newer, floor: newer, ..loaded }).map_err(ImportError::Log)
    }
}

impl Loaded {
    /// What an export says.
    ///
    /// # Errors
    /// It is not whole, or says what no object can be.
    pub fn of_export(from: &mut dyn BufRead) -> Result<Self, ImportError> {
        let mut lines = from.lines().zip(1..);
        let Some((first, _)) = lines.next() else { return Err(ImportError::Format(String::new())) };
        let first = first.map_err(ImportError::Read)?;
        let header: Header = serde_json::from_str(&first).map_err(|source| ImportError::Line { line: 1, source })?;
        if header.format != FORMAT {
            return Err(ImportError::Format(header.format));
        }
        revision(header.revision).map_err(|why| ImportError::Wrong { line: 1, why })?;
        let mut objects = BTreeMap::new();
        for (text, line) in lines {
            let text = text.map_err(ImportError::Read)?;
            let row: Line = serde_json::from_str(&text).map_err(|source| ImportError::Line { line, source })?;
            row.check().map_err(|why| ImportError::Wrong { line, why })?;
            let key = Key::new(row.resource, row.namespace, row.name);
            let entry = Entry::new(&Draft::of(&row.object), row.revision, row.created, Arc::new(row.attributes));
            if objects.insert(key, entry).is_some() {
                return Err(ImportError::Wrong { line, why: "it was there before" });
            }
        }
        if objects.len() != header.objects {
            return Err(ImportError::Incomplete { found: objects.len(), promised: header.objects });
        }
        let newest = objects.values().map(|entry| entry.revision).max().unwrap_or(0).max(header.revision);
        Ok(Self { revision: newest, objects: objects.into_iter().collect(), ..Self::default() })
    }
}

/// Whether a revision leaves room for those that come after it.
fn revision(revision: u64) -> Result<(), &'static str> {
    match i64::try_from(revision) {
        Ok(1..) => Ok(()),
        Ok(_) | Err(_) => Err("its revision is none"),
    }
}

impl Line {
    /// Whether an object can be so. A damaged place would be found only when the log is opened again.
    fn check(&self) -> Result<(), &'static str> {
        revision(self.revision)?;
        let text = |field: &str| self.object["metadata"][field].as_str().unwrap_or_default();
        let parts = [&self.resource, &self.namespace, &self.name];
        let wrong = [
            (!(1..=self.revision).contains(&self.created), "it was created after its last change"),
            (self.resource.is_empty() || self.name.is_empty(), "it has no place"),
            (parts.iter().any(|part| part.contains('\0')), "its place has a NUL in it"),
            (!self.object.is_object(), "it is not an object"),
            (text("name") != self.name || text("namespace") != self.namespace, "its place is another one's"),
        ];
        wrong.iter().find(|(is, _)| *is).map_or(Ok(()), |(_, why)| Err(*why))
    }
}

/// One way to write both kinds of line.
mod erased {
    use serde::Serialize;

    pub(super) trait Json {
        fn to_line(&self) -> Vec<u8>;
    }

    impl<T: Serialize> Json for T {
        fn to_line(&self) -> Vec<u8> {
            let mut line = serde_json::to_vec(self).unwrap_or_default();
            line.push(b'\n');
            line
        }
    }
}
