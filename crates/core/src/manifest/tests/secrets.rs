//! The values of Secrets appear nowhere.

use super::*;

const VALUE: &str = "hunter2";

fn everything_said(result: Result<Manifests, Invalid>) -> String {
    match result {
        Ok(manifests) => format!("{manifests:?}"),
        Err(invalid) => {
            let rendered: String = invalid.errors.iter().map(Diagnostic::render).collect();
            format!("{invalid} {invalid:?} {rendered} {:?}", lines(&invalid.errors))
        }
    }
}

#[test]
fn no_message_excerpt_or_debug_output_has_a_secret_value() {
    let texts = [
        // Right.
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password: hunter2\n",
        // Not base64.
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  password: hunter2!\n",
        // Mistyped, in one line and over several.
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2, password: {hunter2: 1}}\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password:\n  - hunter2\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: hunter2\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: [x]\nstringData: {p: hunter2}\n",
        // A bad key, a duplicate, an unknown field, a bad name.
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  a b: hunter2\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  p: hunter2\n  p: hunter2\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringdata: {p: hunter2}\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: S}\nstringData: {p: hunter2}\n",
        // A docker configuration that is no JSON.
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: hunter2\n",
        // Broken texts.
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  p: hunter2: x\n",
        "apiVersion: v1\nkind: Secret\nstringData: {p: \"hunter2}\n",
        // The kind misspelt.
        "kind: Secrets\napiVersion: v1\nstringData: {p: hunter2}\n",
        // On one line with a Pod that is wrong.
        r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"p":"hunter2"}},{"apiVersion":"v1","kind":"Pod","metadata":{"name":"P"},"spec":{}}]}"#,
        // Two of a name.
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter2}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter2}\n",
    ];
    for (i, text) in texts.iter().enumerate() {
        let result = parse_one(text);
        assert_eq!(result.is_ok(), i == 0, "{text}");
        let said = everything_said(result);
        assert!(!said.contains(VALUE), "{text}\n{said}");
        assert!(!said.contains("104, 117, 110"), "bytes of the value: {said}");
        assert!(!format!("{:?}", input("s.yaml", text)).contains(VALUE));
    }
}

#[test]
fn a_problem_in_a_secret_still_has_its_place_and_way_out() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  password: hunter2!\n  port: 8080\n";
    let invalid = parse_one(text).unwrap_err();
    assert_eq!(
        lines(&invalid.errors),
        [
            "m.yaml:5:13: data[password]: must be a base64-encoded string (encode it, or write the text itself under stringData)",
            "m.yaml:6:9: data[port]: must be a string, not an integer (quote it)",
        ]
    );
    assert_eq!(invalid.errors[0].excerpt.as_ref().unwrap().text, "  password: ***");
}

#[test]
fn entries_are_named_as_they_are_written() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a b: eA==}\nstringData: {c d: x}\n";
    let found = errors(text);
    assert!(found[0].starts_with("m.yaml:4:13: data[a b]: Invalid value: \"a b\""), "{found:?}");
    assert!(found[1].starts_with("m.yaml:5:19: stringData[c d]: Invalid value: \"c d\""), "{found:?}");
}
