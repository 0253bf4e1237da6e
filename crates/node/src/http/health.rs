//! `/healthz`: all checks, or one. Pure.

use super::source::Check;

/// What is answered: a status and a text.
pub(crate) type Health = (u16, String);

/// All checks. Failures are named, their reasons are not: whoever may ask this may not know more.
pub(crate) fn all(checks: &[Check], verbose: bool) -> Health {
    let ping = Check { name: "ping", failure: None };
    let mut lines = String::new();
    let mut healthy = true;
    for check in std::iter::once(&ping).chain(checks) {
        match &check.failure {
            None => lines.push_str(&format!("[+]{} ok\n", check.name)),
            Some(_) => {
                healthy = false;
                lines.push_str(&format!("[-]{} failed: reason withheld\n", check.name));
            }
        }
    }
    match (healthy, verbose) {
        (true, false) => (200, "ok".to_owned()),
        (true, true) => (200, lines + "healthz check passed\n"),
        (false, _) => (500, lines + "healthz check failed\n"),
    }
}

/// One check; `None`: there is none of this name.
pub(crate) fn one(checks: &[Check], name: &str) -> Option<Health> {
    if name == "ping" {
        return Some((200, "ok".to_owned()));
    }
    let check = checks.iter().find(|check| check.name == name)?;
    Some(match check.failure {
        None => (200, "ok".to_owned()),
        Some(_) => (500, format!("internal server error: {name} failed: reason withheld\n")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_told_as_upstream_tells_them() {
        let good = Check { name: "syncloop", failure: None };
        let bad = Check { name: "runtime", failure: Some("socket /x refused".to_owned()) };
        assert_eq!(all(std::slice::from_ref(&good), false), (200, "ok".to_owned()));
        let text = "[+]ping ok\n[+]syncloop ok\nhealthz check passed\n";
        assert_eq!(all(std::slice::from_ref(&good), true), (200, text.to_owned()));
        let text = "[+]ping ok\n[+]syncloop ok\n[-]runtime failed: reason withheld\nhealthz check failed\n";
        assert_eq!(all(&[good.clone(), bad.clone()], false), (500, text.to_owned()));
        let checks = [good, bad];
        assert_eq!(one(&checks, "ping"), Some((200, "ok".to_owned())));
        assert_eq!(one(&checks, "syncloop"), Some((200, "ok".to_owned())));
        assert_eq!(one(&checks, "runtime").map(|(code, _)| code), Some(500));
        assert!(one(&checks, "runtime").is_some_and(|(_, text)| !text.contains("socket")));
        assert_eq!(one(&checks, "etcd"), None);
    }
}
