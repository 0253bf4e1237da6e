//! Label and field selectors: parsed from a query, matched against what the store keeps beside objects.

use crate::error::ApiError;
use crate::kinds::Kind;
use crate::store::Attributes;

/// What is asked of one label.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    /// A number above this one.
    Above(String, i64),
    /// A number below this one.
    Below(String, i64),
}

/// `a=b,c!=d,e in (f,g),h,!i,j>1`: all of them hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

/// `spec.nodeName=n,status.phase!=Running`: all of them hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<(String, bool, String)>);

/// Both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/')
}

struct Parser<'a>(&'a str);

impl<'a> Parser<'a> {
    fn skip(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip();
        match self.0.strip_prefix(token) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        self.skip();
        let end = self.0.find(|c| !is_key_char(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    fn key(&mut self) -> Result<String, String> {
        match self.word() {
            "" => Err(format!("found '{}', expected: identifier", self.0)),
            key if key.rsplit('/').next().is_none_or(|name| name.is_empty() || name.len() > 63) || key.len() > 317 => {
                Err(format!("{key:?} is no label key"))
            }
            key => Ok(key.to_owned()),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        let value = self.word();
        if value.len() > 63 || value.contains('/') {
            return Err(format!("values: Invalid value: {value:?}: is no label value"));
        }
        Ok(value.to_owned())
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        value.parse().map_err(|_| format!("values[0]: Invalid value: {value:?}: {why}"))
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        if !self.take("(") {
            return Err(format!("found '{}', expected: '('", self.0));
        }
        let mut values = vec![self.value()?];
        while self.take(",") {
            values.push(self.value()?);
        }
        if !self.take(")") {
            return Err(format!("found '{}', expected: ',' or ')'", self.0));
        }
        Ok(values)
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.take("!") {
            return Ok(Requirement::Absent(self.key()?));
        }
        let key = self.key()?;
        self.skip();
        // Longer operators first.
        if self.take("!=") {
            return Ok(Requirement::NotIn(key, vec![self.value()?]));
        }
        if self.take("==") || self.take("=") {
            return Ok(Requirement::In(key, vec![self.value()?]));
        }
        if self.take(">") {
            return Ok(Requirement::Above(key, self.number()?));
        }
        if self.take("<") {
            return Ok(Requirement::Below(key, self.number()?));
        }
        if self.0.is_empty() || self.0.starts_with(',') {
            return Ok(Requirement::Exists(key));
        }
        match self.word() {
            "in" => Ok(Requirement::In(key, self.set()?)),
            "notin" => Ok(Requirement::NotIn(key, self.set()?)),
            other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }
}

impl LabelSelector {
    /// From a query; empty selects everything.
    ///
    /// # Errors
    /// 400 with what was found where something else was expected.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let refuse = |why: String| ApiError::bad_request(format!("unable to parse requirement: {why}"));
        let mut parser = Parser(text);
        parser.skip();
        let mut requirements = Vec::new();
        if parser.0.is_empty() {
            return Ok(Self(requirements));
        }
        loop {
            requirements.push(parser.requirement().map_err(refuse)?);
            if !parser.take(",") {
                break;
            }
        }
        parser.skip();
        match parser.0 {
            "" => Ok(Self(requirements)),
            rest => Err(refuse(format!("found '{rest}', expected: ',' or 'end of string'"))),
        }
    }

    fn matches(&self, attributes: &Attributes) -> bool {
        let number = |key: &str| attributes.label(key).and_then(|value| value.parse::<i64>().ok());
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => attributes.label(key).is_some_and(|v| values.iter().any(|x| x == v)),
            // What has no such label has none of the values.
            Requirement::NotIn(key, values) => attributes.label(key).is_none_or(|v| values.iter().all(|x| x != v)),
            Requirement::Exists(key) => attributes.label(key).is_some(),
            Requirement::Absent(key) => attributes.label(key).is_none(),
            Requirement::Above(key, least) => number(key).is_some_and(|number| number > *least),
            Requirement::Below(key, most) => number(key).is_some_and(|number| number < *most),
        })
    }
}

impl FieldSelector {
    /// From a query, for this kind.
    ///
    /// # Errors
    /// 400: not a selector, or a field that the kind can't be selected by.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for term in split(text) {
            let (field, equal, value) = if let Some((field, value)) = term.split_once("!=") {
                (field, false, value)
            } else if let Some((field, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
                (field, true, value)
            } else {
                let message = format!("invalid selector: '{text}'; can't understand '{term}'");
                return Err(ApiError::bad_request(message));
            };
            if !kind.selects(field) {
                // Two of upstream's sentences: kinds with fields of their own, and those with the usual ones alone.
                let message = match kind.selectable.is_empty() && kind.slot.is_none() {
                    true => {
                        format!(
                            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                        )
                    }
                    false => format!("field label not supported: {field}"),
                };
                return Err(ApiError::bad_request(message));
            }
            terms.push((kind.attribute(field).to_owned(), equal, unescape(value)));
        }
        Ok(Self(terms))
    }

    fn matches(&self, namespace: &str, name: &str, attributes: &Attributes) -> bool {
        self.0.iter().all(|(field, equal, value)| {
            let found = match field.as_str() {
                "metadata.name" => name,
                "metadata.namespace" => namespace,
                field => attributes.field(field),
            };
            (found == value) == *equal
        })
    }
}

/// The terms between commas that no backslash precedes.
fn split(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms.retain(|term| !term.is_empty());
    terms
}

fn unescape(value: &str) -> String {
    let (mut out, mut escaped) = (String::with_capacity(value.len()), false);
    for c in value.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(c);
            escaped = false;
        }
    }
    out
}

impl Selection {
    /// Whether it selects this object.
    #[must_use]
    pub fn matches(&self, namespace: &str, name: &str, attributes: &Attributes) -> bool {
        self.labels.matches(attributes) && self.fields.matches(namespace, name, attributes)
    }

    /// Whether it selects everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.0.is_empty() && self.fields.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::find;

    fn labels(labels: &[(&str, &str)]) -> Attributes {
        Attributes { labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(), ..Attributes::default() }
    }

    #[test]
    fn label_selectors_select_as_upstream_documents_it() {
        let object = labels(&[("app", "web"), ("tier", "front"), ("empty", ""), ("size", "7")]);
        for yes in [
            "",
            "app=web",
            "app==web",
            "app = web , tier=front",
            "app!=db",
            "nope!=x",
            "app in (db, web)",
            "app notin (db)",
            "nope notin (x)",
            "app",
            "!nope",
            "empty=",
            "empty in ()",
            "app in (web),!nope,tier",
            "size>6,size<8",
        ] {
            assert!(LabelSelector::parse(yes).unwrap().matches(&object), "{yes}");
        }
        for no in [
            "app=db",
            "nope=x",
            "nope",
            "!app",
            "app notin (web)",
            "app in (db),tier",
            "nope in ()",
            "size>7",
            "size<7",
            "app>1",
            "nope<9",
        ] {
            assert!(!LabelSelector::parse(no).unwrap().matches(&object), "{no}");
        }
        for bad in
            ["=x", "a in b", "a in (b", "a b", "a,,b", "a=b c", "a=b,", "(", "a=(b)", "a in (b,c) d", "a>b", "a<"]
        {
            assert!(LabelSelector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn field_selectors_know_their_kinds_fields() {
        let pods = find("", "v1", "pods").unwrap();
        let parse = |text: &str| FieldSelector::parse(text, pods);
        let object = Attributes { fields: vec![("spec.nodeName".into(), "n,1".into())], ..Attributes::default() };
        for yes in
            ["metadata.name=p", "metadata.namespace==ns,metadata.name=p", r"spec.nodeName=n\,1", "status.phase!=x"]
        {
            assert!(parse(yes).unwrap().matches("ns", "p", &object), "{yes}");
        }
        for no in ["metadata.name=q", "spec.nodeName=", "metadata.namespace!=ns"] {
            assert!(!parse(no).unwrap().matches("ns", "p", &object), "{no}");
        }
        let error = parse("spec.foo=x").unwrap_err();
        assert_eq!(error.code(), 400);
        assert!(error.to_string().ends_with("field label not supported: spec.foo"), "{error}");
        assert!(parse("metadata.name").is_err());
    }
}
