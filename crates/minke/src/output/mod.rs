//! What people and programs read: standard output carries results and logs only, everything else goes to standard
//! error.

pub(crate) mod blame;
pub(crate) mod diagnostics;
pub(crate) mod progress;
pub(crate) mod result;
pub(crate) mod stdout;
pub(crate) mod table;
pub(crate) mod yaml;

use clap::ValueEnum;
use serde::Serialize;

use crate::exit::Failure;

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For people with time: uids, addresses, images
    Wide,
    /// For programs
    Json,
    /// For both
    Yaml,
}

impl Format {
    /// Whether standard output must hold nothing but one document.
    pub(crate) fn is_document(self) -> bool {
        match self {
            Self::Table | Self::Wide => false,
            Self::Json | Self::Yaml => true,
        }
    }
}

/// A document in one of the two formats for programs.
pub(crate) fn document<T: Serialize>(value: &T, yaml: bool) -> Result<String, Failure> {
    let value = serde_json::to_value(value).map_err(|e| Failure::from_error(&e))?;
    if yaml {
        return Ok(yaml::to_string(&value));
    }
    let mut text = serde_json::to_string_pretty(&value).map_err(|e| Failure::from_error(&e))?;
    text.push('\n');
    Ok(text)
}
