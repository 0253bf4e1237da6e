//! The `scale` of a custom object: `autoscaling/v1 Scale` from and to where its definition says. Pure.

use serde_json::{Value, json};

use super::definition::Scale;

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| value.get(step))
}

/// An object's `Scale`. `None`: it does not say how many it wants, and so can't be scaled.
pub(crate) fn scale_of(scale: &Scale, object: &Value) -> Option<Value> {
    let wanted = at(object, &scale.spec_replicas)?.as_i64()?;
    let mut status = json!({"replicas": at(object, &scale.status_replicas).and_then(Value::as_i64).unwrap_or(0)});
    if let Some(selector) = scale.selector.as_ref().and_then(|path| at(object, path)).and_then(Value::as_str) {
        status["selector"] = selector.into();
    }
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    Some(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": wanted}, "status": status,
    }))
}

/// How many a `Scale` wants; absent is none, as Go has it. `None`: that is no number of replicas.
pub(crate) fn replicas_of(scale: &Value) -> Option<i64> {
    match &scale["spec"]["replicas"] {
        Value::Null => Some(0),
        value => value.as_i64().filter(|wanted| (0..=i64::from(i32::MAX)).contains(wanted)),
    }
}

/// The object with as many. What is on the way and no object becomes one.
pub(crate) fn scaled(scale: &Scale, mut object: Value, wanted: i64) -> Value {
    let mut place = &mut object;
    for step in &scale.spec_replicas {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[step.as_str()];
    }
    *place = wanted.into();
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_comes_from_the_object_and_goes_back() {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let scale = Scale {
            spec_replicas: path("spec.size.wanted"),
            status_replicas: path("status.size"),
            selector: Some(path("status.selector")),
        };
        let object = json!({
            "metadata": {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {"size": {"wanted": 3}}, "status": {"size": 2, "selector": "a=b"},
        });
        assert_eq!(
            scale_of(&scale, &object).unwrap(),
            json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
                "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"},
            })
        );
        assert_eq!(scaled(&scale, object, 5)["spec"]["size"]["wanted"], 5);
        assert_eq!(scaled(&scale, json!({}), 1), json!({"spec": {"size": {"wanted": 1}}}));
        assert_eq!(scale_of(&scale, &json!({"spec": {}})), None);
        assert_eq!(replicas_of(&json!({"spec": {}})), Some(0));
        assert_eq!(replicas_of(&json!({"spec": {"replicas": -1}})), None);
    }
}
