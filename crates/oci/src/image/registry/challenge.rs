//! `WWW-Authenticate`: how a registry wants to be logged in to.

/// The ways that registries ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password on each request.
    Basic,
    /// A token from a token service.
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// Reads one header; a bearer challenge goes before a basic one in it. `None` when it asks for something else.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let lower = header.to_ascii_lowercase();
        if let Some(start) = scheme(&lower, "bearer") {
            let parameters = parameters(&header[start..]);
            let find = |key: &str| parameters.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone());
            if let Some(realm) = find("realm") {
                return Some(Self::Bearer { realm, service: find("service") });
            }
        }
        scheme(&lower, "basic").map(|_| Self::Basic)
    }
}

/// Where the parameters of a scheme start, if the header (in lower case) has it.
fn scheme(header: &str, name: &str) -> Option<usize> {
    let starts = |at: usize| {
        let rest = &header[at + name.len()..];
        (at == 0 || header[..at].trim_end().ends_with(',')) && (rest.is_empty() || rest.starts_with([' ', ',']))
    };
    header.match_indices(name).map(|(at, _)| at).find(|at| starts(*at)).map(|at| at + name.len())
}

/// `key=value` and `key="value"`, separated by commas; ends at the next scheme.
fn parameters(mut rest: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        let Some((key, after)) = rest.split_once('=') else {
            return found;
        };
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
            return found;
        }
        let value = match after.strip_prefix('"') {
            Some(quoted) => {
                let mut value = String::new();
                let mut chars = quoted.char_indices();
                let end = loop {
                    match chars.next() {
                        Some((at, '"')) => break at + 1,
                        Some((_, '\\')) => value.extend(chars.next().map(|(_, c)| c)),
                        Some((_, c)) => value.push(c),
                        None => break quoted.len(),
                    }
                };
                rest = &quoted[end..];
                value
            }
            None => {
                let end = after.find([',', ' ']).unwrap_or(after.len());
                rest = &after[end..];
                after[..end].to_owned()
            }
        };
        found.push((key.to_ascii_lowercase(), value));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: Option<&str>| Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        };
        for (header, expected) in [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://a.test/token\",service=\"s\",scope=\"repository:a,b:pull\"",
                Some(bearer("https://a.test/token", Some("s"))),
            ),
            ("bearer service=s, realm=https://a.test/t", Some(bearer("https://a.test/t", Some("s")))),
            ("Basic realm=\"x\", Bearer realm=\"r\"", Some(bearer("r", None))),
            ("Bearer realm=\"a\\\"b\"", Some(bearer("a\"b", None))),
            ("Negotiate", None),
            ("Digest realm=\"bearer basic\"", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(header), expected, "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(header in ".{0,100}") {
            let _ = Challenge::parse(&header);
            let _ = Challenge::parse(&format!("Bearer {header}"));
        }
    }
}
