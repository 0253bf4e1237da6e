//! One request: what, who, may they, do it, answer.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request};
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::{PodKey, PodUid};
use minke_core::provider::{PodStats, ProviderError};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, JSON, TEXT, of_provider, respond, text, unsupported};
use super::auth::{Guard, User};
use super::metrics::{self, Counted};
use super::query::{Query, log_options};
use super::rates::Rates;
use super::route::{MetricsPart, Route, Target, route};
use super::serve::{Limits, NodeApi};
use super::summary::{Seen, summary};
use super::{health, logs, resource, streams};

/// Whoever was not looked at for so long is gone.
const FORGET_RATES: Duration = Duration::from_secs(10 * 60);

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) api: NodeApi,
    pub(crate) limits: Limits,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) counted: Counted,
    guard: Guard,
    rates: Mutex<Rates>,
}

impl Context {
    pub(crate) fn new(api: NodeApi, guard: Guard, limits: Limits) -> Self {
        let streams = Arc::new(Semaphore::new(limits.streams));
        Self { api, limits, streams, counted: Counted::default(), guard, rates: Mutex::new(Rates::default()) }
    }
}

/// Answers a request. `user`: whom the connection's certificate names.
pub(crate) async fn handle(
    context: Arc<Context>,
    user: Option<Arc<User>>,
    ended: CancellationToken,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let route = route(request.method(), request.uri().path());
    count(&context.counted, request.method(), &route);
    // Whoever is not admitted learns nothing, not even what there is.
    let admitted = context.guard.admit(user, request.method(), request.headers(), &route).await;
    Ok(match admitted {
        Err(refused) => text(refused.code, refused.message),
        Ok(_) => answer(&context, ended, route, request).await,
    })
}

fn count(counted: &Counted, method: &Method, route: &Route) {
    let method = match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        _ => "other",
    };
    let (path, long) = match route {
        Route::Health(_) => ("healthz", false),
        Route::Pods => ("pods", false),
        Route::RunningPods => ("runningpods", false),
        Route::Logs(..) => ("containerLogs", true),
        Route::Exec(..) => ("exec", true),
        Route::Attach(..) => ("attach", true),
        Route::PortForward(_) => ("portForward", true),
        Route::Summary => ("stats", false),
        Route::Metrics(MetricsPart::Main) => ("metrics", false),
        Route::Metrics(MetricsPart::Resource) => ("metrics/resource", false),
        Route::Metrics(MetricsPart::Probes) => ("metrics/probes", false),
        Route::Config => ("configz", false),
        Route::MachineLogs => ("logs", false),
        Route::Disabled(_) | Route::WrongMethod(_) | Route::Nothing(_) => ("other", false),
    };
    counted.request(method, path, long);
}

async fn answer(context: &Arc<Context>, ended: CancellationToken, route: Route, request: Request<Incoming>) -> Answer {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let api = &context.api;
    match route {
        Route::Health(check) => {
            let checks = api.facts.health();
            for check in &checks {
                if let Some(failure) = &check.failure {
                    tracing::warn!(check = check.name, failure, "a health check fails");
                }
            }
            let found = match check {
                None => Some(health::all(&checks, query.flag("verbose"))),
                Some(name) => health::one(&checks, &name),
            };
            found.map_or_else(|| text(404, "404 page not found\n"), |(code, said)| text(code, said))
        }
        Route::Pods => match api.pods.all().await {
            Ok(pods) => pod_list(&pods),
            Err(error) => of_provider(&error),
        },
        Route::RunningPods => match api.provider.list().await {
            Ok(held) => pod_list(&held.into_iter().map(|held| held.pod).collect::<Vec<_>>()),
            Err(error) => of_provider(&error),
        },
        Route::Logs(target, container) => container_logs(context, &target, &container, &query).await,
        Route::Exec(target, container) => streams::exec(context, ended, &target, &container, request).await,
        Route::Attach(target, container) => streams::attach(context, ended, &target, &container, request).await,
        Route::PortForward(target) => streams::port_forward(context, ended, &target, request).await,
        Route::Summary => match used(context).await {
            Ok((pods, stats)) => stats_summary(context, &pods, &stats, query.flag("only_cpu_and_memory")),
            Err(error) => of_provider(&error),
        },
        Route::Metrics(MetricsPart::Main) => {
            respond(200, metrics::CONTENT_TYPE, context.counted.main(&api.facts.metrics()))
        }
        Route::Metrics(MetricsPart::Probes) => {
            respond(200, metrics::CONTENT_TYPE, metrics::probes(&api.facts.metrics()))
        }
        Route::Metrics(MetricsPart::Resource) => {
            let used = used(context).await;
            if let Err(error) = &used {
                tracing::warn!(error = minke_core::runtime::error_chain(error), "what Pods use can't be told");
            }
            let (pods, stats) = used.map_or_else(|_| (HashMap::new(), None), |(pods, stats)| (pods, Some(stats)));
            let said = resource::text(api.facts.usage(), &pods, stats.as_deref(), api.clock.now());
            respond(200, resource::CONTENT_TYPE, said)
        }
        Route::Config => respond(200, JSON, json!({"kubeletconfig": api.facts.config()}).to_string()),
        Route::MachineLogs => respond(405, TEXT, "logs endpoint is disabled.\n"),
        Route::Disabled(why) => respond(405, TEXT, format!("{why}\n")),
        Route::WrongMethod(allowed) => {
            let mut answer = text(405, "405: Method Not Allowed");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            answer
        }
        Route::Nothing(said) => text(404, said),
    }
}

fn pod_list(pods: &[Arc<Pod>]) -> Answer {
    let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
    respond(200, JSON, json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}).to_string())
}

/// The Pod that a path means, or what is answered without it.
pub(crate) async fn find(context: &Context, target: &Target, missing: &str) -> Result<(PodKey, Arc<Pod>), Answer> {
    let found = context.api.pods.named(&target.namespace, &target.pod).await;
    let pod = found.map_err(|error| of_provider(&error))?.ok_or_else(|| text(404, missing))?;
    let key = PodKey::of(&pod).map_err(|error| text(500, error.to_string()))?;
    match &target.uid {
        Some(uid) if uid != key.uid.as_str() => Err(text(404, "pod not found")),
        Some(_) | None => Ok((key, pod)),
    }
}

/// Whether the Pod has a container of this name, of any kind.
pub(crate) fn has_container(pod: &Pod, name: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).any(|container| container.name == name)
        || spec.ephemeral_containers.iter().flatten().any(|container| container.name == name)
}

async fn container_logs(context: &Context, target: &Target, container: &str, query: &Query) -> Answer {
    let options = match log_options(query) {
        Ok(options) => options,
        Err(bad) => return text(bad.code(), bad.to_string()),
    };
    let (key, pod) = match find(context, target, &format!("pod {:?} does not exist", target.pod)).await {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    if !has_container(&pod, container) {
        return text(404, format!("container {container:?} not found in pod {:?}", target.pod));
    }
    let Some(source) = context.api.provider.extras().logs else { return unsupported("logs") };
    match source.logs(&key, container, &options).await {
        Ok(stream) => {
            let mut answer = text(200, "");
            *answer.body_mut() = logs::body(stream);
            answer
        }
        Err(error) => of_provider(&error),
    }
}

type Used = (HashMap<PodUid, Arc<Pod>>, Vec<PodStats>);

/// The Pods that are held, and what they use.
async fn used(context: &Context) -> Result<Used, ProviderError> {
    let provider = &context.api.provider;
    let Some(source) = provider.extras().stats else {
        return Err(ProviderError::Unsupported { operation: "stats", feature: "statistics".to_owned() });
    };
    let stats = source.stats().await?;
    let held = provider.list().await?;
    Ok((held.into_iter().map(|held| (held.key.uid, held.pod)).collect(), stats))
}

fn stats_summary(context: &Context, pods: &HashMap<PodUid, Arc<Pod>>, stats: &[PodStats], brief: bool) -> Answer {
    let api = &context.api;
    let instant = Instant::now();
    let seen = Seen { node: &api.node, usage: api.facts.usage(), pods, stats, wall: api.clock.now(), instant };
    let mut rates = context.rates.lock().unwrap_or_else(PoisonError::into_inner);
    let document = summary(&seen, &mut rates, brief);
    if let Some(oldest) = instant.checked_sub(FORGET_RATES) {
        rates.forget_before(oldest);
    }
    respond(200, JSON, document.to_string())
}
