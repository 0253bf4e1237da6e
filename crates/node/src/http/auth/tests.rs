//! Who is admitted to what, with reviews that are scripted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::time::sleep;

use super::super::route::route;
use super::*;

/// `good` is alice's token; alice may what is listed; `away`: nobody answers.
#[derive(Debug, Default)]
struct Scripted {
    allowed: Mutex<Vec<(&'static str, &'static str)>>,
    away: Mutex<bool>,
    tokens: AtomicUsize,
    accesses: AtomicUsize,
}

#[async_trait]
impl Reviews for Scripted {
    async fn token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.tokens.fetch_add(1, Ordering::SeqCst);
        if *self.away.lock().unwrap() {
            return Err(ReviewError { what: "a token", transient: false, source: "away".into() });
        }
        Ok((token == "good").then(|| User { name: "alice".to_owned(), ..User::default() }))
    }

    async fn access(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        self.accesses.fetch_add(1, Ordering::SeqCst);
        assert_eq!(access.node, "n");
        if *self.away.lock().unwrap() {
            return Err(ReviewError { what: "an access", transient: false, source: "away".into() });
        }
        let wanted = (access.verb, access.subresource);
        Ok(user.name == "alice" && self.allowed.lock().unwrap().contains(&wanted))
    }
}

fn guard(allowed: &[(&'static str, &'static str)]) -> (Arc<Scripted>, Guard) {
    let reviews = Arc::new(Scripted { allowed: Mutex::new(allowed.to_vec()), ..Scripted::default() });
    (reviews.clone(), Guard::new("n".to_owned(), reviews))
}

fn bearer(text: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, text.parse().unwrap())])
}

async fn ask(guard: &Guard, headers: &HeaderMap, method: Method, path: &str) -> Result<Arc<User>, Refused> {
    guard.admit(None, &method, headers, &route(&method, path)).await
}

#[tokio::test(start_paused = true)]
async fn nobody_is_anonymous() {
    let (reviews, guard) = guard(&[("get", "healthz")]);
    let mut none = vec![HeaderMap::new()];
    none.extend(["Basic eDp5", "Bearer", "Bearer ", "good", "bearerx good", "Bearer bad"].map(bearer));
    none.push(bearer(&format!("Bearer {}", "x".repeat(LONGEST_TOKEN + 1))));
    for headers in none {
        let refused = ask(&guard, &headers, Method::GET, "/healthz").await.unwrap_err();
        assert_eq!((refused.code, refused.message.as_str()), (401, "Unauthorized"), "{headers:?}");
    }
    assert_eq!(reviews.tokens.load(Ordering::SeqCst), 1, "only what looks like a token is reviewed");
    for text in ["Bearer good", "bearer  good "] {
        assert_eq!(ask(&guard, &bearer(text), Method::GET, "/healthz").await.unwrap().name, "alice");
    }
}

#[tokio::test(start_paused = true)]
async fn the_fine_grained_is_enough_and_so_is_proxy() {
    let token = bearer("Bearer good");
    let (_, fine) = guard(&[("get", "pods")]);
    assert!(ask(&fine, &token, Method::GET, "/pods").await.is_ok());
    assert!(ask(&fine, &token, Method::GET, "/runningpods/").await.is_ok());
    let refused = ask(&fine, &token, Method::GET, "/configz").await.unwrap_err();
    let expected = "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[configz proxy])\n";
    assert_eq!((refused.code, refused.message.as_str()), (403, expected));
    let (_, proxy) = guard(&[("get", "proxy")]);
    for path in ["/pods", "/configz", "/healthz", "/containerLogs/ns/p/c"] {
        assert!(ask(&proxy, &token, Method::GET, path).await.is_ok(), "{path}");
    }
    // Reading is not running commands, and statistics and metrics are apart.
    for (method, path) in [
        (Method::GET, "/exec/ns/p/c"),
        (Method::POST, "/exec/ns/p/c"),
        (Method::GET, "/attach/ns/p/c"),
        (Method::GET, "/portForward/ns/p"),
        (Method::GET, "/stats/summary"),
        (Method::GET, "/metrics"),
        (Method::GET, "/logs/"),
    ] {
        assert_eq!(ask(&proxy, &token, method, path).await.unwrap_err().code, 403, "{path}");
    }
    let (_, creates) = guard(&[("create", "proxy")]);
    assert!(ask(&creates, &token, Method::GET, "/exec/ns/p/c").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_certificate_goes_before_a_token() {
    let (reviews, guard) = guard(&[]);
    let user = Some(Arc::new(User { name: "api".to_owned(), ..User::default() }));
    let method = Method::GET;
    let refused = guard.admit(user, &method, &bearer("Bearer good"), &route(&method, "/pods")).await.unwrap_err();
    assert!(refused.message.contains("user=api"), "{refused:?}");
    assert_eq!(reviews.tokens.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_be_reviewed_is_refused_and_asked_for_again() {
    let (reviews, guard) = guard(&[("get", "metrics")]);
    let token = bearer("Bearer good");
    *reviews.away.lock().unwrap() = true;
    assert_eq!(ask(&guard, &token, Method::GET, "/metrics").await.unwrap_err().code, 401);
    *reviews.away.lock().unwrap() = false;
    assert!(ask(&guard, &token, Method::GET, "/metrics").await.is_ok());
    *reviews.away.lock().unwrap() = true;
    // Remembered, so it goes on.
    assert!(ask(&guard, &token, Method::GET, "/metrics").await.is_ok());
    let refused = ask(&guard, &token, Method::GET, "/stats/summary").await.unwrap_err();
    let expected = "Authorization error (user=alice, verb=get, resource=nodes, subresource=stats)";
    assert_eq!((refused.code, refused.message.as_str()), (500, expected));
}

#[tokio::test(start_paused = true)]
async fn answers_last_as_long_as_upstreams() {
    let (reviews, guard) = guard(&[("get", "metrics")]);
    let (good, bad) = (bearer("Bearer good"), bearer("Bearer bad"));
    let counts = || (reviews.tokens.load(Ordering::SeqCst), reviews.accesses.load(Ordering::SeqCst));
    for _ in 0..10 {
        assert!(ask(&guard, &good, Method::GET, "/metrics").await.is_ok());
        assert!(ask(&guard, &good, Method::GET, "/stats/summary").await.is_err());
        assert!(ask(&guard, &bad, Method::GET, "/metrics").await.is_err());
    }
    assert_eq!(counts(), (2, 2));
    sleep(DENIED).await;
    assert!(ask(&guard, &good, Method::GET, "/stats/summary").await.is_err());
    assert!(ask(&guard, &good, Method::GET, "/metrics").await.is_ok());
    assert_eq!(counts(), (2, 3), "a no is asked again after 30 s");
    sleep(TOKEN).await;
    assert!(ask(&guard, &good, Method::GET, "/metrics").await.is_ok());
    assert_eq!(counts(), (3, 3), "a token after 2 min");
    sleep(ALLOWED).await;
    assert!(ask(&guard, &good, Method::GET, "/metrics").await.is_ok());
    assert_eq!(counts(), (4, 4), "a yes after 5 min");
}
