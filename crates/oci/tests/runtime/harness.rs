//! A test runner for tests whose process has to begin with `minke_oci::reexec()`, which the usual one can't do.

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

type Body = fn() -> Pin<Box<dyn Future<Output = ()>>>;

/// A named test.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) body: Body,
}

/// Lists async functions as tests under their own names.
#[macro_export]
macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        vec![$($crate::harness::Test { name: stringify!($name), body: || Box::pin($module::$name()) }),*]
    };
}

/// Runs the tests whose names contain an argument of the command line, all without one.
pub(crate) fn run(tests: Vec<Test>) -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let listed = std::env::args().any(|a| a == "--list");
    let mut failed = Vec::new();
    let mut count = 0;
    for test in tests {
        if !filters.is_empty() && !filters.iter().any(|f| test.name.contains(f.as_str())) {
            continue;
        }
        if listed {
            println!("{}: test", test.name);
            continue;
        }
        count += 1;
        if let Some(reason) = missing() {
            println!("SKIPPED {}: {reason}", test.name);
            continue;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let began = tokio::time::Instant::now();
        let name = test.name;
        let outcome = std::panic::catch_unwind(|| {
            runtime.block_on(async { tokio::time::timeout(Duration::from_secs(600), (test.body)()).await })
        });
        let took = began.elapsed().as_millis();
        match outcome {
            Ok(Ok(())) => println!("test {name} ... ok ({took} ms)"),
            Ok(Err(_)) => {
                println!("test {name} ... FAILED: no end within 600 s");
                failed.push(name);
            }
            Err(_) => {
                println!("test {name} ... FAILED ({took} ms)");
                failed.push(name);
            }
        }
        runtime.shutdown_timeout(Duration::from_secs(5));
    }
    // The closing line of the usual runner, which whoever sums up a run reads. As there, a skipped test counts as passed.
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {} passed; {} failed; 0 ignored", count - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What this machine lacks for real containers.
fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root");
    }
    if !std::path::Path::new(minke_testkit::BUSYBOX).exists() {
        return Some("needs /bin/busybox (Debian's busybox-static)");
    }
    None
}
