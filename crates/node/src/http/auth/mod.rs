//! Who may what of this node. Deny by default; every failure is a no.
//!
//! ```text
//! request ──► who: the certificate that TLS has verified, else the bearer token by TokenReview ──► 401
//!        └──► what: verb and subresources of the node (attributes, pure) ──► SubjectAccessReview, one by one ──► 403
//! ```
//!
//! Answers are remembered as long as upstream remembers them, a bounded number of them; a question that many ask at one time is
//! asked once. Nobody is anonymous.

mod attributes;
mod cache;
mod kube;
mod review;
mod user;

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderMap};
use minke_core::runtime::error_chain;
use sha2::{Digest, Sha256};

pub use kube::KubeReviews;
pub use review::{Access, ReviewError, Reviews};
pub use user::User;

use attributes::attributes;
use cache::Asked;
use review::patiently;
pub(crate) use user::of_certificate;

use super::route::Route;
use crate::refusals::Refusals;

/// Upstream's (`authentication.webhook.cacheTTL`), for tokens that are somebody's and for those that are nobody's.
const TOKEN: Duration = Duration::from_secs(2 * 60);
/// Upstream's (`authorization.webhook.cacheAuthorizedTTL` and `cacheUnauthorizedTTL`).
const ALLOWED: Duration = Duration::from_secs(5 * 60);
const DENIED: Duration = Duration::from_secs(30);
/// Answers that are remembered, of each kind.
const MOST: usize = 4096;
/// Longer tokens are nobody's.
const LONGEST_TOKEN: usize = 16 << 10;

/// A request that is not admitted: with which status and text it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: u16,
    pub(crate) message: String,
}

fn refused(code: u16, message: impl Into<String>) -> Refused {
    Refused { code, message: message.into() }
}

/// Admits requests.
#[derive(Debug)]
pub(crate) struct Guard {
    node: String,
    reviews: Arc<dyn Reviews>,
    tokens: Asked<[u8; 32], Option<Arc<User>>, ReviewError>,
    accesses: Asked<(Arc<User>, Access), bool, ReviewError>,
    refusals: Refusals,
}

impl Guard {
    pub(crate) fn new(node: String, reviews: Arc<dyn Reviews>) -> Self {
        Self { node, reviews, tokens: Asked::new(MOST), accesses: Asked::new(MOST), refusals: Refusals::default() }
    }

    /// Who asks, if they may. `certified`: whom the connection's certificate names.
    pub(crate) async fn admit(
        &self,
        certified: Option<Arc<User>>,
        method: &Method,
        headers: &HeaderMap,
        route: &Route,
    ) -> Result<Arc<User>, Refused> {
        let user = match certified {
            Some(user) => user,
            None => self.bearer(headers).await?,
        };
        let attributes = attributes(method, route);
        for subresource in attributes.subresources {
            let access = Access { node: self.node.clone(), verb: attributes.verb, subresource };
            match self.allowed(&user, access).await {
                Ok(true) => return Ok(user),
                Ok(false) => {}
                Err(()) => {
                    let message = format!(
                        "Authorization error (user={}, verb={}, resource=nodes, subresource={subresource})",
                        user.name, attributes.verb
                    );
                    return Err(refused(500, message));
                }
            }
        }
        let message = format!(
            "Forbidden (user={}, verb={}, resource=nodes, subresource(s)=[{}])\n",
            user.name,
            attributes.verb,
            attributes.subresources.join(" ")
        );
        Err(refused(403, message))
    }

    async fn bearer(&self, headers: &HeaderMap) -> Result<Arc<User>, Refused> {
        let unauthorized = || refused(401, "Unauthorized");
        let text = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (scheme, token) = text.split_once(' ').unwrap_or_default();
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || token.len() > LONGEST_TOKEN {
            return Err(unauthorized());
        }
        let (reviews, asked) = (self.reviews.clone(), Arc::<str>::from(token));
        let ask = move || {
            let (reviews, asked) = (reviews.clone(), asked.clone());
            async move { reviews.token(&asked).await }
        };
        // Kept by its digest: memory has no tokens.
        let digest = Sha256::digest(token.as_bytes()).into();
        let ask = async move { patiently("a token", ask).await.map(|user| user.map(Arc::new)) };
        match self.tokens.get(digest, |_| TOKEN, ask).await {
            Some(Ok(Some(user))) => Ok(user),
            Some(Ok(None)) | None => Err(unauthorized()),
            Some(Err(error)) => {
                self.refusals.failed("review tokens, whose bearers are refused", None, &error_chain(&*error));
                Err(unauthorized())
            }
        }
    }

    async fn allowed(&self, user: &Arc<User>, access: Access) -> Result<bool, ()> {
        let (reviews, who, what) = (self.reviews.clone(), user.clone(), access.clone());
        let ask = move || {
            let (reviews, who, what) = (reviews.clone(), who.clone(), what.clone());
            async move { reviews.access(&who, &what).await }
        };
        let ask = patiently("an access", ask);
        let lasts = |allowed: &bool| if *allowed { ALLOWED } else { DENIED };
        match self.accesses.get((user.clone(), access), lasts, ask).await {
            Some(Ok(allowed)) => Ok(allowed),
            None => Err(()),
            Some(Err(error)) => {
                self.refusals.failed("review accesses, which are refused", None, &error_chain(&*error));
                Err(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
