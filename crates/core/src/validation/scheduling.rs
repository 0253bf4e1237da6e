//! Tolerations and readiness gates.

use k8s_openapi::api::core::v1::PodSpec;

use super::error::Errors;
use super::names::{label_value, qualified_name};
use super::path::FieldPath;
use super::pod::one_of;

pub(crate) fn tolerations(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    for (i, toleration) in spec.tolerations.iter().flatten().enumerate() {
        let path = path.index(i);
        let key = toleration.key.as_deref().unwrap_or("");
        let operator = toleration.operator.as_deref().filter(|operator| !operator.is_empty()).unwrap_or("Equal");
        let value = toleration.value.as_deref().unwrap_or("");
        if !key.is_empty() {
            if let Some(problem) = qualified_name(key) {
                errors.invalid(&path.field("key"), key, problem);
            }
        } else if operator != "Exists" {
            errors.invalid(&path.field("operator"), operator, "operator must be Exists when `key` is empty");
        }
        one_of(errors, Some(operator), &["Equal", "Exists", "Gt", "Lt"], &path.field("operator"));
        if operator == "Exists" && !value.is_empty() {
            errors.invalid(&path.field("operator"), value, "value must be empty when `operator` is 'Exists'");
        } else if let Some(problem) = label_value(value) {
            errors.invalid(&path.field("operator"), value, problem);
        }
        let effect = toleration.effect.as_deref().unwrap_or("");
        one_of(errors, Some(effect), &["", "NoExecute", "NoSchedule", "PreferNoSchedule"], &path.field("effect"));
        if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&path.field("effect"), effect, detail);
        }
    }
}

pub(crate) fn readiness_gates(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    for (i, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        if let Some(problem) = qualified_name(&gate.condition_type) {
            errors.invalid(&path.index(i).field("conditionType"), &gate.condition_type, problem);
        }
    }
}
