//! `$(NAME)` expansion, with exactly Kubernetes' rules: `$(NAME)` is replaced where NAME is known and left as it is
//! where not; `$$` is a literal `$`, so `$$(NAME)` stays `$(NAME)`; any other `$` stands for itself.
//!
//! Upstream source: `third_party/forked/golang/expansion`.

use k8s_openapi::api::core::v1::Container;

use crate::runtime::EnvVar;

/// Expands `input`; names that `lookup` does not know stay as they are written.
pub fn expand(input: &str, mut lookup: impl FnMut(&str) -> Option<String>) -> String {
    let mut output = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.find('$') {
        let (before, from_dollar) = rest.split_at(at);
        output.push_str(before);
        let after = &from_dollar[1..];
        if let Some(tail) = after.strip_prefix('$') {
            output.push('$');
            rest = tail;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|t| t.split_once(')')) {
            match lookup(name) {
                Some(value) => output.push_str(&value),
                None => {
                    output.push_str("$(");
                    output.push_str(name);
                    output.push(')');
                }
            }
            rest = tail;
        } else {
            output.push('$');
            rest = after;
        }
    }
    output.push_str(rest);
    output
}

/// A name that an expression needs has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("missing value for {0:?}")]
pub struct MissingValue(pub String);

/// Expands an expression in which every name must have a value that is not empty (`subPathExpr`).
///
/// # Errors
/// [`MissingValue`] names the first that has none.
pub fn expand_strict(input: &str, env: &[EnvVar]) -> Result<String, MissingValue> {
    let mut missing = None;
    let expanded = expand(input, |name| {
        let value = lookup(env, name).filter(|value| !value.is_empty());
        if value.is_none() && missing.is_none() {
            missing = Some(name.to_owned());
        }
        value
    });
    missing.map_or(Ok(expanded), |name| Err(MissingValue(name)))
}

/// The container's command and arguments with the container's environment filled in.
#[must_use]
pub fn expand_command(container: &Container, env: &[EnvVar]) -> (Vec<String>, Vec<String>) {
    let all =
        |list: &Option<Vec<String>>| list.iter().flatten().map(|word| expand(word, |name| lookup(env, name))).collect();
    (all(&container.command), all(&container.args))
}

fn lookup(env: &[EnvVar], name: &str) -> Option<String> {
    env.iter().rev().find(|var| var.name == name).map(|var| var.value.clone())
}
