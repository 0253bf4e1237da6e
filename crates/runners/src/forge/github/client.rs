//! The calls.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use minke_core::clock::Clock;
use reqwest::{Method, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};

use super::auth::{Credential, Token};
use super::cache::Cache;
use super::scope::Scope;
use crate::demand::{Access, Status};
use crate::engine::ForgeRunner;
use crate::forge::answer::{RateHeaders, judge};
use crate::forge::{Budget, Forge, ForgeError, ListedJob, Priority, Registration, Secret};
use crate::ids::{JobId, RunnerId};

/// A call takes no longer than this, its body included.
const CALL: Duration = Duration::from_secs(20);
/// No answer is longer: a page of runners is some hundred kilobytes.
const LONGEST_BODY: usize = 16 << 20;
/// No list has more pages.
const PAGES: u32 = 1000;
/// A list that changed while it was read is read again so often.
const READS: u32 = 3;

/// So many calls of one credential run at a time; GitHub refuses more than a hundred.
const CALLS: usize = 64;

/// What is needed to talk to GitHub for one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubSettings {
    /// Whose runners.
    pub scope: Scope,
    /// The runner group.
    pub group: u64,
    /// The labels that runners register with.
    pub labels: Vec<String>,
}

/// One credential and what all that use it share: the token, the budget, what the forge says has not changed, and how many
/// calls run at a time.
#[derive(Debug)]
pub struct Account {
    http: reqwest::Client,
    credential: Credential,
    clock: Arc<dyn Clock>,
    token: Mutex<Option<Token>>,
    budget: std::sync::Mutex<Budget>,
    cache: std::sync::Mutex<Cache>,
    calls: Semaphore,
}

/// GitHub, for one scope. Calls run at the same time.
#[derive(Debug)]
pub struct GitHub {
    account: Arc<Account>,
    settings: GitHubSettings,
}

/// A lock that nobody panics under.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Account {
    /// An account. Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// TLS can't be set up.
    pub fn new(credential: Credential, clock: Arc<dyn Clock>) -> Result<Self, ForgeError> {
        // Refused when the program has chosen a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("minke-runners/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10))
            .timeout(CALL)
            // A redirect would take a token elsewhere, or a DELETE for a GET.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(ForgeError::Unreachable)?;
        let (token, budget, cache) = (Mutex::default(), std::sync::Mutex::default(), std::sync::Mutex::default());
        Ok(Self { http, credential, clock, token, budget, cache, calls: Semaphore::new(CALLS) })
    }

    /// What is left of the budget.
    #[must_use]
    pub fn budget(&self) -> Budget {
        *lock(&self.budget)
    }
}

impl GitHub {
    /// A scope, asked for with an account's credential.
    #[must_use]
    pub fn new(account: Arc<Account>, settings: GitHubSettings) -> Self {
        Self { account, settings }
    }

    /// A token with which a runner can register itself, for those that can't be started with a configuration.
    ///
    /// # Errors
    ///
    /// None was given.
    pub async fn registration_token(&self) -> Result<(Secret, Timestamp), ForgeError> {
        let url = self.settings.scope.below("actions/runners/registration-token");
        let given: Given = parse(&self.call(Method::POST, &url, None, Priority::High).await?)?;
        Ok((Secret::new(given.token), given.expires_at))
    }

    /// The token to ask with. An installation's is made when there is none that is good; who needs it meanwhile waits for the
    /// one that is being made.
    async fn token(&self) -> Result<Secret, ForgeError> {
        let app = match &self.account.credential {
            Credential::Token(token) => return Ok(token.clone()),
            Credential::App(app) => app,
        };
        let mut kept = self.account.token.lock().await;
        let now = self.account.clock.now();
        if let Some(token) = kept.as_ref().filter(|token| token.is_good(now)) {
            return Ok(token.secret.clone());
        }
        let url = self.settings.scope.api(&format!("app/installations/{}/access_tokens", app.installation()));
        let answer = self.send(Method::POST, &url, None, &app.claim(now)?, None).await?;
        let given: Given = parse(&self.accept(answer).await?.1)?;
        let token = Token { secret: Secret::new(given.token), expires: given.expires_at };
        *kept = Some(token.clone());
        Ok(token.secret)
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
        token: &Secret,
        tag: Option<&str>,
    ) -> Result<Response, ForgeError> {
        let mut request = self
            .account
            .http
            .request(method, url)
            .bearer_auth(token.reveal())
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        if let Some(tag) = tag {
            request = request.header("if-none-match", tag);
        }
        request.send().await.map_err(|error| ForgeError::Unreachable(error.without_url()))
    }

    /// The entity tag and the body of an answer that is one; the budget learns from all.
    async fn accept(&self, mut answer: Response) -> Result<(Option<String>, Bytes), ForgeError> {
        let status = answer.status().as_u16();
        let text = |name: &'static str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let (rate, tag) = (RateHeaders::read(text), text("etag").map(str::to_owned));
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| ForgeError::Unreachable(error.without_url()))? {
            if body.len() + chunk.len() > LONGEST_BODY {
                return Err(ForgeError::Malformed(format!("it is longer than {LONGEST_BODY} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        let judged = judge(status, &rate, &body, self.account.clock.now());
        let mut budget = lock(&self.account.budget);
        budget.observe(&rate);
        if let Err(ForgeError::Limited(until)) = &judged {
            budget.close(*until);
        }
        drop(budget);
        judged.map(|()| (tag, Bytes::from(body)))
    }

    async fn call(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
        priority: Priority,
    ) -> Result<Bytes, ForgeError> {
        // The semaphore is never closed; a permit more or less is no reason to fail. Who has waited asks for the budget anew.
        let _place = self.account.calls.acquire().await;
        let allowed = lock(&self.account.budget).allows(priority, self.account.clock.now());
        allowed.map_err(ForgeError::Limited)?;
        let token = self.token().await?;
        let conditional = method == Method::GET;
        let tag = if conditional { lock(&self.account.cache).tag(url) } else { None };
        let answer = self.send(method, url, body, &token, tag.as_deref()).await?;
        if tag.is_some() && answer.status().as_u16() == 304 {
            let kept = lock(&self.account.cache).body(url);
            return kept.ok_or_else(|| ForgeError::Malformed("304 to something that is not kept".to_owned()));
        }
        let accepted = self.accept(answer).await;
        if let Err(ForgeError::Unauthorized(_)) = &accepted {
            // A token may be taken back before it ends: the next call gets another.
            *self.account.token.lock().await = None;
        }
        let (tag, body) = accepted?;
        if let Some(tag) = tag.filter(|_| conditional) {
            lock(&self.account.cache).keep(url, &tag, &body);
        }
        Ok(body)
    }

    /// All pages of a list. Items may move from page to page while it is read; a list whose length changed meanwhile is read
    /// again.
    async fn pages<T, P>(&self, url: &str, take: impl Fn(P) -> (u64, Vec<T>)) -> Result<Vec<T>, ForgeError>
    where
        P: for<'de> Deserialize<'de>,
    {
        let separator = if url.contains('?') { '&' } else { '?' };
        'read: for _ in 0..READS {
            let (mut all, mut total) = (Vec::new(), None);
            for page in 1..=PAGES {
                let url = format!("{url}{separator}per_page=100&page={page}");
                let (count, items) = take(parse(&self.call(Method::GET, &url, None, Priority::Low).await?)?);
                if *total.get_or_insert(count) != count {
                    continue 'read;
                }
                let last = items.is_empty();
                all.extend(items);
                if last || all.len() as u64 >= count {
                    return Ok(all);
                }
            }
        }
        Err(ForgeError::Changing)
    }
}

fn parse<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, ForgeError> {
    // The message of serde_json names a place and never shows what stands there, but for wrong scalars.
    serde_json::from_slice(body).map_err(|error| {
        ForgeError::Malformed(format!(
            "{:?} error in line {}, column {}",
            error.classify(),
            error.line(),
            error.column()
        ))
    })
}

#[derive(Deserialize)]
struct Given {
    token: String,
    expires_at: Timestamp,
}

#[derive(Deserialize)]
struct Configured {
    runner: Id,
    encoded_jit_config: String,
}

#[derive(Deserialize)]
struct Id {
    id: u64,
}

#[derive(Deserialize)]
struct Runners {
    total_count: u64,
    runners: Vec<RunnerItem>,
}

#[derive(Deserialize)]
struct RunnerItem {
    id: u64,
    name: String,
    status: String,
    busy: bool,
}

#[derive(Deserialize)]
struct Runs {
    total_count: u64,
    workflow_runs: Vec<Id>,
}

#[derive(Deserialize)]
struct Jobs {
    total_count: u64,
    jobs: Vec<JobItem>,
}

#[derive(Deserialize)]
struct JobItem {
    id: u64,
    status: String,
    #[serde(default)]
    labels: Vec<String>,
    runner_id: Option<u64>,
}

#[derive(Deserialize)]
struct Group {
    /// `all`, `private` or `selected`.
    visibility: String,
    #[serde(default = "yes")]
    allows_public_repositories: bool,
}

#[derive(Deserialize)]
struct Repositories {
    total_count: u64,
    repositories: Vec<RepositoryItem>,
}

#[derive(Deserialize)]
struct RepositoryItem {
    full_name: String,
    #[serde(default = "yes")]
    private: bool,
}

/// What an older server does not tell restricts nobody.
fn yes() -> bool {
    true
}

#[async_trait]
impl Forge for GitHub {
    async fn register(&self, name: &str) -> Result<Registration, ForgeError> {
        let url = self.settings.scope.below("actions/runners/generate-jitconfig");
        let (group, labels) = (self.settings.group, &self.settings.labels);
        let body = json!({"name": name, "runner_group_id": group, "labels": labels, "work_folder": "_work"});
        let given: Configured = parse(&self.call(Method::POST, &url, Some(&body), Priority::High).await?)?;
        Ok(Registration { id: RunnerId(given.runner.id), configuration: Secret::new(given.encoded_jit_config) })
    }

    async fn runners(&self) -> Result<Vec<ForgeRunner>, ForgeError> {
        let url = self.settings.scope.below("actions/runners");
        let items = self.pages(&url, |page: Runners| (page.total_count, page.runners)).await?;
        let runner = |item: RunnerItem| ForgeRunner {
            id: RunnerId(item.id),
            name: item.name,
            online: item.status == "online",
            busy: item.busy,
        };
        Ok(items.into_iter().map(runner).collect())
    }

    async fn remove(&self, id: RunnerId) -> Result<(), ForgeError> {
        let url = self.settings.scope.below(&format!("actions/runners/{id}"));
        self.call(Method::DELETE, &url, None, Priority::High).await.map(|_| ())
    }

    async fn jobs(&self, repository: &str) -> Result<Vec<ListedJob>, ForgeError> {
        let mut runs = Vec::new();
        for status in ["queued", "in_progress"] {
            let url = self.settings.scope.api(&format!("repos/{repository}/actions/runs?status={status}"));
            runs.extend(self.pages(&url, |page: Runs| (page.total_count, page.workflow_runs)).await?);
        }
        runs.sort_by_key(|run| run.id);
        runs.dedup_by_key(|run| run.id);
        let mut jobs = Vec::new();
        for Id { id } in runs {
            let url = self.settings.scope.api(&format!("repos/{repository}/actions/runs/{id}/jobs"));
            let items = self.pages(&url, |page: Jobs| (page.total_count, page.jobs)).await?;
            jobs.extend(items.into_iter().filter_map(listed));
        }
        Ok(jobs)
    }

    /// One call for a group that is open to all; for one that is open to selected repositories a list of these besides.
    async fn access(&self) -> Result<Access, ForgeError> {
        if !self.settings.scope.is_organization() {
            return Ok(Access::All);
        }
        let url = self.settings.scope.below(&format!("actions/runner-groups/{}", self.settings.group));
        let group: Group = match self.call(Method::GET, &url, None, Priority::Low).await {
            Ok(body) => parse(&body)?,
            // There are no groups on every plan; a wrong number is told by the first registration.
            Err(ForgeError::NotFound) => return Ok(Access::All),
            Err(error) => return Err(error),
        };
        if group.visibility != "selected" {
            return Ok(Access::All);
        }
        let list = |page: Repositories| (page.total_count, page.repositories);
        let repositories = self.pages(&format!("{url}/repositories"), list).await?;
        let open = repositories.iter().filter(|item| item.private || group.allows_public_repositories);
        Ok(Access::only(open.map(|item| &item.full_name)))
    }
}

fn listed(job: JobItem) -> Option<ListedJob> {
    let status = match job.status.as_str() {
        "queued" => Status::Queued,
        "in_progress" => Status::Running { runner: job.runner_id.filter(|id| *id != 0).map(RunnerId) },
        // Completed, or waiting for something that is no runner.
        _ => return None,
    };
    Some(ListedJob { id: JobId(job.id), status, labels: job.labels })
}

#[cfg(test)]
mod tests;
