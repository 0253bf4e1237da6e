//! Taints and tolerations.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Whether a toleration covers a taint. An empty effect covers all effects; an empty key with `Exists` covers all taints.
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect) = (said(&toleration.key), said(&toleration.effect));
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => !key.is_empty() && said(&toleration.value) == said(&taint.value),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn tolerations_cover_taints_as_upstream_has_it() {
        let taint: Taint = serde_json::from_value(json!({"key": "k", "value": "v", "effect": "NoSchedule"})).unwrap();
        let covers = |toleration: Value| tolerates(&serde_json::from_value(toleration).unwrap(), &taint);
        for yes in [
            json!({"operator": "Exists"}),
            json!({"key": "k", "operator": "Exists"}),
            json!({"key": "k", "value": "v"}),
            json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}),
        ] {
            assert!(covers(yes.clone()), "{yes}");
        }
        for no in [
            json!({}),
            json!({"key": "k"}),
            json!({"key": "k", "value": "w"}),
            json!({"key": "l", "operator": "Exists"}),
            json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}),
            json!({"key": "k", "operator": "Unheard", "value": "v"}),
        ] {
            assert!(!covers(no.clone()), "{no}");
        }
    }
}
