//! `http://` and `https://` addresses.

use std::time::Duration;

use minke_core::manifest::{Input, MAX_BYTES};

use super::error::{ReadError, TooLarge};
use super::location::without_password;

/// The kubelet's time for a whole answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An answer that holds no manifest.
#[derive(Debug, thiserror::Error)]
#[error("the server answered {0}, not 200")]
struct BadStatus(reqwest::StatusCode);

/// Fetches an address. Redirects are followed; the answer must be 200 and come within 10 s.
pub(crate) async fn read(url: &str) -> Result<Input, ReadError> {
    let name = without_password(url);
    match fetch(url).await {
        Ok(bytes) => Ok(Input { name: name.into(), bytes }),
        Err(source) => Err(ReadError { name, source }),
    }
}

async fn fetch(url: &str) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    // The workspace builds reqwest without a provider of cryptography. Installing one again is refused, and harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(TIMEOUT).user_agent("minke").build().map_err(plain)?;
    let mut response = client.get(url).send().await.map_err(plain)?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(BadStatus(response.status()).into());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(plain)? {
        if bytes.len() + chunk.len() > MAX_BYTES {
            return Err(TooLarge { limit: MAX_BYTES }.into());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The address is in the text around this error, without its password; here it would be with it.
fn plain(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}
