//! Node selectors and required node affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// Whether a node of these labels and this name is one that the Pod's `nodeSelector` and required node affinity allow.
#[must_use]
pub fn node_affinity_fits(spec: &PodSpec, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|r| r.node_selector_terms.iter().any(|term| term_fits(term, labels, name)))
}

/// Whether a node is what a term describes: all its requirements must hold; a term without any selects nothing.
#[must_use]
pub fn term_fits(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label_fits = |r: &NodeSelectorRequirement| requirement_fits(r, labels.get(&r.key).map(String::as_str));
    let field_fits = |r: &NodeSelectorRequirement| r.key == "metadata.name" && requirement_fits(r, Some(name));
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(label_fits)
        && fields.iter().all(field_fits)
}

fn requirement_fits(requirement: &NodeSelectorRequirement, have: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = have.is_some_and(|have| values.iter().any(|value| value == have));
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok());
    let compared = number(have).zip(number(values.first().map(String::as_str)));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => have.is_some(),
        "DoesNotExist" => have.is_none(),
        "Gt" => compared.is_some_and(|(have, value)| have > value),
        "Lt" => compared.is_some_and(|(have, value)| have < value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn fits(mut spec: Value) -> bool {
        spec["containers"] = json!([]);
        let labels = [("disk", "ssd"), ("cores", "4")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        node_affinity_fits(&serde_json::from_value(spec).unwrap(), &labels, "n1")
    }

    fn requires(terms: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn every_label_of_the_selector_and_one_term_of_the_affinity() {
        assert!(fits(json!({})));
        assert!(fits(json!({"nodeSelector": {"disk": "ssd"}})));
        assert!(!fits(json!({"nodeSelector": {"disk": "ssd", "x": "y"}})));
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (key, operator, values, expected) in [
            ("disk", "In", &["hdd", "ssd"][..], true),
            ("disk", "In", &["hdd"], false),
            ("disk", "NotIn", &["ssd"], false),
            ("none", "NotIn", &["ssd"], true),
            ("disk", "Exists", &[], true),
            ("none", "Exists", &[], false),
            ("none", "DoesNotExist", &[], true),
            ("cores", "Gt", &["3"], true),
            ("cores", "Gt", &["4"], false),
            ("cores", "Lt", &["5"], true),
            ("disk", "Lt", &["5"], false),
            ("disk", "Unheard", &["ssd"], false),
        ] {
            assert_eq!(fits(requires(&json!([expression(key, operator, values)]))), expected, "{key} {operator}");
        }
        let (no, yes) = (expression("disk", "In", &["hdd"]), expression("disk", "In", &["ssd"]));
        assert!(fits(requires(&json!([no, yes]))));
        assert!(!fits(requires(&json!([]))) && !fits(requires(&json!([{}]))));
        let field = |value: &str| {
            requires(&json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [value]}]}]))
        };
        assert!(fits(field("n1")) && !fits(field("n2")));
    }
}
