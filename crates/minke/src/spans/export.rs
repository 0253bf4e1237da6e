//! The task that sends spans in batches.
//!
//! ```text
//! collecting ── full, or some seconds after the first ─► delivering ── done, or given up ─► collecting
//!      └───────────── told to end ───────────────────────────┴─► what is there is sent once, within seconds ─► over
//! ```

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use minke_core::runtime::error_chain;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::counts::{Counts, Fate};
use super::endpoint::Endpoint;
use super::otlp::{self, Answer, Ended, Value};
use super::retry::Retry;

/// Spans of one request, as OpenTelemetry's own processors send.
const BATCH: usize = 512;
/// How long the first span of a batch waits for others.
const LINGER: Duration = Duration::from_secs(5);
/// Longest request.
const ANSWER: Duration = Duration::from_secs(10);
/// Longest answer that is read.
const LONGEST_ANSWER: usize = 64 * 1024;
/// How long the end may take.
const END: Duration = Duration::from_secs(3);

/// Posts a body to a collector.
pub(super) trait Post: Send + Sync + 'static {
    /// What it says. A collector that can't be reached may be later.
    fn post(&self, body: Vec<u8>) -> impl Future<Output = Answer> + Send;
}

/// A collector behind HTTP.
#[derive(Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    endpoint: Endpoint,
}

impl Post for Http {
    async fn post(&self, body: Vec<u8>) -> Answer {
        // Without the address, which may hold a password; who tells of it knows where it was.
        let later =
            |error: reqwest::Error| Answer::Later { at_least: Duration::ZERO, why: error_chain(&error.without_url()) };
        let request = self.client.post(self.endpoint.url().clone());
        let mut response = match request.header(CONTENT_TYPE, "application/json").body(body).send().await {
            Ok(response) => response,
            Err(error) => return later(error),
        };
        let status = response.status().as_u16();
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut said = Vec::new();
        // Half an answer says as much as none: the status counts.
        while let Ok(Some(chunk)) = response.chunk().await {
            if said.len() + chunk.len() > LONGEST_ANSWER {
                break;
            }
            said.extend_from_slice(&chunk);
        }
        otlp::answer(status, header.as_deref(), &said)
    }
}

/// Where batches go, and what became of them.
#[derive(Debug)]
pub(super) struct Sink<P = Http> {
    post: P,
    /// For people.
    place: String,
    resource: Vec<(&'static str, Value)>,
    counts: Arc<Counts>,
    /// Why the collector has nothing since it had the last batch. People are told once, not for each.
    trouble: Mutex<Option<String>>,
}

impl Sink {
    pub(super) fn new(endpoint: Endpoint, counts: Arc<Counts>) -> Result<Self, reqwest::Error> {
        // Refused when the program has chosen a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent(concat!("minke/", env!("CARGO_PKG_VERSION")))
            .timeout(ANSWER)
            // A redirect would make a GET of it.
            .redirect(Policy::none())
            .build()?;
        let place = endpoint.to_string();
        Ok(Self::over(Http { client, endpoint }, place, counts))
    }
}

impl<P: Post> Sink<P> {
    fn over(post: P, place: String, counts: Arc<Counts>) -> Self {
        Self { post, place, resource: resource(), counts, trouble: Mutex::default() }
    }

    async fn once(&self, batch: &[Ended]) -> Answer {
        let body = otlp::request(&self.resource, batch).to_string().into_bytes();
        self.post.post(body).await
    }

    /// Sends a batch until the collector has it or it is given up. Cancel-safe: what was sent may be sent again, with the same
    /// ids.
    async fn deliver(&self, batch: &[Ended]) {
        let mut retry = Retry::default();
        loop {
            let (at_least, why) = match self.once(batch).await {
                Answer::Later { at_least, why } => (at_least, why),
                other @ (Answer::Taken { .. } | Answer::Refused(_)) => return self.count(other, batch.len()),
            };
            match retry.pause(at_least) {
                Some(pause) => {
                    self.troubled(&why);
                    sleep(pause).await;
                }
                None => return self.count(Answer::Later { at_least, why }, batch.len()),
            }
        }
    }

    /// What became of a batch for good.
    fn count(&self, answer: Answer, spans: usize) {
        let spans = u64::try_from(spans).unwrap_or(u64::MAX);
        match answer {
            Answer::Taken { rejected, remark } => {
                let rejected = rejected.min(spans);
                self.counts.add(Fate::Sent, spans - rejected);
                self.counts.add(Fate::Refused, rejected);
                let remark = remark.unwrap_or_else(|| "it does not say why".to_owned());
                if rejected > 0 {
                    self.troubled(&format!("{rejected} spans of {spans} are refused: {remark}"));
                } else if self.trouble().take().is_some() {
                    tracing::info!(collector = self.place, "traces are delivered again");
                }
            }
            Answer::Later { why, .. } => {
                self.counts.add(Fate::Unreachable, spans);
                self.troubled(&why);
            }
            Answer::Refused(why) => {
                self.counts.add(Fate::Refused, spans);
                self.troubled(&why);
            }
        }
    }

    fn troubled(&self, why: &str) {
        let mut trouble = self.trouble();
        if trouble.is_none() {
            tracing::warn!(
                collector = self.place,
                why,
                "traces can't be delivered; is this OTLP over HTTP (port 4318), not over gRPC (4317)?"
            );
        }
        *trouble = Some(why.to_owned());
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self, mut queue: mpsc::Receiver<Ended>, cancel: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        let going = async {
            loop {
                collect(&mut queue, &mut batch).await;
                if batch.is_empty() {
                    // Nobody can end a span any more.
                    return;
                }
                self.deliver(&batch).await;
                batch.clear();
            }
        };
        if cancel.run_until_cancelled(going).await.is_some() {
            return;
        }
        queue.close();
        loop {
            while batch.len() < BATCH
                && let Ok(span) = queue.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            let answer = self.once(&batch).await;
            self.count(answer, batch.len());
            batch.clear();
        }
    }
}

/// Fills the batch; returns when it is full, or some time after its first span. An empty one: there will be none. Cancel-safe.
async fn collect(queue: &mut mpsc::Receiver<Ended>, batch: &mut Vec<Ended>) {
    if queue.recv_many(batch, BATCH).await == 0 {
        return;
    }
    let filled = async {
        while batch.len() < BATCH {
            if queue.recv_many(batch, BATCH - batch.len()).await == 0 {
                return;
            }
        }
    };
    // Late is as good as full.
    let _ = timeout(LINGER, filled).await;
}

/// Who sends, as OpenTelemetry's conventions name it.
fn resource() -> Vec<(&'static str, Value)> {
    let text = |text: &str| Value::Text(text.to_owned());
    let host = rustix::system::uname();
    vec![
        ("service.name", text("minke")),
        ("service.version", text(env!("CARGO_PKG_VERSION"))),
        ("host.name", text(&host.nodename().to_string_lossy())),
        ("process.pid", Value::Integer(i64::from(std::process::id()))),
    ]
}

/// Spans are being sent. Dropping it ends that at once.
#[derive(Debug)]
pub(crate) struct Exporting {
    cancel: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Exporting {
    pub(super) fn begin<P: Post>(queue: mpsc::Receiver<Ended>, sink: Sink<P>) -> Self {
        let cancel = CancellationToken::new();
        let task = AbortOnDropHandle::new(tokio::spawn(sink.run(queue, cancel.clone())));
        Self { cancel, task }
    }

    /// Sends what is there, and ends within seconds in any case.
    pub(crate) async fn end(self) {
        self.cancel.cancel();
        if timeout(END, self.task).await.is_err() {
            tracing::debug!("the last traces are not delivered");
        }
    }
}

#[cfg(test)]
mod tests;
