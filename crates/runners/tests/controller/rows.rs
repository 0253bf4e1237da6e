//! Rows of actions-runner-controller's own tests, by its names for them, where no other test is one already.
//! `docs/runners-complaints.md` has all of them, each with the test that holds it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as KubeSecret;
use minke_core::clock::{Clock, SystemClock};
use minke_runners::controller::{Cluster, Forges, GitHubForges};
use minke_runners::demand::{Access, JobEvent, Reach, Router, Serves, SetKey, Status, Told};
use minke_runners::engine::{Engine, Input};
use minke_runners::forge::lookalike::{Limits, Lookalike, LookalikeSettings};
use minke_runners::forge::{ForgeError, Secret};
use minke_runners::ids::JobId;
use minke_runners::set::{self, RunnerSet};
use serde_json::json;

use crate::cluster::{FakeCluster, Rates};
use crate::world::set;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn event(id: u64, status: Status) -> JobEvent {
    JobEvent { id: JobId(id), source: "octo/app".to_owned(), status }
}

/// A router that knows one set.
fn router(set: &RunnerSet) -> Router {
    let mut router = Router::default();
    let key = SetKey { namespace: "ci".to_owned(), name: "linux".to_owned() };
    let reach = Reach::of(&set.spec.github).unwrap();
    router.set(&key, Serves { reach, labels: set.spec.labels.iter().collect(), access: Access::All });
    router
}

/// How many a set wants for so many jobs that ask for these labels, of which so many are over.
fn desired(set: &RunnerSet, asked: &[&str], jobs: u64, over: u64) -> u32 {
    let asked: Vec<String> = asked.iter().map(|label| (*label).to_owned()).collect();
    let mut router = router(set);
    let mut inputs = vec![Input::Listed(Vec::new())];
    let queued = (0..jobs).map(|id| event(id, Status::Queued));
    let ended = (0..over).map(|id| event(id, Status::Over { runner: None }));
    for event in queued.chain(ended) {
        for (_, told) in router.heard(&event, &asked, NOW) {
            match told {
                Told::Job(event) => inputs.push(Input::Job(event)),
                Told::Elsewhere(_) | Told::Polled(_) => panic!("there is one set, and no poll"),
            }
        }
    }
    let mut engine = Engine::new(set::settings(set).unwrap());
    engine.handle(inputs, NOW);
    engine.counts().desired
}

/// TestDetermineDesiredReplicas_RepositoryRunner (R) and _OrganizationalRunner (O), but for the rows about state that there is
/// not here (a target's own replicas) and about time (R2, O1: `fewer_are_wanted_for_a_minute_before_any_goes`).
#[test]
fn determine_desired_replicas() {
    let hosted: &[&str] = &["self-hosted"];
    let custom: &[&str] = &["self-hosted", "custom"];
    // Name, labels of runners, labels of jobs, jobs, of which over, minimum, maximum, wanted.
    for (name, runners, asked, jobs, over, min, max, want) in [
        ("R0, O0: runs without ids", hosted, hosted, 0, 0, 2, 10, 2),
        ("R1: explicit self-hosted, three jobs", hosted, hosted, 3, 0, 2, 3, 3),
        ("R1, and more than the maximum", hosted, hosted, 9, 0, 2, 3, 3),
        ("R4, O3: less than the minimum", hosted, hosted, 1, 0, 2, 3, 2),
        ("R5, R6, O4, O5: as many as the minimum", hosted, hosted, 2, 0, 2, 3, 2),
        ("R7, R8: a minimum of one", hosted, hosted, 0, 0, 1, 3, 1),
        ("GitHub Actions Jobs Array is empty", hosted, hosted, 0, 0, 0, 3, 0),
        ("explicit self-hosted, five of six live", hosted, hosted, 6, 1, 0, 10, 5),
        ("implicit self-hosted, five of six live", &["custom"], &["custom"], 6, 1, 0, 10, 5),
        ("self-hosted and custom, of a runner that is only self-hosted", hosted, custom, 5, 0, 2, 10, 2),
        ("self-hosted and custom, of a runner with custom2", &["custom2"], custom, 5, 0, 2, 10, 2),
        ("jobs without labels", custom, &[], 5, 0, 2, 10, 2),
        ("self-hosted and custom, both", custom, custom, 6, 1, 0, 10, 5),
        ("self-hosted and custom, of a runner with custom", &["custom"], custom, 6, 1, 0, 10, 5),
        ("custom, of a runner with self-hosted and custom", custom, &["custom"], 6, 1, 0, 10, 5),
        ("custom, both", &["custom"], &["custom"], 6, 1, 0, 10, 5),
    ] {
        let set = set("linux", runners, |spec| (spec["min"], spec["max"]) = (json!(min), json!(max)));
        assert_eq!(desired(&set, asked, jobs, over), want, "{name}");
    }
}

/// TestWebhookWorkflowJob and TestWebhookWorkflowJobWithSelfHostedLabel: Successful, WrongLabels, OldLabels.
#[test]
fn webhook_workflow_job() {
    let mut linux = set("linux", &["label1"], |_| {});
    linux.metadata.labels = Some([("old".to_owned(), "label".to_owned())].into());
    for (name, asked, scaled) in [
        ("Successful", &["label1"][..], true),
        ("Successful, with self-hosted", &["self-hosted", "label1"], true),
        ("WrongLabels", &["wrong"], false),
        ("WrongLabels, with self-hosted", &["self-hosted", "wrong"], false),
        ("OldLabels: those of the object don't count", &["old"], false),
    ] {
        let asked: Vec<String> = asked.iter().map(|label| (*label).to_owned()).collect();
        let told = router(&linux).heard(&event(1, Status::Queued), &asked, NOW);
        assert_eq!(!told.is_empty(), scaled, "{name}");
    }
}

fn secret(token: &str) -> KubeSecret {
    let mut secret = KubeSecret::default();
    (secret.metadata.namespace, secret.metadata.name) = (Some("ci".to_owned()), Some("github".to_owned()));
    secret.data = Some([("github_token".to_owned(), ByteString(token.as_bytes().to_vec()))].into());
    secret
}

/// Its clients are counted references by the contents of their secrets, and "ARS: updates … when the GitHub config secret
/// changes": here one account a credential, whose budget all its sets share, until it is refused and read again.
#[tokio::test]
async fn a_credential_is_one_client_for_all_its_sets_until_it_is_replaced() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (listen, token) = ("127.0.0.1:0".parse().unwrap(), Secret::new("new"));
    let settings = LookalikeSettings { listen, token, limits: Limits::default(), webhook: None };
    let server = Lookalike::start(settings, Arc::clone(&clock)).await.unwrap();
    let cluster = FakeCluster::new(Arc::default(), Arc::clone(&clock), 1, Rates::default());
    cluster.create_secret(&secret("old")).await.unwrap();
    let forges = GitHubForges::new(Arc::new(cluster.clone()), clock);
    let spec = |organization: &str| {
        let github = json!({"url": server.url(), "organization": organization, "credentialsSecret": "github"});
        set("linux", &["linux"], |spec| spec["github"] = github).spec
    };
    let ask = async |organization: &str| forges.forge("ci", &spec(organization)).await.unwrap().runners().await;
    assert!(matches!(ask("octo").await, Err(ForgeError::Unauthorized(_))));
    cluster.delete_secret("ci", "github").await.unwrap();
    cluster.create_secret(&secret("new")).await.unwrap();
    assert!(matches!(ask("octo").await, Err(ForgeError::Unauthorized(_))), "what was read is used for a while");
    forges.refused("ci", "github");
    ask("octo").await.unwrap();
    ask("other").await.unwrap();
    assert_eq!(forges.budgets(), [("ci/github".to_owned(), 4998)], "two sets, one budget");
}
