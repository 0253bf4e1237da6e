//! One request: who, what, may they, do it, answer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::accept::{Form, Offer, negotiate};
use super::body::{self, Body, full};
use super::discovery;
use super::documents::{self, Documents};
use super::form::Printing;
use super::impersonate::acting;
use super::metrics::{self, Asked, Metrics};
use super::permit::{authorize, limit};
use super::pods::{self, NodeClient, Streams};
use super::query::Query;
use super::route::{Resource, Route, route};
use super::serve::Limits;
use super::usage;
use super::write::Write;
use crate::access::{Identity, Issuer, Tokens, allows_path, forbidden_path};
use crate::engine::{Engine, Part, Place};
use crate::error::{ApiError, Reason};
use crate::kinds::{Deletion, Kind, Nature};

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Context {
    engine: Engine,
    tokens: Tokens,
    limits: Limits,
    watches: Arc<Semaphore>,
    documents: Documents,
    nodes: Option<NodeClient>,
    streams: Streams,
    metrics: Metrics,
    pub(crate) address: SocketAddr,
}

impl Context {
    pub(crate) fn new(engine: Engine, tokens: Tokens, limits: Limits, address: SocketAddr) -> Self {
        let watches = Arc::new(Semaphore::new(limits.watches));
        let (streams, metrics) = (Streams::new(limits.streams), Metrics::default());
        let documents = Documents::default();
        Self { engine, tokens, limits, watches, documents, nodes: None, streams, metrics, address }
    }

    pub(crate) fn reach(&mut self, nodes: NodeClient) {
        self.nodes = Some(nodes);
    }
}

type Answer = Result<Response<Body>, ApiError>;

const JSON: &str = "application/json";

/// Answers a request. `identity` is that of the connection's certificate.
pub(crate) async fn handle(
    context: Arc<Context>,
    identity: Option<Arc<Identity>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let watches = query.flag("watch") == Some(true);
    let asked = Asked::of(request.method(), &route(request.uri().path()), watches, context.engine.kinds());
    let dry_run = query.dry_run().unwrap_or(false);
    let (began, running) = (tokio::time::Instant::now(), context.metrics.begins(&asked));
    let answer = answer(&context, identity, request, &asked).await;
    let answer = answer.unwrap_or_else(|error| refusal(&error));
    drop(running);
    context.metrics.answered(&asked, answer.status().as_u16(), dry_run, began.elapsed());
    Ok(answer)
}

fn refusal(error: &ApiError) -> Response<Body> {
    let mut response = respond(error.code(), JSON, error.to_status().to_string());
    if error.details.retry_after_seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, error.details.retry_after_seconds.into());
    }
    response
}

fn respond(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    headers.insert(hyper::header::CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-cache, private"));
    response
}

fn value(value: &Value) -> Answer {
    Ok(respond(200, JSON, value.to_string()))
}

fn header(headers: &HeaderMap, name: HeaderName) -> String {
    // Several `Accept` lines are one list.
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// Whom the request's token names, or else the connection's certificate.
fn who(context: &Context, identity: Option<Arc<Identity>>, headers: &HeaderMap) -> Result<Arc<Identity>, ApiError> {
    let unauthorized = || ApiError::new(Reason::Unauthorized, "Unauthorized");
    if let Some(authorization) = headers.get(AUTHORIZATION) {
        let token = authorization.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).map(str::trim);
        // A token that is wrong is no reason to be somebody else.
        let token = token.ok_or_else(unauthorized)?;
        if let Some(known) = context.tokens.find(token) {
            return Ok(Arc::new(known.clone().authenticated()));
        }
        let account = context.engine.authenticate(token, &[]);
        return match account {
            Ok((identity, _)) => Ok(Arc::new(identity)),
            Err(error) => {
                tracing::debug!(%error, "a bearer token is not believed");
                Err(unauthorized())
            }
        };
    }
    identity.ok_or_else(unauthorized)
}

async fn answer(
    context: &Arc<Context>,
    identity: Option<Arc<Identity>>,
    request: Request<Incoming>,
    asked: &Asked,
) -> Answer {
    let route = route(request.uri().path());
    if route == Route::Health {
        return Ok(health(context, request.uri()));
    }
    let identity = acting(who(context, identity, request.headers())?, request.headers())?;
    let accept = header(request.headers(), ACCEPT);
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match route {
        Route::Health => Ok(health(context, request.uri())),
        Route::Nothing => Ok(respond(404, "text/plain; charset=utf-8", "404 page not found\n")),
        Route::Collection(resource) => collection(context, &identity, &resource, &accept, request, asked).await,
        Route::Object(resource, name, part) => {
            object(context, &identity, &resource, &name, &part, &accept, request).await
        }
        _ if !reads => {
            Err(ApiError::new(Reason::MethodNotAllowed, "the server does not allow this method on this path"))
        }
        _ if !allows_path(&identity, &request.method().as_str().to_lowercase(), request.uri().path()) => {
            Err(forbidden_path(&identity, &request.method().as_str().to_lowercase(), request.uri().path()))
        }
        Route::Metrics => Ok(respond(200, metrics::CONTENT_TYPE, context.metrics.text(&context.engine))),
        Route::OpenId => value(&Issuer::discovery(&context.address.to_string())),
        Route::KeySet => value(&context.engine.key_set().ok_or_else(ApiError::no_resource)?),
        Route::Version => value(&discovery::version()),
        Route::CoreVersions | Route::Groups => {
            let core = route == Route::CoreVersions;
            if negotiate(&accept, Offer::Discovery)? == Form::Discovery {
                let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
                return Ok(respond(
                    200,
                    content_type,
                    discovery::aggregated(&context.engine.kinds().all(), core).to_string(),
                ));
            }
            value(&if core {
                discovery::core_versions(&context.address.to_string())
            } else {
                discovery::group_list(&context.engine.kinds().all())
            })
        }
        Route::Group(name) => match discovery::group(&context.engine.kinds().all(), &name) {
            Some(group) => value(&group),
            None => Ok(respond(404, "text/plain; charset=utf-8", "404 page not found\n")),
        },
        Route::Resources(group, version) => match discovery::resources(&context.engine.kinds().all(), &group, &version)
        {
            Some(resources) => value(&resources),
            None => Ok(respond(404, "text/plain; charset=utf-8", "404 page not found\n")),
        },
        Route::OpenApiOld => {
            let document = context.documents.old(context.engine.kinds(), &accept).await?;
            documents::answer(&document, "", request.headers())
        }
        Route::OpenApiIndex => {
            documents::answer(&context.documents.index(context.engine.kinds()).await?, "", request.headers())
        }
        Route::OpenApi(group, version) => {
            let query = Query::parse(request.uri().query().unwrap_or_default());
            let document = context.documents.document(context.engine.kinds(), &group, &version).await?;
            documents::answer(&document, query.get("hash"), request.headers())
        }
    }
}

/// Whether reads and writes work; with `?verbose` check by check, as upstream tells it.
fn health(context: &Context, uri: &hyper::Uri) -> Response<Body> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let name = uri.path().trim_matches('/');
    let verbose = Query::parse(uri.query().unwrap_or_default()).first("verbose").is_some();
    match context.engine.store().failure() {
        None if verbose => respond(200, TEXT, format!("[+]ping ok\n[+]storage ok\n{name} check passed\n")),
        None => respond(200, TEXT, "ok"),
        // Why is for the log: anybody may ask.
        Some(_) => respond(500, TEXT, format!("[+]ping ok\n[-]storage failed: reason withheld\n{name} check failed\n")),
    }
}

/// The kind behind a resource, and its namespace.
fn kind_of(context: &Context, resource: &Resource) -> Result<&'static Kind, ApiError> {
    let kind = context.engine.kinds().find(&resource.group, &resource.version, &resource.plural);
    let kind = kind.ok_or_else(ApiError::no_resource)?;
    match kind.namespaced || resource.namespace.is_none() {
        true => Ok(kind),
        false => Err(ApiError::no_resource()),
    }
}

async fn collection(
    context: &Arc<Context>,
    identity: &Identity,
    resource: &Resource,
    accept: &str,
    request: Request<Incoming>,
    asked: &Asked,
) -> Answer {
    // Who may nothing learns nothing, also not which resources there are: they are the same for all.
    let kind = kind_of(context, resource)?;
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let namespace = resource.namespace.as_deref();
    // Whoever may read one object may list and watch it by its name, as upstream's RequestInfo has it.
    let only = query.only_name();
    let may = |verb| {
        let named = if verb == "create" { "" } else { only };
        authorize(identity, kind, resource, verb, "", named)?;
        match identity.node().filter(|_| !named.is_empty()) {
            Some(node) => {
                let place = Place { kind, namespace: namespace.unwrap_or_default(), name: named };
                limit(&context.engine, node, place, "", request.method())
            }
            None => Ok(()),
        }
    };
    match kind.nature {
        Nature::Question if *request.method() != Method::POST => return Err(ApiError::method_not_allowed()),
        Nature::Measured => {
            let reads = matches!(*request.method(), Method::GET | Method::HEAD) && query.flag("watch") != Some(true);
            if !reads {
                return Err(ApiError::method_not_allowed());
            }
            may("list")?;
            return value(&usage::list(&context.engine, context.nodes.as_ref(), kind, namespace, &query).await?);
        }
        Nature::Question | Nature::Stored => {}
    }
    match *request.method() {
        Method::GET if query.flag("watch") == Some(true) => {
            may("watch")?;
            watch(context, asked, kind, namespace, &query, negotiate(accept, Offer::Objects)?)
        }
        Method::GET | Method::HEAD => {
            may("list")?;
            let printing = Printing::new(kind, negotiate(accept, Offer::Objects)?, &query)?;
            let list = context.engine.list(kind, namespace, &query.list(kind)?)?;
            Ok(respond(200, JSON, printing.list(&list, context.engine.time())?))
        }
        Method::POST if kind.namespaced && namespace.is_none() => Err(ApiError::method_not_allowed()),
        Method::POST if kind.nature == Nature::Question => {
            may("create")?;
            write(context, identity, kind, accept, &query, request, async |write| write.ask(kind, namespace)).await
        }
        Method::POST => {
            may("create")?;
            write(context, identity, kind, accept, &query, request, async |write| {
                write.create(kind, namespace.unwrap_or_default()).await
            })
            .await
        }
        Method::DELETE if kind.strategy.deletion == Deletion::Namespace => Err(ApiError::method_not_allowed()),
        Method::DELETE => {
            may("deletecollection")?;
            write(context, identity, kind, accept, &query, request, async |write| {
                write.delete_collection(kind, namespace).await
            })
            .await
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn object(
    context: &Arc<Context>,
    identity: &Identity,
    resource: &Resource,
    name: &str,
    part: &str,
    accept: &str,
    request: Request<Incoming>,
) -> Answer {
    let kind = kind_of(context, resource)?;
    if kind.nature == Nature::Question || kind.namespaced && resource.namespace.is_none() {
        return Err(ApiError::no_resource());
    }
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let place = Place { kind, namespace: resource.namespace.as_deref().unwrap_or_default(), name };
    let may = |verb| authorize(identity, kind, resource, verb, part, name);
    if kind.nature == Nature::Measured {
        return match *request.method() {
            _ if !part.is_empty() => Err(ApiError::no_resource()),
            Method::GET | Method::HEAD => {
                may("get")?;
                value(&usage::one(&context.engine, context.nodes.as_ref(), place).await?)
            }
            _ => Err(ApiError::method_not_allowed()),
        };
    }
    if let Some(node) = identity.node() {
        limit(&context.engine, node, place, part, request.method())?;
    }
    let pod = kind.strategy.deletion == Deletion::Graceful;
    let namespace = kind.strategy.deletion == Deletion::Namespace;
    if let Some(part) = pods::Part::of(part).filter(|_| pod) {
        may(part.verb())?;
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        return match *request.method() == Method::POST && part != pods::Part::Log || reads {
            true => pods::answer(&context.engine, context.nodes.as_ref(), &context.streams, place, part, request).await,
            false => Err(ApiError::method_not_allowed()),
        };
    }
    let which = match part {
        "" => Part::Main,
        "status" if kind.status => Part::Status,
        "approval" if kind.approved => Part::Approval,
        "ephemeralcontainers" if pod => Part::Ephemeral,
        "resize" if pod => Part::Resize,
        "token" if kind.kind == "ServiceAccount" => {
            if *request.method() != Method::POST {
                return Err(ApiError::method_not_allowed());
            }
            may("create")?;
            return write(context, identity, kind, accept, &query, request, async |write| write.issue_token(place))
                .await;
        }
        "binding" if pod && *request.method() == Method::POST => {
            may("create")?;
            return write(context, identity, kind, accept, &query, request, async |write| write.bind(place).await)
                .await;
        }
        "eviction" if pod && *request.method() == Method::POST => {
            may("create")?;
            return write(context, identity, kind, accept, &query, request, async |write| write.evict(place).await)
                .await;
        }
        "finalize" if namespace && *request.method() == Method::PUT => {
            may("update")?;
            return write(context, identity, kind, accept, &query, request, async |write| write.finalize(place).await)
                .await;
        }
        "scale" if kind.slot.is_some() => {
            return match *request.method() {
                Method::GET | Method::HEAD => {
                    may("get")?;
                    value(&context.engine.get_scale(place)?)
                }
                Method::PUT => {
                    may("update")?;
                    write(context, identity, kind, accept, &query, request, async |write| {
                        write.scale(place, false).await
                    })
                    .await
                }
                Method::PATCH => {
                    may("patch")?;
                    write(context, identity, kind, accept, &query, request, async |write| {
                        write.scale(place, true).await
                    })
                    .await
                }
                _ => Err(ApiError::method_not_allowed()),
            };
        }
        "binding" | "eviction" if pod => return Err(ApiError::method_not_allowed()),
        "finalize" if namespace => return Err(ApiError::method_not_allowed()),
        _ => return Err(ApiError::no_resource()),
    };
    match *request.method() {
        Method::GET | Method::HEAD => {
            may("get")?;
            let printing = Printing::new(kind, negotiate(accept, Offer::Objects)?, &query)?;
            let entry = context.engine.get(place, query.resource_version()?)?;
            Ok(respond(200, JSON, printing.one(&entry, context.engine.time())?))
        }
        Method::PUT => {
            may("update")?;
            write(context, identity, kind, accept, &query, request, async |write| write.update(place, which).await)
                .await
        }
        Method::PATCH => {
            may("patch")?;
            write(context, identity, kind, accept, &query, request, async |write| write.patch(place, which).await).await
        }
        Method::DELETE if which == Part::Main => {
            may("delete")?;
            write(context, identity, kind, accept, &query, request, async |write| write.delete(place).await).await
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Reads the body, does it, answers.
async fn write(
    context: &Context,
    asking: &Identity,
    kind: &'static Kind,
    accept: &str,
    query: &Query,
    request: Request<Incoming>,
    act: impl AsyncFnOnce(Write<'_>) -> super::write::Written,
) -> Answer {
    let printing = Printing::new(kind, negotiate(accept, Offer::Objects)?, query)?;
    let (head, incoming) = request.into_parts();
    let body = body::read(incoming, context.limits.body, context.limits.patience).await?;
    let (content_type, agent) = (header(&head.headers, CONTENT_TYPE), header(&head.headers, USER_AGENT));
    let (engine, now) = (&context.engine, context.engine.time());
    let tokens = &context.tokens;
    let write =
        Write { engine, query, printing, now, content_type: &content_type, agent: &agent, asking, tokens, body };
    let done = act(write).await?;
    let mut response = respond(done.code.as_u16(), JSON, done.bytes);
    let deprecation = kind.definition().and_then(|definition| definition.deprecation.clone());
    for warning in done.warnings.into_iter().chain(deprecation) {
        // Texts that no header can carry warn nobody.
        if let Ok(warning) = hyper::header::HeaderValue::from_str(&format!("299 - {warning:?}")) {
            response.headers_mut().append(hyper::header::WARNING, warning);
        }
    }
    Ok(response)
}

fn watch(
    context: &Arc<Context>,
    asked: &Asked,
    kind: &'static Kind,
    namespace: Option<&str>,
    query: &Query,
    form: Form,
) -> Answer {
    let permit = context.watches.clone().try_acquire_owned().map_err(|_| {
        ApiError::new(Reason::TooManyRequests, "there are too many watches; try again later").retry_after(1)
    })?;
    let watch = context.engine.watch(kind, namespace, &query.list(kind)?)?;
    let printing = Printing::new(kind, form, query)?;
    let held = (permit, context.metrics.watches(asked));
    let state = (watch, held, printing, context.clone());
    let stream = futures_util::stream::unfold(state, |(mut watch, held, mut printing, context)| async {
        let items = watch.next().await?;
        let bytes = printing.events(&items, context.engine.time());
        Some((Ok::<_, hyper::Error>(Frame::data(bytes)), (watch, held, printing, context)))
    });
    let mut response = respond(200, JSON, Bytes::new());
    *response.body_mut() = StreamBody::new(stream).boxed_unsync();
    Ok(response)
}
