//! `--kubelet-compat`: the kubelet's removed run-once mode.

use crate::support::{pod, with_instance};

#[tokio::test]
async fn pods_run_and_are_left_running() {
    with_instance("kubelet_compat_pods_run_and_are_left_running", async |m| {
        let web = m.pod("web", "Always", "exec sleep 1000");
        m.minke(&["run", "--kubelet-compat", &web]).await.expect(0);
        assert!(!m.pod_cgroups().is_empty(), "its containers run");
        assert!(m.agent().is_none(), "nobody supervises them");
    })
    .await;
}

#[tokio::test]
async fn a_rejected_pod_is_no_error() {
    with_instance("kubelet_compat_a_rejected_pod_is_no_error", async |m| {
        let text = crate::support::pod_with("big", "Always", "sleep 9", "", "resources: {requests: {memory: 900Ti}}");
        m.minke(&["run", "--kubelet-compat", &m.manifest("big.yaml", &text)]).await.expect(0);
    })
    .await;
}

#[tokio::test]
async fn no_manifest_within_a_second_is_the_kubelets_error() {
    with_instance("kubelet_compat_no_manifest_within_a_second_is_the_kubelets_error", async |m| {
        let ran = m.minke(&["run", "--kubelet-compat", "/nonexistent/manifests"]).await.expect(1);
        assert!(ran.err.contains("runonce failed: no pod manifest update after 1s"), "{}", ran.err);
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_fails_names_itself() {
    with_instance("kubelet_compat_a_pod_that_fails_names_itself", async |m| {
        let text = pod("gone", "Never", "true").replace(crate::support::IMAGE, "localhost/test/absent:1");
        let ran = m.minke(&["run", "--kubelet-compat", &m.manifest("gone.yaml", &text)]).await.expect(1);
        assert!(ran.err.contains("runonce failed:") && ran.err.contains("gone"), "{}", ran.err);
    })
    .await;
}
