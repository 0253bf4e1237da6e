//! What containers ask for and may use.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::error::Errors;
use super::names::qualified_name;
use super::path::FieldPath;
use crate::resources::Amount;

pub(crate) fn container_resources(errors: &mut Errors, container: &Container, path: &FieldPath) {
    if let Some(resources) = &container.resources {
        requirements(errors, resources, container_resource_name, path);
    }
}

/// `spec.resources`, for the Pod as a whole.
pub(crate) fn pod_level_resources(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    let Some(resources) = &spec.resources else { return };
    let known = |name: &str| {
        let known = matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
        (!known).then_some("must be cpu, memory or hugepages for a pod as a whole")
    };
    requirements(errors, resources, known, path);
}

fn container_resource_name(name: &str) -> Option<&'static str> {
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if standard {
        return None;
    }
    if !name.contains('/') {
        return Some("must be a standard resource type or fully qualified");
    }
    qualified_name(name)
}

fn requirements(
    errors: &mut Errors,
    resources: &ResourceRequirements,
    name_problem: impl Fn(&str) -> Option<&'static str>,
    path: &FieldPath,
) {
    let limits = amounts(errors, resources.limits.as_ref(), &name_problem, &path.field("limits"));
    let requests = amounts(errors, resources.requests.as_ref(), &name_problem, &path.field("requests"));
    for (name, (request, text)) in &requests {
        let at = path.field("requests").key(*name);
        match limits.get(name) {
            Some((limit, limit_text)) if may_overcommit(name) => {
                if request > limit {
                    let detail = format!("must be less than or equal to {name} limit of {limit_text}");
                    errors.invalid(&at, text, &detail);
                }
            }
            Some((limit, limit_text)) => {
                if request != limit {
                    let detail = format!("must be equal to {name} limit of {limit_text}");
                    errors.invalid(&at, text, &detail);
                }
            }
            None if may_overcommit(name) => {}
            None => errors.required(&path.field("limits"), "limit must be set for non overcommitable resources"),
        }
    }
}

/// Of huge pages and devices there is never more than there is.
fn may_overcommit(name: &str) -> bool {
    !name.starts_with("hugepages-") && !name.contains('/')
}

type Amounts<'a> = BTreeMap<&'a str, (Amount, &'a String)>;

/// The amounts that make sense; the others are errors.
fn amounts<'a>(
    errors: &mut Errors,
    list: Option<&'a BTreeMap<String, Quantity>>,
    name_problem: &impl Fn(&str) -> Option<&'static str>,
    path: &FieldPath,
) -> Amounts<'a> {
    let mut amounts = Amounts::new();
    for (name, quantity) in list.into_iter().flatten() {
        let at = path.key(name);
        if let Some(problem) = name_problem(name) {
            errors.invalid(&at, name, problem);
        }
        match Amount::of(quantity) {
            Ok(amount) if amount < Amount::ZERO => {
                errors.invalid(&at, &quantity.0, "must be greater than or equal to 0");
            }
            Ok(amount) => {
                let whole = amount.nanos() % Amount::from_units(1).nanos() == 0;
                if !may_overcommit(name) && !whole {
                    errors.invalid(&at, &quantity.0, "must be an integer");
                }
                amounts.insert(name, (amount, &quantity.0));
            }
            Err(_) => errors.invalid(&at, &quantity.0, "is not a quantity such as 500m, 1.5, 128Mi or 2G"),
        }
    }
    amounts
}
