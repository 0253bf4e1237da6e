//! One broken rule: which field, in what way, in Kubernetes' words.

use std::fmt;

use super::path::FieldPath;

/// In what way a field is wrong: the machine-readable half of a [`ValidationError`], as in an API server's causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It must be given.
    Required,
    /// Its value breaks a rule.
    Invalid,
    /// Its value is none of those known.
    NotSupported,
    /// The value is there already.
    Duplicate,
    /// It must not be given here.
    Forbidden,
    /// It is longer than allowed.
    TooLong,
    /// It names something that isn't there.
    NotFound,
}

impl Reason {
    /// The reason as an API server's `causes[].reason` has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::NotFound => "FieldValueNotFound",
        }
    }
}

/// A rule that an object breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ValidationError {
    /// The field.
    pub path: FieldPath,
    /// In what way it is wrong.
    pub reason: Reason,
    /// The same for people: `Required value`, `Invalid value: "A": must be …`.
    pub message: String,
}

fn with_detail(mut message: String, detail: &str) -> String {
    if !detail.is_empty() {
        message.push_str(": ");
        message.push_str(detail);
    }
    message
}

/// Values are shown as they are written in a manifest: texts in quotes, everything else bare.
pub(crate) trait Shown {
    fn shown(&self) -> String;
}

impl Shown for str {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

impl Shown for String {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

macro_rules! shown_by_display {
    ($($t:ty),*) => { $(impl Shown for $t { fn shown(&self) -> String { self.to_string() } })* };
}
shown_by_display!(i32, i64, u64, usize, bool, fmt::Arguments<'_>);

impl<T: Shown + ?Sized> Shown for &T {
    fn shown(&self) -> String {
        (**self).shown()
    }
}

/// The errors of one validation, in the order of the object's fields.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<ValidationError>);

impl Errors {
    pub(crate) fn into_vec(self) -> Vec<ValidationError> {
        self.0
    }

    pub(crate) fn push(&mut self, path: &FieldPath, reason: Reason, message: String) {
        self.0.push(ValidationError { path: path.clone(), reason, message });
    }

    pub(crate) fn required(&mut self, path: &FieldPath, detail: &str) {
        self.push(path, Reason::Required, with_detail("Required value".to_owned(), detail));
    }

    pub(crate) fn invalid(&mut self, path: &FieldPath, value: impl Shown, detail: &str) {
        self.push(path, Reason::Invalid, with_detail(format!("Invalid value: {}", value.shown()), detail));
    }

    pub(crate) fn unsupported(&mut self, path: &FieldPath, value: &str, known: &[&str]) {
        let known: Vec<String> = known.iter().map(|k| format!("{k:?}")).collect();
        let message = format!("Unsupported value: {value:?}: supported values: {}", known.join(", "));
        self.push(path, Reason::NotSupported, message);
    }

    pub(crate) fn duplicate(&mut self, path: &FieldPath, value: impl Shown) {
        self.push(path, Reason::Duplicate, format!("Duplicate value: {}", value.shown()));
    }

    pub(crate) fn forbidden(&mut self, path: &FieldPath, detail: &str) {
        self.push(path, Reason::Forbidden, with_detail("Forbidden".to_owned(), detail));
    }

    pub(crate) fn too_long(&mut self, path: &FieldPath, most_bytes: usize) {
        self.push(path, Reason::TooLong, format!("Too long: may not be more than {most_bytes} bytes"));
    }

    pub(crate) fn not_found(&mut self, path: &FieldPath, value: impl Shown) {
        self.push(path, Reason::NotFound, format!("Not found: {}", value.shown()));
    }
}
