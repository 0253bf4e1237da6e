//! The forges of sets: one account a credential, shared by all sets that use it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use minke_core::clock::Clock;
use minke_core::runtime::error_chain;
use sha2::{Digest, Sha256};

use super::cluster::Cluster;
use crate::forge::github::{Account, AppKey, Credential, GitHub, GitHubSettings, Scope};
use crate::forge::{Forge, ForgeError, Secret as Hidden};
use crate::set::RunnerSetSpec;

/// A Secret is read again after this: its credential may have been replaced.
const FRESH: SignedDuration = SignedDuration::from_mins(5);
/// The default runner group.
const GROUP: u64 = 1;

/// Who gives forges.
#[async_trait]
pub trait Forges: std::fmt::Debug + Send + Sync + 'static {
    /// The forge of a set.
    async fn forge(&self, namespace: &str, spec: &RunnerSetSpec) -> Result<Arc<dyn Forge>, ForgeError>;

    /// A credential was refused: it is read again before it is used again.
    fn refused(&self, namespace: &str, secret: &str);

    /// How many requests each credential has left, as far as that was told: by `namespace/secret`.
    fn budgets(&self) -> Vec<(String, u64)>;
}

#[derive(Debug)]
struct Known {
    account: Arc<Account>,
    digest: [u8; 32],
    read: Timestamp,
}

/// Forges at GitHub, with credentials from the cluster's Secrets.
#[derive(Debug)]
pub struct GitHubForges {
    cluster: Arc<dyn Cluster>,
    clock: Arc<dyn Clock>,
    accounts: Mutex<BTreeMap<(String, String), Known>>,
}

impl GitHubForges {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, clock: Arc<dyn Clock>) -> Self {
        Self { cluster, clock, accounts: Mutex::default() }
    }

    fn accounts(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), Known>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn account(&self, namespace: &str, secret: &str) -> Result<Arc<Account>, ForgeError> {
        let key = (namespace.to_owned(), secret.to_owned());
        let now = self.clock.now();
        let known = self.accounts().get(&key).map(|known| (Arc::clone(&known.account), known.read));
        if let Some((account, read)) = known
            && now.duration_since(read) < FRESH
        {
            return Ok(account);
        }
        let read = self.cluster.secret(namespace, secret).await.map_err(|error| {
            ForgeError::Credential(format!("secret {secret} can't be read: {}", error_chain(&error)))
        })?;
        let Some(object) = read else {
            self.accounts().remove(&key);
            return Err(ForgeError::Credential(format!("there is no secret {secret} in namespace {namespace}")));
        };
        let digest = digest(&object);
        let mut accounts = self.accounts();
        // The token, the budget and what is cached stay as long as the credential does.
        if let Some(known) = accounts.get_mut(&key).filter(|known| known.digest == digest) {
            known.read = now;
            return Ok(Arc::clone(&known.account));
        }
        let account = Arc::new(Account::new(credential(secret, &object)?, Arc::clone(&self.clock))?);
        accounts.insert(key, Known { account: Arc::clone(&account), digest, read: now });
        Ok(account)
    }
}

#[async_trait]
impl Forges for GitHubForges {
    async fn forge(&self, namespace: &str, spec: &RunnerSetSpec) -> Result<Arc<dyn Forge>, ForgeError> {
        let scope = Scope::new(&spec.github).map_err(|error| ForgeError::Credential(error.to_string()))?;
        let account = self.account(namespace, &spec.github.credentials_secret).await?;
        let group = spec.github.group_id.unwrap_or(GROUP);
        Ok(Arc::new(GitHub::new(account, GitHubSettings { scope, group, labels: spec.labels.clone() })))
    }

    fn refused(&self, namespace: &str, secret: &str) {
        if let Some(known) = self.accounts().get_mut(&(namespace.to_owned(), secret.to_owned())) {
            known.read = Timestamp::MIN;
        }
    }

    fn budgets(&self) -> Vec<(String, u64)> {
        let accounts = self.accounts();
        let told = accounts.iter().filter_map(|((namespace, secret), known)| {
            Some((format!("{namespace}/{secret}"), known.account.budget().remaining()?))
        });
        told.collect()
    }
}

fn digest(secret: &Secret) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for (key, value) in secret.data.iter().flatten() {
        hasher.update((key.len() as u64).to_le_bytes());
        hasher.update(key);
        hasher.update((value.0.len() as u64).to_le_bytes());
        hasher.update(&value.0);
    }
    hasher.finalize().into()
}

/// The credential in a Secret: a token, or an App's key, and not both.
///
/// # Errors
///
/// It is none; what stands in it is not shown.
pub fn credential(name: &str, secret: &Secret) -> Result<Credential, ForgeError> {
    let bad = |why: &str| ForgeError::Credential(format!("secret {name} {why}"));
    let data = secret.data.as_ref();
    let text = |key: &str| -> Result<Option<String>, ForgeError> {
        let Some(value) = data.and_then(|data| data.get(key)) else { return Ok(None) };
        let text = std::str::from_utf8(&value.0).map_err(|_| bad(&format!("has a {key} that is no text")))?;
        Ok(Some(text.trim().to_owned()))
    };
    let app = ["github_app_id", "github_app_installation_id", "github_app_private_key"];
    let token = text("github_token")?;
    let [id, installation, key] = [text(app[0])?, text(app[1])?, text(app[2])?];
    match (token, id, installation, key) {
        (Some(token), None, None, None) if !token.is_empty() => Ok(Credential::Token(Hidden::new(token))),
        (None, Some(id), Some(installation), Some(key)) => {
            let installation =
                installation.parse().map_err(|_| bad("has a github_app_installation_id that is no number"))?;
            Ok(Credential::App(Box::new(AppKey::new(&id, installation, &Hidden::new(key))?)))
        }
        (Some(_), None, None, None) => Err(bad("has an empty github_token")),
        (Some(_), ..) => Err(bad("has both github_token and an App's key; it must be one of them")),
        (None, None, None, None) => Err(bad(&format!("has neither github_token nor {}", app.join(", ")))),
        (None, ..) => Err(bad(&format!("lacks some of {}", app.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    fn secret(entries: &[(&str, &str)]) -> Secret {
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        Secret { data: Some(data.collect()), ..Secret::default() }
    }

    fn wrong(entries: &[(&str, &str)]) -> String {
        credential("github", &secret(entries)).unwrap_err().to_string()
    }

    /// ARC's TestAppConfig: exactly one kind of credential.
    #[test]
    fn a_secret_has_exactly_one_kind_of_credential() {
        assert!(matches!(credential("github", &secret(&[("github_token", "t\n")])), Ok(Credential::Token(_))));
        let key = ("github_app_private_key", crate::forge::github::TEST_KEY);
        let app = [("github_app_id", "Iv1"), ("github_app_installation_id", "42"), key];
        assert!(matches!(credential("github", &secret(&app)), Ok(Credential::App(_))));
        assert!(wrong(&[]).contains("neither github_token nor github_app_id"));
        assert!(wrong(&[("github_token", " ")]).contains("empty"));
        assert!(wrong(&[("github_token", "t"), app[0]]).contains("both"));
        assert!(wrong(&app[..2]).contains("lacks some"));
        assert!(wrong(&[app[0], ("github_app_installation_id", "x"), key]).contains("no number"));
    }

    #[test]
    fn what_is_wrong_with_a_credential_does_not_show_it() {
        let app = [("github_app_id", "1"), ("github_app_installation_id", "42"), ("github_app_private_key", "hunter2")];
        assert!(!wrong(&app).contains("hunter2"));
    }
}
