//! The kind `RunnerSet` as it is shipped: what its schema and its rules refuse, and what they tell the person who wrote it.

use hyper::Method;
use minke_apiserver::http::Limits;
use serde_json::{Value, json};

use crate::server::{ADMIN, TestServer};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SETS: &str = "/apis/minke.dev/v1alpha1/namespaces/default/runnersets";

async fn with_sets() -> TestServer {
    let server = TestServer::start(Limits::default()).await;
    let text = include_str!("../../../../packaging/runners/runnersets.json");
    let definition: Value = serde_json::from_str(text).unwrap();
    let (code, told) = server.json(ADMIN, Method::POST, DEFINITIONS, &definition).await;
    assert_eq!(code, 201, "{told}");
    server
}

/// A set with everything that can be given.
fn full() -> Value {
    json!({
        "apiVersion": "minke.dev/v1alpha1", "kind": "RunnerSet", "metadata": {"name": "linux"},
        "spec": {
            "github": {"url": "https://github.example", "organization": "octo", "groupId": 3, "credentialsSecret": "github"},
            "labels": ["linux", "x64"], "min": 1, "max": 20, "minIdle": 2,
            "stabilization": {"upSeconds": 0, "downSeconds": 3600},
            "schedules": [
                {"start": "2026-01-05T08:00", "end": "2026-01-05T18:00", "timeZone": "Europe/Berlin", "repeat": "Daily", "minIdle": 10},
                {"start": "2026-01-05T00:00", "end": "2026-01-06T00:00:00", "timeZone": "Etc/GMT+5", "repeat": "Daily", "min": 0},
                {"start": "2026-01-05T08:00:30", "end": "2026-01-12T08:00", "repeat": "Weekly", "max": 5},
                {"start": "2026-12-24T00:00", "end": "2026-12-27T00:00", "repeat": "Yearly", "until": "2030-01-01T00:00:00Z", "max": 0},
            ],
            "workVolume": {"mountPath": "/home/runner/_work", "sizeLimit": "20Gi"},
            "template": {
                "metadata": {"labels": {"team": "ci"}},
                "spec": {
                    "restartPolicy": "Never", "nodeSelector": {"pool": "ci"},
                    "containers": [{"name": "runner", "image": "runner:1", "env": [{"name": "A", "value": "1"}]}, {"name": "log"}],
                },
            },
        },
    })
}

/// The field and the message of each cause.
fn causes(told: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = told["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.iter().map(|cause| (text(&cause["field"]), text(&cause["message"]))).collect()
}

#[tokio::test]
async fn a_runner_set_with_everything_is_taken_as_it_is_written() {
    let server = with_sets().await;
    let (code, told) = server.json(ADMIN, Method::POST, SETS, &full()).await;
    assert_eq!(code, 201, "{told}");
    assert_eq!(told["spec"], full()["spec"], "nothing of the template is lost");
    let (code, list) = server.json(ADMIN, Method::GET, "/apis/minke.dev/v1alpha1/runnersets", &Value::Null).await;
    assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(1)));
    let small = json!({
        "apiVersion": "minke.dev/v1alpha1", "kind": "RunnerSet", "metadata": {"name": "small"},
        "spec": {"github": {"repository": "octo/app", "credentialsSecret": "github"}, "labels": ["linux"], "max": 1,
            "template": {"spec": {"containers": [{"name": "runner", "image": "runner:1"}]}}},
    });
    let (code, told) = server.json(ADMIN, Method::POST, SETS, &small).await;
    assert_eq!(code, 201, "{told}");
}

type Change = fn(&mut Value);

/// What is wrong, the field that is named, and a part of what is told.
const WRONG: [(&str, Change, &str, &str); 38] = [
    (
        "more at least than at most",
        |s| s["min"] = json!(21),
        "spec",
        "min must not be above max: lower min, or raise max",
    ),
    ("more idle than at most", |s| s["minIdle"] = json!(21), "spec", "minIdle must not be above max"),
    ("nobody at most", |s| s["max"] = json!(0), "spec.max", "greater than or equal to 1"),
    ("less than nobody", |s| s["min"] = json!(-1), "spec.min", "greater than or equal to 0"),
    ("no maximum", |s| drop(s.as_object_mut().unwrap().remove("max")), "spec.max", "Required value"),
    ("a maximum in words", |s| s["max"] = json!("many"), "spec.max", "must be of type integer"),
    ("no labels", |s| s["labels"] = json!([]), "spec.labels", "should have at least 1 items"),
    ("an empty label", |s| s["labels"] = json!([""]), "spec.labels[0]", "at least 1 chars long"),
    ("a blank label", |s| s["labels"] = json!(["linux", " "]), "spec.labels", "must be words without commas"),
    ("labels in one", |s| s["labels"] = json!(["linux,x64"]), "spec.labels", "must be words without commas"),
    ("a label twice", |s| s["labels"] = json!(["linux", "linux"]), "spec.labels[1]", "Duplicate value"),
    (
        "two scopes",
        |s| s["github"]["repository"] = json!("o/r"),
        "spec.github",
        "exactly one of repository, organization and",
    ),
    (
        "no scope",
        |s| drop(s["github"].as_object_mut().unwrap().remove("organization")),
        "spec.github",
        "exactly one of",
    ),
    (
        "no credential",
        |s| s["github"]["credentialsSecret"] = json!(""),
        "spec.github.credentialsSecret",
        "at least 1 chars",
    ),
    (
        "an address without a scheme",
        |s| s["github"]["url"] = json!("github.com"),
        "spec.github.url",
        "begin with https://",
    ),
    (
        "a path as an organization",
        |s| s["github"]["organization"] = json!("a/b"),
        "spec.github.organization",
        "its name alone",
    ),
    (
        "a repository without its owner",
        |s| s["github"] = json!({"repository": "r", "credentialsSecret": "s"}),
        "spec.github.repository",
        "must be owner/name",
    ),
    ("group nought", |s| s["github"]["groupId"] = json!(0), "spec.github.groupId", "greater than or equal to 1"),
    (
        "longer than an hour",
        |s| s["stabilization"]["downSeconds"] = json!(3601),
        "spec.stabilization.downSeconds",
        "less than or equal to 3600",
    ),
    (
        "a duration in words",
        |s| s["stabilization"]["upSeconds"] = json!("1m"),
        "spec.stabilization.upSeconds",
        "type integer",
    ),
    (
        "no local time",
        |s| s["schedules"][0]["start"] = json!("8 o'clock"),
        "spec.schedules[0].start",
        "must be a local time like 2026-01-05T08:00",
    ),
    (
        "a cron line",
        |s| s["schedules"][0]["start"] = json!("0 8 * * 1-5"),
        "spec.schedules[0].start",
        "local time like",
    ),
    (
        "a time with an offset",
        |s| s["schedules"][0]["end"] = json!("2026-01-05T18:00Z"),
        "spec.schedules[0].end",
        "local time",
    ),
    (
        "an end before its start",
        |s| s["schedules"][0]["end"] = json!("2026-01-05T07:00"),
        "spec.schedules[0]",
        "must end after its start",
    ),
    (
        "an end at its start",
        |s| s["schedules"][0]["end"] = json!("2026-01-05T08:00"),
        "spec.schedules[0]",
        "end after its start",
    ),
    (
        "a day of more than a day",
        |s| s["schedules"][0]["end"] = json!("2026-01-06T08:01"),
        "spec.schedules[0]",
        "must end before it begins again",
    ),
    (
        "a year of more than a year",
        |s| s["schedules"][3]["end"] = json!("2028-01-01T00:00"),
        "spec.schedules[3]",
        "must end before it begins again",
    ),
    (
        "a schedule without limits",
        |s| s["schedules"][0] = json!({"start": "2026-01-05T08:00", "end": "2026-01-05T18:00"}),
        "spec.schedules[0]",
        "must name min, minIdle or max",
    ),
    (
        "a schedule's minimum above its maximum",
        |s| (s["schedules"][0]["min"], s["schedules"][0]["max"]) = (json!(5), json!(4)),
        "spec.schedules[0]",
        "min must not be above max",
    ),
    (
        "a zone that can't be one",
        |s| s["schedules"][0]["timeZone"] = json!("Europe/Köln am Rhein"),
        "spec.schedules[0].timeZone",
        "must be a time zone's name like Europe/Berlin",
    ),
    (
        "a repetition that there is not",
        |s| s["schedules"][0]["repeat"] = json!("Hourly"),
        "spec.schedules[0].repeat",
        "\"Daily\", \"Weekly\"",
    ),
    ("no template", |s| s["template"] = json!({}), "spec.template.spec", "Required value"),
    ("no containers", |s| s["template"]["spec"] = json!({}), "spec.template.spec.containers", "Required value"),
    (
        "an empty list of containers",
        |s| s["template"]["spec"]["containers"] = json!([]),
        "spec.template.spec.containers",
        "must have a container called runner",
    ),
    (
        "no container that runs",
        |s| s["template"]["spec"]["containers"] = json!([{"name": "main"}]),
        "spec.template.spec.containers",
        "must have a container called runner",
    ),
    (
        "a Pod that starts again",
        |s| s["template"]["spec"]["restartPolicy"] = json!("Always"),
        "spec.template.spec.restartPolicy",
        "must be Never: a registration serves one start",
    ),
    (
        "two work volumes",
        |s| s["workVolume"]["claimTemplate"] = json!({"spec": {}}),
        "spec.workVolume",
        "sizeLimit is about",
    ),
    (
        "no quantity",
        |s| s["workVolume"]["sizeLimit"] = json!("20 GB"),
        "spec.workVolume.sizeLimit",
        "a quantity like 20Gi",
    ),
];

#[tokio::test]
async fn an_invalid_runner_set_is_refused_with_the_field_and_what_to_do() {
    let server = with_sets().await;
    for (what, change, field, part) in WRONG {
        let mut set = full();
        change(&mut set["spec"]);
        let (code, told) = server.json(ADMIN, Method::POST, SETS, &set).await;
        assert_eq!(code, 422, "{what}: {told}");
        let causes = causes(&told);
        assert!(causes.iter().any(|(at, said)| at == field && said.contains(part)), "{what}: {causes:#?}");
        assert!(told["message"].as_str().unwrap().contains(field), "{what}: {told}");
    }
    let (_, list) = server.json(ADMIN, Method::GET, SETS, &Value::Null).await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn a_name_that_leaves_no_room_for_the_slots_is_refused() {
    let server = with_sets().await;
    let mut set = full();
    set["metadata"]["name"] = "n".repeat(53).into();
    let (code, told) = server.json(ADMIN, Method::POST, SETS, &set).await;
    assert_eq!(code, 422);
    assert!(told["message"].as_str().unwrap().contains("metadata.name must have at most 52 characters"), "{told}");
    set["metadata"]["name"] = "n".repeat(52).into();
    assert_eq!(server.json(ADMIN, Method::POST, SETS, &set).await.0, 201);
}

#[tokio::test]
async fn what_is_misspelt_is_told_to_who_asks_for_strictness() {
    let server = with_sets().await;
    let mut set = full();
    set["spec"]["minidle"] = json!(1);
    let (code, told) = server.json(ADMIN, Method::POST, &format!("{SETS}?fieldValidation=Strict"), &set).await;
    assert_eq!(code, 400);
    assert!(told["message"].as_str().unwrap().contains("unknown field \"spec.minidle\""), "{told}");
}

/// Runners are registered where the set was: another scope would say that there are none.
#[tokio::test]
async fn a_runner_set_does_not_move_to_another_scope() {
    let server = with_sets().await;
    assert_eq!(server.json(ADMIN, Method::POST, SETS, &full()).await.0, 201);
    let path = format!("{SETS}/linux");
    for github in [
        json!({"organization": "elsewhere"}),
        json!({"organization": null, "repository": "octo/app"}),
        json!({"organization": null, "enterprise": "octo"}),
        json!({"url": "https://other.example"}),
        json!({"url": null}),
    ] {
        let (code, told) = server.json(ADMIN, Method::PATCH, &path, &json!({"spec": {"github": github}})).await;
        assert_eq!(code, 422, "{github}: {told}");
        let causes = causes(&told);
        let moved = |(at, said): &(String, String)| {
            at == "spec.github" && said.contains("can't be changed") && said.contains("make another RunnerSet")
        };
        assert!(causes.iter().any(moved), "{github}: {causes:?}");
    }
    for change in [
        json!({"github": {"groupId": 4, "credentialsSecret": "other"}}),
        json!({"labels": ["windows"], "max": 30, "min": null, "schedules": null, "workVolume": null}),
    ] {
        let (code, told) = server.json(ADMIN, Method::PATCH, &path, &json!({"spec": change})).await;
        assert_eq!(code, 200, "{change}: {told}");
    }
    let (code, told) =
        server.json(ADMIN, Method::PATCH, &format!("{path}/scale"), &json!({"spec": {"replicas": 1}})).await;
    assert_eq!(code, 422, "two are always idle: {told}");
    let (code, _) =
        server.json(ADMIN, Method::PATCH, &format!("{path}/scale"), &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(code, 200);
}
