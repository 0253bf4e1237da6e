//! Names of images as people write them: `[registry[:port]/]path[:tag][@digest]`, with Docker Hub as the default
//! registry and `latest` as the default tag.

use std::fmt;

use super::Digest;

/// Docker Hub's name in image names.
const DOCKER_HUB: &str = "docker.io";
/// Where Docker Hub's registry really is.
const DOCKER_HUB_ENDPOINT: &str = "registry-1.docker.io";
/// Longest `registry/path` that registries take.
const MAX_NAME: usize = 255;
/// Longest tag.
const MAX_TAG: usize = 128;

/// A parsed image name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Parses a name; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse::<Digest>().map_err(|error| error.to_string())?)),
            None => (text, None),
        };
        // A colon after the last slash starts a tag; one before it belongs to a port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if let Some(tag) = tag
            && !is_tag(tag)
        {
            return Err(format!("{tag:?} is not a tag: letters, digits, '_', '.' and '-', at most {MAX_TAG}"));
        }
        let (registry, path) = match name.split_once('/') {
            Some((first, path)) if names_a_registry(first) => (first, path),
            _ => (DOCKER_HUB, name),
        };
        let registry = match registry {
            "index.docker.io" | DOCKER_HUB_ENDPOINT => DOCKER_HUB,
            other => other,
        };
        if !is_registry(registry) {
            return Err(format!("{registry:?} is not a registry host"));
        }
        let repository =
            if registry == DOCKER_HUB && !path.contains('/') { format!("library/{path}") } else { path.to_owned() };
        if let Some(bad) = repository.split('/').find(|part| !is_path_component(part)) {
            return Err(if bad.chars().any(char::is_uppercase) {
                format!("repository names are lower case, {bad:?} is not")
            } else {
                format!("{bad:?} is not a part of a repository name")
            });
        }
        if registry.len() + repository.len() + 1 > MAX_NAME {
            return Err(format!("it is longer than {MAX_NAME} characters"));
        }
        let tag = match (tag, &digest) {
            (Some(tag), _) => Some(tag.to_owned()),
            (None, Some(_)) => None,
            (None, None) => Some("latest".to_owned()),
        };
        Ok(Self { registry: registry.to_owned(), repository, tag, digest })
    }

    /// The registry as names have it, with its port: `docker.io`, `127.0.0.1:5000`.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Host and port to connect to.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        if self.registry == DOCKER_HUB { DOCKER_HUB_ENDPOINT } else { &self.registry }
    }

    /// The path in the registry: `library/busybox`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest, when the name pins one.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// What to ask the registry for: the digest where there is one, otherwise the tag.
    #[must_use]
    pub fn target(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.clone().unwrap_or_else(|| "latest".to_owned()),
        }
    }

    /// The full name with its tag, unless it pins a digest: a pinned name moves no tag.
    #[must_use]
    pub fn tagged(&self) -> Option<String> {
        match (&self.digest, &self.tag) {
            (None, Some(tag)) => Some(format!("{}:{tag}", self.name())),
            (Some(_), _) | (None, None) => None,
        }
    }

    /// `registry/repository@digest`.
    #[must_use]
    pub fn with_digest(&self, digest: &Digest) -> String {
        format!("{}@{digest}", self.name())
    }

    /// The one full name under which the store finds it.
    #[must_use]
    pub fn canonical(&self) -> String {
        match &self.digest {
            Some(digest) => self.with_digest(digest),
            None => self.tagged().unwrap_or_else(|| self.name()),
        }
    }

    /// `registry/repository`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// Whether the registry is on this machine's loopback: spoken to over plain http, as docker does.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = host_without_port(&self.registry);
        host == "localhost"
            || host == "[::1]"
            || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical())
    }
}

fn host_without_port(registry: &str) -> &str {
    match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => registry,
    }
}

/// Whether the part before the first slash is a registry rather than a Docker Hub user.
fn names_a_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.chars().any(char::is_uppercase)
}

fn is_registry(text: &str) -> bool {
    let host = host_without_port(text);
    let port = &text[host.len()..];
    if port.len() == 1 || (port.len() > 1 && port[1..].parse::<u16>().is_err()) {
        return false;
    }
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    host.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}

fn is_tag(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= MAX_TAG
        && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// Lower-case words, separated by one '.', one or two '_', or any number of '-'.
fn is_path_component(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    if !word(first) || !word(last) {
        return false;
    }
    bytes
        .split(|&b| word(b))
        .filter(|gap| !gap.is_empty())
        .all(|gap| matches!(gap, b"." | b"_" | b"__") || gap.iter().all(|&b| b == b'-'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_names_mean_docker_hub() {
        for (text, canonical) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1", "docker.io/library/busybox:1"),
            ("user/app", "docker.io/user/app:latest"),
            ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
            ("localhost/app", "localhost/app:latest"),
            ("localhost:5000/a/b:v1.2_3", "localhost:5000/a/b:v1.2_3"),
            ("127.0.0.1:5000/app", "127.0.0.1:5000/app:latest"),
            ("[::1]:5000/app", "[::1]:5000/app:latest"),
            ("reg.example/a__b/c--d.e:T", "reg.example/a__b/c--d.e:T"),
        ] {
            assert_eq!(Reference::parse(text).unwrap().to_string(), canonical, "{text}");
        }
        assert_eq!(Reference::parse("busybox").unwrap().endpoint(), "registry-1.docker.io");
    }

    #[test]
    fn a_digest_wins_over_a_tag() {
        let digest = Digest::sha256(b"");
        let reference = Reference::parse(&format!("a.test/b:1@{digest}")).unwrap();
        assert_eq!(reference.target(), digest.to_string());
        assert_eq!(reference.canonical(), format!("a.test/b@{digest}"));
        assert_eq!(reference.tagged(), None);
    }

    #[test]
    fn loopback_is_recognised() {
        for (text, loopback) in [
            ("localhost/a", true),
            ("localhost:5000/a", true),
            ("127.8.9.1:80/a", true),
            ("[::1]/a", true),
            ("128.0.0.1:5000/a", false),
            ("localhost.evil.test/a", false),
            ("a", false),
        ] {
            assert_eq!(Reference::parse(text).unwrap().is_loopback(), loopback, "{text}");
        }
    }

    #[test]
    fn bad_names_are_refused_with_words() {
        for (text, words) in [
            ("", "empty"),
            ("UPPER", "lower case"),
            ("a.test/Upper", "lower case"),
            ("a:", "tag"),
            ("a:b c", "tag"),
            ("a@sha256:12", "digest"),
            ("a.test//b", "repository"),
            ("../x", "registry host"),
            ("a.test/../x", "repository"),
            ("a.test:99999/x", "registry host"),
            ("-a.test/x", "registry host"),
            ("a.test/x\n", "repository"),
        ] {
            let error = Reference::parse(text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
        assert!(Reference::parse(&format!("a.test/{}", "x".repeat(300))).unwrap_err().contains("longer"));
    }

    proptest! {
        /// Built from pieces that mean something in names, so that many of them are ones.
        #[test]
        fn any_text_is_a_name_that_stands_for_itself_or_an_error(
            pieces in prop::collection::vec(prop_oneof![
                "[a-z0-9]{1,6}", Just("/".to_owned()), Just(":".to_owned()), Just("@".to_owned()), Just(".".to_owned()),
                Just("localhost:5000/".to_owned()), Just("__".to_owned()), Just("-".to_owned()), Just("A".to_owned()),
                Just("[::1]".to_owned()), Just(format!("@sha256:{}", "0".repeat(64))), ".{0,3}",
            ], 0..8),
        ) {
            let text = pieces.concat();
            if let Ok(name) = Reference::parse(&text) {
                let whole = name.canonical();
                prop_assert_eq!(Reference::parse(&whole).map(|n| n.canonical()), Ok(whole));
            }
        }
    }
}
