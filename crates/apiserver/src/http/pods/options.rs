//! What is asked of a Pod's node: options as clients write them, checked as upstream checks them, and as a node reads them.
//! Pure.

use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::super::query::Query;
use super::Part;
use crate::error::{ApiError, Cause};

fn integer(query: &Query, name: &str) -> Result<Option<i64>, ApiError> {
    let invalid = |text: &str| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
    query.first(name).map(|text| text.parse().map_err(|_| invalid(text))).transpose()
}

/// The query of `/containerLogs`.
///
/// # Errors
/// 400 for values of the wrong type, 422 for those out of range or against each other.
pub(super) fn log(query: &Query, pod: &str) -> Result<String, ApiError> {
    let (tail, seconds, limit) =
        (integer(query, "tailLines")?, integer(query, "sinceSeconds")?, integer(query, "limitBytes")?);
    let time = match query.get("sinceTime") {
        "" | "null" => None,
        text => match text.parse::<jiff::Timestamp>() {
            Ok(_) => Some(text),
            Err(_) => {
                let message = format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?}");
                return Err(ApiError::bad_request(message));
            }
        },
    };
    let mut causes = Vec::new();
    let mut at_least = |number: Option<i64>, least: i64, field: &str, words: &str| {
        if let Some(number) = number.filter(|number| *number < least) {
            causes.push(Cause::new("FieldValueInvalid", format!("Invalid value: {number}: {words}"), field));
        }
    };
    at_least(tail, 0, "tailLines", "must be greater than or equal to 0");
    at_least(limit, 1, "limitBytes", "must be greater than 0");
    at_least(seconds, 1, "sinceSeconds", "must be greater than 0");
    if seconds.is_some() && time.is_some() {
        let message = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified";
        causes.push(Cause::new("FieldValueForbidden", message, ""));
    }
    let stream = query.get("stream");
    match stream {
        "" | "All" => {}
        "Stdout" | "Stderr" if tail.is_some() => {
            let message = "Forbidden: `tailLines` and specific `stream` are mutually exclusive for now";
            causes.push(Cause::new("FieldValueForbidden", message, ""));
        }
        "Stdout" | "Stderr" => {}
        other => {
            let message = format!("Unsupported value: {other:?}: supported values: \"All\", \"Stderr\", \"Stdout\"");
            causes.push(Cause::new("FieldValueNotSupported", message, "stream"));
        }
    }
    if !causes.is_empty() {
        return Err(ApiError::invalid("", "PodLogOptions", pod, causes));
    }
    let mut told = Serializer::new(String::new());
    for flag in ["follow", "previous", "timestamps"] {
        if query.flag(flag) == Some(true) {
            told.append_pair(flag, "true");
        }
    }
    for (name, number) in [("sinceSeconds", seconds), ("tailLines", tail), ("limitBytes", limit)] {
        if let Some(number) = number {
            told.append_pair(name, &number.to_string());
        }
    }
    if let Some(time) = time {
        told.append_pair("sinceTime", time);
    }
    if matches!(stream, "Stdout" | "Stderr") {
        told.append_pair("stream", stream);
    }
    Ok(told.finish())
}

/// The query of `/exec`, `/attach` and `/portForward`. Whether it makes sense is the node's to say, as upstream.
pub(super) fn stream(part: Part, query: &Query) -> String {
    let mut told = Serializer::new(String::new());
    if part == Part::PortForward {
        let ports: Vec<&str> = query.all("ports").collect();
        if !ports.is_empty() {
            told.append_pair("port", &ports.join(","));
        }
        return told.finish();
    }
    // Their defaults are upstream's: output is wanted unless somebody says no.
    for (name, kubelet, default) in
        [("stdin", "input", false), ("stdout", "output", true), ("stderr", "error", true), ("tty", "tty", false)]
    {
        if query.flag(name).unwrap_or(default) {
            told.append_pair(kubelet, "1");
        }
    }
    if part == Part::Exec {
        for word in query.all("command") {
            told.append_pair("command", word);
        }
    }
    told.finish()
}

fn names<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a str> {
    pod["spec"][list].as_array().into_iter().flatten().filter_map(|container| container["name"].as_str())
}

/// The container that is meant: the one that is named, or the only one.
///
/// # Errors
/// 400 with upstream's sentence.
pub(super) fn container(pod: &Value, named: &str) -> Result<String, ApiError> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let all: Vec<&str> =
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| names(pod, list)).collect();
    if !named.is_empty() {
        return match all.contains(&named) {
            true => Ok(named.to_owned()),
            false => Err(ApiError::bad_request(format!("container {named} is not valid for pod {name}"))),
        };
    }
    let main: Vec<&str> = names(pod, "containers").collect();
    match main.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err(ApiError::bad_request(format!("a container name must be specified for pod {name}"))),
        _ => {
            let all = all.join(" ");
            let message = format!("a container name must be specified for pod {name}, choose one of: [{all}]");
            Err(ApiError::bad_request(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn log_options_are_passed_on() {
        for (asked, told) in [
            ("", ""),
            ("container=c&pretty=true", ""),
            ("follow=true&previous=false&timestamps=1", "follow=true&timestamps=true"),
            ("tailLines=0&limitBytes=1&sinceSeconds=1", "sinceSeconds=1&tailLines=0&limitBytes=1"),
            ("sinceTime=2026-11-22T07%3A00%3A00%2B02%3A00", "sinceTime=2026-11-22T07%3A00%3A00%2B02%3A00"),
            ("stream=All", ""),
            ("stream=Stderr", "stream=Stderr"),
        ] {
            assert_eq!(log(&Query::parse(asked), "p").unwrap(), told, "{asked}");
        }
    }

    #[test]
    fn bad_log_options_are_refused_in_upstreams_words() {
        for (asked, code, message) in [
            ("tailLines=x", 400, r#"strconv.ParseInt: parsing "x": invalid syntax"#),
            ("sinceTime=now", 400, r#"parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now""#),
            (
                "tailLines=-1",
                422,
                r#"PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0"#,
            ),
            (
                "limitBytes=0",
                422,
                r#"PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0"#,
            ),
            (
                "sinceSeconds=5&sinceTime=2026-11-22T07:00:00Z",
                422,
                r#"PodLogOptions "p" is invalid: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"#,
            ),
            (
                "stream=Both",
                422,
                r#"PodLogOptions "p" is invalid: stream: Unsupported value: "Both": supported values: "All", "Stderr", "Stdout""#,
            ),
            (
                "stream=Stdout&tailLines=1",
                422,
                r#"PodLogOptions "p" is invalid: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"#,
            ),
        ] {
            let error = log(&Query::parse(asked), "p").unwrap_err();
            assert_eq!((error.code(), error.to_string().as_str()), (code, message), "{asked}");
        }
    }

    #[test]
    fn streams_are_told_as_the_kubelet_reads_them() {
        for (part, asked, told) in [
            (
                Part::Exec,
                "command=sh&command=-c&command=echo+%26&stdin=true&tty=true&stderr=false",
                "input=1&output=1&tty=1&command=sh&command=-c&command=echo+%26",
            ),
            (Part::Exec, "command=id", "output=1&error=1&command=id"),
            (Part::Attach, "stdout=0&stderr=0&stdin=1&command=x", "input=1"),
            (Part::PortForward, "ports=80&ports=443&stdin=1", "port=80%2C443"),
            (Part::PortForward, "", ""),
        ] {
            assert_eq!(stream(part, &Query::parse(asked)), told, "{asked}");
        }
    }

    #[test]
    fn the_container_is_the_one_named_or_the_only_one() {
        let pod = |main: &[&str], more: &[&str]| {
            let list = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
            json!({"metadata": {"name": "p"}, "spec": {"containers": list(main), "initContainers": list(more)}})
        };
        assert_eq!(container(&pod(&["a"], &["i"]), "").unwrap(), "a");
        assert_eq!(container(&pod(&["a"], &["i"]), "i").unwrap(), "i");
        for (pod, named, message) in [
            (pod(&["a", "b"], &["i"]), "", "a container name must be specified for pod p, choose one of: [i a b]"),
            (pod(&[], &[]), "", "a container name must be specified for pod p"),
            (pod(&["a"], &[]), "x", "container x is not valid for pod p"),
        ] {
            let error = container(&pod, named).unwrap_err();
            assert_eq!((error.code(), error.to_string().as_str()), (400, message));
        }
    }
}
