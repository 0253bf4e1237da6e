//! The name of a source, as typed.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A place that manifests come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, or a directory of files.
    Path(PathBuf),
    /// An `http://` or `https://` address.
    Url(String),
    /// Standard input, written `-`.
    Stdin,
}

impl FromStr for Source {
    type Err = Infallible;

    /// `-` is standard input, what begins with `http://` or `https://` is an address, all else is a path.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let scheme = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        Ok(if text == "-" {
            Self::Stdin
        } else if scheme("http://") || scheme("https://") {
            Self::Url(text.to_owned())
        } else {
            Self::Path(PathBuf::from(text))
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Url(url) => f.write_str(&without_password(url)),
            Self::Stdin => f.write_str("-"),
        }
    }
}

/// An address without the password in it, so that it can be shown.
pub(super) fn without_password(url: &str) -> String {
    let Some(start) = url.find("://").map(|i| i + 3) else { return url.to_owned() };
    let authority_end = url[start..].find(['/', '?', '#']).map_or(url.len(), |i| start + i);
    match url[start..authority_end].rfind('@') {
        Some(at) => format!("{}***{}", &url[..start], &url[start + at..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_known_by_how_it_is_written() {
        let cases = [
            ("-", Source::Stdin),
            ("pod.yaml", Source::Path("pod.yaml".into())),
            ("./http", Source::Path("./http".into())),
            ("/etc/manifests", Source::Path("/etc/manifests".into())),
            ("http://h/p.yaml", Source::Url("http://h/p.yaml".into())),
            ("HTTPS://h/p.yaml", Source::Url("HTTPS://h/p.yaml".into())),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_never_shown() {
        let cases = [
            ("https://user:hunter2@h/p", "https://***@h/p"),
            ("https://h/p?mail=a@b", "https://h/p?mail=a@b"),
            ("https://u:p@w@h", "https://***@h"),
        ];
        for (text, expected) in cases {
            assert_eq!(Source::Url(text.to_owned()).to_string(), expected);
        }
    }
}
