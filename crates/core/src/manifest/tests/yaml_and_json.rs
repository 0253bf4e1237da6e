//! Texts to trees: positions, strings, and what YAML can do.

use proptest::prelude::*;

use super::super::position::Position;
use super::super::tree::{Node, Number, Value};
use super::super::{json, yaml};
use crate::validation::FieldPath;

fn yaml_documents(text: &str) -> Vec<Node> {
    yaml::Documents::new(text).collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{e} at {} in {text:?}", e.at))
}

fn yaml(text: &str) -> Node {
    let mut documents = yaml_documents(text);
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

fn json(text: &str) -> Node {
    let mut documents: Vec<Node> =
        json::Documents::new(text).collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{e} at {}", e.at));
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

fn json_error(text: &str) -> (String, String) {
    let error = json::Documents::new(text).collect::<Result<Vec<_>, _>>().unwrap_err();
    (error.at.to_string(), error.message)
}

fn place(node: &Node, path: &FieldPath) -> String {
    node.locate(path).to_string()
}

/// Without positions and spellings.
fn plain(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value, _) => (*value).into(),
        Value::Number(Number::Int(value), _) => (*value).into(),
        Value::Number(Number::UInt(value), _) => (*value).into(),
        Value::Number(Number::Float(value), _) => (*value).into(),
        Value::String(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(plain).collect(),
        Value::Map(entries) => entries.iter().map(|e| (e.key.clone(), plain(&e.value))).collect(),
    }
}

#[test]
fn positions_count_lines_and_characters() {
    for text in ["a: 1\nb:\n- c\n- dé: [x, ü: y]\n", "a: 1\r\nb:\r\n- c\r\n- dé: [x, ü: y]\r\n"] {
        let node = yaml(text);
        let b = FieldPath::of("b");
        assert_eq!(place(&node, &FieldPath::of("a")), "1:4");
        assert_eq!(place(&node, &b.index(0)), "3:3");
        assert_eq!(place(&node, &b.index(1).key("dé").index(0)), "4:8");
        assert_eq!(place(&node, &b.index(1).key("dé").index(1).key("ü")), "4:14");
    }
    let node = json("{\"a\": 1,\r\n\t\"b\": [\"ü\", {\"c\":true}]}");
    let b = FieldPath::of("b");
    assert_eq!(place(&node, &FieldPath::of("a")), "1:7");
    assert_eq!(place(&node, &b), "2:2", "the key of what holds others");
    assert_eq!(place(&node, &b.index(0)), "2:8");
    assert_eq!(place(&node, &b.index(1).field("c")), "2:18");
}

#[test]
fn an_absent_field_is_where_it_should_be() {
    let node = yaml("spec:\n  containers:\n  - name: a\n");
    let containers = FieldPath::of("spec").field("containers");
    assert_eq!(place(&node, &containers.index(0).field("image")), "3:5");
    assert_eq!(place(&node, &containers.index(7).field("image")), "2:3");
    assert_eq!(place(&node, &FieldPath::of("spec").field("volumes").index(0)), "1:1");
    assert_eq!(place(&node, &FieldPath::of("metadata")), "1:1");
}

#[test]
fn positions_go_on_over_documents() {
    let documents = yaml_documents("a: 1\n---\nb: 2\n---\n# c\nc: 3\n");
    let places: Vec<String> = documents.iter().map(|d| d.at.to_string()).collect();
    assert_eq!(places, ["1:1", "3:1", "6:1"]);
}

#[test]
fn block_scalars_and_quotes() {
    let node =
        yaml("lit: |\n  a\n   b\nfold: >-\n  a\n  b\nsq: 'it''s'\ndq: \"a\\tb\\u00e9\\U0001F600\"\nplain: a # c\n");
    let expected = serde_json::json!({"lit": "a\n b\n", "fold": "a b", "sq": "it's", "dq": "a\tbé😀", "plain": "a"});
    assert_eq!(plain(&node), expected);
}

#[test]
fn quoted_words_and_numbers_are_texts() {
    let node = yaml("a: \"yes\"\nb: '8080'\nc: |-\n  12\nd: !!str 5\ne: ! 7\n");
    assert_eq!(plain(&node), serde_json::json!({"a": "yes", "b": "8080", "c": "12", "d": "5", "e": "7"}));
}

#[test]
fn aliases_and_merges_are_replaced() {
    let text =
        "base: &b {x: 1, w: 2}\none: *b\ntwo: {<<: *b, w: 3}\nthree:\n  <<: [*b, {z: 9, x: 0}]\nkey: {\"<<\": text}\n";
    assert_eq!(
        plain(&yaml(text)),
        serde_json::json!({"base": {"x": 1, "w": 2}, "one": {"x": 1, "w": 2}, "two": {"w": 3, "x": 1},
            "three": {"x": 1, "w": 2, "z": 9}, "key": {"<<": "text"}})
    );
}

#[test]
fn keys_are_texts_as_kubernetes_tools_make_them() {
    let node = yaml("8080: a\nyes: b\n0x10: c\n1.50: d\n\"~\": e\n");
    assert_eq!(plain(&node), serde_json::json!({"8080": "a", "true": "b", "16": "c", "1.50": "d", "~": "e"}));
}

#[test]
fn yaml_that_is_wrong_says_where() {
    let cases = [
        ("a: *nope\n", "1:4"),
        ("a: &x [*x]\n", "1:8"),
        ("a: [1\nb: 2\n", "2:"),
        ("a:\n\tb: 1\n", "2:"),
        ("? [a]\n: b\n", "1:3"),
        ("~: a\n", "1:1"),
        ("a: !secret x\n", "1:"),
        ("a: !!int x\n", "1:"),
        ("<<: 3\n", "1:5"),
        ("a: \"x\n", "1:4"),
    ];
    for (text, at) in cases {
        let error = yaml::Documents::new(text).collect::<Result<Vec<_>, _>>().unwrap_err();
        assert!(error.at.to_string().starts_with(at), "{text:?}: {} {}", error.at, error.message);
    }
}

#[test]
fn tabs_for_indentation_get_a_hint() {
    let error = yaml::Documents::new("a:\n\tb: 1\n").collect::<Result<Vec<_>, _>>().unwrap_err();
    assert_eq!(error.hint, Some("indent with spaces, not tabs"));
}

#[test]
fn json_escapes() {
    let node = json(r#"{"a": "\"\\\/\b\f\n\r\t", "b": "\u00e9\ud83d\ude00\u0000", "c": "é😀"}"#);
    let expected = serde_json::json!({"a": "\"\\/\u{8}\u{c}\n\r\t", "b": "é😀\0", "c": "é😀"});
    assert_eq!(plain(&node), expected);
}

#[test]
fn json_that_is_wrong_says_where_and_what() {
    let cases = [
        ("{\"a\": }", "1:7", "expected a value, found '}'"),
        ("{\"a\" 1}", "1:6", "expected ':' after the key, found '1'"),
        ("{\"a\": 1,}", "1:9", "expected a key in double quotes, found '}'"),
        ("{a: 1}", "1:2", "expected a key in double quotes, found 'a'"),
        ("[1 2]", "1:4", "expected ',' or ']', found '2'"),
        ("[1,\n", "2:1", "expected a value, found the end of the text"),
        ("\"abc", "1:1", "this text has no closing quote"),
        ("\"a\nb\"", "1:3", "'\\n' must be escaped in a text"),
        ("\"\\x\"", "1:2", "there is no such escape in JSON"),
        ("\"\\é\"", "1:2", "there is no such escape in JSON"),
        ("\"\\ud83d\"", "1:2", "half of a surrogate pair stands alone"),
        ("\"\\ud83dx\"", "1:2", "half of a surrogate pair stands alone"),
        ("\"\\ud83d\\u0041\"", "1:2", "half of a surrogate pair stands alone"),
        ("\"\\ude00\"", "1:2", "half of a surrogate pair stands alone"),
        ("\"\\u12g4\"", "1:2", "\\u takes four hexadecimal digits"),
        ("01", "1:1", "\"01\" is not a number in JSON"),
        ("[-]", "1:2", "\"-\" is not a number in JSON"),
        ("[1.]", "1:2", "\"1.\" is not a number in JSON"),
        ("[1e]", "1:2", "\"1e\" is not a number in JSON"),
        ("tru", "1:1", "expected a value, found 't'"),
        ("\u{0}", "1:1", "expected a value, found '\\0'"),
    ];
    for (text, at, message) in cases {
        assert_eq!(json_error(text), (at.to_owned(), message.to_owned()), "{text:?}");
    }
}

#[test]
fn json_objects_may_follow_each_other() {
    let documents: Vec<Node> = json::Documents::new("{\"a\":1}\n{\"b\":2} [3]\n").collect::<Result<_, _>>().unwrap();
    assert_eq!(
        documents.iter().map(|d| d.at).collect::<Vec<_>>(),
        [Position::new(1, 1), Position::new(2, 1), Position::new(2, 9)]
    );
}

proptest! {
    /// The own JSON reader agrees with serde_json about every text: what it means, and whether it is JSON at all.
    #[test]
    fn json_reads_as_serde_json_does(text in r#"[\[\]{}:,"\\ntrue0-9.eE+\- \té]{0,24}"#) {
        let own: Result<Vec<Node>, _> = json::Documents::new(&text).collect();
        let theirs: Result<Vec<serde_json::Value>, _> = serde_json::Deserializer::from_str(&text).into_iter().collect();
        match (own, theirs) {
            (Ok(own), Ok(theirs)) => {
                // Of a key given twice, serde_json keeps the last one, as `plain` does.
                let own: Vec<_> = own.iter().map(plain).collect();
                prop_assert_eq!(own, theirs);
            }
            (Err(_), Err(_)) => {}
            // A number too large for a float is an error there and infinite here.
            (Ok(own), Err(error)) => prop_assert!(error.to_string().contains("out of range") || error.to_string().contains("trailing"), "{own:?} {error}"),
            (Err(error), Ok(theirs)) => prop_assert!(false, "{} at {}: {:?}", error.message, error.at, theirs),
        }
    }

    /// Any value survives the way through JSON text.
    #[test]
    fn json_survives(value in values()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(plain(&json(&text)), value);
    }

    /// JSON is YAML.
    #[test]
    fn json_is_read_alike_by_both(value in values()) {
        let text = serde_json::to_string(&value).unwrap();
        prop_assume!(yaml::forbidden_character(&text).is_none());
        prop_assert_eq!(plain(&yaml(&format!("{text}\n"))), value);
    }
}

/// Values with texts of printable characters, which YAML takes without escapes of its own.
fn values() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "[ -~é😀]{0,12}".prop_map(Into::into),
    ];
    let nested = leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            proptest::collection::btree_map("[a-z]{1,6}", inner, 0..5)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    });
    // A document is an object or a list; alone, a number may run into what follows.
    proptest::collection::vec(nested, 0..4).prop_map(Into::into)
}
