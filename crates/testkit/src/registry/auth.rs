//! Who may read what.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::State;

/// Access control of a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// No login.
    #[default]
    Everybody,
    /// HTTP basic login on each request.
    Basic {
        /// User.
        user: String,
        /// Password.
        password: String,
    },
    /// Bearer tokens from `/token`, which wants a basic login, or the identity token in an OAuth2 request.
    Bearer {
        /// User.
        user: String,
        /// Password.
        password: String,
        /// Accepted as `refresh_token`.
        identity_token: Option<String>,
        /// Repositories for which anybody gets a token.
        public: Vec<String>,
    },
}

/// Whether a request may be served.
pub(super) enum Verdict {
    Allowed,
    /// 401 with this `WWW-Authenticate`.
    Challenge(String),
}

pub(super) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// Judges a request for `repository` (`None`: the `/v2/` probe).
pub(super) fn judge(state: &State, host: &str, repository: Option<&str>, authorization: Option<&str>) -> Verdict {
    match &state.access {
        Access::Everybody => Verdict::Allowed,
        Access::Basic { user, password } => {
            if authorization == Some(&basic(user, password)) {
                Verdict::Allowed
            } else {
                Verdict::Challenge("Basic realm=\"testkit\"".to_owned())
            }
        }
        Access::Bearer { .. } => {
            let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
            let granted = token.and_then(|token| state.tokens.get(token));
            match (granted, repository) {
                (Some(_), None) => Verdict::Allowed,
                (Some(granted), Some(asked)) if granted == asked => Verdict::Allowed,
                _ => Verdict::Challenge(format!(
                    "Bearer realm=\"http://{host}/token\",service=\"testkit\"{}",
                    repository.map(|name| format!(",scope=\"repository:{name}:pull\"")).unwrap_or_default()
                )),
            }
        }
    }
}

/// Gives out a token for the repository named in `scope`, or nothing.
pub(super) fn grant(
    state: &mut State,
    scope: &str,
    authorization: Option<&str>,
    refresh: Option<&str>,
) -> Option<String> {
    let Access::Bearer { user, password, identity_token, public } = &state.access else {
        return None;
    };
    let repository = scope.strip_prefix("repository:")?.strip_suffix(":pull")?.to_owned();
    let allowed = match (authorization, refresh) {
        (Some(login), _) => login == basic(user, password),
        (None, Some(token)) => identity_token.as_deref() == Some(token),
        (None, None) => public.contains(&repository),
    };
    allowed.then(|| {
        let token = format!("token-{}-{repository}", state.tokens.len());
        state.tokens.insert(token.clone(), repository);
        token
    })
}
