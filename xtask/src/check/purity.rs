//! What may lie below the core: nothing that performs. Asked from `cargo tree`, so that what comes through another
//! crate counts as well.

use crate::problem::{CheckError, Problem};
use crate::workspace::{Workspace, cargo};

const CORE: &str = "minke-core";

/// Crates that perform, talk or schedule. Their families (`tokio-util`, `kube-client`, …) are meant too.
const FORBIDDEN: &[&str] = &[
    "async-std",
    "axum",
    "futures-executor",
    "hyper",
    "kube",
    "libcontainer",
    "mio",
    "nix",
    "oci-client",
    "reqwest",
    "rtnetlink",
    "rustix",
    "rustls",
    "smol",
    "socket2",
    "tempfile",
    "tokio",
    "tonic",
    "tower",
];

/// What the fakes may have of tokio: channels, timers that tests can pause, and `yield_now`, which is part of `rt`.
const TOKIO_FOR_FAKES: &[&str] = &["sync", "time", "rt", "default"];

/// See the module.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Problem>, CheckError> {
    let Some(core) = workspace.packages.iter().find(|package| package.name == CORE) else {
        return Ok(vec![Problem::of("Cargo.toml", format!("there is no crate {CORE} to look at"))]);
    };
    let manifest = workspace.relative(&core.manifest);
    let tree = |more: &[&str]| {
        let base = ["tree", "--locked", "-p", CORE, "-e", "normal,build", "--prefix", "none", "--format", "{p}|{f}"];
        cargo(&workspace.root, &[&base, more].concat())
    };
    let mut found = impure(&tree(&[])?, &[]);
    found.extend(impure(&tree(&["--all-features"])?, TOKIO_FOR_FAKES));
    found.sort();
    found.dedup();
    Ok(found.into_iter().map(|text| Problem::of(manifest, text)).collect())
}

/// The forbidden crates in lines of `name v1.2.3|feature,feature`; `tokio` passes when it has no other features than
/// those allowed, and some are.
fn impure(tree: &str, tokio_features: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for line in tree.lines() {
        let (package, features) = line.split_once('|').unwrap_or((line, ""));
        let name = package.split(' ').next().unwrap_or_default();
        let forbidden = FORBIDDEN
            .iter()
            .any(|family| name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')));
        if !forbidden {
            continue;
        }
        if name == "tokio" && !tokio_features.is_empty() {
            // cargo marks a crate that it showed before with `(*)` after the features.
            let features = features.trim_end_matches("(*)").trim();
            let extra: Vec<&str> =
                features.split(',').filter(|f| !f.is_empty() && !tokio_features.contains(f)).collect();
            if !extra.is_empty() {
                found.push(format!(
                    "the core's fakes use tokio with {}; only channels, timers and yielding are pure enough",
                    extra.join(", ")
                ));
            }
            continue;
        }
        found.push(format!("{name} lies below the core, which must not perform anything"));
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_performs_is_found_by_family() {
        let tree = "minke-core v0.1.0 (/x)|\nserde v1.0.0|derive,std\ntokio-util v0.7.1|\nhyper v1.0.0|client\nkubernetes-names v1.0.0|\n";
        let found = impure(tree, &[]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("hyper ") && found[1].starts_with("tokio-util "), "{found:?}");
    }

    #[test]
    fn tokio_is_for_the_fakes_only_and_without_a_runtime() {
        assert_eq!(impure("tokio v1.2.3|sync,time", &[]).len(), 1);
        assert_eq!(impure("tokio v1.2.3|sync,time", TOKIO_FOR_FAKES), Vec::<String>::new());
        assert_eq!(impure("tokio v1.2.3|sync,time (*)", TOKIO_FOR_FAKES), Vec::<String>::new());
        let found = impure("tokio v1.2.3|net,sync,time", TOKIO_FOR_FAKES);
        assert!(found.len() == 1 && found[0].contains("with net;"), "{found:?}");
    }

    #[test]
    fn a_workspace_without_a_core_does_not_pass() {
        let fixture = crate::fixture::Fixture::new(&["minke-oci"]);
        assert_eq!(check(&fixture.workspace()).unwrap().len(), 1);
    }

    #[test]
    fn the_real_cargo_shows_what_lies_below_through_another_crate() {
        let fixture = crate::fixture::Fixture::new(&["minke-core", "middle", "tokio"]);
        let on = |name: &str| format!("[dependencies]\n{name} = {{ path = \"../{name}\" }}\n");
        fixture.file("crates/minke-core/Cargo.toml", &crate::fixture::Fixture::manifest("minke-core", &on("middle")));
        fixture.file("crates/middle/Cargo.toml", &crate::fixture::Fixture::manifest("middle", &on("tokio")));
        cargo(fixture.path(), &["generate-lockfile", "--offline"]).unwrap();
        let problems = crate::fixture::texts(&check(&fixture.workspace()).unwrap());
        assert_eq!(
            problems,
            ["crates/minke-core/Cargo.toml: tokio lies below the core, which must not perform anything"]
        );
    }
}
