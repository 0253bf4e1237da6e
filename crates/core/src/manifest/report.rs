//! The findings of one read: listed up to a limit, counted beyond.

use super::decode::{Finding, Problem};
use super::diagnostic::{Diagnostic, Severity};
use super::limits::MAX_FINDINGS;
use super::manifests::Validate;
use super::position::Position;
use super::source_text::{Show, SourceText};
use super::tree::Node;
use crate::validation::{FieldPath, ValidationError};

/// Where the findings of one object belong.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) source: &'a SourceText<'a>,
    /// The object.
    pub(super) node: &'a Node,
    /// The way to it from its document: `items[3]`.
    pub(super) base: &'a FieldPath,
    /// It is a Secret: no value of it is ever shown.
    pub(super) confidential: bool,
}

impl Place<'_> {
    fn show(&self) -> Show {
        if self.confidential { Show::KeyOnly } else { Show::Line }
    }

    /// Binds a finding at a field of the object; the position is looked up.
    pub(super) fn at_field(
        &self,
        severity: Severity,
        path: &FieldPath,
        message: String,
        hint: Option<String>,
    ) -> Diagnostic {
        let at = self.node.locate(path);
        self.at_position(severity, at, &self.base.join(path), message, hint)
    }

    /// Binds a finding at a known position; `path` starts at the document.
    pub(super) fn at_position(
        &self,
        severity: Severity,
        at: Position,
        path: &FieldPath,
        message: String,
        hint: Option<String>,
    ) -> Diagnostic {
        self.source.diagnostic(severity, at, path.to_string(), message, hint, self.show())
    }
}

/// Everything found so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    validate: Validate,
    pub(super) errors: Vec<Diagnostic>,
    pub(super) unlisted: usize,
    pub(super) warnings: Vec<Diagnostic>,
    unlisted_warnings: usize,
}

impl Report {
    pub(super) fn new(validate: Validate) -> Self {
        Self { validate, ..Self::default() }
    }

    pub(super) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    pub(super) fn add(&mut self, found: Diagnostic) {
        let (list, unlisted) = match found.severity {
            Severity::Error => (&mut self.errors, &mut self.unlisted),
            Severity::Warning => (&mut self.warnings, &mut self.unlisted_warnings),
        };
        if list.len() < MAX_FINDINGS { list.push(found) } else { *unlisted += 1 }
    }

    /// How bad a problem is, as the user wants it; nothing if it is not to be spoken of.
    fn severity(&self, problem: Problem) -> Option<Severity> {
        match (problem, self.validate) {
            (Problem::Mistyped, Validate::Strict | Validate::Warn | Validate::Ignore) => Some(Severity::Error),
            (Problem::Unknown | Problem::Duplicate, Validate::Strict) => Some(Severity::Error),
            (Problem::Unknown | Problem::Duplicate, Validate::Warn) => Some(Severity::Warning),
            (Problem::Unknown | Problem::Duplicate, Validate::Ignore) => None,
        }
    }

    /// Adds a problem of the form of an object; true if it is an error.
    pub(super) fn add_finding(&mut self, finding: Finding, place: &Place<'_>) -> bool {
        let Some(severity) = self.severity(finding.problem) else { return false };
        self.add(place.at_position(severity, finding.at, &finding.path, finding.message, finding.hint));
        severity == Severity::Error
    }

    /// Counts problems that nobody listed.
    pub(super) fn count_unlisted(&mut self, more: usize) {
        match self.validate {
            Validate::Strict => self.unlisted += more,
            Validate::Warn => self.unlisted_warnings += more,
            Validate::Ignore => {}
        }
    }

    /// Adds broken rules; true if there are any.
    pub(super) fn add_violations(&mut self, violations: Vec<ValidationError>, place: &Place<'_>) -> bool {
        let any = !violations.is_empty();
        for violation in violations {
            self.add(place.at_field(Severity::Error, &violation.path, violation.message, None));
        }
        any
    }

    /// Where the findings of the next text begin.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.errors.len(), self.warnings.len())
    }

    /// Puts the findings since a mark, all of one text, in the order of the text.
    pub(super) fn sort_since(&mut self, (errors, warnings): (usize, usize)) {
        self.errors[errors..].sort_by_key(|found| (found.line, found.column));
        self.warnings[warnings..].sort_by_key(|found| (found.line, found.column));
    }

    /// All warnings, with a last one for those that are not listed.
    pub(super) fn into_warnings(mut self) -> Vec<Diagnostic> {
        if self.unlisted_warnings > 0
            && let Some(last) = self.warnings.last()
        {
            let mut more = Diagnostic::of_file(last.file.clone(), format!("{} more warnings", self.unlisted_warnings));
            more.severity = Severity::Warning;
            self.warnings.push(more);
        }
        self.warnings
    }
}
