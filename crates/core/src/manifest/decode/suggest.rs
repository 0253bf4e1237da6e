//! The name that someone meant.

/// The known name nearest to `typed`, if one is near enough to be meant.
pub(in crate::manifest) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A name of any length may be typed; none of the known ones is long.
    if typed.len() > 64 {
        return None;
    }
    let lower = typed.to_lowercase();
    let allowed = (typed.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let known = ["image", "imagePullPolicy", "name", "env", "envFrom", "command", "args", "livenessProbe"];
        let cases = [
            ("imagee", Some("image")),
            ("Image", Some("image")),
            ("imagePullpolicy", Some("imagePullPolicy")),
            ("comand", Some("command")),
            ("enviroment", None),
            ("arg", Some("args")),
            ("livnessProb", Some("livenessProbe")),
            ("zzz", None),
            ("", None),
        ];
        for (typed, expected) in cases {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
        assert_eq!(nearest(&"image".repeat(100_000), known), None);
    }
}
