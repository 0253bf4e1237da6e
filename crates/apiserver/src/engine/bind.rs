//! What is done to Pods beside writing them: binding to a node, eviction.

use serde_json::Value;

use super::options::WriteOptions;
use super::{DeleteOptions, Deleted, Engine, Part, Place, meta};
use crate::error::{ApiError, Cause};
use crate::kinds::set_condition;

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

    /// Deletes a Pod as an `Eviction` asks. There are no disruption budgets here, so nothing forbids it. As upstream, the status of
    /// one that runs says why it goes.
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
        if !options.dry_run {
            self.mark_evicted(place, &mut options).await?;
        }
        self.delete(place, &options).await
    }

    /// Says in the status that the Pod is evicted, unless it has nothing to lose: it never ran, has ended, or goes already.
    async fn mark_evicted(&self, place: Place<'_>, options: &mut DeleteOptions) -> Result<(), ApiError> {
        let (_, pod) = self.load(place)?;
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if meta::is_deleting(&pod) || matches!(phase, "" | "Pending" | "Succeeded" | "Failed") {
            return Ok(());
        }
        // Of two of this name it is this one that is marked and deleted.
        let meant = &mut options.preconditions;
        meant.uid.get_or_insert_with(|| meta::text(&pod, "uid").to_owned());
        let now = self.now();
        let change = |old: &Value| {
            meant.hold(place, old)?;
            let mut pod = old.clone();
            let why = Some(("EvictionByEvictionAPI", "Eviction API: evicting"));
            set_condition(&mut pod, "DisruptionTarget", "True", why, &now);
            Ok(pod)
        };
        self.change(place, Part::Status, &WriteOptions::default(), change).await?;
        // It was this revision until just now.
        meant.resource_version = None;
        Ok(())
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
