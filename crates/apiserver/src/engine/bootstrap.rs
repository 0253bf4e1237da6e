//! Whoever has a bootstrap token: looked up each time, so that it ends when its Secret goes.

use super::{Engine, Place};
use crate::access::bootstrap::{NAMESPACE, holder, secret_name};
use crate::access::{Identity, TokenError};
use crate::kinds::find;

impl Engine {
    /// Whom the token with these parts makes of its bearer.
    ///
    /// # Errors
    /// There is no such token, or it is not good any more: why is not told.
    pub(super) fn bootstrapper(&self, id: &str, secret: &str) -> Result<Identity, TokenError> {
        let kind = find("", "v1", "secrets").ok_or(TokenError::Foreign)?;
        let place = Place { kind, namespace: NAMESPACE, name: &secret_name(id) };
        let (_, object) = self.load(place).map_err(|_| TokenError::Foreign)?;
        holder(&object, id, secret, self.time()).map(Identity::authenticated).ok_or(TokenError::Foreign)
    }
}
