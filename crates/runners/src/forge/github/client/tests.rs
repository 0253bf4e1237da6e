use super::super::auth::AppKey;
use super::super::auth::tests::KEY;
use super::super::fake::{Fake, reply};
use super::*;
use crate::engine::Refused;
use crate::life::Removal;
use crate::set::GitHubScope;
use jiff::SignedDuration;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const RUNNERS: &str = "GET /api/v3/orgs/octo/actions/runners?per_page=100&page=1";
const JIT: &str = "POST /api/v3/orgs/octo/actions/runners/generate-jitconfig";
const REMOVE: &str = "DELETE /api/v3/orgs/octo/actions/runners/7";

/// A clock that a test sets.
#[derive(Debug)]
struct SetClock(std::sync::Mutex<Timestamp>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

async fn github(credential: Credential) -> (Fake, GitHub, Arc<SetClock>) {
    let fake = Fake::start().await;
    let written =
        GitHubScope { url: Some(fake.url.clone()), organization: Some("octo".to_owned()), ..GitHubScope::default() };
    let (scope, labels) = (Scope::new(&written).unwrap(), vec!["linux".to_owned()]);
    let clock = Arc::new(SetClock(std::sync::Mutex::new(NOW)));
    let account = Account::new(credential, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    let client = GitHub::new(Arc::new(account), GitHubSettings { scope, group: 3, labels });
    (fake, client, clock)
}

async fn with_token() -> (Fake, GitHub, Arc<SetClock>) {
    github(Credential::Token(Secret::new("pat"))).await
}

fn runner(id: u64, busy: bool) -> Value {
    json!({"id": id, "name": format!("r-{id}"), "os": "linux", "status": "online", "busy": busy, "labels": []})
}

fn page(total: u64, ids: std::ops::Range<u64>) -> Value {
    json!({"total_count": total, "runners": ids.map(|id| runner(id, false)).collect::<Vec<_>>()})
}

#[tokio::test]
async fn a_registration_is_there_before_the_pod() {
    let (fake, client, _) = with_token().await;
    fake.answers(JIT, reply(201, &json!({"runner": {"id": 7, "name": "r"}, "encoded_jit_config": "c2VjcmV0"})));
    let given = client.register("set-0-1f").await.unwrap();
    assert_eq!((given.id, given.configuration.reveal()), (RunnerId(7), "c2VjcmV0"));
    assert!(!format!("{given:?}").contains("c2VjcmV0"));
    let asked = &fake.asked()[0];
    assert_eq!(asked.authorization, "Bearer pat");
    let expected = json!({"name": "set-0-1f", "runner_group_id": 3, "labels": ["linux"], "work_folder": "_work"});
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn a_registration_token_for_those_who_need_one() {
    let (fake, client, _) = with_token().await;
    let path = "POST /api/v3/orgs/octo/actions/runners/registration-token";
    fake.answers(path, reply(201, &json!({"token": "AABF", "expires_at": "2027-01-15T09:00:00Z"})));
    let (token, until) = client.registration_token().await.unwrap();
    assert_eq!((token.reveal(), until), ("AABF", "2027-01-15T09:00:00Z".parse().unwrap()));
}

#[tokio::test]
async fn all_pages_are_read_and_a_list_that_changes_is_read_again() {
    let (fake, client, _) = with_token().await;
    let second = RUNNERS.replace("&page=1", "&page=2");
    fake.answers(RUNNERS, reply(200, &page(150, 0..100))).answers(RUNNERS, reply(200, &page(149, 0..100)));
    fake.answers(&second, reply(200, &page(149, 100..149)));
    let runners = client.runners().await.unwrap();
    assert_eq!((runners.len(), fake.asked().len()), (149, 4));
    assert!(runners[0].online && !runners[0].busy);
}

#[tokio::test]
async fn a_list_that_never_stands_still_is_no_list() {
    let (fake, client, _) = with_token().await;
    fake.answers(RUNNERS, reply(200, &page(150, 0..100)));
    fake.answers(&RUNNERS.replace("&page=1", "&page=2"), reply(200, &page(151, 100..150)));
    assert!(matches!(client.runners().await, Err(ForgeError::Changing)));
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let (fake, client, _) = with_token().await;
    fake.answers(RUNNERS, reply(200, &page(2, 0..2)).header("etag", &"\"a\""))
        .answers(RUNNERS, reply(304, &Value::Null));
    let first = client.runners().await.unwrap();
    assert_eq!(client.runners().await.unwrap(), first);
    assert_eq!(fake.asked()[1].if_none_match.as_deref(), Some("\"a\""));
}

#[tokio::test]
async fn the_answer_to_a_removal_decides() {
    let (fake, client, _) = with_token().await;
    fake.answers(REMOVE, reply(204, &Value::Null));
    fake.answers(REMOVE, reply(404, &json!({"message": "Not Found"})));
    fake.answers(REMOVE, reply(422, &json!({"message": "Runner is currently running a job"})));
    fake.answers(REMOVE, reply(403, &json!({"message": "Must have admin rights"})));
    fake.answers(REMOVE, reply(502, &Value::Null));
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(client.remove(RunnerId(7)).await.map_or_else(|error| error.removal(), |()| Removal::Gone));
    }
    assert_eq!(answers, [Removal::Gone, Removal::Gone, Removal::Busy, Removal::Forbidden, Removal::Failed]);
}

#[tokio::test]
async fn a_rate_limit_is_obeyed_without_asking_again() {
    let (fake, client, clock) = with_token().await;
    fake.answers(REMOVE, reply(403, &json!({"message": "slow down"})).header("retry-after", &60));
    fake.answers(REMOVE, reply(204, &Value::Null));
    let until = NOW + SignedDuration::from_secs(60);
    for _ in 0..3 {
        let error = client.remove(RunnerId(7)).await.unwrap_err();
        assert_eq!(error.removal(), Removal::Limited(until));
    }
    assert_eq!(fake.asked().len(), 1, "the others were not even asked");
    *clock.0.lock().unwrap() = until;
    client.remove(RunnerId(7)).await.unwrap();
}

#[tokio::test]
async fn lists_leave_the_last_requests_to_registrations() {
    let (fake, client, _) = with_token().await;
    let reset = (NOW + SignedDuration::from_mins(30)).as_second();
    let low = reply(200, &page(0, 0..0)).header("x-ratelimit-remaining", &150).header("x-ratelimit-reset", &reset);
    fake.answers(RUNNERS, low);
    fake.answers(JIT, reply(409, &json!({"message": "Already exists"})));
    client.runners().await.unwrap();
    assert_eq!(client.account.budget().remaining(), Some(150));
    assert!(matches!(client.runners().await, Err(ForgeError::Limited(_))));
    assert_eq!(client.register("r").await.unwrap_err().refused(), Refused::Conflict);
}

#[tokio::test]
async fn an_app_asks_for_one_token_and_for_the_next_in_time() {
    let app = AppKey::new("Iv1.abc", 42, &Secret::new(KEY)).unwrap();
    let (fake, client, clock) = github(Credential::App(Box::new(app))).await;
    let tokens = "POST /api/v3/app/installations/42/access_tokens";
    fake.answers(tokens, reply(201, &json!({"token": "one", "expires_at": "2027-01-15T09:00:00Z"})));
    fake.answers(tokens, reply(201, &json!({"token": "two", "expires_at": "2027-01-15T10:00:00Z"})));
    fake.answers(REMOVE, reply(204, &Value::Null));
    let (first, second) = tokio::join!(client.remove(RunnerId(7)), client.remove(RunnerId(7)));
    first.and(second).unwrap();
    *clock.0.lock().unwrap() = "2027-01-15T08:56:00Z".parse().unwrap();
    client.remove(RunnerId(7)).await.unwrap();
    let asked = fake.asked();
    let used: Vec<_> = asked.iter().filter(|a| a.line == REMOVE).map(|a| a.authorization.as_str()).collect();
    assert_eq!(used, ["Bearer one", "Bearer one", "Bearer two"]);
    assert!(asked[0].authorization.starts_with("Bearer ey"), "the App's claim");
}

#[tokio::test]
async fn a_token_that_was_taken_back_is_replaced() {
    let app = AppKey::new("1", 42, &Secret::new(KEY)).unwrap();
    let (fake, client, _) = github(Credential::App(Box::new(app))).await;
    let token = json!({"token": "t", "expires_at": "2027-01-15T09:00:00Z"});
    fake.answers("POST /api/v3/app/installations/42/access_tokens", reply(201, &token));
    fake.answers(REMOVE, reply(401, &json!({"message": "Bad credentials"}))).answers(REMOVE, reply(204, &Value::Null));
    assert_eq!(client.remove(RunnerId(7)).await.unwrap_err().removal(), Removal::NoCredential);
    client.remove(RunnerId(7)).await.unwrap();
    assert_eq!(fake.asked().len(), 4);
}

#[tokio::test]
async fn jobs_are_those_that_are_queued_or_running() {
    let (fake, client, _) = with_token().await;
    let runs = |status| format!("GET /api/v3/repos/o/r/actions/runs?status={status}&per_page=100&page=1");
    fake.answers(&runs("queued"), reply(200, &json!({"total_count": 1, "workflow_runs": [{"id": 5}]})));
    fake.answers(&runs("in_progress"), reply(200, &json!({"total_count": 1, "workflow_runs": [{"id": 5}]})));
    let job = |id, status, runner: Value| json!({"id": id, "status": status, "labels": ["linux"], "runner_id": runner});
    let jobs = json!({"total_count": 4, "jobs": [
        job(1, "queued", Value::Null), job(2, "in_progress", json!(7)), job(3, "completed", json!(7)),
        job(4, "waiting", json!(0)),
    ]});
    fake.answers("GET /api/v3/repos/o/r/actions/runs/5/jobs?per_page=100&page=1", reply(200, &jobs));
    let listed = client.jobs("o/r").await.unwrap();
    let statuses: Vec<_> = listed.iter().map(|job| (job.id.0, job.status)).collect();
    assert_eq!(statuses, [(1, Status::Queued), (2, Status::Running { runner: Some(RunnerId(7)) })]);
}

#[tokio::test]
async fn answers_that_make_no_sense_are_errors_without_their_contents() {
    let (fake, client, _) = with_token().await;
    for body in ["", "[]", "{\"runner\":{\"id\":-1},\"encoded_jit_config\":\"hunter2\"}", "<html>hunter2</html>"] {
        fake.answers(JIT, reply(201, &Value::Null).body(body));
    }
    for _ in 0..4 {
        let error = client.register("r").await.unwrap_err();
        assert!(matches!(error, ForgeError::Malformed(_)) && !error.to_string().contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn a_redirect_takes_no_token_elsewhere() {
    let (fake, client, _) = with_token().await;
    fake.answers(REMOVE, reply(307, &Value::Null).header("location", &format!("{}/elsewhere", fake.url)));
    assert_eq!(client.remove(RunnerId(7)).await.unwrap_err().removal(), Removal::Failed);
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test]
async fn a_forge_that_hangs_or_is_away_holds_nobody() {
    let (fake, client, _) = with_token().await;
    fake.answers(REMOVE, reply(204, &Value::Null).hangs());
    let others = async {
        fake.answers(JIT, reply(201, &json!({"runner": {"id": 8}, "encoded_jit_config": "c"})));
        client.register("r").await
    };
    tokio::select! {
        removed = client.remove(RunnerId(7)) => panic!("{removed:?}"),
        registered = others => assert_eq!(registered.unwrap().id, RunnerId(8), "others go on while one hangs"),
    }
    drop(fake);
    let (gone, away, _) = with_token().await;
    drop(gone);
    assert_eq!(away.remove(RunnerId(7)).await.unwrap_err().removal(), Removal::Failed);
}

const GROUP: &str = "GET /api/v3/orgs/octo/actions/runner-groups/3";

fn group(visibility: &str, public: bool) -> Value {
    json!({"id": 3, "name": "ci", "visibility": visibility, "default": false, "allows_public_repositories": public})
}

fn repositories(total: usize, names: &[(&str, bool)]) -> Value {
    let item = |(name, private): &(&str, bool)| json!({"id": 1, "full_name": name, "private": private});
    json!({"total_count": total, "repositories": names.iter().map(item).collect::<Vec<_>>()})
}

#[tokio::test]
async fn a_group_of_selected_repositories_is_open_to_those_alone() {
    let (fake, client, _) = with_token().await;
    let list = format!("{GROUP}/repositories?per_page=100&page=");
    fake.answers(GROUP, reply(200, &group("selected", false)));
    fake.answers(&format!("{list}1"), reply(200, &repositories(3, &[("Octo/App", true), ("octo/site", false)])));
    fake.answers(&format!("{list}2"), reply(200, &repositories(3, &[("octo/lib", true)])));
    let access = client.access().await.unwrap();
    assert_eq!(access, Access::only(["octo/app", "octo/lib"]), "the site is public, and the group is for private ones");
    assert_eq!(fake.asked().len(), 3);
}

#[tokio::test]
async fn a_group_that_is_open_to_all_costs_one_call_and_one_that_is_not_there_restricts_nobody() {
    for visibility in ["all", "private"] {
        let (fake, client, _) = with_token().await;
        fake.answers(GROUP, reply(200, &group(visibility, true)));
        assert_eq!((client.access().await.unwrap(), fake.asked().len()), (Access::All, 1), "{visibility}");
    }
    let (_fake, client, _) = with_token().await;
    assert_eq!(client.access().await.unwrap(), Access::All, "404: a plan without groups");
    let (fake, client, _) = with_token().await;
    fake.answers(GROUP, reply(403, &json!({"message": "Resource not accessible by integration"})));
    assert!(matches!(client.access().await, Err(ForgeError::Forbidden(_))), "who may not ask does not know");
}

#[tokio::test]
async fn only_an_organizations_group_is_asked_for() {
    let fake = Fake::start().await;
    let url = Some(fake.url.clone());
    let account = Account::new(Credential::Token(Secret::new("pat")), Arc::new(SetClock(std::sync::Mutex::new(NOW))));
    let account = Arc::new(account.unwrap());
    for scope in [
        GitHubScope { url: url.clone(), repository: Some("octo/app".to_owned()), ..GitHubScope::default() },
        GitHubScope { url, enterprise: Some("octo".to_owned()), ..GitHubScope::default() },
    ] {
        let settings = GitHubSettings { scope: Scope::new(&scope).unwrap(), group: 3, labels: vec![] };
        assert_eq!(GitHub::new(Arc::clone(&account), settings).access().await.unwrap(), Access::All);
    }
    assert!(fake.asked().is_empty());
}
