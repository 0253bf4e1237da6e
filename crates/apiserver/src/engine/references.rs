//! Which objects the Pods of a node refer to.

use serde_json::Value;

use super::options::ListOptions;
use super::selector::{FieldSelector, Selection};
use super::{Engine, Place};
use crate::access::refers;
use crate::error::ApiError;
use crate::kinds::find;

impl Engine {
    /// Whether a Pod that is bound to a node refers to an object.
    ///
    /// # Errors
    /// A Pod can't be read.
    pub(crate) fn node_needs(&self, node: &str, namespace: &str, plural: &str, name: &str) -> Result<bool, ApiError> {
        let Some(pods) = find("", "v1", "pods") else { return Ok(false) };
        let fields = FieldSelector::parse(&format!("spec.nodeName={node}"), pods)?;
        let options = ListOptions { selection: Selection { fields, ..Selection::default() }, ..ListOptions::default() };
        for entry in self.list(pods, Some(namespace), &options)?.entries {
            if refers(&entry.parse().map_err(ApiError::internal)?, plural, name) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses a node's request for a token that does not end with a Pod of its own.
    ///
    /// # Errors
    /// 403.
    pub(crate) fn node_may_ask(&self, node: &str, account: Place<'_>, request: &Value) -> Result<(), ApiError> {
        let refuse = |why: &str| Err(ApiError::forbidden("", "serviceaccounts", account.name, why));
        let to = &request["spec"]["boundObjectRef"];
        let (Some("Pod"), Some(name), Some(pods)) = (to["kind"].as_str(), to["name"].as_str(), find("", "v1", "pods"))
        else {
            return refuse("node requested token not bound to a pod");
        };
        if to["uid"].as_str().is_none_or(str::is_empty) {
            return refuse("node requested token with a pod binding without a uid");
        }
        let (_, pod) = self.load(Place { kind: pods, namespace: account.namespace, name })?;
        match pod["spec"]["nodeName"] == node {
            true => Ok(()),
            false => refuse("node requested token bound to a pod scheduled on a different node"),
        }
    }
}
