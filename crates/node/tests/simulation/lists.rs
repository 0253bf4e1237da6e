//! `docs/node-lists.md` names tests that there are, and leaves out nothing.

use std::path::Path;

/// All sources that may have a test of a row.
fn sources() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut directories: Vec<_> = ["core/src", "minke/src", "node", "streams/src"].map(|own| crates.join(own)).into();
    let mut sources = String::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    sources
}

#[test]
fn each_row_of_the_lists_has_its_test() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/node-lists.md");
    let document = std::fs::read_to_string(document).unwrap();
    let sources = sources();
    let (mut defects, mut named) = (Vec::new(), 0);
    for row in document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what |")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [what, _, tests] = cells[..] else { panic!("three cells: {row}") };
        if let Some((numbers, _)) = what.split_once(": ").filter(|(numbers, _)| numbers.starts_with(['S', 'R'])) {
            defects.extend(numbers.split(", ").map(str::to_owned));
        }
        let tests_of_row: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        // A dash needs its reason.
        assert!(!tests_of_row.is_empty() || tests.len() > "— ".len(), "no test: {row}");
        for test in tests_of_row {
            assert!(sources.contains(&format!("fn {test}(")), "there is no test {test}: {row}");
            named += 1;
        }
    }
    defects.sort();
    let mut expected: Vec<String> =
        (1..=27).map(|n| format!("S{n}")).chain((1..=26).map(|n| format!("R{n}"))).collect();
    expected.sort();
    assert_eq!(defects, expected);
    assert!(named > 100, "{named} tests");
}
