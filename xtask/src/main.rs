//! The tasks of the house: `check` enforces its rules, `summary` sums up a test run, `demo-images` makes the demo's
//! images. Each is a function from files to findings; this file only chooses.

mod api_data;
mod busybox;
mod check;
mod demo_images;
#[cfg(test)]
mod fixture;
mod problem;
mod source;
mod spdx;
mod summary;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask check [NAME…]          all house rules, or those named
cargo xtask summary LOG STATUS [STEP…]
                                   sum of a `cargo test` log: skipped tests by name, then `N passed, N failed, N skipped`
cargo xtask demo-images DIRECTORY  the demo's images as OCI archives, from Debian's busybox-static
cargo xtask api-data VERSION       the embedded API's tables of types, from a published version of Kubernetes (v1.37.0)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check", names @ ..] => check::run(&root(), names),
        ["summary", log, status, steps @ ..] => summary::run(Path::new(log), status, steps),
        ["demo-images", directory] => demo_images::run(Path::new(directory)),
        ["api-data", version] => api_data::run(&root(), version),
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("unknown task or arguments: {}\n\n{HELP}", words.join(" "));
            ExitCode::from(2)
        }
    }
}

/// The workspace that this binary was built in.
fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
