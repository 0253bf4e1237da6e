//! One read of all texts: documents in, groups and objects out, every problem in the report.
//!
//! ```text
//! text ─► documents ─► objects (lists opened) ─► decode ─► defaults ─► validation ─► names, uids, groups
//! ```
//! `objects` has the steps of each kind, `ledger` what is known of names and numbers so far. A step that finds an error ends the way of its object; the other objects go on, so that all problems come out.

mod ledger;
mod objects;

use std::collections::HashMap;
use std::sync::Arc;

use super::diagnostic::Severity;
use super::duplicates::duplicates;
use super::kind::{Kind, Recognized, recognize, unknown_list_fields};
use super::limits::MAX_BYTES;
use super::manifests::{Input, Invalid, Manifests, PodGroup, Validate};
use super::report::{Place, Report};
use super::source_text::SourceText;
use super::syntax::SyntaxError;
use super::tree::{Node, Value};
use super::{json, yaml};
use crate::objects::ObjectSet;
use crate::validation::FieldPath;

pub(super) struct Session {
    report: Report,
    groups: Vec<PodGroup>,
    objects: ObjectSet,
    pods: usize,
    /// Where each object was first seen, by kind, namespace and name; uids of Pods as well.
    seen: HashMap<(&'static str, String), String>,
    /// How often the same content asked for a generated name.
    generated: HashMap<String, usize>,
}

impl Session {
    pub(super) fn new(validate: Validate) -> Self {
        Self {
            report: Report::new(validate),
            groups: Vec::new(),
            objects: ObjectSet::default(),
            pods: 0,
            seen: HashMap::new(),
            generated: HashMap::new(),
        }
    }

    pub(super) fn read(&mut self, input: &Input) {
        let mark = self.report.mark();
        match SourceText::of(input, MAX_BYTES) {
            Ok(source) => self.text(&source),
            Err(found) => self.report.add(*found),
        }
        self.report.sort_since(mark);
    }

    pub(super) fn finish(mut self) -> Result<Manifests, Invalid> {
        if self.report.has_errors() {
            let errors = std::mem::take(&mut self.report.errors);
            return Err(Invalid { errors, unlisted: self.report.unlisted, warnings: self.report.into_warnings() });
        }
        let warnings = self.report.into_warnings();
        Ok(Manifests { groups: self.groups, objects: Arc::new(self.objects), warnings })
    }

    fn text(&mut self, source: &SourceText<'_>) {
        if source.text.trim_start().starts_with(['{', '[']) {
            match json_or_flow_yaml(source.text) {
                Ok(documents) => documents.iter().for_each(|document| self.document(source, document)),
                Err(error) => self.report.add(source.syntax(error)),
            }
            return;
        }
        if let Some((offset, character)) = yaml::forbidden_character(source.text) {
            let message = format!("the character U+{:04X} is not allowed in YAML", u32::from(character));
            self.report.add(source.syntax(SyntaxError::new(source.position_of(offset), message)));
            return;
        }
        for document in yaml::Documents::new(source.text) {
            match document {
                Ok(document) => self.document(source, &document),
                Err(error) => self.report.add(source.syntax(error)),
            }
        }
    }

    fn document(&mut self, source: &SourceText<'_>, document: &Node) {
        if document.value == Value::Null {
            return;
        }
        let root = FieldPath::root();
        let place = Place { source, node: document, base: &root, confidential: speaks_of_secrets(document) };
        for finding in duplicates(document) {
            self.report.add_finding(finding, &place);
        }
        self.node(&place, None);
    }

    /// An object, or a list of them.
    fn node(&mut self, place: &Place<'_>, implied: Option<Kind>) {
        match recognize(place.node, implied) {
            Ok(Recognized::Object(kind)) => {
                let place = Place { confidential: kind == Kind::Secret, ..*place };
                self.object(&place, kind);
            }
            Ok(Recognized::List(item)) => self.list(place, item),
            Err(problem) => {
                let path = place.base.join(&problem.path);
                let found = place.at_position(Severity::Error, problem.at, &path, problem.message, problem.hint);
                self.report.add(found);
            }
        }
    }

    /// A list may hold lists; the limit on nesting bounds that.
    fn list(&mut self, place: &Place<'_>, item: Option<Kind>) {
        for finding in unknown_list_fields(place.node, place.base) {
            self.report.add_finding(finding, place);
        }
        let items = FieldPath::of("items");
        match place.node.get("items").map(|items| &items.value) {
            None | Some(Value::Null) => {}
            Some(Value::List(nodes)) => {
                for (i, node) in nodes.iter().enumerate() {
                    let base = place.base.join(&items.index(i));
                    self.node(&Place { node, base: &base, ..*place }, item);
                }
            }
            Some(Value::Bool(..) | Value::Number(..) | Value::String(_) | Value::Map(_)) => {
                self.report.add(place.at_field(Severity::Error, &items, "must be a list".to_owned(), None));
            }
        }
    }
}

/// JSON, or YAML in flow style, or JSON objects with `---` between them. If it is none, the reader that came further
/// knows more about what is wrong.
fn json_or_flow_yaml(text: &str) -> Result<Vec<Node>, SyntaxError> {
    let error = match json::Documents::new(text).collect::<Result<_, _>>() {
        Ok(documents) => return Ok(documents),
        Err(error) => error,
    };
    if error.limit || yaml::forbidden_character(text).is_some() {
        return Err(error);
    }
    yaml::Documents::new(text)
        .collect::<Result<_, _>>()
        .map_err(|other| if other.at > error.at { other } else { error })
}

/// Whether a document is a Secret or a list with one, by its words: it may be too broken to be decoded.
fn speaks_of_secrets(document: &Node) -> bool {
    let is_secret = |node: &Node| node.get("kind").and_then(Node::as_str).is_some_and(|kind| kind.contains("Secret"));
    match document.get("items").map(|items| &items.value) {
        Some(Value::List(items)) => is_secret(document) || items.iter().any(is_secret),
        None | Some(Value::Null | Value::Bool(..) | Value::Number(..) | Value::String(_) | Value::Map(_)) => {
            is_secret(document)
        }
    }
}
