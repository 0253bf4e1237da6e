//! Reviews over a Kubernetes client.

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client, Error};

use super::review::{Access, ReviewError, Reviews};
use super::user::User;

/// Reviews by the API server that `client` reaches. It needs `create` on `tokenreviews.authentication.k8s.io` and
/// `subjectaccessreviews.authorization.k8s.io`: ClusterRole `system:auth-delegator`, or group `system:nodes`.
#[derive(Clone)]
pub struct KubeReviews {
    client: Client,
}

impl std::fmt::Debug for KubeReviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KubeReviews")
    }
}

impl KubeReviews {
    /// Over this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

/// Refusals stay refusals; anything else may be otherwise a moment later.
fn fault(what: &'static str, error: Error) -> ReviewError {
    let transient = match &error {
        Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    };
    ReviewError { what, transient, source: error.into() }
}

/// Whose token was reviewed.
fn reviewed(review: TokenReview) -> Result<Option<User>, ReviewError> {
    let status = review.status.unwrap_or_default();
    if let Some(error) = status.error.filter(|error| !error.is_empty() && status.authenticated != Some(true)) {
        // The server says "invalid bearer token" so, too: it is a no, and no reason to ask again.
        tracing::debug!(error, "a token is nobody's");
    }
    let user = status.user.filter(|_| status.authenticated == Some(true));
    Ok(user.map(|user| User {
        name: user.username.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    }))
}

fn question(user: &User, access: &Access) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(access.verb.to_owned()),
                version: Some("v1".to_owned()),
                resource: Some("nodes".to_owned()),
                subresource: Some(access.subresource.to_owned()),
                name: Some(access.node.clone()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// A no of anybody is a no.
fn allowed(review: SubjectAccessReview) -> bool {
    review.status.is_some_and(|status| status.allowed && status.denied != Some(true))
}

#[async_trait]
impl Reviews for KubeReviews {
    async fn token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api = Api::<TokenReview>::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        reviewed(answer.map_err(|error| fault("a token", error))?)
    }

    async fn access(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &question(user, access)).await;
        answer.map(allowed).map_err(|error| fault("an access", error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        let token = |status| {
            let review = serde_json::from_value(json!({"metadata": {}, "spec": {}, "status": status})).unwrap();
            reviewed(review).unwrap()
        };
        let user = json!({"username": "a", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}});
        let known = token(json!({"authenticated": true, "user": user})).unwrap();
        assert_eq!((known.name.as_str(), known.uid.as_str(), known.groups.len(), known.extra.len()), ("a", "1", 1, 1));
        for status in
            [json!({}), json!({"authenticated": false, "user": user}), json!({"user": user}), json!({"error": "no"})]
        {
            assert_eq!(token(status.clone()), None, "{status}");
        }
        let access =
            |status| allowed(serde_json::from_value(json!({"metadata": {}, "spec": {}, "status": status})).unwrap());
        assert!(access(json!({"allowed": true})));
        for status in [json!({"allowed": false}), json!({"allowed": true, "denied": true}), json!(null)] {
            assert!(!access(status.clone()), "{status}");
        }
    }

    #[test]
    fn a_question_names_the_node_and_what_of_it() {
        let user = User { name: "a".to_owned(), groups: vec!["g".to_owned()], ..User::default() };
        let access = Access { node: "n".to_owned(), verb: "create", subresource: "proxy" };
        let asked = serde_json::to_value(question(&user, &access)).unwrap();
        let attributes =
            json!({"verb": "create", "version": "v1", "resource": "nodes", "subresource": "proxy", "name": "n"});
        assert_eq!(asked["spec"], json!({"user": "a", "groups": ["g"], "resourceAttributes": attributes}));
    }

    #[test]
    fn what_may_pass_is_told_from_what_stays() {
        let of =
            |code| fault("a token", Error::Api(Box::new(kube::core::Status { code, ..Default::default() }))).transient;
        assert_eq!([of(401), of(403), of(404), of(429), of(500), of(503)], [false, false, false, true, true, true]);
    }
}
