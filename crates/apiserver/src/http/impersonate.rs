//! Acting as somebody else, as `kubectl --as` asks for it by headers: whoever may `impersonate` them is them for this request.
//! Of this server's roles only the administrators' has that verb.

use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderValue};

use crate::access::{AUTHENTICATED, Attempt, Identity, allows, forbidden};
use crate::error::ApiError;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

const ACCOUNT: &str = "system:serviceaccount:";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Who is to be taken for who asks: themselves, unless the headers name somebody.
///
/// # Errors
/// 403 if they may not; 400 for groups, a uid or extras without a user.
pub(super) fn acting(asking: Arc<Identity>, headers: &HeaderMap) -> Result<Arc<Identity>, ApiError> {
    let Some(wanted) = wanted(headers)? else { return Ok(asking) };
    let may = |group: &str, resource: &str, part: &str, namespace: &str, name: &str| {
        let attempt = Attempt { verb: "impersonate", group, resource, subresource: part, namespace, name };
        if allows(&asking, &attempt) { Ok(()) } else { Err(forbidden(&asking, &attempt)) }
    };
    let mut groups = wanted.groups.clone();
    match account(&wanted.user) {
        Some((namespace, name)) => {
            may("", "serviceaccounts", "", namespace, name)?;
            if groups.is_empty() {
                groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
            }
        }
        None => may("", "users", "", "", &wanted.user)?,
    }
    for group in &wanted.groups {
        may("", "groups", "", "", group)?;
    }
    if !wanted.uid.is_empty() {
        may("authentication.k8s.io", "uids", "", "", &wanted.uid)?;
    }
    for (key, value) in &wanted.extra {
        may("authentication.k8s.io", "userextras", key, "", value)?;
    }
    // Who is said to be unknown is not made known.
    let state = if wanted.user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        groups.push(state.to_owned());
    }
    Ok(Arc::new(Identity { groups, ..wanted }))
}

/// Whom the headers name. A header that can't be read is refused: taken for absent, it would leave the request with all the
/// rights of whoever asks.
fn wanted(headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
    let one = |name: &str| headers.get(name).map_or(Ok(String::new()), text);
    let mut extra = Vec::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extra.push((unescaped(key), text(value)?));
        }
    }
    let groups = headers.get_all(GROUP).iter().map(text).collect::<Result<_, _>>()?;
    let wanted = Identity { user: one(USER)?, uid: one(UID)?, groups, extra };
    match wanted {
        Identity { user, uid, groups, extra } if user.is_empty() => {
            if uid.is_empty() && groups.is_empty() && extra.is_empty() {
                return Ok(None);
            }
            Err(ApiError::bad_request("requested groups, a uid or extras of somebody without impersonating a user"))
        }
        wanted => Ok(Some(wanted)),
    }
}

/// A header's text; clients send names as they are, in UTF-8.
fn text(value: &HeaderValue) -> Result<String, ApiError> {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(ApiError::bad_request("a header that says whom to impersonate is not valid UTF-8")),
    }
}

/// Namespace and name of a service account.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// A key as it was before it was made fit for a header's name.
fn unescaped(key: &str) -> String {
    let bytes = key.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = (byte == b'%').then(|| key.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;
    use crate::access::ADMINISTRATORS;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        pairs.iter().map(pair).fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
    }

    fn as_somebody(groups: &[&str], pairs: &[(&str, &str)]) -> Result<Identity, ApiError> {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let asking = Identity { user: "x".to_owned(), groups, ..Identity::default() };
        acting(Arc::new(asking), &headers(pairs)).map(|identity| (*identity).clone())
    }

    #[test]
    fn an_administrator_is_whom_the_headers_name_and_no_more() {
        let admin = |pairs: &[(&str, &str)]| as_somebody(&[ADMINISTRATORS], pairs).unwrap();
        assert_eq!(admin(&[("accept", "*/*")]).groups, [ADMINISTRATORS]);
        let bob = admin(&[(USER, "bob"), (GROUP, "a"), (GROUP, "b"), (UID, "7"), ("Impersonate-Extra-a%2Fb", "c")]);
        assert_eq!((bob.user.as_str(), bob.uid.as_str()), ("bob", "7"));
        assert_eq!(bob.groups, ["a", "b", AUTHENTICATED]);
        assert_eq!(bob.extra, [("a/b".to_owned(), "c".to_owned())]);
        let account = admin(&[(USER, "system:serviceaccount:ns:robot")]);
        assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]);
        assert_eq!(admin(&[(USER, ANONYMOUS)]).groups, [UNAUTHENTICATED]);
    }

    #[test]
    fn nobody_else_is_anybody_else() {
        let refused = as_somebody(&[AUTHENTICATED], &[(USER, "root"), (GROUP, ADMINISTRATORS)]).unwrap_err();
        assert_eq!(
            (refused.code(), refused.to_string().as_str()),
            (
                403,
                r#"users "root" is forbidden: User "x" cannot impersonate resource "users" in API group "" at the cluster scope"#
            )
        );
        assert_eq!(
            as_somebody(&["minke:controllers"], &[(USER, "system:serviceaccount:ns:robot")]).unwrap_err().code(),
            403
        );
    }

    #[test]
    fn groups_without_a_user_are_a_mistake() {
        for header in [GROUP, UID, "impersonate-extra-x"] {
            assert_eq!(as_somebody(&[ADMINISTRATORS], &[(header, "a")]).unwrap_err().code(), 400, "{header}");
        }
    }

    #[test]
    fn a_name_beyond_ascii_is_that_name_and_not_the_administrator() {
        let asked = as_somebody(&[ADMINISTRATORS], &[(USER, "jürgen"), (GROUP, "größen")]).unwrap();
        assert_eq!((asked.user.as_str(), asked.groups[0].as_str()), ("jürgen", "größen"));
        let admin = Identity { groups: vec![ADMINISTRATORS.to_owned()], ..Identity::default() };
        for header in [USER, UID, GROUP, "impersonate-extra-x"] {
            let mut headers = headers(&[(USER, "bob")]);
            headers.insert(header, HeaderValue::from_bytes(b"j\xfcrgen").unwrap());
            assert_eq!(acting(Arc::new(admin.clone()), &headers).unwrap_err().code(), 400, "{header}");
        }
    }
}
