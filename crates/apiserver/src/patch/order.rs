//! The order of a merged list: the patch's entries in the patch's order, the others in theirs, and the two lists
//! joined so that others keep their places as far as the patch leaves them.

use serde_json::Value;

/// Whether two entries are the same one: by merge key, or as values.
pub(super) fn same(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    }
}

fn position(list: &[Value], entry: &Value, key: Option<&str>) -> Option<usize> {
    list.iter().position(|other| same(other, entry, key))
}

/// Orders `merged`: `wanted` is the order that the patch asks for (entries need only have the key), `before` the list
/// as it was.
pub(super) fn arrange(merged: Vec<Value>, wanted: &[Value], before: &[Value], key: Option<&str>) -> Vec<Value> {
    let (mut ours, mut others): (Vec<_>, Vec<_>) =
        merged.into_iter().partition(|entry| position(wanted, entry, key).is_some());
    let sort = |list: &mut Vec<Value>, order: &[Value]| {
        list.sort_by_cached_key(|entry| position(order, entry, key).unwrap_or(usize::MAX));
    };
    sort(&mut ours, wanted);
    sort(&mut others, before);
    let mut arranged = Vec::with_capacity(ours.len() + others.len());
    let (mut ours, mut others) = (ours.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), ours.peek()) {
            (None, None) => return arranged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(our)) => match (position(before, other, key), position(before, our, key)) {
                (Some(other), Some(our)) => other < our,
                _ => false,
            },
        };
        arranged.extend(if other_first { others.next() } else { ours.next() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(text: &str) -> Vec<Value> {
        text.chars().map(|c| json!(c.to_string())).collect()
    }

    #[test]
    fn the_patch_orders_its_entries_and_the_others_stay_where_they_were() {
        for (merged, wanted, before, expected) in [
            ("abc", "", "abc", "abc"),
            ("abc", "cba", "abc", "cba"),
            ("abc", "ca", "abc", "bca"),
            ("abcd", "d", "abc", "dabc"),
            ("1a2b3", "ab", "1a2b3", "1a2b3"),
            ("1a2b3", "ba", "1a2b3", "12ba3"),
        ] {
            let arranged = arrange(list(merged), &list(wanted), &list(before), None);
            assert_eq!(arranged, list(expected), "{merged} {wanted}");
        }
    }
}
