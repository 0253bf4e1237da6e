//! What a decode notes on its way.

use std::collections::HashSet;
use std::fmt;

use serde::de;

use super::suggest::nearest;
use crate::manifest::limits::MAX_FINDINGS;
use crate::manifest::position::Position;
use crate::manifest::tree::{Entry, Node};
use crate::validation::FieldPath;

/// The kinds of problem, which `--validate` treats differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::manifest) enum Problem {
    /// The type has no such field.
    Unknown,
    /// The field is given twice.
    Duplicate,
    /// The value does not fit the field.
    Mistyped,
}

/// One problem and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::manifest) struct Finding {
    pub(in crate::manifest) problem: Problem,
    pub(in crate::manifest) at: Position,
    pub(in crate::manifest) path: FieldPath,
    pub(in crate::manifest) message: String,
    pub(in crate::manifest) hint: Option<String>,
}

impl Finding {
    /// An entry whose key is none of the known ones.
    pub(in crate::manifest) fn unknown(entry: &Entry, path: FieldPath, known: &[&'static str]) -> Self {
        let hint = nearest(&entry.key, known.iter().copied()).map(|name| format!("did you mean {name:?}?"));
        let message = format!("unknown field {:?}", shortened(&entry.key));
        Self { problem: Problem::Unknown, at: entry.at, path, message, hint }
    }
}

/// Longest text of a manifest that a message repeats, in characters.
pub(super) const MAX_SHOWN: usize = 40;

fn shortened(key: &str) -> String {
    if key.chars().count() <= MAX_SHOWN { key.to_owned() } else { key.chars().take(MAX_SHOWN).chain(['…']).collect() }
}

/// A value that its type refused, which ends a round of decoding.
#[derive(Debug)]
pub(super) struct Refused {
    message: String,
    /// The value, by its address in the tree; set by the innermost list or object that holds it.
    node: Option<NodeId>,
}

/// A node by identity: copies made of an alias have the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(*const Node);

impl NodeId {
    pub(super) fn of(node: &Node) -> Self {
        Self(std::ptr::from_ref(node))
    }
}

impl Refused {
    /// Whether some value is blamed already.
    pub(super) fn is_placed(&self) -> bool {
        self.node.is_some()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), node: None }
    }
}

/// Everything noted so far.
pub(super) struct Notes {
    /// Values must not appear in messages.
    confidential: bool,
    /// Noted in this round; the next one finds them again.
    round: Vec<Finding>,
    /// About values set aside.
    kept: Vec<Finding>,
    set_aside: HashSet<NodeId>,
    /// How many problems of this round are not in `round`.
    dropped: usize,
}

impl Notes {
    pub(super) fn new(confidential: bool) -> Self {
        Self { confidential, round: Vec::new(), kept: Vec::new(), set_aside: HashSet::new(), dropped: 0 }
    }

    pub(super) fn confidential(&self) -> bool {
        self.confidential
    }

    /// Notes a problem. Of one kind only so many are kept that all the rest is sure to go unlisted.
    pub(super) fn note(&mut self, finding: Finding) {
        if self.round.iter().filter(|noted| noted.problem == finding.problem).count() <= MAX_FINDINGS {
            self.round.push(finding);
        } else {
            self.dropped += 1;
        }
    }

    pub(super) fn is_set_aside(&self, node: &Node) -> bool {
        !self.set_aside.is_empty() && self.set_aside.contains(&NodeId::of(node))
    }

    /// Blames a value for a refusal, unless something in it is blamed already.
    pub(super) fn blame(&mut self, mut refused: Refused, node: &Node, path: impl FnOnce() -> FieldPath) -> Refused {
        if !refused.is_placed() {
            refused.node = Some(NodeId::of(node));
            let path = path();
            let known = self.round.iter().chain(&self.kept).any(|f| f.at == node.at && f.path == path);
            if !known {
                let way_out = if self.confidential {
                    "encode it, or write the text itself under stringData"
                } else {
                    "encode it with base64"
                };
                let hint = refused.message.contains("base64").then(|| way_out.to_owned());
                let message = std::mem::take(&mut refused.message);
                self.kept.push(Finding { problem: Problem::Mistyped, at: node.at, path, message, hint });
            } else {
                self.kept.extend(self.round.iter().filter(|f| f.at == node.at && f.path == path).cloned());
            }
        }
        refused
    }

    /// Prepares the next round without the refused value; false when there is nothing to gain from one.
    pub(super) fn set_aside(&mut self, refused: Refused, root: &Node, base: &FieldPath) -> bool {
        let refused = self.blame(refused, root, || base.clone());
        let Some(id) = refused.node else { return false };
        if id == NodeId::of(root) || !self.set_aside.insert(id) {
            return false;
        }
        self.round.clear();
        self.dropped = 0;
        true
    }

    /// All findings in the order of the source, and how many more there are.
    pub(super) fn into_findings(self) -> (Vec<Finding>, usize) {
        let dropped = self.dropped;
        let mut findings = self.round;
        findings.extend(self.kept);
        findings.sort_by_key(|finding| finding.at);
        let mut seen = HashSet::new();
        findings.retain(|f| seen.insert((f.at, f.path.clone(), f.problem)));
        (findings, dropped)
    }
}
