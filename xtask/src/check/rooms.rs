//! Which crate may depend on which. Adapters stand side by side: they know the core and never each other; only the
//! binary and the benchmarks see them all.

use crate::problem::{CheckError, Problem};
use crate::workspace::{DependencyKind, Package, Workspace};

/// What a member may depend on inside the workspace.
struct Room {
    package: &'static str,
    /// In its library or binary.
    may: &'static [&'static str],
    /// In its tests, besides.
    tests_may: &'static [&'static str],
}

const ADAPTER: &[&str] = &["minke-core"];
/// Adapters that carry streams.
const STREAMING: &[&str] = &["minke-core", "minke-streams"];
const TESTKIT: &[&str] = &["minke-testkit"];
const EVERYTHING: &[&str] = &[
    "minke-core",
    "minke-streams",
    "minke-cri",
    "minke-oci",
    "minke-kubelet",
    "minke-node",
    "minke-apiserver",
    "minke-watch",
    "minke-runners",
];
const EVERYTHING_AND_TESTKIT: &[&str] = &[
    "minke-core",
    "minke-streams",
    "minke-cri",
    "minke-oci",
    "minke-kubelet",
    "minke-node",
    "minke-apiserver",
    "minke-watch",
    "minke-runners",
    "minke-testkit",
];

/// The plan of the house, rooms to come included. A member that is not here is a problem: its place is a decision.
const ROOMS: &[Room] = &[
    Room { package: "minke-core", may: &[], tests_may: &[] },
    Room { package: "minke-streams", may: ADAPTER, tests_may: &[] },
    Room { package: "minke-cri", may: STREAMING, tests_may: TESTKIT },
    Room { package: "minke-oci", may: STREAMING, tests_may: TESTKIT },
    Room { package: "minke-kubelet", may: STREAMING, tests_may: TESTKIT },
    Room { package: "minke-node", may: STREAMING, tests_may: TESTKIT },
    Room { package: "minke-apiserver", may: STREAMING, tests_may: TESTKIT },
    Room { package: "minke-watch", may: ADAPTER, tests_may: TESTKIT },
    Room { package: "minke-runners", may: ADAPTER, tests_may: TESTKIT },
    Room { package: "minke", may: EVERYTHING, tests_may: TESTKIT },
    Room { package: "minke-bench", may: EVERYTHING_AND_TESTKIT, tests_may: &[] },
    Room { package: "minke-testkit", may: &[], tests_may: &[] },
    // The suite knows the port alone; its tests bring every runtime, and who else keeps a contract of the core's on one.
    Room {
        package: "minke-conformance",
        may: ADAPTER,
        tests_may: &["minke-cri", "minke-oci", "minke-kubelet", "minke-testkit"],
    },
    Room { package: "xtask", may: &["minke-core", "minke-testkit"], tests_may: &[] },
];

/// See the module.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Problem>, CheckError> {
    Ok(workspace.packages.iter().flat_map(|package| check_package(workspace, package)).collect())
}

fn check_package(workspace: &Workspace, package: &Package) -> Vec<Problem> {
    let manifest = workspace.relative(&package.manifest);
    let Some(room) = ROOMS.iter().find(|room| room.package == package.name) else {
        let text =
            format!("crate {} has no room; decide what it may depend on in xtask's table of rooms", package.name);
        return vec![Problem::of(manifest, text)];
    };
    let mut problems = Vec::new();
    for dependency in package.dependencies.iter().filter(|dependency| dependency.local) {
        // A crate's tests may ask for itself with other features.
        let in_tests = dependency.kind == DependencyKind::Dev;
        let allowed = room.may.contains(&dependency.name.as_str())
            || in_tests && (room.tests_may.contains(&dependency.name.as_str()) || dependency.name == package.name);
        if !allowed {
            let whose = if in_tests { "tests of " } else { "" };
            let text = format!("{whose}{} must not depend on {}", package.name, dependency.name);
            problems.push(Problem::of(manifest, text));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, texts};

    const CORE: &str = "minke-core = { path = \"../minke-core\" }\n";
    const OCI: &str = "minke-oci = { path = \"../minke-oci\" }\n";
    const TESTKIT: &str = "minke-testkit = { path = \"../minke-testkit\" }\n";

    fn house() -> Fixture {
        Fixture::new(&["minke-core", "minke-oci", "minke-kubelet", "minke", "minke-testkit"])
    }

    fn declare(fixture: &Fixture, package: &str, tables: &str) {
        fixture.file(&format!("crates/{package}/Cargo.toml"), &Fixture::manifest(package, tables));
    }

    #[test]
    fn the_plan_is_kept() {
        let fixture = house();
        declare(&fixture, "minke-oci", &format!("[dependencies]\n{CORE}[dev-dependencies]\n{TESTKIT}"));
        declare(&fixture, "minke", &format!("[dependencies]\n{CORE}{OCI}"));
        assert_eq!(texts(&check(&fixture.workspace()).unwrap()), Vec::<String>::new());
    }

    #[test]
    fn adapters_side_by_side_never_see_each_other() {
        let fixture = house();
        declare(&fixture, "minke-kubelet", &format!("[dependencies]\n{CORE}{OCI}"));
        let problems = texts(&check(&fixture.workspace()).unwrap());
        assert_eq!(problems, ["crates/minke-kubelet/Cargo.toml: minke-kubelet must not depend on minke-oci"]);
    }

    #[test]
    fn a_test_only_edge_counts_too() {
        let fixture = house();
        declare(&fixture, "minke-kubelet", &format!("[dev-dependencies]\n{OCI}"));
        let problems = texts(&check(&fixture.workspace()).unwrap());
        assert_eq!(problems, ["crates/minke-kubelet/Cargo.toml: tests of minke-kubelet must not depend on minke-oci"]);
    }

    #[test]
    fn the_core_depends_on_nothing_and_the_testkit_is_for_tests() {
        let fixture = house();
        declare(&fixture, "minke-core", &format!("[build-dependencies]\n{TESTKIT}"));
        declare(&fixture, "minke-oci", &format!("[target.'cfg(unix)'.dependencies]\n{TESTKIT}"));
        let problems = texts(&check(&fixture.workspace()).unwrap());
        assert_eq!(
            problems,
            [
                "crates/minke-core/Cargo.toml: minke-core must not depend on minke-testkit",
                "crates/minke-oci/Cargo.toml: minke-oci must not depend on minke-testkit",
            ]
        );
    }

    #[test]
    fn a_crate_without_a_room_is_a_problem() {
        let fixture = Fixture::new(&["minke-attic"]);
        let problems = texts(&check(&fixture.workspace()).unwrap());
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("minke-attic has no room"), "{problems:?}");
    }
}
