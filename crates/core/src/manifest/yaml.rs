//! YAML texts to trees.
//!
//! Events of the parser become nodes on an explicit stack, so nesting costs no stack of ours. Aliases are replaced by
//! copies of what they stand for; the [`Budget`] counts the copies, so a few lines can't become gigabytes.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};

use super::limits::MAX_DEPTH;
use super::position::Position;
use super::scalar;
use super::syntax::{Budget, SyntaxError};
use super::tree::{Entry, Node, Number, Value};

/// The documents of a YAML text, one after the other. After an error there is nothing more.
pub(super) struct Documents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    budget: Budget,
    anchors: HashMap<usize, Node>,
    ended: bool,
}

impl<'a> Documents<'a> {
    /// `text` has no control characters that YAML does not allow, see [`forbidden_character`].
    pub(super) fn new(text: &'a str) -> Self {
        Self { parser: Parser::new_from_str(text), budget: Budget::new(), anchors: HashMap::new(), ended: false }
    }

    fn next_document(&mut self) -> Result<Option<Node>, SyntaxError> {
        let mut stack: Vec<Frame> = Vec::new();
        let mut root = None;
        while let Some(event) = self.parser.next_event() {
            let (event, span) = event.map_err(|error| scan_error(&error))?;
            let at = position(span.start);
            let (node, anchor) = match event {
                Event::Nothing | Event::StreamStart => continue,
                Event::StreamEnd => return Ok(None),
                Event::DocumentStart(_) => {
                    self.anchors.clear();
                    continue;
                }
                Event::DocumentEnd => return Ok(root),
                Event::SequenceStart(anchor, tag) => {
                    expect_tag(tag, "seq", at)?;
                    open(&mut stack, Frame::List { items: Vec::new(), at, anchor })?;
                    continue;
                }
                Event::MappingStart(anchor, tag) => {
                    expect_tag(tag, "map", at)?;
                    open(&mut stack, Frame::Map { entries: Vec::new(), merges: Vec::new(), key: None, at, anchor })?;
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => match stack.pop() {
                    Some(frame) => frame.close(&mut self.budget)?,
                    None => return Err(SyntaxError::new(at, "unexpected end of a list or object")),
                },
                Event::Scalar(text, style, anchor, tag) => {
                    if let Some(Frame::Map { key: key @ None, .. }) = stack.last_mut() {
                        // Kept as written: `<<` and `"<<"` differ, and `8080:` is the key "8080".
                        let merge = text == "<<" && style == ScalarStyle::Plain && tag.is_none();
                        let node = Node::new(scalar_value(text, style, tag, at)?, at);
                        self.remember(anchor, &node)?;
                        *key = Some(Key { text: key_text(node)?, at, merge });
                        continue;
                    }
                    (Node::new(scalar_value(text, style, tag, at)?, at), anchor)
                }
                Event::Alias(anchor) => {
                    let node = self.expand(anchor, stack.len(), at)?;
                    if let Some(Frame::Map { key: key @ None, .. }) = stack.last_mut() {
                        *key = Some(Key { text: key_text(node)?, at, merge: false });
                        continue;
                    }
                    (node, 0)
                }
            };
            self.budget.spend(1, node.at)?;
            self.remember(anchor, &node)?;
            match stack.last_mut() {
                Some(frame) => frame.add(node),
                None => root = Some(node),
            }
        }
        Ok(None)
    }

    fn remember(&mut self, anchor: usize, node: &Node) -> Result<(), SyntaxError> {
        if anchor != 0 {
            self.budget.spend(node.measure().0, node.at)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(())
    }

    fn expand(&mut self, anchor: usize, depth: usize, at: Position) -> Result<Node, SyntaxError> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(SyntaxError::new(at, "this alias stands for nothing, or for something that contains it"));
        };
        let (count, levels) = node.measure();
        self.budget.spend(count, at)?;
        if depth + levels > MAX_DEPTH {
            return Err(SyntaxError::too_deep(at));
        }
        Ok(node.clone())
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Node, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let document = self.next_document().transpose();
        self.ended = !matches!(document, Some(Ok(_)));
        document
    }
}

/// A list or object that is not complete yet.
enum Frame {
    List { items: Vec<Node>, at: Position, anchor: usize },
    Map { entries: Vec<Entry>, merges: Vec<Node>, key: Option<Key>, at: Position, anchor: usize },
}

struct Key {
    text: String,
    at: Position,
    /// `<<`: the value's own entries count as if they stood here.
    merge: bool,
}

impl Frame {
    fn add(&mut self, node: Node) {
        match self {
            Self::List { items, .. } => items.push(node),
            Self::Map { entries, merges, key, .. } => match key.take() {
                Some(Key { merge: true, .. }) => merges.push(node),
                Some(Key { text, at, merge: false }) => entries.push(Entry { key: text, at, value: node }),
                // Keys never come here: scalars and aliases are taken before, collections are refused by `open`.
                None => {}
            },
        }
    }

    fn close(self, budget: &mut Budget) -> Result<(Node, usize), SyntaxError> {
        match self {
            Self::List { items, at, anchor } => Ok((Node::new(Value::List(items), at), anchor)),
            Self::Map { mut entries, merges, key: _, at, anchor } => {
                for merge in merges {
                    merge_into(&mut entries, merge, budget)?;
                }
                Ok((Node::new(Value::Map(entries), at), anchor))
            }
        }
    }
}

fn open(stack: &mut Vec<Frame>, frame: Frame) -> Result<(), SyntaxError> {
    let at = match &frame {
        Frame::List { at, .. } | Frame::Map { at, .. } => *at,
    };
    if let Some(Frame::Map { key: None, .. }) = stack.last() {
        return Err(SyntaxError::new(at, "a list or an object can't be a key"));
    }
    if stack.len() >= MAX_DEPTH {
        return Err(SyntaxError::too_deep(at));
    }
    stack.push(frame);
    Ok(())
}

/// Adds the entries of what `<<` names, an object or a list of them; what is there already wins.
fn merge_into(entries: &mut Vec<Entry>, merge: Node, budget: &mut Budget) -> Result<(), SyntaxError> {
    let wrong = |at| SyntaxError::new(at, "`<<` takes an object or a list of objects");
    match merge.value {
        Value::Map(found) => {
            for entry in found {
                // Quadratic only in the entries of one object, which the budget bounds.
                budget.spend(1 + entries.len() / 64, merge.at)?;
                if !entries.iter().any(|there| there.key == entry.key) {
                    entries.push(entry);
                }
            }
            Ok(())
        }
        Value::List(items) => items.into_iter().try_for_each(|item| match item.value {
            Value::Map(_) => merge_into(entries, item, budget),
            Value::Null | Value::Bool(..) | Value::Number(..) | Value::String(_) | Value::List(_) => {
                Err(wrong(item.at))
            }
        }),
        Value::Null | Value::Bool(..) | Value::Number(..) | Value::String(_) => Err(wrong(merge.at)),
    }
}

fn key_text(node: Node) -> Result<String, SyntaxError> {
    match node.value {
        Value::String(text) => Ok(text),
        Value::Bool(value, _) => Ok(value.to_string()),
        Value::Number(Number::Int(value), _) => Ok(value.to_string()),
        Value::Number(Number::UInt(value), _) => Ok(value.to_string()),
        Value::Number(Number::Float(_), text) => Ok(text.into()),
        Value::Null => Err(SyntaxError::new(node.at, "a key is empty")),
        Value::List(_) | Value::Map(_) => Err(SyntaxError::new(node.at, "a list or an object can't be a key")),
    }
}

fn expect_tag(tag: Option<Cow<'_, Tag>>, expected: &str, at: Position) -> Result<(), SyntaxError> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == expected) => Err(unknown_tag(&tag, at)),
        Some(_) | None => Ok(()),
    }
}

fn unknown_tag(tag: &Tag, at: Position) -> SyntaxError {
    SyntaxError::new(at, format!("the tag {tag} is not understood")).hint("leave it out")
}

fn scalar_value(
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<Cow<'_, Tag>>,
    at: Position,
) -> Result<Value, SyntaxError> {
    let Some(tag) = tag else {
        return Ok(match style {
            ScalarStyle::Plain => scalar::resolve(&text),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted | ScalarStyle::Literal | ScalarStyle::Folded => {
                Value::String(text.into_owned())
            }
        });
    };
    if !tag.is_yaml_core_schema() {
        // A lone `!` says "not resolved": a text.
        let lone = tag.handle.is_empty() && tag.suffix == "!";
        return if lone { Ok(Value::String(text.into_owned())) } else { Err(unknown_tag(&tag, at)) };
    }
    let resolved = scalar::resolve(&text);
    match (tag.suffix.as_str(), resolved) {
        ("str", _) => Ok(Value::String(text.into_owned())),
        ("null", Value::Null) => Ok(Value::Null),
        ("bool", value @ Value::Bool(..)) => Ok(value),
        ("int", value @ Value::Number(Number::Int(_) | Number::UInt(_), _)) => Ok(value),
        ("float", Value::Number(Number::Int(value), text)) => Ok(Value::Number(Number::Float(value as f64), text)),
        ("float", value @ Value::Number(..)) => Ok(value),
        ("null" | "bool" | "int" | "float", _) => {
            Err(SyntaxError::new(at, format!("this is not what its tag !!{} says", tag.suffix)))
        }
        _ => Err(unknown_tag(&tag, at)),
    }
}

/// The first character that YAML does not allow in a text, if there is one. The parser takes NUL for the end.
pub(super) fn forbidden_character(text: &str) -> Option<(usize, char)> {
    let allowed = |c: char| match c {
        '\t' | '\n' | '\r' | '\u{85}' => true,
        '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        c => !c.is_control(),
    };
    text.char_indices().find(|(_, c)| !allowed(*c))
}

fn position(mark: Marker) -> Position {
    Position::new(mark.line(), mark.col() + 1)
}

fn scan_error(error: &ScanError) -> SyntaxError {
    let info = error.info();
    let found = SyntaxError::new(position(*error.marker()), info);
    if info.contains("recursion limit") {
        return SyntaxError::too_deep(found.at);
    }
    if info.contains("tab") {
        return found.hint("indent with spaces, not tabs");
    }
    found
}
