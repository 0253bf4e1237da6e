//! The address of a collector.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

/// Why an address is none. Never says the address: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndpointError {
    /// Not a URL.
    #[error("this is no URL: {0}")]
    Url(String),
    /// Another protocol.
    #[error("{0} is not spoken; only http and https are")]
    Scheme(String),
}

/// Where traces are posted: the base address of a collector with `v1/traces` after it, as OpenTelemetry derives it. Neither
/// `Debug` nor `Display` shows a password or a query.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint(Url);

impl Endpoint {
    pub(super) fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let mut url = Url::parse(text).map_err(|error| EndpointError::Url(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(EndpointError::Scheme(url.scheme().to_owned()));
        }
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Ok(Self(url))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(self.0.path())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_added_to_the_base() {
        for (told, meant) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otel.example/base/", "https://otel.example/base/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ] {
            let endpoint: Endpoint = told.parse().unwrap();
            assert_eq!(endpoint.url().as_str(), meant);
            assert_eq!(endpoint.to_string(), meant);
        }
    }

    #[test]
    fn a_password_is_sent_and_never_shown() {
        let endpoint: Endpoint = "https://me:secret@otel.example/?token=hidden".parse().unwrap();
        assert_eq!(endpoint.url().password(), Some("secret"));
        for shown in [endpoint.to_string(), format!("{endpoint:?}")] {
            assert!(!shown.contains("secret") && !shown.contains("hidden"), "{shown}");
        }
        let wrong = "https://me:secret@:x".parse::<Endpoint>().unwrap_err();
        assert!(!wrong.to_string().contains("secret"), "{wrong}");
    }

    #[test]
    fn what_is_no_address_of_http_is_refused() {
        for wrong in ["", "localhost", "localhost:4318", "grpc://c:4317", "unix:/run/otel", "http://"] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
