//! When Pods are evicted, and what the machine's conditions are meanwhile.

use super::*;

const S: fn(u64) -> Duration = Duration::from_secs;

fn shown(state: &EvictionState) -> Vec<&'static str> {
    state.pressure().iter().map(|p| p.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn memory_pressure() {
    let soft =
        Threshold { grace: Some(S(120)), ..Threshold::hard(Signal::Memory, ThresholdValue::Quantity(200 * MIB)) };
    let config = EvictionConfig { max_pod_grace: S(5), ..config(vec![hard_memory(), soft]) };
    let pods = [
        memory_user("guaranteed", 0, 100, 90),
        memory_user("burstable", 0, 200, 300),
        memory_user("best-effort", 0, 0, 200),
    ];
    let (mut state, start) = (EvictionState::default(), Instant::now());
    assert_eq!(round(&mut state, &config, &memory(500), &pods, start), []);
    assert_eq!(shown(&state), [""; 0]);
    // Below the soft threshold: the condition shows, and nobody goes before its grace period is over.
    assert_eq!(round(&mut state, &config, &memory(150), &pods, start + S(60)), []);
    assert_eq!(shown(&state), ["MemoryPressure"]);
    assert_eq!(round(&mut state, &config, &memory(150), &pods, start + S(179)), []);
    let evicted = round(&mut state, &config, &memory(150), &pods, start + S(180));
    assert_eq!((names(&evicted), evicted[0].grace), (vec!["best-effort".to_owned()], S(5)));
    assert_eq!(evicted[0].cause.as_str(), "memory.available");
    // Above both again: nobody goes; the condition stays for the transition period.
    assert_eq!(round(&mut state, &config, &memory(500), &pods, start + S(200)), []);
    assert_eq!(shown(&state), ["MemoryPressure"]);
    // Below the hard one: at once.
    let evicted = round(&mut state, &config, &memory(50), &pods, start + S(210));
    assert_eq!((names(&evicted), evicted[0].grace), (vec!["best-effort".to_owned()], S(1)));
    assert_eq!(round(&mut state, &config, &memory(500), &pods, start + S(509)), []);
    assert_eq!(shown(&state), ["MemoryPressure"], "299 s after it was last seen");
    assert_eq!(round(&mut state, &config, &memory(500), &pods, start + S(510)), []);
    assert_eq!(shown(&state), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_soft_threshold_that_was_resolved_begins_its_grace_anew() {
    let soft = Threshold { grace: Some(S(100)), ..hard_memory() };
    let (config, pods) = (config(vec![soft]), [memory_user("a", 0, 0, 1)]);
    let (mut state, start) = (EvictionState::default(), Instant::now());
    assert_eq!(round(&mut state, &config, &memory(50), &pods, start), []);
    assert_eq!(round(&mut state, &config, &memory(500), &pods, start + S(60)), []);
    assert_eq!(round(&mut state, &config, &memory(50), &pods, start + S(110)), []);
    assert_eq!(names(&round(&mut state, &config, &memory(50), &pods, start + S(210))), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_grace_of_a_soft_eviction_is_the_shorter_one() {
    let soft = Threshold { grace: Some(Duration::ZERO), ..hard_memory() };
    let of = |own: i64, most: u64| {
        let mut candidate = memory_user("a", 0, 0, 1);
        let mut pod = (*candidate.pod).clone();
        pod.spec.as_mut().unwrap().termination_grace_period_seconds = Some(own);
        candidate.pod = Arc::new(pod);
        let config = EvictionConfig { max_pod_grace: S(most), ..config(vec![soft]) };
        round(&mut EvictionState::default(), &config, &memory(50), &[candidate], Instant::now())[0].grace
    };
    assert_eq!((of(30, 60), of(60, 30), of(60, 0), of(0, 60)), (S(30), S(30), S(1), S(1)));
}

#[tokio::test(start_paused = true)]
async fn min_reclaim() {
    let threshold = Threshold { min_reclaim: Some(ThresholdValue::Quantity(50 * MIB)), ..hard_memory() };
    let (config, pods) = (config(vec![threshold]), [memory_user("a", 0, 0, 1)]);
    let (mut state, now) = (EvictionState::default(), Instant::now());
    assert_eq!(round(&mut state, &config, &memory(120), &pods, now), [], "not met yet: the least counts nothing");
    assert_eq!(names(&round(&mut state, &config, &memory(99), &pods, now)), ["a"]);
    assert_eq!(names(&round(&mut state, &config, &memory(149), &pods, now)), ["a"], "not enough was reclaimed");
    assert_eq!(round(&mut state, &config, &memory(150), &pods, now), []);
    assert_eq!(round(&mut state, &config, &memory(120), &pods, now), []);
}

#[tokio::test(start_paused = true)]
async fn node_reclaim_funcs() {
    let nodefs = Threshold {
        min_reclaim: Some(ThresholdValue::Quantity(5)),
        ..Threshold::hard(Signal::Nodefs, ThresholdValue::Quantity(10))
    };
    let (config, pods) = (config(vec![nodefs]), [disk_user("a", 0, 0, 100, 1)]);
    let (mut state, now) = (EvictionState::default(), Instant::now());
    let left = |n: u64| levels(&[(Signal::Nodefs, n, 100)]);
    let begin = |state: &mut EvictionState| {
        let event = Event::Observed { observations: &left(9), limited: &[] };
        assert_eq!(state.step(&config, event, now), [Action::Reclaim(Signal::Nodefs)]);
    };
    begin(&mut state);
    assert_eq!(shown(&state), ["DiskPressure"]);
    assert_eq!(state.step(&config, Event::Reclaimed(&left(15)), now), [], "what nobody needed was enough");
    assert_eq!(state.step(&config, Event::Measured(&pods), now), [], "the round is over");
    begin(&mut state);
    assert_eq!(state.step(&config, Event::Reclaimed(&left(14)), now), [Action::Measure(Signal::Nodefs)]);
    let actions = state.step(&config, Event::Measured(&pods), now);
    let [Action::Evict(verdict)] = actions.as_slice() else { panic!("nobody goes") };
    assert_eq!((verdict.cause, verdict.grace), (EvictionCause::Short(Signal::Nodefs), S(1)));
}

#[tokio::test(start_paused = true)]
async fn reclaiming_memory_or_process_ids_begins_with_pods() {
    for signal in [Signal::Memory, Signal::Pid] {
        let config = config(vec![Threshold::hard(signal, ThresholdValue::Quantity(10))]);
        let observed = levels(&[(signal, 1, 100)]);
        let event = Event::Observed { observations: &observed, limited: &[] };
        let actions = EvictionState::default().step(&config, event, Instant::now());
        assert_eq!(actions, [Action::Measure(signal)]);
    }
}

#[tokio::test(start_paused = true)]
async fn memory_comes_before_all_other_resources() {
    let quantity = ThresholdValue::Quantity(10);
    let order = [Signal::Pid, Signal::Nodefs, Signal::Memory];
    let config = config(order.map(|s| Threshold::hard(s, quantity)).into());
    let observed = levels(&order.map(|s| (s, 1, 100)));
    let mut state = EvictionState::default();
    let event = Event::Observed { observations: &observed, limited: &[] };
    assert_eq!(state.step(&config, event, Instant::now()), [Action::Measure(Signal::Memory)]);
    assert_eq!(shown(&state), ["MemoryPressure", "DiskPressure", "PIDPressure"]);
}

#[tokio::test(start_paused = true)]
async fn static_and_critical_pods_are_not_evicted() {
    let mut by_source = memory_user("static", 0, 0, 900);
    let mut pod = (*by_source.pod).clone();
    let source = ("kubernetes.io/config.source".to_owned(), "file".to_owned());
    pod.metadata.annotations = Some([source].into());
    by_source.pod = Arc::new(pod);
    let critical = memory_user("critical", 2_000_000_000, 0, 900);
    let (config, now) = (config(vec![hard_memory()]), Instant::now());
    let mut state = EvictionState::default();
    assert_eq!(round(&mut state, &config, &memory(1), &[by_source.clone(), critical.clone()], now), []);
    let pods = [by_source, critical, memory_user("ordinary", 1_000_000_000, 100, 1)];
    assert_eq!(names(&round(&mut state, &config, &memory(1), &pods, now)), ["ordinary"]);
}

#[tokio::test(start_paused = true)]
async fn pods_beyond_their_own_limits_go_all_and_before_anybody_else() {
    let beyond = |name: &str, priority| {
        let mut candidate = disk_user(name, priority, 0, 20, 1);
        let limits = json!({"ephemeral-storage": "10Mi"});
        candidate.pod = pod(name, priority, json!({"containers": [{"name": "c", "resources": {"limits": limits}}]}));
        candidate
    };
    let limited = [beyond("a", 0), beyond("b", 0), beyond("critical", 2_000_000_000), disk_user("fine", 0, 0, 1, 1)];
    let (config, mut state) = (config(vec![hard_memory()]), EvictionState::default());
    let event = Event::Observed { observations: &memory(1), limited: &limited };
    let shown_verdict = |action| match action {
        Action::Evict(verdict) => (verdict.uid.to_string(), verdict.cause.as_str(), verdict.grace),
        Action::Reclaim(_) | Action::Measure(_) => panic!("more than limits in this round"),
    };
    let evicted: Vec<_> = state.step(&config, event, Instant::now()).into_iter().map(shown_verdict).collect();
    let expected = |name: &str| (name.to_owned(), "ephemeralpodfs.limit", S(1));
    assert_eq!(evicted, [expected("a"), expected("b")]);
    assert_eq!(shown(&state), ["MemoryPressure"]);
}

#[tokio::test(start_paused = true)]
async fn no_thresholds_no_evictions() {
    let mut state = EvictionState::default();
    let none = levels(&Signal::ALL.map(|s| (s, 0, 100)));
    assert_eq!(round(&mut state, &config(vec![]), &none, &[memory_user("a", 0, 0, 1)], Instant::now()), []);
    assert_eq!(shown(&state), [""; 0]);
}
