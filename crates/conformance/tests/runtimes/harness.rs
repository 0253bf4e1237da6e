//! Runs the suite on all subjects at a time and sums it up as the usual test runner does.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use futures_util::{StreamExt as _, stream};
use minke_conformance::{Kind, SCENARIOS, Scenario, Subject, Verdict};
use minke_testkit::containerd::Release;
use minke_testkit::{BUSYBOX, TempState};
use tokio::runtime::Builder;
use tokio::time::Instant;

use crate::{containerds, embedded, fake, images, provider};

/// The contract of providers, kept by the kubelet core on a runtime.
const PROVIDER: &str = "the_core_keeps_the_contract_of_providers";
/// Scenarios of one runtime at a time. Most of them wait.
const AT_A_TIME: usize = 4;
/// Until the last process of a runtime is gone that has nothing to do.
const LONGEST_END: Duration = Duration::from_secs(10);

/// What a runtime left of its Pods when all scenarios were over.
pub(crate) trait Traces {
    /// A line each.
    fn leftovers(&self) -> String;

    /// What the runtime has said of it.
    fn said(&self, _leftovers: &str) -> String {
        String::new()
    }
}

impl Traces for TempState {
    fn leftovers(&self) -> String {
        String::new()
    }
}

/// How it went, over all subjects.
#[derive(Debug, Default)]
struct Sum {
    passed: AtomicUsize,
    failed: AtomicUsize,
}

impl Sum {
    fn record(&self, name: &str, began: Instant, difference: Option<&str>) {
        let took = began.elapsed().as_millis();
        let (counter, said) = match difference {
            None => (&self.passed, format!("test {name} ... ok ({took} ms)")),
            Some(text) => (&self.failed, format!("test {name} ... FAILED ({took} ms)\n{text}")),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        println!("{}", said.trim_end());
    }
}

/// Runs everything whose name contains an argument of the command line, all without one.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<String> = arguments.iter().filter(|a| !a.starts_with('-')).cloned().collect();
    let sum = Sum::default();
    let wanted = Wanted(filters);
    if arguments.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    // The fake's time stands still while something can be done.
    let paused = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    paused.block_on(async {
        let temp = TempState::new().unwrap();
        suite(fake::subject(&temp), &temp, &sum, &wanted).await;
    });
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(real(&sum, &wanted));
    let (passed, failed) = (sum.passed.into_inner(), sum.failed.into_inner());
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the command line asks for.
struct Wanted(Vec<String>);

impl Wanted {
    fn name(kind: Kind, scenario: &str) -> String {
        format!("{}::{scenario}", kind.name())
    }

    fn has(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|filter| name.contains(filter.as_str()))
    }

    fn scenarios(&self, kind: Kind) -> impl Iterator<Item = &'static Scenario> {
        SCENARIOS.iter().filter(move |row| self.has(&Self::name(kind, row.name)))
    }
}

/// The runtimes that run programs.
async fn real(sum: &Sum, wanted: &Wanted) {
    if let Some(reason) = missing() {
        println!("SKIPPED conformance_of_real_runtimes: {reason}");
        return;
    }
    let registry = images::registry().await;
    let host = registry.host();
    let on_embedded = async {
        if wanted.scenarios(Kind::Embedded).next().is_some() {
            let (subject, place) = embedded::subject(&host).await;
            suite(subject, &place, sum, wanted).await;
        }
    };
    let on_containerds = Release::ALL.map(|release| on_containerd(release, &host, sum, wanted));
    join(on_embedded, join_all(on_containerds)).await;
    let name = Wanted::name(Kind::Embedded, PROVIDER);
    if wanted.has(&name) {
        let began = Instant::now();
        let (subject, place) = embedded::subject(&host).await;
        let violations = provider::violations(&subject).await;
        sum.record(&name, began, (!violations.is_empty()).then_some(&violations));
        ended(subject, &place, sum, Wanted::name(Kind::Embedded, "nothing_is_left_of_the_provider")).await;
    }
}

async fn on_containerd(release: Release, registry: &str, sum: &Sum, wanted: &Wanted) {
    if wanted.scenarios(containerds::kind(release)).next().is_none() {
        return;
    }
    match containerds::subject(release, registry).await {
        Ok((subject, containerd)) => suite(subject, &containerd, sum, wanted).await,
        Err(reason) => println!("SKIPPED conformance_of_{release}: {reason}"),
    }
}

/// What this machine lacks for real containers.
fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root");
    }
    (!Path::new(BUSYBOX).exists()).then_some("needs /bin/busybox (Debian's busybox-static)")
}

/// All scenarios on one subject: some at a time, then those that must be alone, then a look at what is left.
async fn suite(subject: Subject, traces: &impl Traces, sum: &Sum, wanted: &Wanted) {
    let kind = subject.kind;
    let (alone, together): (Vec<_>, Vec<_>) = wanted.scenarios(kind).partition(|row| row.is_alone());
    let subject_ref = &subject;
    let one = |row: &'static Scenario| async move {
        let began = Instant::now();
        let name = Wanted::name(kind, row.name);
        match row.run(subject_ref).await {
            Verdict::Holds => sum.record(&name, began, None),
            Verdict::Differs(text) => sum.record(&name, began, Some(&text)),
            Verdict::NotForThis(why) => println!("{name} is not for this runtime: {why}"),
        }
    };
    stream::iter(together).for_each_concurrent(AT_A_TIME, one).await;
    stream::iter(alone).for_each_concurrent(1, one).await;
    ended(subject, traces, sum, Wanted::name(kind, "nothing_is_left")).await;
}

/// Nobody uses the subject any more: nothing may be left.
async fn ended(subject: Subject, traces: &impl Traces, sum: &Sum, name: String) {
    drop(subject);
    let (began, mut left) = (Instant::now(), traces.leftovers());
    // A runtime's shims end by themselves, a moment after what they were for.
    while !left.is_empty() && began.elapsed() < LONGEST_END {
        tokio::time::sleep(Duration::from_millis(100)).await;
        left = traces.leftovers();
    }
    let left = (!left.is_empty()).then(|| format!("{left}{}", traces.said(&left)));
    sum.record(&name, began, left.as_deref());
}
