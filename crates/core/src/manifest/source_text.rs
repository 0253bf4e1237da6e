//! One source text: its name, its lines, and how findings become diagnostics with an excerpt.

use std::cell::OnceCell;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Excerpt, Severity};
use super::manifests::Input;
use super::position::Position;
use super::syntax::SyntaxError;

/// A source whose text is known to be UTF-8.
pub(super) struct SourceText<'a> {
    pub(super) name: Arc<str>,
    pub(super) text: &'a str,
    /// Byte offset of each line.
    lines: OnceCell<Vec<usize>>,
}

/// What may be shown of the source line of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// All of it.
    Line,
    /// Only what stands before the place, if that is no more than a key: values may be secret.
    KeyOnly,
    /// Nothing.
    Nothing,
}

impl<'a> SourceText<'a> {
    /// The text of an input.
    ///
    /// # Errors
    /// It is too large or not UTF-8.
    pub(super) fn of(input: &'a Input, limit: usize) -> Result<Self, Box<Diagnostic>> {
        let name = Arc::clone(&input.name);
        if input.bytes.len() > limit {
            let limit = limit / (1024 * 1024);
            let message = format!("larger than {limit} MiB, the most that a manifest may have; split it");
            return Err(Box::new(Diagnostic::of_file(name, message)));
        }
        let bytes = input.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&input.bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self { name, text, lines: OnceCell::new() }),
            Err(error) => {
                let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                let before = Self { name: Arc::clone(&name), text: valid, lines: OnceCell::new() };
                let at = before.position_of(valid.len());
                let utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
                let message = if utf16 { "this is UTF-16; save it as UTF-8" } else { "this is not UTF-8" };
                let mut found = Diagnostic::of_file(name, message);
                (found.line, found.column) = (at.line, at.column);
                Err(Box::new(found))
            }
        }
    }

    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let bytes = self.text.as_bytes();
            let ends = |i: &usize| bytes[*i] == b'\n' || (bytes[*i] == b'\r' && bytes.get(i + 1) != Some(&b'\n'));
            std::iter::once(0).chain((0..bytes.len()).filter(ends).map(|i| i + 1)).collect()
        })
    }

    /// The place of a byte of the text.
    pub(super) fn position_of(&self, offset: usize) -> Position {
        let line = self.lines().partition_point(|start| *start <= offset).max(1);
        let column = self.text[self.lines()[line - 1]..offset].chars().count() + 1;
        Position::new(line, column)
    }

    fn line(&self, number: u32) -> Option<&str> {
        let index = (number as usize).checked_sub(1)?;
        let start = *self.lines().get(index)?;
        let end = self.lines().get(index + 1).copied().unwrap_or(self.text.len());
        Some(self.text[start..end].trim_end_matches(['\r', '\n']))
    }

    /// Binds a finding to this text.
    pub(super) fn diagnostic(
        &self,
        severity: Severity,
        at: Position,
        path: String,
        message: String,
        hint: Option<String>,
        show: Show,
    ) -> Diagnostic {
        let line = self.line(at.line);
        let excerpt = match show {
            // Minified JSON has everything on one line, a Secret next to a Pod.
            Show::Line => line.filter(|line| !line.contains("Secret")).map(|line| (line, false)),
            Show::KeyOnly => line.filter(|line| only_a_key_before(line, at.column)).map(|line| (line, true)),
            Show::Nothing => None,
        };
        let excerpt = excerpt.map(|(line, masked)| Excerpt::around(line, at.column, masked));
        let name = Arc::clone(&self.name);
        Diagnostic { severity, file: name, line: at.line, column: at.column, path, message, hint, excerpt }
    }

    /// A text that can't be read on. What kind of object it would have been is not known, so nothing is shown of a
    /// text that speaks of Secrets.
    pub(super) fn syntax(&self, error: SyntaxError) -> Diagnostic {
        let show = if self.text.contains("Secret") { Show::Nothing } else { Show::Line };
        let hint = error.hint.map(str::to_owned);
        self.diagnostic(Severity::Error, error.at, String::new(), error.message, hint, show)
    }
}

/// Whether nothing but the begin of one entry stands in a line before a column: `  - "password": `.
fn only_a_key_before(line: &str, column: u32) -> bool {
    let before: String = line.chars().take(column.saturating_sub(1) as usize).collect();
    let entry = before.trim_start_matches([' ', '\t', '-']).trim_end();
    let key = entry.strip_suffix(':').unwrap_or(entry);
    let bare = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    let unquoted = key.strip_prefix(['"', '\'']).and_then(|key| key.strip_suffix(['"', '\'']));
    bare(unquoted.unwrap_or(key)) && (entry.is_empty() || entry.ends_with(':'))
}
