//! What an API's refusal asks for: the rule that is missing, as its operator can paste it (pure).

/// The rule that allows what was refused, as a piece of a Role or ClusterRole; `None`: the message is not of upstream's form.
///
/// Upstream's form: `… User "u" cannot get resource "nodes/status" in API group "" at the cluster scope`, or
/// `… in the namespace "n"`.
#[must_use]
pub fn missing_rule(message: &str) -> Option<String> {
    let (_, after) = message.split_once(" cannot ")?;
    let (verb, after) = after.split_once(" resource \"")?;
    let (resource, after) = after.split_once('"')?;
    let (_, after) = after.split_once("in API group \"")?;
    let (group, place) = after.split_once('"')?;
    let namespace = place.split_once("in the namespace \"").and_then(|(_, rest)| rest.split_once('"')).map(|(n, _)| n);
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c));
    if !plain(verb) || !plain(resource) || !(group.is_empty() || plain(group)) {
        return None;
    }
    let kind = match namespace {
        Some(namespace) => format!("Role in the namespace {namespace}"),
        None => "ClusterRole".to_owned(),
    };
    let rule = format!(
        "- apiGroups: [\"{group}\"]\n  resources: [\"{resource}\"]\n  verbs: [\"{verb}\"]\n# a rule of the {kind} that this \
         agent's user is bound to; packaging/kubernetes/rbac.yaml has them all"
    );
    Some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_rule_that_it_wants() {
        let message = "nodes \"n\" is forbidden: User \"u\" cannot patch resource \"nodes/status\" in API group \"\" at the \
                       cluster scope";
        let rule = missing_rule(message).unwrap();
        assert!(
            rule.starts_with("- apiGroups: [\"\"]\n  resources: [\"nodes/status\"]\n  verbs: [\"patch\"]\n"),
            "{rule}"
        );
        assert!(rule.contains("ClusterRole"));
        let message = "leases.coordination.k8s.io \"n\" is forbidden: User \"u\" cannot get resource \"leases\" in API group \
                       \"coordination.k8s.io\" in the namespace \"kube-node-lease\"";
        let rule = missing_rule(message).unwrap();
        assert!(rule.contains("[\"coordination.k8s.io\"]") && rule.contains("kube-node-lease"), "{rule}");
    }

    #[test]
    fn other_words_are_no_rule() {
        for message in
            ["", "forbidden", "User cannot x resource \"a\nb\" in API group \"\" x", " cannot  resource \"\"\""]
        {
            assert_eq!(missing_rule(message), None, "{message}");
        }
    }
}
