//! Names of images: `[registry[:port]/]repository[:tag][@digest]`.

/// An image name in its parts, with docker's shorthands written out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// Host and port; `docker.io` where the name has none.
    pub registry: String,
    /// Path in the registry; `library/x` for a bare `x` of `docker.io`.
    pub repository: String,
    /// Tag, if the name has one.
    pub tag: Option<String>,
    /// Digest, if the name has one.
    pub digest: Option<String>,
}

/// A text that names no image. Reason `InvalidImageName`, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("couldn't parse image name {name:?}: {why}")]
pub struct InvalidImageName {
    /// The text.
    pub name: String,
    /// What is wrong.
    pub why: &'static str,
}

const FORMAT: &str = "invalid reference format";

impl ImageName {
    /// Takes a name apart.
    ///
    /// # Errors
    /// [`InvalidImageName`] says what is wrong.
    pub fn parse(name: &str) -> Result<Self, InvalidImageName> {
        parse(name).map_err(|why| InvalidImageName { name: name.to_owned(), why })
    }

    /// `registry/repository`, what credentials are looked up by.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// Whether the name means `latest`: it says so, or has neither tag nor digest.
    #[must_use]
    pub fn is_latest(&self) -> bool {
        match (&self.tag, &self.digest) {
            (Some(tag), _) => tag == "latest",
            (None, Some(_)) => false,
            (None, None) => true,
        }
    }
}

fn parse(name: &str) -> Result<ImageName, &'static str> {
    if name.is_empty() {
        return Err("the name is empty");
    }
    let (rest, digest) = match name.split_once('@') {
        None => (name, None),
        Some((rest, digest)) => (rest, Some(parse_digest(digest)?)),
    };
    // A colon after the last slash begins the tag; one before belongs to the registry's port.
    let last = rest.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match rest[last..].split_once(':') {
        None => (rest, None),
        Some((component, tag)) => (&rest[..last + component.len()], Some(parse_tag(tag)?)),
    };
    let (registry, repository) = match path.split_once('/') {
        Some((first, rest)) if is_registry(first) => (first, rest.to_owned()),
        Some(_) => ("docker.io", path.to_owned()),
        None => ("docker.io", format!("library/{path}")),
    };
    let registry = if registry == "index.docker.io" { "docker.io" } else { registry };
    if repository.chars().any(|c| c.is_ascii_uppercase()) {
        return Err("repository name must be lowercase");
    }
    if !repository.split('/').all(is_component) || !is_host(registry) {
        return Err(FORMAT);
    }
    if registry.len() + 1 + repository.len() > 255 {
        return Err("repository name must not be more than 255 characters");
    }
    Ok(ImageName { registry: registry.to_owned(), repository, tag, digest })
}

fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.chars().any(|c| c.is_ascii_uppercase())
}

fn is_host(registry: &str) -> bool {
    let (host, port) = match registry.strip_prefix('[').and_then(|r| r.split_once(']')) {
        Some((v6, port)) if v6.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", port),
        Some(_) => return false,
        None => registry.find(':').map_or((registry, ""), |at| registry.split_at(at)),
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let port_ok = port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok());
    host.split('.').all(label) && port_ok
}

/// Lower-case letters and digits, separated by `.`, `_`, `__` or dashes.
fn is_component(component: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends = bytes.first().is_some_and(|b| alphanumeric(*b)) && bytes.last().is_some_and(|b| alphanumeric(*b));
    let mut separators = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    ends && separators.all(|s| matches!(s, "" | "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

fn parse_tag(tag: &str) -> Result<String, &'static str> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = tag.as_bytes();
    let good = bytes.len() <= 128
        && bytes.first().is_some_and(|b| word(*b))
        && bytes.iter().all(|b| word(*b) || matches!(b, b'.' | b'-'));
    if good { Ok(tag.to_owned()) } else { Err(FORMAT) }
}

fn parse_digest(digest: &str) -> Result<String, &'static str> {
    let length = match digest.split_once(':') {
        Some(("sha256", _)) => 64,
        Some(("sha384", _)) => 96,
        Some(("sha512", _)) => 128,
        Some(_) => return Err("unsupported digest algorithm"),
        None => return Err(FORMAT),
    };
    let hex = digest.split_once(':').map_or("", |(_, hex)| hex);
    let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if hex.len() == length && hex.bytes().all(lower_hex) {
        Ok(digest.to_owned())
    } else {
        Err("invalid checksum digest length or characters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_their_parts() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (name, path, tag) in [
            ("busybox", "docker.io/library/busybox", None),
            ("busybox:1.36", "docker.io/library/busybox", Some("1.36")),
            ("me/app", "docker.io/me/app", None),
            ("index.docker.io/me/app", "docker.io/me/app", None),
            ("localhost/app:x", "localhost/app", Some("x")),
            ("localhost:5000/a/b/c:v1", "localhost:5000/a/b/c", Some("v1")),
            ("registry.example/a__b/c--d:v", "registry.example/a__b/c--d", Some("v")),
            ("[::1]:5000/app", "[::1]:5000/app", None),
        ] {
            let parsed = ImageName::parse(name).unwrap();
            assert_eq!((parsed.path().as_str(), parsed.tag.as_deref()), (path, tag), "{name}");
        }
        let parsed = ImageName::parse(&format!("r.example/x:t@{digest}")).unwrap();
        assert_eq!((parsed.tag.as_deref(), parsed.digest), (Some("t"), Some(digest)));
    }

    #[test]
    fn what_names_no_image() {
        for name in [
            "",
            ":",
            "a:",
            "a::b",
            "A",
            "a/B",
            "a b",
            "a/",
            "/a",
            "a//b",
            "a@sha256:12",
            "a@md5:x",
            "a:t/",
            "a..b",
            "-a",
            "r.example:99999/a",
            "a:\u{e9}",
            "a@",
        ] {
            assert!(ImageName::parse(name).is_err(), "{name:?}");
        }
        let words = ImageName::parse("Bad").unwrap_err().to_string();
        assert_eq!(words, "couldn't parse image name \"Bad\": repository name must be lowercase");
    }

    #[test]
    fn latest_by_word_or_by_absence() {
        let latest = |name: &str| ImageName::parse(name).unwrap().is_latest();
        assert!(latest("a") && latest("a:latest"));
        assert!(!latest("a:1") && !latest(&format!("a@sha256:{}", "0".repeat(64))));
    }
}
