//! A page of its own: no file beside it, no resource from elsewhere, names as data and never as markup.

use super::chart::Chart;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Writes the chart as a page.
pub(super) fn page(chart: &Chart) -> Result<String, serde_json::Error> {
    // In a script element only `<` can end anything; as an escape it is the same JSON.
    let data = serde_json::to_string(chart)?.replace('<', "\\u003c");
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len());
    for (i, part) in PAGE.split("@@").enumerate() {
        page.push_str(match (i % 2, part) {
            (1, "STYLE") => STYLE,
            (1, "SCRIPT") => SCRIPT,
            (1, "DATA") => &data,
            (_, part) => part,
        });
    }
    Ok(page)
}
