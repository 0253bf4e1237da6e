//! Bearer tokens: kept as digests, so that looking one up tells nothing by its time and memory has none.

use std::collections::HashMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::Identity;

/// Who has which token.
#[derive(Debug, Default)]
pub struct Tokens(HashMap<[u8; 32], Identity>);

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl Tokens {
    /// From a file as `kube-apiserver --token-auth-file` reads it: `token,user,uid,"group,group"` a line. Lines without a token
    /// and a user, and those that begin with `#`, say nothing.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string(path)?))
    }

    /// The same from a text.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut tokens = Self::default();
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let mut fields = line.splitn(4, ',').map(str::trim);
            let (token, user) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            let uid = fields.next().unwrap_or_default().to_owned();
            let groups = fields.next().unwrap_or_default().trim_matches('"');
            if !token.is_empty() && !user.is_empty() {
                let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned);
                let (user, groups) = (user.to_owned(), groups.collect());
                tokens.add(token, Identity { user, uid, groups, ..Identity::default() });
            }
        }
        tokens
    }

    /// Adds a token.
    pub fn add(&mut self, token: &str, identity: Identity) {
        self.0.insert(digest(token), identity);
    }

    /// Whose token this is.
    #[must_use]
    pub fn find(&self, token: &str) -> Option<&Identity> {
        self.0.get(&digest(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_is_read_as_upstream_reads_it() {
        let tokens = Tokens::parse("# all\nt1,alice,1,\"a,b\"\nt2,bob,2\n,eve,3\nt4\n");
        let groups = vec!["a".to_owned(), "b".to_owned()];
        let alice = Identity { user: "alice".to_owned(), uid: "1".to_owned(), groups, ..Identity::default() };
        assert_eq!(tokens.find("t1"), Some(&alice));
        assert_eq!(tokens.find("t2").map(|bob| bob.groups.len()), Some(0));
        for unknown in ["", "t4", "t1 ", "T1"] {
            assert_eq!(tokens.find(unknown), None, "{unknown:?}");
        }
    }
}
