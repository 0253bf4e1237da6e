//! What is wrong with a manifest, and where.

use std::fmt;
use std::sync::Arc;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Nothing of the input is used.
    Error,
    /// The input is used; this part of it has no effect.
    Warning,
}

/// A finding about a manifest, bound to a place in its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Name of the source: a path as given, a URL, `-` for standard input.
    pub file: Arc<str>,
    /// Line, from 1; 0 where the finding is about the file as a whole.
    pub line: u32,
    /// Column in characters, from 1; 0 where the finding is about the file as a whole.
    pub column: u32,
    /// The field in its document, `spec.containers[0].imagee`; empty where it is about the document as a whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The source line, made safe for a terminal, and the column in it (from 1) that the finding is about. Absent
    /// where there is none, or where it may hold a secret.
    pub excerpt: Option<Excerpt>,
}

/// A piece of one source line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The text: no control characters, at most [`Excerpt::MAX_CHARS`].
    pub text: String,
    /// The character in `text`, from 1, that is meant.
    pub column: u32,
}

impl Excerpt {
    /// Longest text kept of a line.
    pub const MAX_CHARS: usize = 120;

    /// The part of a source line around a column. `masked` hides everything from the column on.
    pub(super) fn around(line: &str, column: u32, masked: bool) -> Self {
        let column = column.max(1) as usize;
        let start = if column > Self::MAX_CHARS * 3 / 4 { column - Self::MAX_CHARS / 2 } else { 1 };
        let safe = |c: char| match c {
            '\t' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        let keep = if masked { column - start } else { Self::MAX_CHARS };
        let mut text: String = line.trim_end_matches('\r').chars().skip(start - 1).take(keep).map(safe).collect();
        if masked {
            text.push_str("***");
        }
        Self { text: text.trim_end().to_owned(), column: u32::try_from(column - start + 1).unwrap_or(1) }
    }
}

impl Diagnostic {
    /// A finding about a whole file.
    #[must_use]
    pub fn of_file(file: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            file: file.into(),
            line: 0,
            column: 0,
            path: String::new(),
            message: message.into(),
            hint: None,
            excerpt: None,
        }
    }

    /// The place, `file:line:column`.
    #[must_use]
    pub fn location(&self) -> String {
        if self.line == 0 { self.file.to_string() } else { format!("{}:{}:{}", self.file, self.line, self.column) }
    }

    /// Several lines for a terminal: the finding, the place, the source line with a caret, the hint.
    #[must_use]
    pub fn render(&self) -> String {
        let level = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let field = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        let mut text = format!("{level}: {field}{}\n", self.message);
        let gutter = self.line.to_string().len();
        text.push_str(&format!("{:gutter$}--> {}\n", "", self.location()));
        if let Some(excerpt) = &self.excerpt {
            let caret = excerpt.column as usize;
            text.push_str(&format!("{:gutter$} |\n", ""));
            text.push_str(&format!("{} | {}\n", self.line, excerpt.text));
            text.push_str(&format!("{:gutter$} | {:>caret$}\n", "", "^"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("{:gutter$} = hint: {hint}\n", ""));
        }
        text
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.location())?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_field() -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            file: "web.yaml".into(),
            line: 12,
            column: 5,
            path: "spec.containers[0].imagee".to_owned(),
            message: "unknown field \"imagee\"".to_owned(),
            hint: Some("did you mean \"image\"?".to_owned()),
            excerpt: Some(Excerpt::around("    imagee: nginx\r", 5, false)),
        }
    }

    #[test]
    fn one_line_names_place_field_and_hint() {
        assert_eq!(
            unknown_field().to_string(),
            "web.yaml:12:5: spec.containers[0].imagee: unknown field \"imagee\" (did you mean \"image\"?)"
        );
        assert_eq!(Diagnostic::of_file("x.yaml", "is empty").to_string(), "x.yaml: is empty");
    }

    #[test]
    fn a_terminal_sees_the_line_and_a_caret() {
        let expected = "error: spec.containers[0].imagee: unknown field \"imagee\"\n  \
                        --> web.yaml:12:5\n   \
                        |\n\
                        12 |     imagee: nginx\n   \
                        |     ^\n   \
                        = hint: did you mean \"image\"?\n";
        assert_eq!(unknown_field().render(), expected);
    }

    #[test]
    fn an_excerpt_cannot_drive_the_terminal() {
        let excerpt = Excerpt::around("a:\t\x1b[2J\u{7}b", 4, false);
        assert_eq!(excerpt.text, "a: \u{fffd}[2J\u{fffd}b");
        assert_eq!(excerpt.column, 4);
    }

    #[test]
    fn a_long_line_is_cut_around_its_column() {
        let line = format!("{}X{}", "a".repeat(5000), "b".repeat(5000));
        let excerpt = Excerpt::around(&line, 5001, false);
        assert_eq!(excerpt.text.chars().count(), Excerpt::MAX_CHARS);
        assert_eq!(excerpt.text.chars().nth(excerpt.column as usize - 1), Some('X'));
    }

    #[test]
    fn a_masked_excerpt_ends_at_its_column() {
        assert_eq!(Excerpt::around("  password: hunter2", 13, true).text, "  password: ***");
    }
}
