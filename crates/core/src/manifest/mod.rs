//! From manifest texts to Pods.
//!
//! [`parse`] takes texts (YAML with any number of documents, JSON, lists) and gives [`Manifests`]: Pods that are
//! defaulted, validated and identified, and the ConfigMaps and Secrets beside them. Or it gives [`Invalid`], with
//! every problem of every text; there is no half result.
//!
//! The way of a text, one file a step:
//!
//! | step | file |
//! |---|---|
//! | bytes to text, excerpts of it | `source_text` |
//! | text to a tree with positions, within limits | `yaml` and `scalar`, `json`, `tree`, `syntax`, `limits` |
//! | keys given twice | `duplicates` |
//! | which object it is, lists opened | `kind`, `session` |
//! | tree to a Kubernetes type, strictly | `decode` |
//! | defaults, validation | [`crate::defaults`], [`crate::validation`] |
//! | Pods of a Job or Deployment | `job`, `deployment`, `workload` |
//! | names, uids, duplicates, groups | `session` |
//! | findings with their place | `report`, `diagnostic` |
//! | one text as a value, for others | `document` |
//!
//! A Secret's values are in no message, excerpt or `Debug` output.

mod decode;
mod deployment;
mod diagnostic;
mod document;
mod duplicates;
mod job;
mod json;
mod kind;
mod limits;
mod manifests;
mod position;
mod report;
mod scalar;
mod session;
mod source_text;
mod syntax;
#[cfg(test)]
mod tests;
mod tree;
mod workload;
mod yaml;

pub use diagnostic::{Diagnostic, Excerpt, Severity};
pub use document::{Document, DocumentError, document};
pub use limits::MAX_BYTES;
pub use manifests::{Input, Invalid, Manifests, Origin, PodGroup, Validate};
pub use position::Position;

/// Reads texts, together: names may not repeat, over texts as well.
///
/// # Errors
/// [`Invalid`] has every problem of every text; nothing of them is to be used.
pub fn parse(inputs: &[Input], validate: Validate) -> Result<Manifests, Invalid> {
    let mut session = session::Session::new(validate);
    for input in inputs {
        session.read(input);
    }
    session.finish()
}
