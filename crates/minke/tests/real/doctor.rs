//! `minke doctor` on this machine.

use crate::support::with_instance;

#[tokio::test]
async fn a_machine_that_runs_these_tests_is_fit_and_stays_as_it_was() {
    with_instance("a_machine_that_runs_these_tests_is_fit_and_stays_as_it_was", async |m| {
        let before = m.leftovers();
        let report = m.minke(&["doctor", "-o", "json"]).await.expect(0).json();
        assert_eq!(report["ok"], true, "{report:#}");
        let checks = report["checks"].as_array().unwrap();
        let result = |name: &str| checks.iter().find(|c| c["check"] == name).map(|c| c["result"].clone());
        for name in ["root", "cgroups", "overlay", "namespaces", "seccomp"] {
            assert_ne!(result(name).unwrap(), "fail", "{name}: {report:#}");
        }
        let agent = checks.iter().find(|c| c["check"] == "agent").unwrap();
        assert!(agent["found"].as_str().unwrap().starts_with("none runs"), "{agent:#}");
        assert_eq!(m.leftovers(), before);
    })
    .await;
}
