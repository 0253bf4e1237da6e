//! Uids and names that come from content.

use super::*;

fn uid(text: &str) -> String {
    pod(text).metadata.uid.clone().unwrap()
}

#[test]
fn the_uid_does_not_depend_on_how_the_content_is_written() {
    let plain = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  labels: {a: x, b: w}\nspec:\n  containers:\n  - name: c\n    image: i\n";
    let same = [
        // Another order of keys, other white space, comments.
        "# c\nspec: {containers: [{image: i,   name: c}]}\nkind: Pod\nmetadata: {labels: {b: w, a: x}, name: p}\napiVersion: v1\n",
        // JSON.
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"b":"w","a":"x"},"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
        // A default written out.
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default, labels: {a: x, b: w}}\nspec:\n  restartPolicy: Always\n  containers: [{name: c, image: i}]\n",
        // Aliases.
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a: x, b: w}}\nspec:\n  containers:\n  - {name: &n c, image: i}\n",
    ];
    for text in same {
        assert_eq!(uid(text), uid(plain), "{text}");
    }
    let other = [
        plain.replace("name: p", "name: q"),
        plain.replace("name: p", "namespace: ns\n  name: p"),
        plain.replace("image: i", "image: j"),
        plain.replace("a: x", "a: z"),
    ];
    for text in other {
        assert_ne!(uid(&text), uid(plain), "{text}");
    }
}

#[test]
fn what_a_pod_refers_to_is_not_part_of_its_uid() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, envFrom: [{configMapRef: {name: m}}]}]}\n";
    let map =
        |value: &str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{k: {value}}}\n");
    assert_eq!(uid(&format!("{pod}{}", map("one"))), uid(&format!("{pod}{}", map("two"))));
}

#[test]
fn equal_pods_with_generated_names_are_different_pods() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: job-}\nspec: {containers: [{name: c, image: i}]}\n";
    let twice = good(format!("{text}---\n{text}"));
    let names: Vec<_> = twice.pods().map(|pod| pod.metadata.name.clone().unwrap()).collect();
    assert_ne!(names[0], names[1]);
    assert!(names.iter().all(|name| name.starts_with("job-") && name.len() == 9), "{names:?}");
    let again: Vec<_> = good(format!("{text}---\n{text}")).pods().map(|p| p.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, again);
    assert_eq!(pod(text).metadata.name.as_ref(), Some(&names[0]));
}
