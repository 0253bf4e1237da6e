//! From the store's refusals to what clients read.

use super::Place;
use crate::error::{ApiError, Cause, Reason};
use crate::store::{ReadError, StoreError};

/// What is left of a store's error when "somebody was faster" has been dealt with.
pub(super) fn failed(error: &StoreError, place: Place<'_>) -> ApiError {
    match error {
        StoreError::Refused(_) => place.modified(),
        StoreError::Failed(_) => ApiError::new(
            Reason::InternalError,
            "storage has failed; the server writes nothing until it is started again",
        ),
        StoreError::Closed => ApiError::new(Reason::ServiceUnavailable, "the server is shutting down"),
    }
}

pub(super) fn unreadable(error: ReadError) -> ApiError {
    match error {
        ReadError::TooOld { wanted, oldest } => ApiError::too_old(wanted, oldest),
        ReadError::TooNew { wanted, newest } => too_new(wanted, newest),
    }
}

pub(super) fn too_new(wanted: u64, newest: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {wanted}, current: {newest}");
    let cause = Cause::new("ResourceVersionTooLarge", "Too large resource version", "");
    ApiError::new(Reason::Timeout, message).retry_after(1).with_causes(vec![cause])
}
