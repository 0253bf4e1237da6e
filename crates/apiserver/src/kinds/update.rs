//! What may change in a Pod that is there: images, the deadline (set or lowered), tolerations (added), scheduling gates
//! (removed), and the grace period of one that is to end at once anyway.

use serde_json::Value;

use super::strategy::{forbidden, invalid};
use crate::error::Cause;

const MAY_CHANGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                          `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                          `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn pod(new: &Value, old: &Value) -> Vec<Cause> {
    let mut found = Vec::new();
    let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
    for list in ["containers", "initContainers"] {
        if length(&new_spec[list]) != length(&old_spec[list]) {
            // Upstream stops here: what follows would compare unlike things.
            return vec![forbidden(&format!("spec.{list}"), "pod updates may not add or remove containers")];
        }
    }
    deadline(&new_spec["activeDeadlineSeconds"], &old_spec["activeDeadlineSeconds"], &mut found);
    if !subset(&old_spec["tolerations"], &new_spec["tolerations"]) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        found.push(forbidden("spec.tolerations", why));
    }
    if !subset(&new_spec["schedulingGates"], &old_spec["schedulingGates"]) {
        found.push(forbidden("spec.schedulingGates", "only deletion is allowed, but found new scheduling gates"));
    }
    if without_changeable(new_spec, old_spec) != without_changeable(old_spec, old_spec) {
        found.push(forbidden("spec", MAY_CHANGE));
    }
    found
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn deadline(new: &Value, old: &Value, found: &mut Vec<Cause>) {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    match (new.as_i64(), old.as_i64()) {
        (Some(new), Some(old)) if new > old => {
            found.push(invalid(FIELD, &new.into(), &format!("must be less than or equal to previous value {old}")));
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            found.push(invalid(FIELD, &Value::Null, why));
        }
        (Some(_) | None, Some(_) | None) => {}
    }
}

/// Whether each of `some` is in `all`; of a toleration its duration does not matter.
fn subset(some: &Value, all: &Value) -> bool {
    let bare = |item: &Value| {
        let mut item = item.clone();
        if let Some(map) = item.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        item
    };
    let all: Vec<Value> = all.as_array().into_iter().flatten().map(bare).collect();
    some.as_array().into_iter().flatten().all(|item| all.contains(&bare(item)))
}

fn without_changeable(spec: &Value, old: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            if let Some(map) = container.as_object_mut() {
                map.remove("image");
            }
        }
    }
    let grace = "terminationGracePeriodSeconds";
    let to_one = old[grace].as_i64().is_some_and(|seconds| seconds < 0) && spec[grace] == 1;
    if let Some(map) = spec.as_object_mut() {
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            map.remove(field);
        }
        if to_one {
            map.insert(grace.to_owned(), old[grace].clone());
        }
        // Ephemeral containers have a subresource of their own.
        map.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()));
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec() -> Value {
        json!({"spec": {
            "containers": [{"name": "a", "image": "x"}], "activeDeadlineSeconds": 60, "restartPolicy": "Always",
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
        }})
    }

    fn changed(change: impl Fn(&mut Value)) -> Vec<String> {
        let (old, mut new) = (spec(), spec());
        change(&mut new["spec"]);
        pod(&new, &old).into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn images_lower_deadlines_and_more_tolerations_are_allowed() {
        assert_eq!(changed(|s| s["containers"][0]["image"] = "y".into()), Vec::<String>::new());
        assert_eq!(changed(|s| s["activeDeadlineSeconds"] = 30.into()), Vec::<String>::new());
        let more =
            json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 9}, {"key": "l", "operator": "Exists"}]);
        assert_eq!(changed(|s| s["tolerations"] = more.clone()), Vec::<String>::new());
    }

    #[test]
    fn everything_else_is_forbidden() {
        assert_eq!(changed(|s| s["restartPolicy"] = "Never".into()), ["spec"]);
        assert_eq!(changed(|s| s["containers"][0]["name"] = "b".into()), ["spec"]);
        assert_eq!(changed(|s| s["activeDeadlineSeconds"] = 90.into()), ["spec.activeDeadlineSeconds"]);
        assert_eq!(changed(|s| s["activeDeadlineSeconds"] = Value::Null), ["spec.activeDeadlineSeconds"]);
        assert_eq!(changed(|s| s["tolerations"] = json!([])), ["spec.tolerations"]);
        assert_eq!(changed(|s| s["schedulingGates"] = json!([{"name": "g"}])), ["spec.schedulingGates"]);
        assert_eq!(changed(|s| s["containers"] = json!([])), ["spec.containers"]);
    }
}
