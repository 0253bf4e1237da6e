//! Why a text is neither YAML nor JSON.

use super::limits::{MAX_DEPTH, MAX_NODES};
use super::position::Position;

/// A text that can't be read on from some place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct SyntaxError {
    pub(super) at: Position,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
    /// A limit, rather than the grammar: another reader would not do better.
    pub(super) limit: bool,
}

impl SyntaxError {
    pub(super) fn new(at: Position, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None, limit: false }
    }

    pub(super) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    fn limit(at: Position, message: String) -> Self {
        Self { limit: true, ..Self::new(at, message) }
    }

    pub(super) fn too_deep(at: Position) -> Self {
        Self::limit(at, format!("lists and objects are nested more than {MAX_DEPTH} levels deep"))
    }

    pub(super) fn too_many(at: Position) -> Self {
        let message = format!("more than {MAX_NODES} values, aliases replaced by what they stand for");
        Self::limit(at, message).hint("split the file")
    }
}

/// How many values may still be made of one source text.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { left: MAX_NODES }
    }

    pub(super) fn spend(&mut self, nodes: usize, at: Position) -> Result<(), SyntaxError> {
        self.left = self.left.checked_sub(nodes).ok_or_else(|| SyntaxError::too_many(at))?;
        Ok(())
    }
}
