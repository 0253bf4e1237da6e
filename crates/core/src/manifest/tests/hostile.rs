//! Texts that want to hurt.

use super::*;

#[test]
fn bombs_of_aliases_stay_small() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let previous = i - 1;
        let nine = vec![format!("*a{previous}"); 9].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{nine}]\n"));
    }
    let found = errors(&text);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("more than 1000000 values, aliases replaced"), "{found:?}");
}

#[test]
fn bombs_of_merges_stay_small() {
    let mut text = String::from("a0: &a0 {k: v}\n");
    for i in 1..40 {
        let previous = i - 1;
        text.push_str(&format!("a{i}: &a{i}\n  x{i}: [*a{previous}, *a{previous}]\n  <<: *a{previous}\n"));
    }
    let found = errors(&text);
    assert!(found[0].contains("more than"), "{found:?}");
}

#[test]
fn aliases_do_not_nest_beyond_the_limit() {
    let mut text = String::from("a0: &a0 [x]\n");
    for i in 1..200 {
        text.push_str(&format!("a{i}: &a{i} [*a{}]\n", i - 1));
    }
    let found = errors(&text);
    assert!(found[0].contains("nested more than 100 levels deep"), "{found:?}");
}

#[test]
fn depth_is_limited_in_every_notation() {
    let deep = [
        "[".repeat(10_000),
        format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
        "{\"a\":".repeat(10_000),
        "{a: ".repeat(10_000),
        "- ".repeat(10_000),
        format!("a: {}", "[".repeat(200)),
        (0..2_000).map(|i| format!("{}a:\n", " ".repeat(i))).collect(),
    ];
    for text in deep {
        let found = errors(&text);
        assert!(found[0].contains("nested more than 100 levels deep"), "{}: {found:?}", &text[..8]);
    }
}

#[test]
fn fifty_megabytes_are_refused_unread() {
    let found = errors(vec![b'a'; 50 * 1024 * 1024]);
    assert_eq!(found, ["m.yaml: larger than 10 MiB, the most that a manifest may have; split it"]);
}

#[test]
fn ten_megabytes_of_values_end_soon() {
    let size = 10 * 1024 * 1024 - 64;
    let texts = ["- \n", "a: \n", "---\n", "[],", "? \n", "- - - a\n", "&a ", "# \n", "'' ", "\n"];
    for piece in texts {
        let text = piece.repeat(size / piece.len() / 8);
        let result = parse_one(&text);
        if let Err(invalid) = result {
            assert!(invalid.errors.len() <= 100, "{piece:?}");
        }
    }
}

#[test]
fn nul_and_other_control_characters_are_named() {
    let pod = with_container_lines("");
    let cases = [("\0", "U+0000"), ("\x1b", "U+001B"), ("\u{7f}", "U+007F"), ("\u{feff}", "U+FEFF")];
    for (character, name) in cases {
        let found = errors(format!("{pod}# é{character}\n"));
        assert_eq!(found, [format!("m.yaml:9:4: the character {name} is not allowed in YAML")]);
    }
    let found = errors("{\"a\": \"\0\"}");
    assert_eq!(found, ["m.yaml:1:8: '\\0' must be escaped in a text"]);
}

#[test]
fn text_that_is_not_utf8_says_where() {
    assert_eq!(errors(b"a: b\nc: \xc3\xa9 \xff\n"), ["m.yaml:2:6: this is not UTF-8"]);
    assert_eq!(errors(b"\xff\xfea\0:\0"), ["m.yaml:1:1: this is UTF-16; save it as UTF-8"]);
    assert_eq!(errors(b"\xe2\x82"), ["m.yaml:1:1: this is not UTF-8"]);
}

#[test]
fn byte_order_mark_and_carriage_returns_are_no_matter() {
    let unix = with_container_lines("args: [a]");
    let dos = format!("\u{feff}{}", unix.replace('\n', "\r\n"));
    assert_eq!(pod(&unix), pod(&dos));
    let found = errors(dos.replace("args", "arg"));
    assert_eq!(found, [r#"m.yaml:9:5: spec.containers[0].arg: unknown field "arg" (did you mean "args"?)"#]);
    let json =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(pod(json), pod(format!("\u{feff}\r\n\t {json}")));
}

#[test]
fn flow_style_yaml_and_json_with_document_marks_are_taken() {
    let flow = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}";
    assert_eq!(pod(flow).metadata.name.as_deref(), Some("p"));
    let json = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
        )
    };
    assert_eq!(good(format!("{}\n---\n{}\n", json("a"), json("b"))).pods().count(), 2);
    assert_eq!(good(format!("{}\n{}\n", json("a"), json("b"))).pods().count(), 2);
}

#[test]
fn many_keys_of_one_object_end_soon() {
    let mut text = String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n");
    for i in 0..60_000 {
        text.push_str(&format!("  k{i}: v\n"));
    }
    assert!(good(&text).objects.config_map("default", "m").is_some());
}
