//! Asking an API for a certificate: the request is created, and looked at until somebody has decided.

use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::{Instant, sleep};

use super::request::{Asked, Identity, Purpose, RequestError, request};
use crate::queue::Backoff;

/// How long somebody may take to decide, as upstream.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
const LOOK: Backoff = Backoff { first: Duration::from_millis(250), longest: Duration::from_secs(5) };

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It can't even be asked for.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The API does not take the request.
    #[error("the API takes no request for a {0}")]
    Refused(&'static str, #[source] Box<Error>),
    /// Somebody said no.
    #[error("the request {name} was denied: {why}")]
    Denied {
        /// The request.
        name: String,
        /// Reason and message.
        why: String,
    },
    /// The signer could not.
    #[error("the request {name} can't be signed: {why}")]
    Failed {
        /// The request.
        name: String,
        /// Reason and message.
        why: String,
    },
    /// Nobody said anything.
    #[error("nobody decided on the request {0}; `kubectl certificate approve {0}` would")]
    Undecided(String),
    /// What was signed is not what was asked for.
    #[error("what was signed for the request {0} does not fit its key")]
    Unfit(String),
}

/// Asks for a certificate with a new key, and waits until it is there.
///
/// # Errors
/// [`AskError`]. Dropping it leaves the request to the cluster, which forgets it in time.
pub(super) async fn ask(client: &Client, node: &str, purpose: &Purpose) -> Result<Identity, AskError> {
    let Asked { key, object } = request(node, purpose)?;
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let refused = |error| AskError::Refused(purpose.name(), Box::new(error));
    let created = requests.create(&PostParams::default(), &object).await.map_err(refused)?;
    let name = created.metadata.name.unwrap_or_default();
    tracing::info!(request = name, signer = purpose.signer(), "a {} is asked for", purpose.name());
    let deadline = Instant::now() + PATIENCE;
    let mut looks = 0;
    loop {
        looks += 1;
        sleep(LOOK.after(looks)).await;
        match requests.get(&name).await {
            Ok(found) => {
                if let Some(chain) = decided(&name, &found)? {
                    return if fits(&chain, &key) { Ok(Identity { chain, key }) } else { Err(AskError::Unfit(name)) };
                }
            }
            // It was removed, by whom ever: it has to be asked anew.
            Err(Error::Api(status)) if status.code == 404 => return Err(AskError::Undecided(name)),
            Err(error) => tracing::debug!(request = name, %error, "can't look what was decided"),
        }
        if Instant::now() > deadline {
            return Err(AskError::Undecided(name));
        }
    }
}

/// The certificate, once it was approved and signed.
fn decided(name: &str, found: &CertificateSigningRequest) -> Result<Option<String>, AskError> {
    let Some(status) = &found.status else { return Ok(None) };
    for condition in status.conditions.iter().flatten() {
        let said = [condition.reason.as_deref(), condition.message.as_deref()];
        let why = said.into_iter().flatten().collect::<Vec<_>>().join(": ");
        match condition.type_.as_str() {
            "Denied" => return Err(AskError::Denied { name: name.to_owned(), why }),
            "Failed" => return Err(AskError::Failed { name: name.to_owned(), why }),
            _ => {}
        }
    }
    let signed = status.certificate.as_ref().filter(|bytes| !bytes.0.is_empty());
    signed.map(|bytes| String::from_utf8(bytes.0.clone()).map_err(|_| AskError::Unfit(name.to_owned()))).transpose()
}

/// Whether certificate and key belong together.
pub(super) fn fits(chain: &str, key: &str) -> bool {
    let Ok(chain) = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>() else {
        return false;
    };
    let Ok(key) = PrivateKeyDer::from_pem_slice(key.as_bytes()) else { return false };
    let provider = rustls::crypto::ring::default_provider();
    rustls::sign::CertifiedKey::from_der(chain, key, &provider).is_ok_and(|certified| certified.keys_match().is_ok())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;
    use crate::http::ServingCertificate;

    fn found(status: &serde_json::Value) -> CertificateSigningRequest {
        let object = json!({"metadata": {}, "spec": {"request": "", "signerName": "s"}, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_was_decided_is_told_apart() {
        let condition = |kind| json!({"conditions": [{"type": kind, "status": "True", "reason": "R", "message": "m"}]});
        assert!(matches!(decided("c", &CertificateSigningRequest::default()), Ok(None)));
        assert!(matches!(decided("c", &found(&condition("Approved"))), Ok(None)), "not signed yet");
        let denied = decided("c", &found(&condition("Denied"))).unwrap_err();
        assert_eq!(denied.to_string(), "the request c was denied: R: m");
        assert!(matches!(decided("c", &found(&condition("Failed"))), Err(AskError::Failed { .. })));
        let mut signed = found(&condition("Approved"));
        signed.status.as_mut().unwrap().certificate = Some(ByteString(b"pem".to_vec()));
        assert_eq!(decided("c", &signed).unwrap().as_deref(), Some("pem"));
    }

    #[test]
    fn a_certificate_for_another_key_does_not_fit() {
        let own = ServingCertificate::self_signed(&["n"], &[]).unwrap();
        let other = ServingCertificate::self_signed(&["n"], &[]).unwrap();
        assert!(fits(&own.chain, &own.key));
        assert!(!fits(&own.chain, &other.key) && !fits("", &own.key) && !fits(&own.chain, ""));
    }
}
