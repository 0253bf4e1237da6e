//! From a request's method and path to what it asks for. Pure.
//!
//! Authorization goes by the [`Route`], never by the path's text: what is allowed is what is done.

use hyper::Method;

/// A Pod by name, and by uid where the path has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) uid: Option<String>,
}

/// Which families of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsPart {
    /// All but those below.
    Main,
    /// What Pods and containers use.
    Resource,
    /// Results of probes.
    Probes,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// All health checks, or one.
    Health(Option<String>),
    /// The Pods that are wanted here.
    Pods,
    /// The Pods that are here.
    RunningPods,
    /// Output of a container.
    Logs(Target, String),
    /// A command in a container.
    Exec(Target, String),
    /// The streams of a container's program.
    Attach(Target, String),
    /// Connections to ports of a Pod.
    PortForward(Target),
    /// What the node and its Pods use.
    Summary,
    /// Metrics.
    Metrics(MetricsPart),
    /// The configuration.
    Config,
    /// Files of the machine's logs: upstream can switch that off; here it is never on.
    MachineLogs,
    /// Upstream has it, and here it is never on: `/run`, profiling, flags.
    Disabled(&'static str),
    /// It is there, for these methods.
    WrongMethod(&'static str),
    /// Nothing that is here; with what upstream says.
    Nothing(&'static str),
}

const NO_ROOT: &str = "404 page not found\n";
const NO_ROUTE: &str = "404: Page Not Found";

fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains(['/', '\0']) && text != "." && text != "..")
}

/// What a request asks for. A slash at the end changes nothing.
pub(crate) fn route(method: &Method, path: &str) -> Route {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let Some(segments) = path.split('/').map(decode).collect::<Option<Vec<_>>>() else {
        return Route::Nothing(NO_ROOT);
    };
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let found = match parts.as_slice() {
        ["healthz"] => Route::Health(None),
        ["healthz", check] => Route::Health(Some((*check).to_owned())),
        ["pods"] => Route::Pods,
        ["runningpods"] => Route::RunningPods,
        ["containerLogs", rest @ ..] => in_container(rest, false, Route::Logs),
        ["exec", rest @ ..] => in_container(rest, true, Route::Exec),
        ["attach", rest @ ..] => in_container(rest, true, Route::Attach),
        ["portForward", rest @ ..] => port_forward(rest),
        ["stats", "summary"] => Route::Summary,
        ["stats", ..] => Route::Nothing(NO_ROUTE),
        ["metrics"] => Route::Metrics(MetricsPart::Main),
        ["metrics", "resource"] => Route::Metrics(MetricsPart::Resource),
        ["metrics", "probes"] => Route::Metrics(MetricsPart::Probes),
        ["configz"] => Route::Config,
        ["logs", ..] => Route::MachineLogs,
        ["run", ..] => Route::Disabled("run endpoint is disabled."),
        ["debug", "pprof", ..] => Route::Disabled("profiling endpoint is disabled."),
        ["debug", "flags", ..] => Route::Disabled("flags endpoint is disabled."),
        _ => Route::Nothing(NO_ROOT),
    };
    allowed(found, method)
}

fn allowed(route: Route, method: &Method) -> Route {
    let reads = *method == Method::GET || *method == Method::HEAD;
    match route {
        // Clients upgrade by either.
        Route::Exec(..) | Route::Attach(..) | Route::PortForward(..) => {
            match *method == Method::GET || *method == Method::POST {
                true => route,
                false => Route::WrongMethod("GET, POST"),
            }
        }
        Route::Summary if *method == Method::POST => route,
        Route::Health(_)
        | Route::Pods
        | Route::RunningPods
        | Route::Logs(..)
        | Route::Summary
        | Route::Metrics(_)
        | Route::Config => match reads {
            true => route,
            false => Route::WrongMethod("GET"),
        },
        Route::MachineLogs | Route::Disabled(_) | Route::WrongMethod(_) | Route::Nothing(_) => route,
    }
}

fn target(namespace: &str, pod: &str, uid: Option<&str>) -> Option<Target> {
    let empty = namespace.is_empty() || pod.is_empty() || uid.is_some_and(str::is_empty);
    (!empty).then(|| Target { namespace: namespace.to_owned(), pod: pod.to_owned(), uid: uid.map(str::to_owned) })
}

fn in_container(rest: &[&str], with_uid: bool, make: fn(Target, String) -> Route) -> Route {
    let (target, container) = match rest {
        [namespace, pod, container] => (target(namespace, pod, None), container),
        [namespace, pod, uid, container] if with_uid => (target(namespace, pod, Some(uid)), container),
        _ => return Route::Nothing(NO_ROUTE),
    };
    match target {
        Some(target) if !container.is_empty() => make(target, (*container).to_owned()),
        Some(_) | None => Route::Nothing(NO_ROUTE),
    }
}

fn port_forward(rest: &[&str]) -> Route {
    let target = match rest {
        [namespace, pod] => target(namespace, pod, None),
        [namespace, pod, uid] => target(namespace, pod, Some(uid)),
        _ => None,
    };
    target.map_or(Route::Nothing(NO_ROUTE), Route::PortForward)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: Option<&str>) -> Target {
        target("ns", "p", uid).unwrap()
    }

    #[test]
    fn r20_every_route_is_found_in_every_form() {
        let c = || "c".to_owned();
        for (path, expected) in [
            ("/healthz", Route::Health(None)),
            ("/healthz/", Route::Health(None)),
            ("/healthz/syncloop", Route::Health(Some("syncloop".to_owned()))),
            ("/pods", Route::Pods),
            ("/pods/", Route::Pods),
            ("/runningpods", Route::RunningPods),
            ("/runningpods/", Route::RunningPods),
            ("/containerLogs/ns/p/c", Route::Logs(pod(None), c())),
            ("/exec/ns/p/c", Route::Exec(pod(None), c())),
            ("/exec/ns/p/u/c", Route::Exec(pod(Some("u")), c())),
            ("/attach/ns/p/c", Route::Attach(pod(None), c())),
            ("/attach/ns/p/u/c/", Route::Attach(pod(Some("u")), c())),
            ("/portForward/ns/p", Route::PortForward(pod(None))),
            ("/portForward/ns/p/u", Route::PortForward(pod(Some("u")))),
            ("/stats/summary", Route::Summary),
            ("/stats/summary/", Route::Summary),
            ("/metrics", Route::Metrics(MetricsPart::Main)),
            ("/metrics/resource", Route::Metrics(MetricsPart::Resource)),
            ("/metrics/resource/", Route::Metrics(MetricsPart::Resource)),
            ("/metrics/probes", Route::Metrics(MetricsPart::Probes)),
            ("/configz", Route::Config),
            ("/logs/kern.log", Route::MachineLogs),
            ("/run/ns/p/c", Route::Disabled("run endpoint is disabled.")),
            ("/debug/pprof/heap", Route::Disabled("profiling endpoint is disabled.")),
        ] {
            assert_eq!(route(&Method::GET, path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        for path in [
            "/",
            "",
            "//",
            "/nothing",
            "/metrics/cadvisor",
            "/healthz/a/b",
            "/Pods",
            "/exec/%ff/p/c",
            "/exec/ns/%2e%2e/c",
            "/exec/ns/a%00b/c",
            "/exec/ns/a%2fb/c",
            "/%zz",
            "/stats/../exec/ns/p/c",
            "/checkpoint/ns/p/c",
        ] {
            assert!(matches!(route(&Method::GET, path), Route::Nothing(_)), "{path}");
        }
        for path in [
            "/containerLogs",
            "/containerLogs/ns/p",
            "/containerLogs/ns/p/u/c",
            "/exec/ns//c",
            "/exec/ns/p/u/c/x",
            "/attach//p/c",
            "/portForward/ns",
            "/portForward/ns/p/u/x",
            "/portForward/ns/p//",
            "/stats",
            "/stats/container",
        ] {
            assert_eq!(route(&Method::GET, path), Route::Nothing(NO_ROUTE), "{path}");
        }
    }

    #[test]
    fn methods_are_those_of_upstream() {
        for path in ["/exec/ns/p/c", "/attach/ns/p/u/c", "/portForward/ns/p"] {
            assert!(!matches!(route(&Method::POST, path), Route::WrongMethod(_)), "{path}");
            for method in [Method::PUT, Method::DELETE, Method::HEAD, Method::PATCH] {
                assert_eq!(route(&method, path), Route::WrongMethod("GET, POST"), "{method} {path}");
            }
        }
        for path in ["/pods", "/runningpods/", "/containerLogs/ns/p/c", "/metrics", "/configz", "/healthz"] {
            assert_eq!(route(&Method::POST, path), Route::WrongMethod("GET"), "{path}");
        }
        assert_eq!(route(&Method::POST, "/stats/summary"), Route::Summary);
        assert_eq!(route(&Method::DELETE, "/stats/summary"), Route::WrongMethod("GET"));
    }
}
