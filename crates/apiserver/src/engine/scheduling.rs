//! What the scheduler writes beside bindings: why a Pod has no node, and who goes for whom.

use serde_json::{Value, json};

use super::options::WriteOptions;
use super::{DeleteOptions, Engine, Part, Place, meta};
use crate::error::ApiError;
use crate::kinds::set_condition;

/// As which manager it writes.
const MANAGER: &str = "kube-scheduler";

fn options() -> WriteOptions {
    WriteOptions { field_manager: MANAGER.to_owned(), ..WriteOptions::default() }
}

/// Whether the object is still the one that was meant.
fn is_still(place: Place<'_>, pod: &Value, uid: &str) -> Result<(), ApiError> {
    let found = meta::text(pod, "uid");
    if found == uid {
        return Ok(());
    }
    Err(place.conflict(&format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}")))
}

impl Engine {
    /// Writes why a Pod has no node, and which one is being made free for it. A Pod that has a node by now is left alone.
    ///
    /// # Errors
    /// 404; 409 if it is another Pod by now, or has a node.
    pub(crate) async fn report_unscheduled(
        &self,
        place: Place<'_>,
        uid: &str,
        (reason, message): (&str, &str),
        nominated: Option<&str>,
    ) -> Result<(), ApiError> {
        let now = self.now();
        let change = |old: &Value| {
            is_still(place, old, uid)?;
            if old["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()) {
                return Err(place.conflict("it has a node"));
            }
            let mut pod = old.clone();
            set_condition(&mut pod, "PodScheduled", "False", Some((reason, message)), &now);
            match nominated {
                Some(node) => pod["status"]["nominatedNodeName"] = node.into(),
                None => drop(pod["status"].as_object_mut().map(|status| status.remove("nominatedNodeName"))),
            }
            Ok(pod)
        };
        self.change(place, Part::Status, &options(), change).await.map(drop)
    }

    /// Deletes a Pod so that a more important one has room, and says so in its status.
    ///
    /// # Errors
    /// 404; 409 if it is another Pod by now.
    pub(crate) async fn preempt(&self, place: Place<'_>, uid: &str) -> Result<(), ApiError> {
        let now = self.now();
        let message = "default-scheduler: preempting to accommodate a higher priority pod";
        let change = |old: &Value| {
            is_still(place, old, uid)?;
            let mut pod = old.clone();
            set_condition(&mut pod, "DisruptionTarget", "True", Some(("PreemptionByScheduler", message)), &now);
            Ok(pod)
        };
        self.change(place, Part::Status, &options(), change).await?;
        let mut options = DeleteOptions::default();
        options.preconditions.uid = Some(uid.to_owned());
        self.delete(place, &options).await.map(drop)
    }

    /// Tells an event about a Pod, as a scheduler does. One that was told before in the same words is counted.
    ///
    /// # Errors
    /// Those of creating and updating.
    pub(crate) async fn tell(&self, place: Place<'_>, event: Value) -> Result<(), ApiError> {
        match self.create(place.kind, place.namespace, event, &options()).await {
            Ok(_) => return Ok(()),
            Err(error) if error.reason == crate::error::Reason::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let now = meta::micro_time(self.time());
        let change = |old: &Value| {
            let mut event = old.clone();
            let count = old["series"]["count"].as_i64().unwrap_or(1) + 1;
            event["series"] = json!({"count": count, "lastObservedTime": now});
            Ok(event)
        };
        self.change(place, Part::Main, &options(), change).await.map(drop)
    }
}
