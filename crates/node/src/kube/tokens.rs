//! Tokens of service accounts, asked for and renewed before they end.
//!
//! Upstream source: `pkg/kubelet/token/token_manager.go`: a token is renewed when 80 % of its life are over, or after a day, a little
//! earlier or later for each, so that a thousand Pods do not ask at once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec, TokenRequestStatus};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use minke_core::clock::Clock;
use minke_core::runtime::error_chain;
use tokio::time::{Instant, sleep, sleep_until};

use super::follow::PATIENCE;
use crate::api::ObjectStream;
use crate::queue::Backoff;
use crate::references::{Known, TokenRef};

const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(60) };
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Most that a renewal comes early, as upstream.
const JITTER: Duration = Duration::from_secs(10);

struct Following {
    accounts: Api<ServiceAccount>,
    account: String,
    wanted: Arc<TokenRef>,
    clock: Arc<dyn Clock>,
    next: Option<Instant>,
    failures: u32,
    told: bool,
}

/// The token, and its successors, for ever.
pub(super) fn follow(client: Client, account: String, wanted: Arc<TokenRef>, clock: Arc<dyn Clock>) -> ObjectStream {
    let accounts = Api::namespaced(client, &wanted.pod.namespace);
    let following = Following { accounts, account, wanted, clock, next: None, failures: 0, told: false };
    Box::pin(stream::unfold(following, |mut following| async {
        let known = following.next().await;
        Some((known, following))
    }))
}

impl Following {
    async fn next(&mut self) -> Known {
        loop {
            if let Some(next) = self.next.take() {
                sleep_until(next).await;
            }
            if self.failures > 0 {
                sleep(BACKOFF.after(self.failures)).await;
            }
            let request = request(&self.wanted);
            match self.accounts.create_token_request(&self.account, &PostParams::default(), &request).await {
                Ok(TokenRequest {
                    status: Some(TokenRequestStatus { expiration_timestamp: Some(ends), token: Some(token) }),
                    ..
                }) => {
                    (self.failures, self.told) = (0, true);
                    let life = life(self.clock.now(), ends.0);
                    self.next = Some(Instant::now() + renewal(life, &self.wanted));
                    return Known::Token(token.into());
                }
                Ok(_) => self.failures += 1,
                Err(error) => {
                    self.failures = self.failures.saturating_add(1);
                    if self.failures > PATIENCE {
                        tracing::warn!(pod = %self.wanted.pod, account = self.account, error = error_chain(&error), "no token for the pod yet");
                    }
                    // The one that it has may be good for a while, so only a Pod that has none hears of it.
                    if let (false, Error::Api(status)) = (self.told, &error)
                        && (status.code != 403 || self.failures > PATIENCE)
                    {
                        self.told = true;
                        return Known::Unreadable(status.message.clone());
                    }
                }
            }
        }
    }
}

fn request(wanted: &TokenRef) -> TokenRequest {
    let audiences = Some(wanted.audience.clone()).filter(|audience| !audience.is_empty());
    TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: audiences.map(|audience| vec![audience]),
            expiration_seconds: Some(wanted.seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(wanted.pod.name.to_string()),
                uid: Some(wanted.pod.uid.to_string()),
            }),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    }
}

fn life(now: Timestamp, ends: Timestamp) -> Duration {
    Duration::try_from(ends.duration_since(now)).unwrap_or_default()
}

/// When a token of this life is renewed.
fn renewal(life: Duration, wanted: &TokenRef) -> Duration {
    let mut hasher = DefaultHasher::new();
    wanted.hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % 1000).unwrap_or(0);
    let at = (life * 4 / 5).min(DAY).saturating_sub(JITTER * share / 1000);
    // A token that is as good as over must not be asked for without end.
    at.max(Duration::from_secs(10))
}

#[cfg(test)]
mod tests {
    use minke_core::identity::PodKey;
    use serde_json::json;

    use super::*;

    fn wanted(uid: &str) -> TokenRef {
        let pod = json!({"metadata": {"namespace": "ns", "name": "p", "uid": uid}});
        let pod = PodKey::of(&serde_json::from_value(pod).unwrap()).unwrap();
        TokenRef { pod, audience: "vault".to_owned(), seconds: 600 }
    }

    #[test]
    fn a_token_is_renewed_at_four_fifths_of_its_life_or_after_a_day() {
        let s = Duration::from_secs;
        let hour = renewal(s(3600), &wanted("u"));
        assert!(hour <= s(2880) && hour > s(2869), "{hour:?}");
        let week = renewal(s(7 * 24 * 3600), &wanted("u"));
        assert!(week <= DAY && week > DAY - s(11), "{week:?}");
        assert_eq!(renewal(s(0), &wanted("u")), s(10));
        let all: std::collections::BTreeSet<_> = (0..50).map(|n| renewal(s(3600), &wanted(&format!("u{n}")))).collect();
        assert!(all.len() > 10, "not all at once");
    }

    #[test]
    fn a_request_is_bound_to_the_pod() {
        let value = serde_json::to_value(request(&wanted("u"))).unwrap();
        let spec = json!({
            "audiences": ["vault"], "expirationSeconds": 600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
        });
        assert_eq!(value["spec"], spec);
        let own = TokenRef { audience: String::new(), ..wanted("u") };
        assert_eq!(serde_json::to_value(request(&own)).unwrap()["spec"]["audiences"], serde_json::Value::Null);
    }
}
