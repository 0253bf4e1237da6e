//! The document says what the code does.

use crate::judgement::{Budget, Cause, Limit};

const DOCUMENT: &str = include_str!("../../../../../docs/watch.md");

/// Rows of the table under this heading, without its head.
fn rows(first: &str) -> Vec<&str> {
    let table = DOCUMENT.lines().skip_while(|line| !line.starts_with(first)).skip(2);
    table.take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn the_table_of_causes_is_that_of_the_code() {
    let row = |c: &Cause| format!("| `{c}` | {} | {} | {} |", c.category(), c.meaning(), c.remedy());
    let expected: Vec<String> = Cause::ALL.iter().map(row).collect();
    assert_eq!(rows("| cause |"), expected);
}

#[test]
fn the_table_of_budgets_is_that_of_the_code() {
    let limit = |budget: &Budget| match budget.default_limit() {
        Limit::Never => "none".to_owned(),
        Limit::After(limit) => format!("{} s", limit.as_secs()),
    };
    let row = |b: &Budget| format!("| `{b}` | {} | {} |", limit(b), b.meaning());
    let expected: Vec<String> = Budget::ALL.iter().map(row).collect();
    assert_eq!(rows("| budget |"), expected);
}
