//! From a path to what it names: six shapes, no table of routes. Pure.

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/healthz`, `/livez`, `/readyz`, with or without a part.
    Health,
    /// `/metrics`.
    Metrics,
    /// `/version`.
    Version,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/v1`, `/apis/{group}/{version}`.
    Resources(String, String),
    /// `/.well-known/openid-configuration`: how tokens of service accounts are checked by others.
    OpenId,
    /// `/openid/v1/jwks`.
    KeySet,
    /// `/openapi/v2`.
    OpenApiOld,
    /// `/openapi/v3`.
    OpenApiIndex,
    /// `/openapi/v3/…`: group and version.
    OpenApi(String, String),
    /// Objects of a resource.
    Collection(Resource),
    /// One object, or a subresource of it.
    Object(Resource, String, String),
    /// Nothing that is here.
    Nothing,
}

/// A resource, in a namespace or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) plural: String,
}

/// Of namespaces themselves, which else would look like resources in them.
const NAMESPACE_PARTS: [&str; 2] = ["status", "finalize"];

fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes().iter();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            byte => *byte,
        });
    }
    // NUL separates the parts of keys.
    String::from_utf8(bytes).ok().filter(|text| !text.contains(['/', '\0']) && text != "." && text != "..")
}

/// What a path names.
pub(crate) fn route(path: &str) -> Route {
    let Some(segments) = path.split('/').filter(|part| !part.is_empty()).map(decode).collect::<Option<Vec<_>>>() else {
        return Route::Nothing;
    };
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["metrics"] => Route::Metrics,
        ["version"] => Route::Version,
        [".well-known", "openid-configuration"] => Route::OpenId,
        ["openid", "v1", "jwks"] => Route::KeySet,
        ["openapi", "v2"] => Route::OpenApiOld,
        ["openapi", "v3"] => Route::OpenApiIndex,
        ["openapi", "v3", "api", version] => Route::OpenApi(String::new(), (*version).to_owned()),
        ["openapi", "v3", "apis", group, version] => Route::OpenApi((*group).to_owned(), (*version).to_owned()),
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Route::Nothing,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Route {
    let of = |namespace: Option<&str>, plural: &str| Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.map(str::to_owned),
        plural: plural.to_owned(),
    };
    let object = |namespace, plural, name: &str, part: &str| {
        Route::Object(of(namespace, plural), name.to_owned(), part.to_owned())
    };
    match rest {
        [] => Route::Resources(group.to_owned(), version.to_owned()),
        ["namespaces", name, part] if NAMESPACE_PARTS.contains(part) => object(None, "namespaces", name, part),
        ["namespaces", namespace, plural] => Route::Collection(of(Some(namespace), plural)),
        ["namespaces", namespace, plural, name] => object(Some(namespace), plural, name, ""),
        ["namespaces", namespace, plural, name, part] => object(Some(namespace), plural, name, part),
        [plural] => Route::Collection(of(None, plural)),
        [plural, name] => object(None, plural, name, ""),
        [plural, name, part] => object(None, plural, name, part),
        _ => Route::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, namespace: Option<&str>, plural: &str) -> Resource {
        let (group, plural) = (group.to_owned(), plural.to_owned());
        Resource { group, version: "v1".to_owned(), namespace: namespace.map(str::to_owned), plural }
    }

    #[test]
    fn paths_name_what_they_name() {
        let pods = resource("", Some("ns"), "pods");
        for (path, expected) in [
            ("/api", Route::CoreVersions),
            ("/api/", Route::CoreVersions),
            ("/api/v1", Route::Resources(String::new(), "v1".to_owned())),
            ("/apis/node.k8s.io/v1", Route::Resources("node.k8s.io".to_owned(), "v1".to_owned())),
            ("/api/v1/pods", Route::Collection(resource("", None, "pods"))),
            ("/api/v1/namespaces/ns/pods", Route::Collection(pods.clone())),
            ("/api/v1/namespaces/ns/pods/p", Route::Object(pods.clone(), "p".to_owned(), String::new())),
            ("/api/v1/namespaces/ns/pods/p/status", Route::Object(pods, "p".to_owned(), "status".to_owned())),
            (
                "/api/v1/namespaces/ns/finalize",
                Route::Object(resource("", None, "namespaces"), "ns".to_owned(), "finalize".to_owned()),
            ),
            ("/api/v1/namespaces/ns", Route::Object(resource("", None, "namespaces"), "ns".to_owned(), String::new())),
            ("/api/v1/nodes/a%3Ab", Route::Object(resource("", None, "nodes"), "a:b".to_owned(), String::new())),
            ("/healthz/etcd", Route::Health),
            ("/openapi/v2", Route::OpenApiOld),
            ("/openapi/v3", Route::OpenApiIndex),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
        for bad in [
            "/",
            "/x",
            "/api/v1/a/b/c/d/e/f",
            "/api/v1/pods/%2e%2e",
            "/api/v1/pods/a%00b",
            "/api/v1/x%2Fy",
            "/api/%zz",
            "/api/v1/%ff",
        ] {
            assert_eq!(route(bad), Route::Nothing, "{bad}");
        }
    }
}
