//! What clients ask for beside the object, and which combinations are refused.

use super::error::too_new;
use super::selector::Selection;
use crate::error::{ApiError, Cause};
use crate::strict::FieldValidation;

/// Of a create, update or patch.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Everything is done but keeping it.
    pub dry_run: bool,
    /// Who writes, for managed fields.
    pub field_manager: String,
    /// Takes fields from other managers (apply alone).
    pub force: bool,
    /// What becomes of unknown fields in what a patch comes to. Other bodies are decoded before they come here.
    pub validation: FieldValidation,
}

/// How a list's `resourceVersion` is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionMatch {
    /// As of that revision exactly.
    Exact,
    /// Not older than that.
    NotOlderThan,
}

/// Of a list.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Which objects.
    pub selection: Selection,
    /// Most objects in the answer.
    pub limit: Option<usize>,
    /// Where the last answer ended.
    pub continue_token: String,
    /// As of when; `Some(0)` is any time.
    pub resource_version: Option<u64>,
    /// How that is meant.
    pub revision_match: Option<RevisionMatch>,
    /// Of a watch.
    pub watch: WatchOptions,
}

/// What a watch has besides.
#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    /// Whether bookmarks may be sent.
    pub bookmarks: bool,
    /// Whether it begins with what is there, and says when that is over.
    pub initial_events: Option<bool>,
    /// When it ends.
    pub timeout_seconds: Option<u64>,
}

fn invalid(field: &str, what: &str) -> ApiError {
    let cause = Cause::new("FieldValueForbidden", format!("Forbidden: {what}"), field);
    ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![cause])
}

impl ListOptions {
    /// Refuses what contradicts itself in a list.
    pub(super) fn check_list(&self) -> Result<(), ApiError> {
        if self.watch.initial_events.is_some() {
            return Err(invalid("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        let at_any = self.resource_version.unwrap_or(0) == 0;
        if self.revision_match.is_some() {
            if self.resource_version.is_none() {
                let what = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                return Err(invalid("resourceVersionMatch", what));
            }
            if !self.continue_token.is_empty() {
                let what = "resourceVersionMatch is forbidden when continue is provided";
                return Err(invalid("resourceVersionMatch", what));
            }
            if self.revision_match == Some(RevisionMatch::Exact) && at_any {
                let what = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                return Err(invalid("resourceVersionMatch", what));
            }
        }
        if !self.continue_token.is_empty() && !at_any {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        Ok(())
    }

    /// Refuses what contradicts itself in a watch.
    pub(super) fn check_watch(&self) -> Result<(), ApiError> {
        match (self.watch.initial_events, self.revision_match) {
            (None, Some(_)) => {
                let what = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                Err(invalid("resourceVersionMatch", what))
            }
            (Some(_), None | Some(RevisionMatch::Exact)) => {
                let what = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                Err(invalid("resourceVersionMatch", what))
            }
            (Some(true), Some(RevisionMatch::NotOlderThan)) if !self.watch.bookmarks => {
                let what = "sendInitialEvents requires allowWatchBookmarks";
                Err(invalid("allowWatchBookmarks", what))
            }
            (None, None) | (Some(_), Some(RevisionMatch::NotOlderThan)) => Ok(()),
        }
    }
}

/// 504 for a revision that has not been yet.
pub(super) fn not_too_new(wanted: u64, newest: u64) -> Result<(), ApiError> {
    if wanted > newest { Err(too_new(wanted, newest)) } else { Ok(()) }
}
