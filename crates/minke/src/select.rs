//! How Pods are addressed on the command line: `name`, `namespace/name`, or the beginning of a uid.

use minke_core::identity::PodKey;

/// A text that does not point to exactly one Pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectError {
    /// Nothing matches.
    #[error("no pod {wanted:?} here")]
    Unknown {
        /// As given.
        wanted: String,
        /// The most similar name that exists.
        nearest: Option<String>,
    },
    /// Several match.
    #[error("{wanted:?} could be {}; write the namespace or more of the uid", candidates.join(" or "))]
    Ambiguous {
        /// As given.
        wanted: String,
        /// All that match, as `namespace/name (uid)`.
        candidates: Vec<String>,
    },
}

/// Uid prefixes shorter than this are never tried: they would match by accident.
const SHORTEST_UID_PREFIX: usize = 4;

/// The one Pod that the text points to. Whole names win over beginnings of uids.
pub(crate) fn select<'a>(wanted: &str, pods: &'a [PodKey]) -> Result<&'a PodKey, SelectError> {
    let mut matches: Vec<&PodKey> = match wanted.split_once('/') {
        Some((namespace, name)) => pods.iter().filter(|p| *p.namespace == *namespace && *p.name == *name).collect(),
        None => pods.iter().filter(|p| *p.name == *wanted || p.uid.as_str() == wanted).collect(),
    };
    if matches.is_empty() && wanted.len() >= SHORTEST_UID_PREFIX {
        matches = pods.iter().filter(|p| p.uid.as_str().starts_with(wanted)).collect();
    }
    match matches.as_slice() {
        [one] => Ok(one),
        [] => Err(SelectError::Unknown { wanted: wanted.to_owned(), nearest: nearest(wanted, pods) }),
        several => Err(SelectError::Ambiguous {
            wanted: wanted.to_owned(),
            candidates: several.iter().map(ToString::to_string).collect(),
        }),
    }
}

fn nearest(wanted: &str, pods: &[PodKey]) -> Option<String> {
    let names = pods.iter().map(|p| if wanted.contains('/') { p.full_name() } else { p.name.to_string() });
    names
        .map(|name| (strsim::jaro_winkler(wanted, &name), name))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use minke_core::identity::PodUid;

    use super::*;

    fn key(namespace: &str, name: &str, uid: &str) -> PodKey {
        PodKey::new(namespace, name, PodUid::new(uid).unwrap())
    }

    fn pods() -> Vec<PodKey> {
        vec![
            key("default", "web", "1111aaaa"),
            key("default", "db", "1111bbbb"),
            key("shop", "web", "2222cccc"),
            key("shop", "cache", "abcd0000"),
            key("shop", "abcd", "9999dddd"),
        ]
    }

    #[test]
    fn a_name_or_a_full_name_or_the_beginning_of_a_uid() {
        let pods = pods();
        let found = |wanted: &str| select(wanted, &pods).map(|k| k.uid.to_string());
        assert_eq!(found("db"), Ok("1111bbbb".to_owned()));
        assert_eq!(found("shop/web"), Ok("2222cccc".to_owned()));
        assert_eq!(found("2222"), Ok("2222cccc".to_owned()));
        assert_eq!(found("1111aaaa"), Ok("1111aaaa".to_owned()));
    }

    #[test]
    fn a_whole_name_wins_over_the_beginning_of_a_uid() {
        assert_eq!(select("abcd", &pods()).map(|k| k.uid.to_string()), Ok("9999dddd".to_owned()));
    }

    #[test]
    fn ambiguity_lists_the_candidates() {
        let error = select("web", &pods()).unwrap_err().to_string();
        assert!(error.contains("default/web (1111aaaa) or shop/web (2222cccc)"), "{error}");
        assert!(matches!(select("1111", &pods()), Err(SelectError::Ambiguous { .. })));
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let nearest = |wanted: &str| match select(wanted, &pods()) {
            Err(SelectError::Unknown { nearest, .. }) => nearest,
            other => panic!("{other:?}"),
        };
        assert_eq!(nearest("cahce"), Some("cache".to_owned()));
        assert_eq!(nearest("shop/wbe"), Some("shop/web".to_owned()));
        assert_eq!(nearest("zzz"), None);
    }

    #[test]
    fn short_prefixes_of_uids_do_not_match_by_accident() {
        assert!(matches!(select("222", &pods()), Err(SelectError::Unknown { .. })));
        assert!(select("", &pods()).is_err());
    }
}
