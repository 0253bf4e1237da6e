//! Static Pods through the whole core: real files, the scripted runtime, paused time.

#![cfg(test)]

mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use minke_core::fake::{Life, Op};
use minke_core::identity::PodUid;
use minke_core::runtime::ContainerState;
use minke_kubelet::{Kubelet, PodReport, PodStage, StaticPods, StaticSource, StopRequest};
use support::{Bed, phase, simple, until, until_gone, until_phase, until_stage};
use tokio::time::{Instant, sleep, timeout};

fn manifest(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  terminationGracePeriodSeconds: 3\n  \
         containers:\n  - name: main\n    image: {image}\n"
    )
}

fn fixed(uid: &str, name: &str, image: &str) -> String {
    manifest(name, image).replace("metadata:\n", &format!("metadata:\n  uid: {uid}\n"))
}

/// Written beside and moved into place, as an editor or a tool does.
fn put(directory: &Path, file: &str, text: &str) {
    let beside = directory.join(format!(".{file}.new"));
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, directory.join(file)).unwrap();
}

fn keep(kubelet: &Kubelet, directories: &[&Path]) -> StaticPods {
    kubelet.keep_static(directories.iter().map(|d| StaticSource::Path((*d).to_owned())).collect())
}

/// The Pod of this name, once there is one for which this holds.
async fn named(kubelet: &Kubelet, name: &str, holds: impl Fn(&PodReport) -> bool) -> PodReport {
    let wait = async {
        let mut changes = kubelet.subscribe();
        loop {
            let found =
                kubelet.reports().into_iter().find(|r| r.pod.metadata.name.as_deref() == Some(name) && holds(r));
            match found {
                Some(report) => return report,
                None => drop(changes.next().await),
            }
        }
    };
    timeout(Duration::from_secs(3600), wait).await.unwrap_or_else(|_| panic!("{name}: {:#?}", kubelet.reports()))
}

async fn running(kubelet: &Kubelet, name: &str) -> PodReport {
    named(kubelet, name, |r| phase(r) == "Running").await
}

fn uid_of(report: &PodReport) -> PodUid {
    PodUid::new(report.pod.metadata.uid.clone().unwrap()).unwrap()
}

fn names(kubelet: &Kubelet) -> Vec<String> {
    kubelet.reports().iter().map(|r| r.pod.metadata.name.clone().unwrap()).collect()
}

struct Manifests {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn manifests() -> Manifests {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manifests");
    std::fs::create_dir(&path).unwrap();
    Manifests { _directory: directory, path }
}

#[tokio::test(start_paused = true)]
async fn add_change_and_remove_without_an_api() {
    let (bed, m) = (Bed::new(), manifests());
    let kubelet = bed.kubelet().await;
    put(&m.path, "web.yaml", &manifest("web", "image:1"));
    std::fs::create_dir(m.path.join("sub")).unwrap();
    std::fs::write(m.path.join("sub/no.yaml"), manifest("no", "image:1")).unwrap();
    std::fs::write(m.path.join(".hidden.yaml"), manifest("hidden", "image:1")).unwrap();
    let _static = keep(&kubelet, &[&m.path]);
    let web = running(&kubelet, "web-node").await;
    let annotations = web.pod.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["kubernetes.io/config.source"], "file");
    assert_eq!(annotations["minke.dev/manifest"], m.path.join("web.yaml").to_str().unwrap());
    assert_eq!(annotations["kubernetes.io/config.hash"], uid_of(&web).as_str());

    put(&m.path, "db.yaml", &manifest("db", "image:1"));
    running(&kubelet, "db-node").await;
    assert_eq!(names(&kubelet), ["db-node", "web-node"]);

    // A changed manifest is another Pod, which comes when the old one is gone.
    put(&m.path, "web.yaml", &manifest("web", "image:2"));
    let next = named(&kubelet, "web-node", |r| phase(r) == "Running" && uid_of(r) != uid_of(&web)).await;
    assert!(kubelet.report(&uid_of(&web)).is_none());
    assert_eq!(next.pod.spec.as_ref().unwrap().containers[0].image.as_deref(), Some("image:2"));

    std::fs::remove_file(m.path.join("web.yaml")).unwrap();
    until_gone(&kubelet, &uid_of(&next)).await;
    assert_eq!(bed.runtime.running(&uid_of(&next)), 0);
    assert_eq!(names(&kubelet), ["db-node"]);
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_file_keeps_what_runs_of_it_even_over_agents() {
    let (bed, m) = (Bed::new(), manifests());
    let kubelet = bed.kubelet().await;
    put(&m.path, "a.yaml", &manifest("a", "image:1"));
    put(&m.path, "b.yaml", &manifest("b", "image:1"));
    let pods = keep(&kubelet, &[&m.path]);
    let (a, b) = (running(&kubelet, "a-node").await, running(&kubelet, "b-node").await);
    put(&m.path, "a.yaml", "kind: Pod\nspec: {contaners: [}\n");
    put(&m.path, "b.yaml", &manifest("b", "image:2"));
    named(&kubelet, "b-node", |r| phase(r) == "Running" && uid_of(r) != uid_of(&b)).await;
    assert_eq!(phase(&kubelet.report(&uid_of(&a)).unwrap()), "Running");

    drop(pods);
    kubelet.shutdown().await;
    let kubelet = bed.kubelet().await;
    let _pods = keep(&kubelet, &[&m.path]);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(kubelet.report(&uid_of(&a)).unwrap().stage, PodStage::Syncing, "this agent never saw it good");
    put(&m.path, "a.yaml", &manifest("a", "image:1"));
    put(&m.path, "c.yaml", &manifest("c", "image:1"));
    running(&kubelet, "c-node").await;
    assert_eq!(kubelet.report(&uid_of(&a)).unwrap().stage, PodStage::Syncing, "the same content is the same pod");
    std::fs::remove_file(m.path.join("a.yaml")).unwrap();
    until_gone(&kubelet, &uid_of(&a)).await;
}

#[tokio::test(start_paused = true)]
async fn removal_waits_until_every_source_has_reported_once() {
    let (bed, m, n) = (Bed::new(), manifests(), manifests());
    let kubelet = bed.kubelet().await;
    put(&m.path, "a.yaml", &manifest("a", "image:1"));
    let pods = keep(&kubelet, &[&m.path]);
    let a = running(&kubelet, "a-node").await;
    drop(pods);
    kubelet.shutdown().await;

    // Nobody listens at the second source: it has nothing to say, which is not the same as having nothing.
    std::fs::remove_file(m.path.join("a.yaml")).unwrap();
    put(&n.path, "b.yaml", &manifest("b", "image:1"));
    let kubelet = bed.kubelet().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/pods.yaml", listener.local_addr().unwrap());
    drop(listener);
    let sources = vec![StaticSource::Path(n.path.clone()), StaticSource::Url(url)];
    let pods = kubelet.keep_static(sources);
    running(&kubelet, "b-node").await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(kubelet.report(&uid_of(&a)).unwrap().stage, PodStage::Syncing);
    drop(pods);
    kubelet.shutdown().await;

    // An agent without sources leaves static Pods alone; one that has heard all of its own ends the others.
    let kubelet = bed.kubelet().await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(names(&kubelet), ["a-node", "b-node"]);
    let _pods = keep(&kubelet, &[&n.path]);
    until_gone(&kubelet, &uid_of(&a)).await;
    assert_eq!(names(&kubelet), ["b-node"]);
}

/// `TestStaticPodExclusion`, #104648: a fixed uid that is deleted and made again while the old one ends.
#[tokio::test(start_paused = true)]
async fn a_fixed_uid_is_deleted_and_made_again() {
    let (bed, m) = (Bed::new(), manifests());
    bed.runtime.script("main", vec![Life::forever().ignoring_stop(), Life::forever()]);
    let kubelet = bed.kubelet().await;
    put(&m.path, "a.yaml", &fixed("fixed-uid", "a", "image:1"));
    let _pods = keep(&kubelet, &[&m.path]);
    let uid = PodUid::new("fixed-uid").unwrap();
    until_phase(&kubelet, &uid, "Running").await;
    let (first, _) = bed.runtime.newest(&uid, "main").unwrap();
    std::fs::remove_file(m.path.join("a.yaml")).unwrap();
    until_stage(&kubelet, &uid, PodStage::Terminating).await;
    // Several times, with several contents: the last counts.
    for image in ["image:2", "image:3", "image:4"] {
        put(&m.path, "a.yaml", &fixed("fixed-uid", "a", image));
        sleep(Duration::from_millis(100)).await;
    }
    let next = until(&kubelet, &uid, "the new one runs", |r| {
        phase(r) == "Running" && r.pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("image:4")
    })
    .await;
    let (second, state) = bed.runtime.newest(&uid, "main").unwrap();
    assert!(first != second && matches!(state, ContainerState::Running { .. }));
    assert_eq!(next.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count, 0);
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_uid_is_updated_in_place() {
    let (bed, m) = (Bed::new(), manifests());
    let kubelet = bed.kubelet().await;
    put(&m.path, "a.yaml", &fixed("fixed-uid", "a", "image:1"));
    let _pods = keep(&kubelet, &[&m.path]);
    let uid = PodUid::new("fixed-uid").unwrap();
    until_phase(&kubelet, &uid, "Running").await;
    put(&m.path, "a.yaml", &fixed("fixed-uid", "a", "image:2"));
    let report = until(&kubelet, &uid, "the new image runs", |r| {
        let statuses = r.pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
        statuses.clone().any(|c| c.image == "image:2" && c.state.as_ref().is_some_and(|s| s.running.is_some()))
    })
    .await;
    assert_eq!(report.stage, PodStage::Syncing);
    assert_eq!(bed.runtime.count(Op::RunSandbox), 1, "in the same sandbox");
}

/// `Test_allowPodStart`: two manifests of one full name.
#[tokio::test(start_paused = true)]
async fn of_one_full_name_one_runs_at_a_time_in_order_of_arrival() {
    let (bed, m) = (Bed::new(), manifests());
    let kubelet = bed.kubelet().await;
    put(&m.path, "z.yaml", &fixed("first", "a", "image:1"));
    let _pods = keep(&kubelet, &[&m.path]);
    let uid = |name: &str| PodUid::new(name).unwrap();
    until_phase(&kubelet, &uid("first"), "Running").await;
    put(&m.path, "a.yaml", &fixed("second", "a", "image:1"));
    put(&m.path, "b.yaml", &manifest("b", "image:1"));
    running(&kubelet, "b-node").await;
    sleep(Duration::from_secs(60)).await;
    assert!(kubelet.report(&uid("second")).is_none(), "its name is taken");
    std::fs::remove_file(m.path.join("z.yaml")).unwrap();
    until_phase(&kubelet, &uid("second"), "Running").await;
    assert!(kubelet.report(&uid("first")).is_none());
}

#[tokio::test(start_paused = true)]
async fn config_maps_of_the_same_directory_are_there_and_their_changes_arrive() {
    use std::sync::atomic::Ordering::Relaxed;
    let (bed, m) = (Bed::new(), manifests());
    let config =
        |value: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{k: {value}}}\n");
    let kubelet = bed.kubelet().await;
    put(&m.path, "config.yaml", &config("one"));
    put(&m.path, "web.yaml", &manifest("web", "image:1"));
    let _pods = keep(&kubelet, &[&m.path]);
    let web = running(&kubelet, "web-node").await;
    let value = || {
        let (desired, _) = bed.checkpoints.desired(&uid_of(&web)).unwrap();
        desired.objects.config_map("default", "c").and_then(|c| c.data.clone()).unwrap()["k"].clone()
    };
    assert_eq!(value(), "one");
    sleep(Duration::from_secs(5)).await;
    let before = bed.host.set_up.load(Relaxed);
    put(&m.path, "config.yaml", &config("two"));
    let begun = Instant::now();
    while bed.host.set_up.load(Relaxed) == before {
        assert!(begun.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(value(), "two");
    assert_eq!(running(&kubelet, "web-node").await.pod.metadata.uid, web.pod.metadata.uid, "nothing is restarted");
    // One that is broken is not taken from those who have it.
    put(&m.path, "config.yaml", "kind: ConfigMap\n  - {");
    put(&m.path, "db.yaml", &manifest("db", "image:1"));
    running(&kubelet, "db-node").await;
    assert_eq!(value(), "two");
}

#[tokio::test(start_paused = true)]
async fn what_commands_do_to_static_pods_and_their_names() {
    let (bed, m) = (Bed::new(), manifests());
    let kubelet = bed.kubelet().await;
    // A Pod of the same name that nobody's manifest asked for.
    kubelet.apply(vec![simple("web-node", "Always")]).await;
    until_phase(&kubelet, &support::uid("web-node"), "Running").await;
    put(&m.path, "web.yaml", &manifest("web", "image:1"));
    put(&m.path, "db.yaml", &manifest("db", "image:1"));
    let _pods = keep(&kubelet, &[&m.path]);
    let db = running(&kubelet, "db-node").await;
    assert_eq!(names(&kubelet), ["db-node", "web-node"], "it is left alone");
    kubelet.stop(&support::uid("web-node"), StopRequest::default()).unwrap();
    let web = named(&kubelet, "web-node", |r| phase(r) == "Running" && uid_of(r) != support::uid("web-node")).await;
    // Stopped by hand, it stays stopped; removed by hand, it comes afresh, because its manifest is there.
    kubelet.stop(&uid_of(&web), StopRequest::default()).unwrap();
    until_stage(&kubelet, &uid_of(&web), PodStage::Finished).await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(kubelet.report(&uid_of(&web)).unwrap().stage, PodStage::Finished);
    kubelet.stop(&uid_of(&web), StopRequest { grace: None, remove: true }).unwrap();
    until_phase(&kubelet, &uid_of(&web), "Running").await;
    assert_eq!(phase(&kubelet.report(&uid_of(&db)).unwrap()), "Running");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_comes_later_is_found_and_one_that_goes_is_empty() {
    let (bed, m) = (Bed::new(), manifests());
    let later = m.path.join("later");
    let kubelet = bed.kubelet().await;
    let _pods = keep(&kubelet, &[&later]);
    sleep(Duration::from_secs(30)).await;
    std::fs::create_dir(&later).unwrap();
    put(&later, "a.yaml", &manifest("a", "image:1"));
    let a = running(&kubelet, "a-node").await;
    std::fs::remove_dir_all(&later).unwrap();
    until_gone(&kubelet, &uid_of(&a)).await;
}

#[tokio::test(start_paused = true)]
async fn one_file_is_a_source_as_well() {
    let (bed, m) = (Bed::new(), manifests());
    put(&m.path, "a.yaml", &manifest("a", "image:1"));
    put(&m.path, "b.yaml", &manifest("b", "image:1"));
    let kubelet = bed.kubelet().await;
    let _pods = keep(&kubelet, &[&m.path.join("a.yaml")]);
    let a = running(&kubelet, "a-node").await;
    put(&m.path, "a.yaml", &manifest("a", "image:2"));
    named(&kubelet, "a-node", |r| phase(r) == "Running" && uid_of(r) != uid_of(&a)).await;
    assert_eq!(names(&kubelet), ["a-node"]);
}
