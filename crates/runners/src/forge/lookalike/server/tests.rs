use super::*;
use crate::demand::Access;
use crate::engine::Refused;
use crate::forge::github::{Account, Credential, GitHub, GitHubSettings, Scope};
use crate::forge::{Forge, ForgeError};
use crate::life::Removal;
use crate::set::GitHubScope;
use crate::webhook::{Receiver, ReceiverSettings};
use minke_core::clock::SystemClock;

async fn start(limits: Limits, webhook: Option<(String, Secret)>) -> (Lookalike, GitHub) {
    let listen = "127.0.0.1:0".parse().unwrap();
    let settings = LookalikeSettings { listen, token: Secret::new("t"), limits, webhook };
    let server = Lookalike::start(settings, Arc::new(SystemClock)).await.unwrap();
    let scope =
        GitHubScope { url: Some(server.url()), organization: Some("octo".to_owned()), ..GitHubScope::default() };
    let scope = Scope::new(&scope).unwrap();
    let account = Account::new(Credential::Token(Secret::new("t")), Arc::new(SystemClock)).unwrap();
    let labels = vec!["linux".to_owned()];
    (server, GitHub::new(Arc::new(account), GitHubSettings { scope, group: 1, labels }))
}

/// Every call of the client, against the server: what one says, the other understands.
#[tokio::test]
async fn the_client_and_the_look_alike_understand_each_other() {
    let (server, client) = start(Limits::default(), None).await;
    let mut ids = Vec::new();
    for number in 0..120 {
        ids.push(client.register(&format!("r-{number}")).await.unwrap().id);
    }
    assert_eq!(client.register("r-0").await.unwrap_err().refused(), Refused::Conflict);
    assert_eq!(client.runners().await.unwrap().len(), 120, "two pages");
    let spent = server.spent();
    client.runners().await.unwrap();
    assert_eq!(server.spent(), spent, "what has not changed costs nothing");
    let running = server.with(|state, now| {
        state.queue("octo/app", &["linux"], now);
        state.queue("octo/app", &["linux"], now);
        let configuration = format!("jit-{}-r-0", ids[0]);
        let id = state.connect(&configuration).unwrap();
        state.take_job(id, now).unwrap();
        id
    });
    let jobs = client.jobs("octo/app").await.unwrap();
    assert_eq!(jobs.len(), 2);
    assert_eq!(client.remove(running).await.unwrap_err().removal(), Removal::Busy);
    client.remove(ids[1]).await.unwrap();
    assert_eq!(client.remove(ids[1]).await.unwrap_err().removal(), Removal::Gone);
    assert!(client.registration_token().await.is_ok());
    assert_eq!(client.access().await.unwrap(), Access::All);
    server.with(|state, _| state.restrict(1, &["octo/Lib"]));
    assert_eq!(client.access().await.unwrap(), Access::only(["octo/lib"]));
    let spent = server.spent();
    client.access().await.unwrap();
    assert_eq!(server.spent(), spent, "what has not changed costs nothing");
}

#[tokio::test]
async fn limits_and_faults_are_told_as_github_tells_them() {
    let (server, client) = start(Limits { hourly: 3, latency: Duration::ZERO }, None).await;
    let fault = |kind| Fault { method: "POST".to_owned(), path: "jitconfig".to_owned(), times: 1, kind };
    server.fault(fault(Kind::Answer(503, "away".to_owned())));
    assert_eq!(client.register("a").await.unwrap_err().refused(), Refused::Unavailable);
    server.fault(fault(Kind::LostAnswer));
    assert_eq!(client.register("a").await.unwrap_err().refused(), Refused::Unavailable);
    assert_eq!(client.register("a").await.unwrap_err().refused(), Refused::Conflict, "it was done");
    client.register("b").await.unwrap();
    assert!(matches!(client.register("c").await, Err(ForgeError::Limited(_))));
    let (server, client) = start(Limits::default(), None).await;
    server.fault(fault(Kind::RetryAfter(60)));
    assert!(matches!(client.register("a").await, Err(ForgeError::Limited(_))));
    assert_eq!(server.spent(), 0);
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_an_open_address_too() {
    let (server, _) = start(Limits::default(), None).await;
    let account = Account::new(Credential::Token(Secret::new("x")), Arc::new(SystemClock)).unwrap();
    let github =
        GitHubScope { url: Some(server.url()), organization: Some("octo".to_owned()), ..GitHubScope::default() };
    let settings = GitHubSettings { scope: Scope::new(&github).unwrap(), group: 1, labels: vec!["l".to_owned()] };
    let client = GitHub::new(Arc::new(account), settings);
    assert_eq!(client.register("a").await.unwrap_err().refused(), Refused::Credential);
    let listen = "0.0.0.0:0".parse().unwrap();
    let settings = LookalikeSettings { listen, token: Secret::new("t"), limits: Limits::default(), webhook: None };
    let refused = Lookalike::start(settings, Arc::new(SystemClock)).await;
    assert!(matches!(refused, Err(LookalikeError::NotLoopback(_))));
}

#[tokio::test]
async fn its_deliveries_are_taken_by_the_receiver() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (news, mut heard) = mpsc::channel(8);
    let settings = ReceiverSettings { secret: Secret::new("s"), news, journal: None, metrics: None };
    let receiver = tokio::spawn(Receiver::new(settings).serve(listener));
    let (server, _) = start(Limits::default(), Some((url, Secret::new("s")))).await;
    let job = server.with(|state, now| state.queue("octo/app", &["linux"], now));
    let told = tokio::time::timeout(Duration::from_secs(20), heard.recv()).await.unwrap().unwrap();
    assert_eq!((told.event.id, told.labels), (job, vec!["linux".to_owned()]));
    receiver.abort();
}
