//! Addresses.

use url::Url;

use crate::set::GitHubScope;

/// Whose runners, on which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    api: Url,
    path: String,
}

/// An address that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadScope {
    /// The server's address.
    #[error("{0:?} is no address of a server; use one like https://github.com")]
    Url(String),
    /// None or several of repository, organization and enterprise.
    #[error("exactly one of repository, organization and enterprise must be named")]
    Several,
}

impl Scope {
    /// The scope that a set names.
    ///
    /// # Errors
    ///
    /// It names none.
    pub fn new(github: &GitHubScope) -> Result<Self, BadScope> {
        let written = github.url.as_deref().unwrap_or("https://github.com");
        let bad = || BadScope::Url(written.to_owned());
        let mut api: Url = written.parse().map_err(|_| bad())?;
        let host = api.host_str().ok_or_else(bad)?.to_owned();
        api.set_query(None);
        api.set_fragment(None);
        // GitHub's own hosts have the API on a host of its own.
        let hosted = host == "github.com" || host == "www.github.com" || host.ends_with(".ghe.com");
        if hosted {
            let host = host.strip_prefix("www.").unwrap_or(&host);
            api.set_host(Some(&format!("api.{host}"))).map_err(|_| bad())?;
            api.set_path("/");
        } else {
            api.set_path("/api/v3/");
        }
        let path = match (&github.repository, &github.organization, &github.enterprise) {
            (Some(repository), None, None) => format!("repos/{repository}"),
            (None, Some(organization), None) => format!("orgs/{organization}"),
            (None, None, Some(enterprise)) => format!("enterprises/{enterprise}"),
            _ => return Err(BadScope::Several),
        };
        Ok(Self { api, path })
    }

    /// An address below the scope.
    #[must_use]
    pub fn below(&self, path: &str) -> String {
        format!("{}{}/{path}", self.api, self.path)
    }

    /// Whether it is an organization's: groups of these are open to all repositories or to some.
    #[must_use]
    pub fn is_organization(&self) -> bool {
        self.path.starts_with("orgs/")
    }

    /// An address below the API's root.
    #[must_use]
    pub fn api(&self, path: &str) -> String {
        format!("{}{path}", self.api)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(url: Option<&str>, repository: Option<&str>, organization: Option<&str>) -> Result<Scope, BadScope> {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let github = GitHubScope {
            url: text(url),
            repository: text(repository),
            organization: text(organization),
            ..GitHubScope::default()
        };
        Scope::new(&github)
    }

    #[test]
    fn addresses_of_github_and_of_enterprise_servers() {
        for (url, expected) in [
            (None, "https://api.github.com/orgs/o/actions"),
            (Some("https://www.github.com"), "https://api.github.com/orgs/o/actions"),
            (Some("https://octo.ghe.com/"), "https://api.octo.ghe.com/orgs/o/actions"),
            (Some("https://ghes.example:8443/x?y"), "https://ghes.example:8443/api/v3/orgs/o/actions"),
        ] {
            assert_eq!(scope(url, None, Some("o")).unwrap().below("actions"), expected);
        }
        assert_eq!(scope(None, Some("o/r"), None).unwrap().below("x"), "https://api.github.com/repos/o/r/x");
    }

    #[test]
    fn what_is_no_scope_is_refused() {
        assert_eq!(scope(None, None, None), Err(BadScope::Several));
        assert_eq!(scope(None, Some("o/r"), Some("o")), Err(BadScope::Several));
        assert!(matches!(scope(Some("github.com"), None, Some("o")), Err(BadScope::Url(_))));
        assert!(matches!(scope(Some("data:x"), None, Some("o")), Err(BadScope::Url(_))));
    }
}
