//! What a request is, to those who say whether it is allowed. Pure.
//!
//! Fine-grained first (`nodes/pods`, `nodes/healthz`, `nodes/configz`), then what it was before that (`nodes/proxy`), as upstream.
//! A stream is opened by whoever may create it, whatever the method: a WebSocket can only be opened by GET, and reading must
//! not be enough to run commands.

use hyper::Method;

use super::super::route::Route;

/// A verb on subresources of the node; one of them is enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: &'static str,
    pub(crate) subresources: &'static [&'static str],
}

fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        // Nobody is allowed what has no name.
        _ => "",
    }
}

/// What `route` asked by `method` is.
pub(crate) fn attributes(method: &Method, route: &Route) -> Attributes {
    let verb = match route {
        Route::Exec(..) | Route::Attach(..) | Route::PortForward(_) => "create",
        Route::Health(_)
        | Route::Pods
        | Route::RunningPods
        | Route::Logs(..)
        | Route::Summary
        | Route::Metrics(_)
        | Route::Config
        | Route::MachineLogs
        | Route::Disabled(_)
        | Route::WrongMethod(_)
        | Route::Nothing(_) => verb(method),
    };
    let subresources: &[&str] = match route {
        Route::Summary => &["stats"],
        Route::Metrics(_) => &["metrics"],
        Route::MachineLogs => &["log"],
        Route::Pods | Route::RunningPods => &["pods", "proxy"],
        Route::Health(_) => &["healthz", "proxy"],
        Route::Config => &["configz", "proxy"],
        Route::Logs(..)
        | Route::Exec(..)
        | Route::Attach(..)
        | Route::PortForward(_)
        | Route::Disabled(_)
        | Route::WrongMethod(_)
        | Route::Nothing(_) => &["proxy"],
    };
    Attributes { verb, subresources }
}

#[cfg(test)]
mod tests {
    use super::super::super::route::route;
    use super::*;

    #[test]
    fn attributes_are_upstreams_row_by_row() {
        for (method, path, verb, subresources) in [
            (Method::GET, "/stats/summary", "get", &["stats"][..]),
            (Method::POST, "/stats/summary", "create", &["stats"]),
            (Method::GET, "/metrics", "get", &["metrics"]),
            (Method::GET, "/metrics/resource", "get", &["metrics"]),
            (Method::GET, "/metrics/probes/", "get", &["metrics"]),
            (Method::GET, "/logs/x", "get", &["log"]),
            (Method::GET, "/pods", "get", &["pods", "proxy"]),
            (Method::GET, "/runningpods/", "get", &["pods", "proxy"]),
            (Method::GET, "/healthz", "get", &["healthz", "proxy"]),
            (Method::GET, "/healthz/ping", "get", &["healthz", "proxy"]),
            (Method::GET, "/configz", "get", &["configz", "proxy"]),
            (Method::GET, "/containerLogs/ns/p/c", "get", &["proxy"]),
            (Method::GET, "/nothing", "get", &["proxy"]),
            (Method::POST, "/run/ns/p/c", "create", &["proxy"]),
            (Method::PUT, "/nothing", "update", &["proxy"]),
            (Method::PATCH, "/nothing", "patch", &["proxy"]),
            (Method::DELETE, "/nothing", "delete", &["proxy"]),
            (Method::OPTIONS, "/nothing", "", &["proxy"]),
        ] {
            let expected = Attributes { verb, subresources };
            assert_eq!(attributes(&method, &route(&method, path)), expected, "{method} {path}");
        }
    }

    #[test]
    fn r21_streams_are_created_whatever_the_method() {
        for path in ["/exec/ns/p/c", "/exec/ns/p/u/c", "/attach/ns/p/c", "/portForward/ns/p", "/portForward/ns/p/u"] {
            for method in [Method::GET, Method::POST] {
                let expected = Attributes { verb: "create", subresources: &["proxy"] };
                assert_eq!(attributes(&method, &route(&method, path)), expected, "{method} {path}");
            }
        }
    }

    #[test]
    fn no_other_spelling_of_a_path_is_allowed_more() {
        for path in
            ["//stats/../exec/ns/p/c", "/stats/%2e%2e/exec/ns/p/c", "/metrics/../pods", "/healthz/../exec/ns/p/c"]
        {
            let found = route(&Method::GET, path);
            assert!(matches!(found, Route::Nothing(_)), "{path}");
        }
    }
}
