//! Calls and writes, and how they went.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodKey;
use minke_core::provider::{Provider, ProviderError};
use minke_core::runtime::error_chain;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, Span};

use super::ControllerMetrics;
use super::spans::went;
use crate::api::{ApiError, PodApi};
use crate::book::ProviderCall;
use crate::pod::{CallResult, Trouble, Write, WriteResult};
use crate::refusals::Refusals;

/// Calls the provider.
pub(super) async fn call(
    provider: Arc<dyn Provider>,
    key: PodKey,
    call: ProviderCall,
    patience: Duration,
    metrics: &ControllerMetrics,
    span: Span,
) -> CallResult {
    let operation = call.word();
    let made = async {
        Ok(match call {
            ProviderCall::Create { pod, raw } => {
                provider.create(&pod).await?;
                CallResult::Applied { pod: raw, called: true }
            }
            ProviderCall::Update { pod, raw } => {
                provider.update(&pod).await?;
                CallResult::Applied { pod: raw, called: true }
            }
            ProviderCall::Delete(grace) => {
                provider.delete(&key, grace).await?;
                CallResult::Deleted
            }
            ProviderCall::Get => CallResult::Got(provider.get(&key).await?.map(|held| held.pod)),
        })
    };
    let begun = Instant::now();
    let result = timeout(patience, made).instrument(span.clone()).await;
    let result = result.unwrap_or(Err(ProviderError::TimedOut { operation, after: patience }));
    metrics.call(operation, word(&result), begun.elapsed());
    match &result {
        // Whoever is to be deleted and is not there is as wanted.
        Ok(_) | Err(ProviderError::NotFound { .. }) => went(&span, word(&result), None),
        Err(error) => went(&span, word(&result), Some(error)),
    }
    result.unwrap_or_else(|error| failed(&error))
}

/// How a call went, as a label.
fn word(result: &Result<CallResult, ProviderError>) -> &'static str {
    match result {
        Ok(_) => "success",
        Err(ProviderError::NotFound { .. }) => "not_found",
        Err(ProviderError::Rejected { .. }) => "rejected",
        Err(ProviderError::TimedOut { .. }) => "timed_out",
        Err(
            ProviderError::Invalid { .. }
            | ProviderError::Unsupported { .. }
            | ProviderError::Unavailable { .. }
            | ProviderError::Failed { .. },
        ) => "error",
    }
}

fn failed(error: &ProviderError) -> CallResult {
    let message = error_chain(error);
    let (permanent, perhaps) = (error.is_permanent(), error.may_have_happened());
    match error {
        ProviderError::NotFound { .. } => CallResult::NotFound,
        ProviderError::Rejected { reason, .. } => {
            CallResult::Failed { trouble: Trouble::Rejected { reason: reason.clone(), message }, perhaps }
        }
        ProviderError::Invalid { .. }
        | ProviderError::Unsupported { .. }
        | ProviderError::Unavailable { .. }
        | ProviderError::TimedOut { .. }
        | ProviderError::Failed { .. } => {
            CallResult::Failed { trouble: Trouble::Failed { message, permanent }, perhaps }
        }
    }
}

const WRITE: &str = "write a pod's status or end";

/// Writes to the API. A conflict is resolved by looking: the second value is what was found then.
pub(super) async fn write(
    api: Arc<dyn PodApi>,
    key: PodKey,
    write: Write,
    patience: Duration,
    refusals: &Refusals,
    span: Span,
) -> (WriteResult, Option<Arc<Pod>>) {
    let made = async {
        match &write {
            Write::Patch(patch) => api.patch_status(&key, patch).await.map(Some),
            Write::Remove => api.delete(&key, Duration::ZERO).await.map(|()| None),
            Write::Evict(grace) => api.delete(&key, *grace).await.map(|()| None),
        }
    };
    let error = match timeout(patience, made).instrument(span.clone()).await {
        Ok(Ok(object)) => {
            went(&span, "success", None);
            refusals.succeeded(WRITE);
            return (WriteResult::Done(object), None);
        }
        Ok(Err(error)) => error,
        Err(late) => {
            went(&span, "timed_out", Some(&late));
            return (WriteResult::Failed { at_least: Duration::ZERO }, None);
        }
    };
    match error {
        ApiError::NotFound(_) => {
            went(&span, "not_found", None);
            (WriteResult::Gone, None)
        }
        ApiError::TooMany { after, .. } => {
            went(&span, "too_many", Some(&error));
            (WriteResult::Failed { at_least: after }, None)
        }
        ApiError::Conflict(_) => {
            went(&span, "conflict", None);
            match timeout(patience, api.get(&key)).instrument(span).await {
                Ok(Ok(Some(pod))) if pod.metadata.uid.as_deref() == Some(key.uid.as_str()) => {
                    (WriteResult::Failed { at_least: Duration::ZERO }, Some(pod))
                }
                Ok(Ok(_)) => (WriteResult::Gone, None),
                Ok(Err(_)) | Err(_) => (WriteResult::Failed { at_least: Duration::ZERO }, None),
            }
        }
        ApiError::Expired(_) | ApiError::Failed { .. } => {
            went(&span, "error", Some(&error));
            refusals.failed(WRITE, Some(&key), &error_chain(&error));
            (WriteResult::Failed { at_least: Duration::ZERO }, None)
        }
    }
}
