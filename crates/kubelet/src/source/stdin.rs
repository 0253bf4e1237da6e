//! Standard input.

use minke_core::manifest::Input;

use super::error::ReadError;
use super::file::read_bounded;

const NAME: &str = "-";

/// Reads standard input to its end.
pub(super) async fn read() -> Result<Input, ReadError> {
    let read = || read_bounded(NAME, std::io::stdin().lock(), 0);
    let bytes = tokio::task::spawn_blocking(read).await.map_err(|source| ReadError::new(NAME, source))??;
    Ok(Input { name: NAME.into(), bytes })
}
