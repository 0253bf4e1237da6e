//! Places in a source text.

use std::fmt;

/// A place in a source text. Both numbers start at 1; a column counts characters, not bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl Position {
    /// Where a text begins.
    pub const START: Self = Self { line: 1, column: 1 };

    /// A position from 1-based numbers of any width; what does not fit is clamped.
    #[must_use]
    pub fn new(line: usize, column: usize) -> Self {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { line: narrow(line), column: narrow(column) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
