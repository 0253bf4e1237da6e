//! Every difference that is meant, with its reason.

use super::compare::Difference;

/// A difference that is meant.
#[derive(Debug)]
pub(super) struct Known {
    /// The steps.
    steps: &'static [&'static str],
    /// How the places begin.
    places: &'static [&'static str],
    /// What differs, as people read it.
    what: &'static str,
    why: &'static str,
}

impl Known {
    pub(super) fn covers(&self, difference: &Difference) -> bool {
        self.steps.contains(&difference.step) && self.places.iter().any(|place| difference.place.starts_with(place))
    }
}

/// In the order of the document.
pub(super) const KNOWN: &[Known] = &[
    Known {
        steps: &["create a Node"],
        places: &["body.spec.taints"],
        what: "a new Node has no `not-ready` taint",
        why: "its condition counts as that taint for the scheduler",
    },
    Known {
        steps: &["delete it at once"],
        places: &["body.metadata.deletionGracePeriodSeconds"],
        what: "what goes at once is answered as it was, without the grace period of its end",
        why: "watchers are told the last state that there was",
    },
    Known {
        steps: &["create a Namespace"],
        places: &["body.metadata.managedFields"],
        what: "who creates a Namespace owns its finalizers",
        why: "they are set before ownership is written down",
    },
    Known {
        steps: &["list custom objects"],
        places: &["body.items[0].metadata.managedFields"],
        what: "who writes a scale owns the field in the object, not in its `scale`",
        why: "a scale is written as the object that it is",
    },
    Known {
        steps: &["list by label", "list by field"],
        places: &["body.items"],
        what: "objects in lists say their `apiVersion` and `kind`",
        why: "bytes are answered as they are stored",
    },
    Known {
        steps: &["dry run", "an unknown field, with a warning"],
        places: &["body.metadata.resourceVersion"],
        what: "a new object of a dry run has the revision 0",
        why: "it has none that anything could be based on",
    },
    Known {
        steps: &["resources of its group"],
        places: &["body.resources[0].storageVersionHash"],
        what: "no `storageVersionHash` in discovery",
        why: "it is for migrations of storage among several servers",
    },
    Known {
        steps: &["a revision in what is new"],
        places: &["code", "body.code", "body.reason"],
        what: "400 instead of 500 for a new object with a revision",
        why: "it is the client's mistake",
    },
    Known {
        steps: &["create a custom object of wrong types"],
        places: &["body.details.causes", "body.message"],
        what: "no second sentence about a number of replicas that is none",
        why: "the first one names the field and the type",
    },
    Known {
        steps: &["change what stays"],
        places: &["body.message", "body.details.causes"],
        what: "no diff of Go structs behind the sentence about what may change in a Pod",
        why: "its field names are not those of the API",
    },
    Known {
        steps: &["a name that is none", "create a Pod that is wrong"],
        places: &["body.message", "body.details.causes"],
        what: "sentences about names are shorter, without an example and the regular expression",
        why: "the rule is told in words",
    },
    Known {
        steps: &["a wrong type"],
        places: &["body.message"],
        what: "a value of the wrong type in a map is named with its key",
        why: "so it is found",
    },
    Known {
        steps: &["another kind than the path's", "no JSON", "a continue token that is none", "an unknown dry run"],
        places: &["body.message", "body.details.kind"],
        what: "other words for a body of another kind or without JSON, a token that is none, an unknown `dryRun`",
        why: "upstream's name Go's decoder and its types",
    },
];

/// `docs/api-differences.md`.
pub(super) fn document() -> String {
    let mut text = "# Differences from kube-apiserver\n\n\
        What answers of `minke api` differ in from those of kube-apiserver v1.37, for the requests of the differential test\n\
        (`crates/apiserver/tests/front/differential`), which fails for any other difference, and for one that is listed and does\n\
        not occur. Made from the test's table. What is absent as a whole is in [api.md](api.md#what-is-not-there); patches and\n\
        decoding have rows of their own in [deviations.md](deviations.md#patches-and-bodies-of-the-embedded-api).\n\n\
        | what differs | why |\n|---|---|\n"
        .to_owned();
    for known in KNOWN {
        text.push_str(&format!("| {} | {} |\n", known.what, known.why));
    }
    text
}
