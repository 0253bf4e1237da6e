//! Real clusters: an API with its scheduler, `minke node` with real containers, and what people run on them.
//!
//! [`verdicts`]: Pods that go bad, and what `minke watch` says. [`runners`]: a pool of CI runners. Each once on the embedded API,
//! in this process, and once on kube-apiserver with etcd and, where it has been built, kube-scheduler.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, in a binary that clippy does not know as one")]

mod node;
mod runners;
mod server;
mod verdicts;

use std::path::Path;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::time::Duration;

use minke_testkit::kube::Programs;

use server::Kind;

/// Says that this process is in a network namespace of its own.
const INSIDE: &str = "MINKE_CLUSTER_INSIDE";
/// Nothing here takes longer on a busy machine, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is wrong, one line each; nothing if all is as it should be.
type Wrong = Pin<Box<dyn Future<Output = Vec<String>>>>;

struct Test {
    name: &'static str,
    on_kube: bool,
    run: fn(Kind) -> Wrong,
}

const TESTS: [Test; 4] = [
    Test {
        name: "every_failure_has_its_cause_on_the_embedded_api",
        on_kube: false,
        run: |kind| Box::pin(verdicts::all(kind)),
    },
    Test {
        name: "every_failure_has_its_cause_on_kube_apiserver",
        on_kube: true,
        run: |kind| Box::pin(verdicts::all(kind)),
    },
    Test {
        name: "a_pool_runs_every_job_once_on_the_embedded_api",
        on_kube: false,
        run: |kind| Box::pin(runners::pool(kind)),
    },
    Test {
        name: "a_pool_runs_every_job_once_on_kube_apiserver",
        on_kube: true,
        run: |kind| Box::pin(runners::pool(kind)),
    },
];

fn main() -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |test: &&Test| filters.is_empty() || filters.iter().any(|filter| test.name.contains(filter.as_str()));
    let tests: Vec<&Test> = TESTS.iter().filter(wanted).collect();
    if std::env::args().any(|a| a == "--list") {
        tests.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(INSIDE).is_none() && !tests.is_empty() && missing().is_none() {
        return in_an_own_network();
    }
    // ring is the only provider compiled in; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let passed = tests.iter().filter(|test| passes(test)).count();
    let failed = tests.len() - passed;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a test, or says why it can't.
fn passes(test: &Test) -> bool {
    let name = test.name;
    let kind = match missing() {
        Some(reason) => Err(reason.to_owned()),
        None if test.on_kube => {
            let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kube");
            Programs::get(&cache).map(Kind::Kube).map_err(|error| error.to_string())
        }
        None => Ok(Kind::Embedded),
    };
    let kind = match kind {
        Ok(kind) => kind,
        Err(reason) => {
            println!("SKIPPED {name}: {reason}");
            return true;
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let wrong = runtime.block_on(async { tokio::time::timeout(PATIENCE, (test.run)(kind)).await });
    runtime.shutdown_timeout(Duration::from_secs(5));
    let wrong = wrong.unwrap_or_else(|_| vec![format!("no end within {} s", PATIENCE.as_secs())]);
    wrong.iter().for_each(|line| println!("{line}"));
    println!("test {name} ... {}", if wrong.is_empty() { "ok" } else { "FAILED" });
    wrong.is_empty()
}

/// What this machine lacks.
fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root");
    }
    (!Path::new(minke_testkit::BUSYBOX).exists()).then_some("needs /bin/busybox (Debian's busybox-static)")
}

/// The same again, where bridges and addresses are in nobody's way. Loopback is brought up: API and registry are there.
fn in_an_own_network() -> ExitCode {
    let script = format!("{} ifconfig lo up && exec \"$@\"", minke_testkit::BUSYBOX);
    let mut command = Command::new("unshare");
    command.args(["--net", "--", "sh", "-c", &script, "sh"]).arg(std::env::current_exe().unwrap());
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    if command.status().unwrap().success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
