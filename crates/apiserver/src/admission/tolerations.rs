//! Every Pod stands it for five minutes that its node is not ready or not reachable.

use serde_json::{Value, json};

use super::list;

const SECONDS: i64 = 300;

pub(super) fn admit(pod: &mut Value) {
    let tolerations = list(&mut pod["spec"], "tolerations");
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            let own = toleration["key"].as_str().unwrap_or_default();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            (own.is_empty() || own == key) && (effect.is_empty() || effect == "NoExecute")
        };
        if !tolerations.iter().any(covers) {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}));
        }
    }
}
