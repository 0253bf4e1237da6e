//! Lists, whole or in parts.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::Engine;
use super::error::unreadable;
use super::options::{ListOptions, RevisionMatch, not_too_new};
use crate::error::{ApiError, Reason};
use crate::kinds::Kind;
use crate::store::{At, Entry, Range, ReadError};

/// A list, or one part of it.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// What it is a picture of.
    pub revision: u64,
    /// The objects.
    pub entries: Vec<Arc<Entry>>,
    /// How to get the rest; empty if this is all.
    pub continue_token: String,
    /// How many more there are, where that is known.
    pub remaining: Option<usize>,
}

/// Where a list goes on. Opaque to clients.
#[derive(Serialize, Deserialize)]
struct Token {
    /// The revision of the picture; 0 for whatever is there then.
    #[serde(rename = "rv")]
    revision: u64,
    namespace: String,
    name: String,
}

impl Token {
    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let token = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        token.ok_or_else(|| ApiError::bad_request("invalid continue token: continue key is not valid"))
    }
}

impl Engine {
    /// The objects of a kind, in one namespace or in all.
    ///
    /// # Errors
    /// 400, 410 for a moment that is forgotten, 422, 504 for one that has not been yet.
    pub fn list(&self, kind: &'static Kind, namespace: Option<&str>, options: &ListOptions) -> Result<List, ApiError> {
        options.check_list()?;
        let token = match options.continue_token.as_str() {
            "" => None,
            text => Some(Token::decode(text)?),
        };
        let wanted = options.resource_version.unwrap_or(0);
        let at = match (&token, options.revision_match) {
            (Some(Token { revision: 0, .. }), _) => At::Newest,
            (Some(token), _) => At::Revision(token.revision),
            (None, Some(RevisionMatch::Exact)) => At::Revision(wanted),
            // Without a match, a limited list of a revision is of exactly that one.
            (None, None) if wanted > 0 && options.limit.is_some() => At::Revision(wanted),
            (None, None | Some(RevisionMatch::NotOlderThan)) => {
                not_too_new(wanted, self.store.revision())?;
                At::Newest
            }
        };
        let resource = kind.resource();
        let after = token.as_ref().map(|token| (token.namespace.as_str(), token.name.as_str()));
        let range = Range { resource: &resource, namespace, after, limit: options.limit, at };
        let keep =
            |namespace: &str, name: &str, entry: &Entry| options.selection.matches(namespace, name, &entry.attributes);
        let page = self.store.list(&range, keep).map_err(|error| match (error, &token) {
            (ReadError::TooOld { .. }, Some(token)) => expired(token),
            (error, _) => unreadable(error),
        })?;
        let revision = if at == At::Newest && token.is_some() { 0 } else { page.revision };
        let next = page.next.map(|(namespace, name)| {
            Token { revision, namespace: namespace.to_string(), name: name.to_string() }.encode()
        });
        let remaining = (next.is_some() && options.selection.is_everything()).then_some(page.remaining);
        Ok(List { revision: page.revision, entries: page.entries, continue_token: next.unwrap_or_default(), remaining })
    }
}

/// 410 for a token whose picture is forgotten, with one that goes on with what is there now.
fn expired(token: &Token) -> ApiError {
    let again = Token { revision: 0, namespace: token.namespace.clone(), name: token.name.clone() }.encode();
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                   without the continue parameter, or use the continue token in this response to retrieve the remainder of \
                   the results. Continuing with the provided token results in an inconsistent list - objects that were \
                   created, modified, or deleted between the time the first chunk was returned and now may show up in the \
                   list.";
    let mut error = ApiError::new(Reason::Expired, message);
    error.details.continue_token = again;
    error
}
