//! The definition of the kind for a cluster.

use serde_json::{Value, json};

use super::moves::MOVES;
use super::types::RunnerSet;
use k8s_openapi::Resource;

/// The `CustomResourceDefinition`.
///
/// `kubectl scale` sets `max`: how many there may be. That is also what a `PodDisruptionBudget` over busy Pods
/// (`runners.minke.dev/state: Busy`, `maxUnavailable: 0`) compares with, so that an eviction of any of them is refused.
#[must_use]
pub fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", RunnerSet::URL_PATH_SEGMENT, RunnerSet::GROUP)},
        "spec": {
            "group": RunnerSet::GROUP,
            "names": {
                "kind": RunnerSet::KIND, "listKind": "RunnerSetList", "plural": RunnerSet::URL_PATH_SEGMENT,
                "singular": "runnerset", "shortNames": ["rset"], "categories": ["minke"],
            },
            "scope": "Namespaced",
            "versions": [{
                "name": RunnerSet::VERSION, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "required": ["spec"],
                    "x-kubernetes-validations": [rule("self.metadata.name.size() <= 52",
                        "metadata.name must have at most 52 characters: the slot's number follows in the names of its Pods")],
                    "properties": {
                        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                        "spec": spec(), "status": status(),
                    },
                }},
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.max", "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [
                    column("Desired", "integer", ".status.desired"),
                    column("Idle", "integer", ".status.idle"),
                    column("Busy", "integer", ".status.busy"),
                    column("Pending", "integer", ".status.pending"),
                    column("Queued", "integer", ".status.queued"),
                    column("Max", "integer", ".spec.max"),
                    column("Scaled", "string", ".status.conditions[?(@.type==\"Scaled\")].reason"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ],
            }],
        },
    })
}

/// The manifest as it stands in `packaging/runners/runnersets.json`.
#[must_use]
pub fn manifest() -> String {
    format!("{:#}\n", crd())
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

fn number(description: &str, least: u32) -> Value {
    json!({"type": "integer", "format": "int64", "minimum": least, "maximum": u32::MAX, "description": description})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// A string that is so.
fn word(description: &str, longest: u32, pattern: &str, message: &str) -> Value {
    let so = rule(&format!("self.matches('{pattern}')"), message);
    json!({"type": "string", "description": description, "maxLength": longest, "x-kubernetes-validations": [so]})
}

/// What may be given must stay as it is.
fn fixed(field: &str) -> String {
    format!("has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})")
}

fn spec() -> Value {
    json!({
        "type": "object",
        "required": ["github", "labels", "max", "template"],
        "x-kubernetes-validations": [
            rule("!has(self.min) || self.min <= self.max", "min must not be above max: lower min, or raise max"),
            rule("!has(self.minIdle) || self.minIdle <= self.max",
                "minIdle must not be above max: lower minIdle, or raise max"),
        ],
        "properties": {
            "github": github(),
            "labels": {"type": "array", "minItems": 1, "maxItems": 100, "x-kubernetes-list-type": "set",
                "items": {"type": "string", "minLength": 1, "maxLength": 256},
                "x-kubernetes-validations": [rule("self.all(label, label.matches('^[^,]*[^, ][^,]*$'))",
                    "must be words without commas")],
                "description": "What jobs ask for in runs-on; self-hosted goes without saying."},
            "min": number("So many runners at least, busy ones included.", 0),
            "max": number("So many runners at most.", 1),
            "minIdle": number("So many runners more than there are jobs.", 0),
            "stabilization": {
                "type": "object",
                "description": "How long a wish has to last, in seconds, an hour at most.",
                "properties": {
                    "upSeconds": window("Before more are created; 0 if not given."),
                    "downSeconds": window("Before any is retired; 60 if not given."),
                },
            },
            "schedules": {"type": "array", "maxItems": 64, "items": schedule(),
                "description": "Other limits at certain times. The first active entry that names a limit decides."},
            "workVolume": work_volume(),
            "template": template(),
        },
    })
}

fn github() -> Value {
    let one_scope = "[has(self.repository), has(self.organization), has(self.enterprise)].filter(x, x).size() == 1";
    let stays = ["url", "repository", "organization", "enterprise"].map(fixed).join(" && ");
    let moves = MOVES.trim_start_matches("spec.github: ");
    let name = "^[A-Za-z0-9._-]+$";
    json!({
        "type": "object",
        "description": "Where runners register.",
        "required": ["credentialsSecret"],
        "x-kubernetes-validations":
            [rule(one_scope, "must name exactly one of repository, organization and enterprise"), rule(&stays, moves)],
        "properties": {
            "url": word("The server; https://github.com if not given.", 2048, "^https?://[^/]", "must begin with https://"),
            "repository": word("owner/name", 200, "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$", "must be owner/name"),
            "organization": word("An organization's name.", 100, name, "must be its name alone"),
            "enterprise": word("An enterprise's name.", 100, name, "must be its name alone"),
            "groupId": {"type": "integer", "format": "int64", "minimum": 1,
                "description": "The number of the runner group; 1, the default group, if not given."},
            "credentialsSecret": {"type": "string", "minLength": 1,
                "description": "The secret with github_token, or with github_app_id, \
                    github_app_installation_id and github_app_private_key."},
        },
    })
}

/// As much of the Pod template as can be judged here; the rest is kept as it is, and judged with the first Pod.
fn template() -> Value {
    let container = json!({
        "type": "object", "required": ["name"], "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"name": {"type": "string", "maxLength": 63}},
    });
    let runner = rule("self.exists(container, container.name == 'runner')", "must have a container called runner");
    let never = rule("self == 'Never'", "must be Never: a registration serves one start");
    json!({
        "type": "object", "required": ["spec"], "x-kubernetes-preserve-unknown-fields": true,
        "description": "The Pods, as in a Deployment. A container is called runner; restartPolicy is Never.",
        "properties": {"spec": {
            "type": "object", "required": ["containers"], "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "containers": {"type": "array", "maxItems": 64, "items": container, "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"], "x-kubernetes-validations": [runner]},
                "restartPolicy": {"type": "string", "maxLength": 32, "x-kubernetes-validations": [never]},
            },
        }},
    })
}

fn work_volume() -> Value {
    let one_kind = "!has(self.sizeLimit) || !has(self.claimTemplate)";
    json!({
        "type": "object",
        "description": "Where jobs work, if not in the container's own file system: an empty volume, or a claim of the set's.",
        "x-kubernetes-validations": [rule(one_kind, "sizeLimit is about an empty volume, and claimTemplate makes no such")],
        "properties": {
            "mountPath": word("/home/runner/_work if not given.", 1024, "^/[^:]*$", "must be an absolute path"),
            "sizeLimit": word("How big an empty volume may get.", 64,
                "^[0-9][0-9.]*(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$", "must be a quantity like 20Gi"),
            "claimTemplate": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "description": "Claims are made from this, at most one a slot, and used again."},
            "unusedSeconds": number("A claim that no runner has used for so long is deleted; 86400 if not given.", 0),
        },
    })
}

fn window(description: &str) -> Value {
    json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": 3600, "description": description})
}

const LOCAL: &str = "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$";

fn schedule() -> Value {
    // What is no time is told by its own field.
    let times = format!("!self.start.matches('{LOCAL}') || !self.end.matches('{LOCAL}')");
    let forwards = format!("{times} || self.start < self.end");
    let longest = "duration({'Daily': '24h', 'Weekly': '168h', 'Monthly': '744h', 'Yearly': '8784h'}[self.repeat])";
    let moment = |field: &str| format!("timestamp(self.{field}.substring(0, 16) + ':00Z')");
    let apart = format!(
        "{times} || !has(self.repeat) || self.repeat == 'Once' || {} - {} <= {longest}",
        moment("end"),
        moment("start")
    );
    let local = "must be a local time like 2026-01-05T08:00";
    json!({
        "type": "object",
        "required": ["start", "end"],
        "x-kubernetes-validations": [
            rule("has(self.min) || has(self.minIdle) || has(self.max)", "must name min, minIdle or max"),
            rule("!has(self.min) || !has(self.max) || self.min <= self.max", "min must not be above max"),
            rule(&forwards, "must end after its start"),
            rule(&apart, "must end before it begins again"),
        ],
        "properties": {
            "start": word("The first start, in local time: 2026-01-05T08:00.", 32, LOCAL, local),
            "end": word("The first end, in local time.", 32, LOCAL, local),
            "timeZone": word("A name like Europe/Berlin; UTC if not given.", 64,
                "^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$", "must be a time zone's name like Europe/Berlin"),
            "repeat": {"type": "string", "enum": ["Once", "Daily", "Weekly", "Monthly", "Yearly"],
                "description": "How often it comes again; Once if not given."},
            "until": {"type": "string", "format": "date-time", "description": "It does not begin again from then on."},
            "min": number("The minimum meanwhile.", 0),
            "minIdle": number("The idle headroom meanwhile.", 0),
            "max": number("The maximum meanwhile; within the set's own.", 0),
        },
    })
}

fn status() -> Value {
    let count = |description| number(description, 0);
    json!({
        "type": "object",
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            "desired": count("So many are wanted."),
            "replicas": count("So many are there, or about to be."),
            "pending": count("On their way."),
            "idle": count("Waiting for a job."),
            "busy": count("With a job."),
            "draining": count("On their way out."),
            "queued": count("Jobs without a runner."),
            "orphans": count("Registrations without a Pod, which are being removed."),
            "selector": text("The labels of the set's Pods."),
            "conditions": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
                    "properties": {
                        "type": {"type": "string"}, "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                        "reason": {"type": "string"}, "message": {"type": "string"},
                        "observedGeneration": {"type": "integer", "format": "int64"},
                        "lastTransitionTime": {"type": "string", "format": "date-time"},
                    },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::types::RunnerSetStatus;
    use jiff::Timestamp;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use std::collections::BTreeSet;

    const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/runners/runnersets.json");

    /// `MINKE_WRITE=1` writes it.
    #[test]
    fn the_manifest_is_what_is_generated() {
        if std::env::var_os("MINKE_WRITE").is_some() {
            std::fs::create_dir_all(std::path::Path::new(MANIFEST).parent().unwrap()).unwrap();
            std::fs::write(MANIFEST, manifest()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(MANIFEST).unwrap(), manifest());
    }

    #[test]
    fn it_is_a_definition() {
        let crd: CustomResourceDefinition = serde_json::from_value(crd()).unwrap();
        assert_eq!(crd.metadata.name.as_deref(), Some("runnersets.minke.dev"));
        let known = serde_json::to_value(&crd).unwrap();
        assert_eq!(floats(known), floats(super::crd()), "no field that a cluster would not know");
    }

    /// A definition's bounds are floating-point numbers.
    fn floats(value: Value) -> Value {
        match value {
            Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, floats(value))).collect(),
            Value::Array(items) => items.into_iter().map(floats).collect(),
            Value::Number(number) => json!(number.as_f64()),
            other @ (Value::Null | Value::Bool(_) | Value::String(_)) => other,
        }
    }

    /// The fields of a value, and those that its schema names, level by level.
    fn compare(path: &str, value: &Value, schema: &Value) {
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return;
        }
        match value {
            Value::Object(fields) => {
                let known: BTreeSet<_> = schema["properties"].as_object().unwrap().keys().collect();
                assert_eq!(fields.keys().collect::<BTreeSet<_>>(), known, "{path}");
                for (key, value) in fields {
                    compare(&format!("{path}.{key}"), value, &schema["properties"][key]);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| compare(path, item, &schema["items"])),
            Value::String(_) => assert_eq!(schema["type"], "string", "{path}"),
            Value::Number(_) => assert_eq!(schema["type"], "integer", "{path}"),
            Value::Null | Value::Bool(_) => panic!("{path} is {value}"),
        }
    }

    #[test]
    fn the_schema_has_the_types_fields_and_no_others() {
        let full = json!({
            "github": {"url": "u", "repository": "r", "organization": "o", "enterprise": "e", "groupId": 1,
                "credentialsSecret": "s"},
            "labels": ["l"], "min": 0, "max": 1, "minIdle": 0,
            "stabilization": {"upSeconds": 1, "downSeconds": 1},
            "schedules": [{"start": "s", "end": "e", "timeZone": "z", "repeat": "Daily", "until": "u", "min": 1,
                "minIdle": 1, "max": 1}],
            "workVolume": {"mountPath": "/w", "sizeLimit": "1Gi", "claimTemplate": {"spec": {}}, "unusedSeconds": 1},
            "template": {},
        });
        compare("spec", &full, &spec());
        let read: crate::set::RunnerSetSpec = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), full, "the types know them all");
        let condition = Condition {
            type_: "t".to_owned(),
            status: "True".to_owned(),
            reason: "r".to_owned(),
            message: "m".to_owned(),
            observed_generation: Some(1),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        };
        let full = RunnerSetStatus {
            observed_generation: Some(1),
            selector: "s".to_owned(),
            conditions: vec![condition],
            ..RunnerSetStatus::default()
        };
        compare("status", &serde_json::to_value(full).unwrap(), &status());
    }
}
