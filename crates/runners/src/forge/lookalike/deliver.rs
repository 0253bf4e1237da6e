//! Deliveries, signed as GitHub signs them.

use std::time::Duration;

use ring::hmac;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::state::News;
use crate::forge::Secret;

/// GitHub waits so long for an answer, and does not try again by itself.
const ANSWER: Duration = Duration::from_secs(10);
/// So many at a time.
const AT_A_TIME: usize = 32;

/// Sends what comes, until nothing can come any more.
pub(super) async fn deliver(to: String, secret: Secret, mut news: mpsc::UnboundedReceiver<News>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Ok(client) = reqwest::Client::builder().timeout(ANSWER).build() else { return };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
    let (mut number, mut flying) = (0_u64, JoinSet::new());
    while let Some(news) = news.recv().await {
        number += 1;
        let body = news.body().to_string();
        let signature = format!("sha256={}", hex::encode(hmac::sign(&key, body.as_bytes())));
        let request = client
            .post(&to)
            .header("content-type", "application/json")
            .header("x-github-event", "workflow_job")
            .header("x-github-delivery", format!("lookalike-{number}"))
            .header("x-hub-signature-256", signature)
            .body(body);
        if flying.len() >= AT_A_TIME {
            flying.join_next().await;
        }
        flying.spawn(async move {
            if let Err(error) = request.send().await {
                tracing::debug!(%error, "a delivery is lost");
            }
        });
    }
    flying.join_all().await;
}
