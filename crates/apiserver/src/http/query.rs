//! The part of a URL after `?`, and what the verbs make of it.

use crate::engine::{FieldSelector, LabelSelector, ListOptions, RevisionMatch, Selection, WatchOptions, WriteOptions};
use crate::error::{ApiError, Cause};
use crate::kinds::Kind;
use crate::strict::FieldValidation;

/// Decoded parameters; the first of a name counts.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The one name that a field selector leaves; empty if it leaves more.
    pub(crate) fn only_name(&self) -> &str {
        let mut terms = self.get("fieldSelector").split(',');
        terms
            .find_map(|term| term.trim().strip_prefix("metadata.name="))
            .map_or("", |name| name.trim_start_matches('='))
    }

    /// The first of a name, if there is one: present and empty is not absent.
    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All of a name, in order.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| &**value)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// As Go reads a flag: absent is `None`, present and empty is true.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.has(name).then(|| !matches!(self.get(name), "false" | "0" | "F" | "f" | "False" | "FALSE"))
    }

    fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        match self.get(name) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => {
                    Err(ApiError::bad_request(format!("{name}: Invalid value: {text:?}: must be a decimal number")))
                }
            },
        }
    }

    pub(crate) fn resource_version(&self) -> Result<Option<u64>, ApiError> {
        self.number("resourceVersion")
    }

    /// Whether nothing is to be kept.
    pub(crate) fn dry_run(&self) -> Result<bool, ApiError> {
        let wanted: Vec<&str> = self.0.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| &**value).collect();
        if wanted.iter().any(|value| *value != "All") {
            let message = format!("Unsupported value: {wanted:?}: supported values: \"All\"");
            let cause = Cause::new("FieldValueNotSupported", message, "dryRun");
            return Err(ApiError::invalid("meta.k8s.io", "Options", "", vec![cause]));
        }
        Ok(!wanted.is_empty())
    }

    /// Options of a write; `agent` is the client's `User-Agent`.
    pub(crate) fn write(&self, agent: &str) -> Result<WriteOptions, ApiError> {
        let manager = match self.get("fieldManager") {
            "" => agent.split('/').next().unwrap_or_default(),
            manager => manager,
        };
        // Everyone who writes over HTTP leaves a name.
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Ok(WriteOptions {
            dry_run: self.dry_run()?,
            field_manager: manager.to_owned(),
            force: self.flag("force").unwrap_or(false),
            ..WriteOptions::default()
        })
    }

    /// What becomes of unknown fields.
    ///
    /// # Errors
    /// 422 for a mode that there is not, about these options.
    pub(crate) fn validation(&self, options: &str) -> Result<FieldValidation, ApiError> {
        let mode = self.get("fieldValidation");
        FieldValidation::parse(mode).ok_or_else(|| {
            let message =
                format!("Unsupported value: {mode:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"");
            let cause = Cause::new("FieldValueNotSupported", message, "fieldValidation");
            ApiError::invalid("meta.k8s.io", options, "", vec![cause])
        })
    }

    /// Options of a list or watch.
    pub(crate) fn list(&self, kind: &Kind) -> Result<ListOptions, ApiError> {
        let revision_match = match self.get("resourceVersionMatch") {
            "" => None,
            "Exact" => Some(RevisionMatch::Exact),
            "NotOlderThan" => Some(RevisionMatch::NotOlderThan),
            other => {
                let message =
                    format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\"");
                let cause = Cause::new("FieldValueNotSupported", message, "resourceVersionMatch");
                return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![cause]));
            }
        };
        let limit = self.number("limit")?.filter(|limit| *limit > 0);
        Ok(ListOptions {
            selection: Selection {
                labels: LabelSelector::parse(self.get("labelSelector"))?,
                fields: FieldSelector::parse(self.get("fieldSelector"), kind)?,
            },
            limit: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            continue_token: self.get("continue").to_owned(),
            resource_version: self.resource_version()?,
            revision_match,
            watch: WatchOptions {
                bookmarks: self.flag("allowWatchBookmarks").unwrap_or(false),
                initial_events: self.flag("sendInitialEvents"),
                timeout_seconds: self.number("timeoutSeconds")?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_may_leave_one_name() {
        for (text, name) in [
            ("fieldSelector=metadata.name%3Da", "a"),
            ("fieldSelector=spec.nodeName%3Dn,metadata.name%3D%3Da", "a"),
            ("fieldSelector=metadata.name!%3Da", ""),
            ("fieldSelector=metadata.namespace%3Da", ""),
            ("", ""),
        ] {
            assert_eq!(Query::parse(text).only_name(), name, "{text}");
        }
    }
}
