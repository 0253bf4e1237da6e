//! What a RuntimeClass says of its Pods: overhead, and where they run.

use serde_json::Value;

use super::{Facts, list, text};

pub(super) fn admit(pod: &mut Value, facts: &dyn Facts) -> Result<(), String> {
    let name = text(pod, "/spec/runtimeClassName").to_owned();
    let given = pod["spec"]["overhead"].as_object().is_some_and(|overhead| !overhead.is_empty());
    if name.is_empty() {
        return match given {
            true => {
                Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned())
            }
            false => Ok(()),
        };
    }
    let Some(class) = facts.find("runtimeclasses", &name) else {
        return Err(format!("pod rejected: RuntimeClass {name:?} not found"));
    };
    match class.pointer("/overhead/podFixed") {
        Some(overhead) if given && pod["spec"]["overhead"] != *overhead => {
            return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
        }
        Some(overhead) => pod["spec"]["overhead"] = overhead.clone(),
        None if given => {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned());
        }
        None => {}
    }
    for (key, value) in class.pointer("/scheduling/nodeSelector").and_then(Value::as_object).into_iter().flatten() {
        match pod["spec"]["nodeSelector"].get(key) {
            Some(own) if own != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    value.as_str().unwrap_or_default(),
                    own.as_str().unwrap_or_default()
                ));
            }
            Some(_) => {}
            None => pod["spec"]["nodeSelector"][key] = value.clone(),
        }
    }
    for toleration in class.pointer("/scheduling/tolerations").and_then(Value::as_array).into_iter().flatten() {
        let tolerations = list(&mut pod["spec"], "tolerations");
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    Ok(())
}
