//! Bootstrap tokens: Secrets in `kube-system` by which somebody is known who is about to become a node, as `kubeadm token create`
//! makes them. Pure; upstream's rules are those of its bootstrap token authenticator.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{BOOTSTRAPPERS, Identity};

/// Where the Secrets are.
pub(crate) const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// The two parts of a token in the form `abcdef.0123456789abcdef`; `None`: it is none of this kind.
pub(crate) fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let good = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (good(id, 6) && good(secret, 16)).then_some((id, secret))
}

/// The Secret in which a token is kept.
pub(crate) fn secret_name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}

/// Whom a Secret makes of who has brought this token. `None`: nobody, because it is not for that, not any more, or another one.
pub(crate) fn holder(object: &Value, id: &str, secret: &str, now: Timestamp) -> Option<Identity> {
    if object["type"] != TYPE || object.pointer("/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let text = |field: &str| -> Option<String> {
        let bytes = STANDARD.decode(object["data"][field].as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    };
    // Digests, so that the time of a comparison tells nothing of the secret.
    let same = Sha256::digest(text("token-secret")?) == Sha256::digest(secret);
    if !same || text("token-id")? != id || text("usage-bootstrap-authentication")? != "true" {
        return None;
    }
    if let Some(end) = text("expiration").filter(|end| !end.is_empty())
        && end.parse::<Timestamp>().map_or(true, |end| end <= now)
    {
        return None;
    }
    let mut groups = vec![BOOTSTRAPPERS.to_owned()];
    for group in text("auth-extra-groups").unwrap_or_default().split(',').map(str::trim).filter(|g| !g.is_empty()) {
        // One that is no bootstrapper's makes the whole token worth nothing.
        groups.push(is_bootstrappers(group).then(|| group.to_owned())?);
    }
    groups[1..].sort();
    groups.dedup();
    Some(Identity { user: format!("system:bootstrap:{id}"), groups, ..Identity::default() })
}

/// `\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`
fn is_bootstrappers(group: &str) -> bool {
    let Some(rest) = group.strip_prefix("system:bootstrappers:") else { return false };
    let end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    rest.len() <= 256
        && rest.bytes().all(|byte| end(&byte) || matches!(byte, b':' | b'-'))
        && rest.as_bytes().last().is_some_and(end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "abcdef";
    const SECRET: &str = "0123456789abcdef";

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn token(changes: &[(&str, &str)]) -> Value {
        let mut object = json!({"type": TYPE, "metadata": {"name": "bootstrap-token-abcdef"}, "data": {}});
        let usual = [("token-id", ID), ("token-secret", SECRET), ("usage-bootstrap-authentication", "true")];
        for (field, text) in usual.iter().chain(changes) {
            object["data"][field] = STANDARD.encode(text).into();
        }
        object
    }

    fn groups(changes: &[(&str, &str)]) -> Option<Vec<String>> {
        holder(&token(changes), ID, SECRET, now()).map(|identity| identity.groups)
    }

    #[test]
    fn a_token_is_two_parts_of_fixed_length() {
        assert_eq!(parts("abcdef.0123456789abcdef"), Some((ID, SECRET)));
        for other in ["", ".", "abcdef", "abcde.0123456789abcdef", "abcdef.0123456789abcdeF", "a.b.c", "eyJh.eyJp.c2ln"]
        {
            assert_eq!(parts(other), None, "{other:?}");
        }
    }

    #[test]
    fn who_brings_the_secret_is_a_bootstrapper_until_it_ends() {
        let identity = holder(&token(&[]), ID, SECRET, now()).unwrap();
        assert_eq!((identity.user.as_str(), identity.node()), ("system:bootstrap:abcdef", None));
        assert_eq!(identity.groups, [BOOTSTRAPPERS]);
        assert_eq!(holder(&token(&[]), ID, "0123456789abcdeg", now()), None);
        assert!(groups(&[("expiration", "2026-01-01T00:00:01Z")]).is_some());
        assert!(groups(&[("expiration", "")]).is_some());
        for (field, text) in [
            ("expiration", "2026-01-01T00:00:00Z"),
            ("expiration", "tomorrow"),
            ("usage-bootstrap-authentication", "false"),
            ("token-id", "ghijkl"),
        ] {
            assert_eq!(groups(&[(field, text)]), None, "{field} {text}");
        }
        let mut other = token(&[]);
        other["type"] = "Opaque".into();
        assert_eq!(holder(&other, ID, SECRET, now()), None);
        let mut going = token(&[]);
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(holder(&going, ID, SECRET, now()), None);
        assert_eq!(holder(&json!({"type": TYPE}), ID, SECRET, now()), None);
    }

    #[test]
    fn more_groups_are_bootstrappers_groups_or_nothing_counts() {
        let more = groups(&[("auth-extra-groups", "system:bootstrappers:b, system:bootstrappers:a:x")]).unwrap();
        assert_eq!(more, [BOOTSTRAPPERS, "system:bootstrappers:a:x", "system:bootstrappers:b"]);
        for bad in ["system:masters", "system:bootstrappers:", "system:bootstrappers:A", "system:bootstrappers:a-"] {
            assert_eq!(groups(&[("auth-extra-groups", bad)]), None, "{bad}");
        }
    }
}
