//! From the name of a PriorityClass to a number.

use serde_json::Value;

use super::{Facts, text};

pub(super) fn admit(pod: &mut Value, facts: &dyn Facts) -> Result<(), String> {
    let name = text(pod, "/spec/priorityClassName").to_owned();
    let class = match name.as_str() {
        "" => facts.default_priority(),
        name => match facts.find("priorityclasses", name) {
            Some(class) => Some(class),
            None => return Err(format!("no PriorityClass with name {name} was found")),
        },
    };
    let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
    if let Some(given) = pod["spec"]["priority"].as_i64()
        && given != value
    {
        let why =
            "the integer value of priority must not be provided in pod spec; priority admission controller computed";
        return Err(format!("{why} {value} from the given PriorityClass name"));
    }
    pod["spec"]["priority"] = value.into();
    let policy = class.as_ref().and_then(|class| class["preemptionPolicy"].as_str()).unwrap_or("PreemptLowerPriority");
    match pod["spec"]["preemptionPolicy"].as_str() {
        Some(given) if given != policy => {
            let why = "the string value of PreemptionPolicy must not be provided in pod spec; priority admission controller \
                       computed";
            return Err(format!("{why} {policy} from the given PriorityClass name"));
        }
        Some(_) | None => pod["spec"]["preemptionPolicy"] = policy.into(),
    }
    if let Some(class) = class.filter(|_| name.is_empty()) {
        pod["spec"]["priorityClassName"] = class["metadata"]["name"].clone();
    }
    Ok(())
}
