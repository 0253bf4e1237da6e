//! The spellings that Kubernetes allows for names, keys and addresses. Each function says what is wrong, or nothing.

use std::net::IpAddr;

pub(crate) const LABEL_MAX: usize = 63;
pub(crate) const SUBDOMAIN_MAX: usize = 253;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case letters, digits or '-', and start and end \
                     with a letter or digit";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case letters, digits, '-' or '.', and \
                         start and end with a letter or digit";
const QUALIFIED: &str = "the name part must consist of letters, digits, '-', '_' or '.', and start and end with a \
                         letter or digit";

type Problem = Option<&'static str>;

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// `my-name`: names of containers, volumes, namespaces, hosts.
pub(crate) fn dns_label(text: &str) -> Problem {
    if text.len() > LABEL_MAX {
        return Some("must be no more than 63 bytes");
    }
    (!is_label(text)).then_some(LABEL)
}

/// `my.name`: names of most objects.
pub(crate) fn dns_subdomain(text: &str) -> Problem {
    if text.len() > SUBDOMAIN_MAX {
        return Some("must be no more than 253 bytes");
    }
    (!text.split('.').all(is_label)).then_some(SUBDOMAIN)
}

/// What is wrong with the name of an object whose kind has no rules of its own (a Node, a Pod); `None`: nothing.
#[must_use]
pub fn object_name(text: &str) -> Option<&'static str> {
    dns_subdomain(text)
}

/// `http`: the name of a port (IANA service name).
pub(crate) fn port_name(text: &str) -> Problem {
    if text.len() > 15 {
        return Some("must be no more than 15 bytes");
    }
    if !is_label(text) {
        return Some("must contain only lower case letters, digits and '-', and start and end with a letter or digit");
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        return Some("must contain at least one letter (a-z)");
    }
    text.contains("--").then_some("must not contain consecutive hyphens")
}

/// The name of an environment variable, as relaxed since Kubernetes 1.34.
pub(crate) fn env_name(text: &str) -> Problem {
    if text.is_empty() {
        return Some("must not be empty");
    }
    let allowed = text.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=');
    (!allowed).then_some("must consist of printable ASCII characters other than '='")
}

/// A key of a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Problem {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.len() > SUBDOMAIN_MAX {
        return Some("must be no more than 253 bytes");
    }
    if text.is_empty() || !text.bytes().all(allowed) {
        return Some("a valid config key must consist of letters, digits, '-', '_' or '.'");
    }
    match text {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        _ => text.starts_with("..").then_some("must not start with '..'"),
    }
}

/// `app.kubernetes.io/name`: a key of labels and annotations, the name of a resource.
pub(crate) fn qualified_name(text: &str) -> Problem {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if name.contains('/') {
        return Some("must have at most one '/', between an optional DNS subdomain prefix and a name");
    }
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("the prefix part must not be empty");
        }
        if dns_subdomain(prefix).is_some() {
            return Some("the prefix part must be a lowercase RFC 1123 subdomain");
        }
    }
    if name.is_empty() {
        return Some("the name part must not be empty");
    }
    if name.len() > LABEL_MAX {
        return Some("the name part must be no more than 63 bytes");
    }
    (!is_qualified_part(name)).then_some(QUALIFIED)
}

fn is_qualified_part(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    text.bytes().all(inner) && edge(text.as_bytes().first()) && edge(text.as_bytes().last())
}

/// The value of a label; it may be empty.
pub(crate) fn label_value(text: &str) -> Problem {
    if text.len() > LABEL_MAX {
        return Some("must be no more than 63 bytes");
    }
    (!text.is_empty() && !is_qualified_part(text)).then_some(
        "a valid label must be empty or consist of letters, digits, '-', '_' or '.', and start and end with a letter \
         or digit",
    )
}

/// An IPv4 or IPv6 address.
pub(crate) fn ip_address(text: &str) -> Problem {
    text.parse::<IpAddr>().is_err().then_some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
}

/// `net.core.somaxconn` or `net/core/somaxconn`.
pub(crate) fn sysctl_name(text: &str) -> Problem {
    let part = |part: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        part.bytes().all(inner) && edge(part.as_bytes().first()) && edge(part.as_bytes().last())
    };
    if text.len() > SUBDOMAIN_MAX {
        return Some("must have at most 253 characters");
    }
    (!text.split(['.', '/']).all(part))
        .then_some("must consist of parts of lower case letters, digits, '-' or '_', separated by '.' or '/'")
}

/// A path inside a volume: relative, and never above it.
pub(crate) fn local_path(text: &str) -> Problem {
    if text.starts_with('/') {
        return Some("must be a relative path");
    }
    no_backsteps(text)
}

/// A path without `..` as a part.
pub(crate) fn no_backsteps(text: &str) -> Problem {
    text.split('/').any(|part| part == "..").then_some("must not contain '..'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&str) -> Problem, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(rule(text), None, "{text:?}");
        }
        for text in bad {
            assert!(rule(text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn dns_labels() {
        let long = "a".repeat(64);
        check(
            dns_label,
            &["a", "0", "my-name", "123-abc", &long[..63]],
            &["", "-a", "a-", "A", "a.b", "a_b", "ä", &long],
        );
    }

    #[test]
    fn dns_subdomains() {
        let long = ["a".repeat(63).as_str(); 4].join(".");
        check(dns_subdomain, &["a", "a.b-c.d", "1.2", &long[..253]], &["", ".", "a.", ".a", "a..b", "A.b", &long]);
    }

    #[test]
    fn port_names() {
        check(port_name, &["http", "a1", "dns-tcp"], &["", "80", "a--b", "-a", "HTTP", "sixteen-letters1"]);
    }

    #[test]
    fn env_names() {
        check(env_name, &["A", "my.var", "a-b", "1A", "WITH SPACE", "$x"], &["", "A=B", "ä", "a\nb"]);
    }

    #[test]
    fn config_keys() {
        check(
            config_key,
            &["a", ".env", "A_b-c.d", "..."].map(|k| if k == "..." { "a..." } else { k }),
            &["", ".", "..", "..data", "...", "a/b", "a b"],
        );
    }

    #[test]
    fn qualified_names() {
        let long = format!("a/{}", "n".repeat(64));
        check(
            qualified_name,
            &["a", "App_1.x", "example.com/Name", "a/0"],
            &["", "/", "a/", "/a", "a/b/c", "-a", "a-", "Ex.com/a", "a b", &long],
        );
    }

    #[test]
    fn label_values() {
        check(label_value, &["", "v", "V1_2.3-x"], &["-", "a b", ".a", &"v".repeat(64)]);
    }

    #[test]
    fn sysctl_names() {
        check(
            sysctl_name,
            &["kernel.shm_rmid_forced", "net/ipv4/ip_forward", "net.ipv4.conf.eth0.x"],
            &["", "a..b", ".a", "A.b", "a. b"],
        );
    }

    #[test]
    fn paths_in_volumes() {
        check(local_path, &["", "a", "a/b", "..a", "a..b/c.."], &["/a", "..", "../a", "a/..", "a/../b"]);
    }
}
