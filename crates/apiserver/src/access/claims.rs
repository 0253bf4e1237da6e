//! What a service account's token says, and who that makes its bearer. Pure.

use serde_json::{Value, json};

use super::issuer::ISSUER;
use super::{AUTHENTICATED, Identity};

/// A name and the uid that it had.
pub type Bound = (String, String);

/// Why a token is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// This server has not signed it.
    #[error("the token was not issued by this server")]
    Foreign,
    /// Its time is over, or has not come.
    #[error("the token has expired or is not valid yet")]
    Time,
    /// It is for others.
    #[error("the token's audiences are {0:?}")]
    Audience(Vec<String>),
    /// What it is bound to is gone, or is another one by now.
    #[error("{0} that the token is bound to is gone")]
    Gone(&'static str),
    /// The kernel has no random bytes.
    #[error("there are no random bytes to sign a token with")]
    Random,
}

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Whom it is for.
    pub audiences: Vec<String>,
    /// When it was issued, in seconds.
    pub issued: i64,
    /// When it ends, in seconds.
    pub expires: i64,
    /// A name of its own.
    pub id: String,
    /// Where the account is.
    pub namespace: String,
    /// The account.
    pub account: Bound,
    /// The Pod with which it ends.
    pub pod: Option<Bound>,
    /// The node of that Pod, or with which it ends.
    pub node: Option<Bound>,
    /// The Secret with which it ends.
    pub secret: Option<Bound>,
}

impl Claims {
    pub(super) fn to_json(&self) -> Value {
        let bound = |(name, uid): &Bound| json!({"name": name, "uid": uid});
        let mut own = json!({"namespace": self.namespace, "serviceaccount": bound(&self.account)});
        for (field, other) in [("pod", &self.pod), ("node", &self.node), ("secret", &self.secret)] {
            if let Some(other) = other {
                own[field] = bound(other);
            }
        }
        json!({
            "aud": self.audiences, "exp": self.expires, "iat": self.issued, "nbf": self.issued, "iss": ISSUER,
            "jti": self.id, "kubernetes.io": own, "sub": self.user(),
        })
    }

    pub(super) fn of_json(value: &Value) -> Option<Self> {
        let own = &value["kubernetes.io"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let bound = |field: &str| Some((text(&own[field]["name"])?, text(&own[field]["uid"])?));
        let audiences = value["aud"].as_array()?.iter().map(text).collect::<Option<Vec<String>>>()?;
        let claims = Self {
            audiences,
            issued: value["nbf"].as_i64()?,
            expires: value["exp"].as_i64()?,
            id: text(&value["jti"])?,
            namespace: text(&own["namespace"])?,
            account: bound("serviceaccount")?,
            pod: bound("pod"),
            node: bound("node"),
            secret: bound("secret"),
        };
        (value["iss"] == ISSUER && value["sub"] == claims.user()).then_some(claims)
    }

    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.account.0)
    }

    /// Whether it is for one of these, now. A clock that is a little slow is no reason to refuse a new token.
    ///
    /// # Errors
    /// It is not.
    pub fn hold(&self, now: i64, audiences: &[String]) -> Result<Vec<String>, TokenError> {
        const LEEWAY: i64 = 60;
        if now >= self.expires || now < self.issued - LEEWAY {
            return Err(TokenError::Time);
        }
        let both: Vec<String> = audiences.iter().filter(|wanted| self.audiences.contains(wanted)).cloned().collect();
        if both.is_empty() { Err(TokenError::Audience(self.audiences.clone())) } else { Ok(both) }
    }

    /// Who bears it.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            AUTHENTICATED.to_owned(),
        ];
        let mut extra = vec![("authentication.kubernetes.io/credential-id".to_owned(), format!("JTI={}", self.id))];
        for (kind, bound) in [("node", &self.node), ("pod", &self.pod)] {
            if let Some((name, uid)) = bound {
                extra.push((format!("authentication.kubernetes.io/{kind}-name"), name.clone()));
                extra.push((format!("authentication.kubernetes.io/{kind}-uid"), uid.clone()));
            }
        }
        Identity { user: self.user(), uid: self.account.1.clone(), groups: groups.into(), extra }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            audiences: vec!["a".to_owned(), "b".to_owned()],
            issued: 1000,
            expires: 2000,
            id: "j".to_owned(),
            namespace: "ns".to_owned(),
            account: ("sa".to_owned(), "u".to_owned()),
            pod: Some(("p".to_owned(), "v".to_owned())),
            node: None,
            secret: None,
        }
    }

    #[test]
    fn claims_hold_in_their_time_for_their_audiences() {
        let wanted = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        assert_eq!(claims().hold(1000, &wanted(&["b", "c"])), Ok(wanted(&["b"])));
        assert_eq!(claims().hold(1999, &wanted(&["a"])), Ok(wanted(&["a"])));
        assert_eq!(claims().hold(2000, &wanted(&["a"])), Err(TokenError::Time));
        assert_eq!(claims().hold(939, &wanted(&["a"])), Err(TokenError::Time));
        assert_eq!(claims().hold(1500, &wanted(&["c"])), Err(TokenError::Audience(wanted(&["a", "b"]))));
    }

    #[test]
    fn the_bearer_is_the_account_with_its_pod() {
        let identity = claims().identity();
        assert_eq!((identity.user.as_str(), identity.uid.as_str()), ("system:serviceaccount:ns:sa", "u"));
        assert_eq!(identity.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
        let pod = ("authentication.kubernetes.io/pod-name".to_owned(), "p".to_owned());
        assert!(identity.extra.contains(&pod));
        let json = claims().to_json();
        assert_eq!(Claims::of_json(&json), Some(claims()));
        for (field, value) in
            [("sub", json!("system:serviceaccount:ns:other")), ("iss", json!("x")), ("exp", json!("1"))]
        {
            let mut forged = json.clone();
            forged[field] = value;
            assert_eq!(Claims::of_json(&forged), None, "{field}");
        }
    }
}
