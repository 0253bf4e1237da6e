//! What is done to Pods beside writing them: binding to a node, eviction.

use serde_json::Value;

use super::options::WriteOptions;
use super::{DeleteOptions, Deleted, Engine, Part, Place, meta};
use crate::error::{ApiError, Cause};

impl Engine {
    /// Binds a Pod to the node that a `Binding` names.
    ///
    /// # Errors
    /// 404, 409 if it has a node or is being deleted, 422 without a target.
    pub async fn bind(&self, place: Place<'_>, binding: &Value, options: &WriteOptions) -> Result<(), ApiError> {
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        let invalid = |cause| Err(ApiError::invalid("", "Binding", place.name, vec![cause]));
        if node.is_empty() {
            return invalid(Cause::new("FieldValueRequired", "Required value", "target.name"));
        }
        let target = binding["target"]["kind"].as_str().unwrap_or_default();
        if !matches!(target, "" | "Node") {
            let message = format!("Unsupported value: {target:?}: supported values: \"Node\", \"<empty>\"");
            return invalid(Cause::new("FieldValueNotSupported", message, "target.kind"));
        }
        let uid = meta::text(binding, "uid");
        let now = self.now();
        // Neither the main part nor the status: an own write that both rules of parts would undo.
        for _ in 0..super::MOST_TRIES {
            let (entry, mut pod) = self.load(place)?;
            if !uid.is_empty() && uid != meta::text(&pod, "uid") {
                let found = meta::text(&pod, "uid");
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
                return Err(place.conflict(&why));
            }
            crate::kinds::bind(&mut pod, node, &now)
                .map_err(|why| ApiError::conflict("", "pods/binding", place.name, &why))?;
            let pod = meta::complete(place.kind, pod)?;
            if options.dry_run {
                return Ok(());
            }
            let attributes = std::sync::Arc::new(place.kind.attributes(&pod));
            let change = crate::store::Change::Put(crate::store::Draft::of(&pod), attributes);
            if self.swap(place, entry.revision, change).await?.is_some() {
                return Ok(());
            }
        }
        Err(place.modified())
    }

    /// Deletes a Pod as an `Eviction` asks. There are no disruption budgets here, so nothing forbids it.
    ///
    /// # Errors
    /// Those of deleting.
    pub async fn evict(&self, place: Place<'_>, eviction: &Value, dry_run: bool) -> Result<Deleted, ApiError> {
        let name = meta::text(eviction, "name");
        if !name.is_empty() && name != place.name {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut options = match &eviction["deleteOptions"] {
            Value::Null => DeleteOptions::default(),
            body => DeleteOptions::parse(body)?,
        };
        options.dry_run |= dry_run;
        self.delete(place, &options).await
    }

    /// Adds what only the status may say. For in-process callers.
    ///
    /// # Errors
    /// Those of updating.
    pub async fn update_status(
        &self,
        place: Place<'_>,
        object: Value,
    ) -> Result<std::sync::Arc<crate::store::Entry>, ApiError> {
        self.update(place, Part::Status, object, &WriteOptions::default()).await
    }
}
