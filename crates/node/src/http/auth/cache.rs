//! Answers that are remembered for a while, and questions that are asked once for all who wait. Errors are not remembered.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Answers with their end. Pure; bounded, so that no number of callers fills memory.
#[derive(Debug)]
pub(crate) struct Remembered<K, V> {
    entries: HashMap<K, (V, Instant)>,
    most: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Remembered<K, V> {
    pub(crate) fn new(most: usize) -> Self {
        Self { entries: HashMap::new(), most }
    }

    pub(crate) fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.entries.get(key).filter(|(_, end)| *end > now).map(|(value, _)| value.clone())
    }

    /// Remembers. When it is full, what is over goes, or else what ends first.
    pub(crate) fn put(&mut self, key: K, value: V, end: Instant, now: Instant) {
        if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
            self.entries.retain(|_, (_, end)| *end > now);
            if self.entries.len() >= self.most {
                let first = self.entries.iter().min_by_key(|(_, (_, end))| *end).map(|(key, _)| key.clone());
                first.and_then(|key| self.entries.remove(&key));
            }
        }
        self.entries.insert(key, (value, end));
    }
}

type Outcome<V, E> = Option<Result<V, Arc<E>>>;

#[derive(Debug)]
struct State<K, V, E> {
    remembered: Remembered<K, V>,
    asked: HashMap<K, watch::Receiver<Outcome<V, E>>>,
}

/// A question that is answered elsewhere. Cheap to clone.
#[derive(Debug)]
pub(crate) struct Asked<K, V, E> {
    state: Arc<Mutex<State<K, V, E>>>,
}

impl<K, V, E> Clone for Asked<K, V, E> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl<K, V, E> Asked<K, V, E>
where
    K: Eq + Hash + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
    E: fmt::Debug + Send + Sync + 'static,
{
    pub(crate) fn new(most: usize) -> Self {
        let state = State { remembered: Remembered::new(most), asked: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer: remembered, or asked for. Who comes while it is asked for waits for the same answer. `None`: the question
    /// was given up (the program ends). Cancel-safe; `ask` must end by itself.
    pub(crate) async fn get(
        &self,
        key: K,
        lasts: fn(&V) -> Duration,
        ask: impl Future<Output = Result<V, E>> + Send + 'static,
    ) -> Option<Result<V, Arc<E>>> {
        let mut told = {
            let mut state = self.lock();
            if let Some(value) = state.remembered.get(&key, Instant::now()) {
                return Some(Ok(value));
            }
            match state.asked.get(&key) {
                Some(told) => told.clone(),
                None => {
                    let (tell, told) = watch::channel(None);
                    state.asked.insert(key.clone(), told.clone());
                    tokio::spawn(self.clone().answer(key, lasts, ask, tell));
                    told
                }
            }
        };
        told.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone())
    }

    async fn answer(
        self,
        key: K,
        lasts: fn(&V) -> Duration,
        ask: impl Future<Output = Result<V, E>> + Send,
        tell: watch::Sender<Outcome<V, E>>,
    ) {
        let outcome = ask.await.map_err(Arc::new);
        let mut state = self.lock();
        state.asked.remove(&key);
        if let Ok(value) = &outcome {
            let now = Instant::now();
            state.remembered.put(key, value.clone(), now + lasts(value), now);
        }
        drop(state);
        tell.send_replace(Some(outcome));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;
    use tokio::time::sleep;

    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn lasts(_: &u32) -> Duration {
        TTL
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_who_ask_at_once_are_one_question() {
        let asked = Asked::<&str, u32, String>::new(8);
        let count = Arc::new(AtomicUsize::new(0));
        let ask = |count: Arc<AtomicUsize>| async move {
            sleep(Duration::from_secs(1)).await;
            count.fetch_add(1, Ordering::SeqCst);
            Ok(7)
        };
        let all = (0..1000).map(|_| asked.get("k", lasts, ask(count.clone())));
        let answers = futures_util::future::join_all(all).await;
        assert!(answers.iter().all(|answer| matches!(answer, Some(Ok(7)))));
        assert_eq!(count.load(Ordering::SeqCst), 1);
        sleep(TTL).await;
        assert!(asked.get("k", lasts, ask(count.clone())).await.is_some());
        assert_eq!(count.load(Ordering::SeqCst), 2, "an answer is remembered for its time and no longer");
    }

    #[tokio::test(start_paused = true)]
    async fn errors_are_told_to_all_who_wait_and_forgotten() {
        let asked = Asked::<&str, u32, String>::new(8);
        let fails = async {
            sleep(Duration::from_secs(1)).await;
            Err("away".to_owned())
        };
        let (first, second) = tokio::join!(asked.get("k", lasts, fails), asked.get("k", lasts, async { Ok(1) }));
        assert!(matches!((first, second), (Some(Err(_)), Some(Err(_)))));
        assert!(matches!(asked.get("k", lasts, async { Ok(2) }).await, Some(Ok(2))));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_leaves_leaves_the_question_to_the_others() {
        let asked = Asked::<&str, u32, String>::new(8);
        let slow = async {
            sleep(Duration::from_secs(5)).await;
            Ok(3)
        };
        let left = tokio::time::timeout(Duration::from_secs(1), asked.get("k", lasts, slow)).await;
        assert!(left.is_err());
        assert!(matches!(asked.get("k", lasts, async { Ok(4) }).await, Some(Ok(3))));
    }

    proptest! {
        #[test]
        fn it_is_bounded_and_never_tells_what_is_over(steps in prop::collection::vec((0..12_u8, 0..60_u64, 0..20_u64), 0..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let (mut remembered, mut now) = (Remembered::new(5), Instant::now());
                let mut model: HashMap<u8, (u64, Instant)> = HashMap::new();
                for (key, lasts, pass) in steps {
                    now += Duration::from_secs(pass);
                    if let Some(value) = remembered.get(&key, now) {
                        let (expected, end) = model[&key];
                        assert!(end > now && value == expected);
                    }
                    let end = now + Duration::from_secs(lasts);
                    remembered.put(key, lasts, end, now);
                    model.insert(key, (lasts, end));
                    assert!(remembered.entries.len() <= 5);
                    assert_eq!(remembered.get(&key, now), (lasts > 0).then_some(lasts), "the newest is there");
                }
            });
        }
    }
}
