//! Minke beside its peers, in one run on one machine: the times and sizes that the design promises.
//!
//! ```text
//! cargo build --release -p minke -p minke-bench
//! target/release/minke-bench            all rows, about fifteen minutes
//! target/release/minke-bench --help     fewer runs, some rows only, another minke
//! ```
//! Needs root. Peers are what Debian has: `apt-get install podman runc crun containernetworking-plugins`; a row whose
//! peer is not there says so. The image is made here from Debian's `busybox-static`.
//!
//! | row | here | peer |
//! |---|---|---|
//! | pods | `minke run`, manifest → Running | `podman play kube` with runc |
//! | container | create + start by the embedded runtime, and a command in it | `runc`, `crun`: create, start, exec |
//! | memory | shims and agent with many idle Pods | budgets of the design |
//! | cri | the agent on a private containerd: Pod start, exits, 50 Pods, idle cost; the embedded runtime | the calls alone, containerd's own events, polling; containerd |
//! | exits | container exit → its status, by events | the same core, polling each second |
//! | idle | agent's share of a core and memory with idle Pods | its other ways of noticing changes |
//! | relist | a full relist of 10,000 containers, over a runtime in memory (`--features fake`) | the two lists alone |
//! | runners | jobs queued at once → Pods and jobs on the embedded API with a pretended node; a decision over 10,000 runners | budgets of the design |
//! | watch | the pod watcher: 1,000 and 10,000 Pods in one process, and twenty ways to fail | the same judgement, polling every 3 s |
//! | unpack | `minke image import` of one gzip layer | `tar -xzf` of the same layer |
//! | api | `minke api`: start, memory, creates, lists, watches | kube-apiserver with etcd, as `e2e/kube/build` builds them |
//! | node | Pods bound to a node of the embedded API → Running, gone; writes, memory | budgets of the design |
//!
//! Ours and the peer's runs alternate, so that a busy moment hits both. Each figure is a median with its range.
//!
//! Everything happens in a mount namespace of its own (by util-linux' `unshare`): there the machine's CNI configuration
//! is hidden, so that Minke uses its built-in bridge, while podman gets one of its own. Directories, Pods, containers
//! and bridges are removed at the end.

mod api;
mod container;
mod cri;
mod exits;
mod failure;
mod idle;
mod instance;
mod memory;
mod node;
mod podman;
mod pods;
mod process;
#[cfg(feature = "fake")]
mod relist;
mod report;
mod runners;
mod sample;
mod unpack;
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use minke_core::runtime::error_chain;
use minke_testkit::kube::Programs;

use crate::api::Candidate;
use crate::failure::Failure;
use crate::report::{Report, Row};

/// Measure Minke beside its peers
#[derive(Debug, Parser)]
#[command(name = "minke-bench", version)]
struct Cli {
    /// The binary to measure; the one beside this program if not given
    #[arg(long, value_name = "FILE")]
    minke: Option<PathBuf>,
    /// How often each thing is measured
    #[arg(long, default_value_t = 10, value_name = "N")]
    runs: usize,
    /// Only these rows
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROWS")]
    only: Vec<Section>,
    /// Idle Pods of the memory rows
    #[arg(long, default_value_t = 100, value_name = "N")]
    idle_pods: usize,
    /// Size of the unpacked layer in MiB
    #[arg(long, default_value_t = 192, value_name = "MIB")]
    layer: usize,
    /// Containers that exit at once, 0 for none
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    exits: usize,
    /// Numbers of idle Pods whose cost is measured
    #[arg(long, value_delimiter = ',', default_values_t = [0, 110, 500], value_name = "N")]
    idle: Vec<usize>,
    /// For how long idle Pods are measured, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    idle_span: u64,
    /// Numbers of Pods that are bound to a mock node at once
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000], value_name = "N")]
    node_pods: Vec<usize>,
    /// Containers of the relist rows
    #[cfg(feature = "fake")]
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    containers: usize,
    /// Numbers of jobs that are queued at once
    #[arg(long, value_delimiter = ',', default_values_t = [500, 1_000], value_name = "N")]
    jobs: Vec<usize>,
    /// Pods of the api rows
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    api_pods: usize,
    /// Watchers of the api rows
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    api_watchers: usize,
    /// Where `e2e/kube/build` has put its programs; MINKE_KUBE_CACHE wins
    #[arg(long, default_value = "target/tmp/kube", value_name = "DIR")]
    kube_cache: PathBuf,
    /// Numbers of Pods that one process watches
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000], value_name = "N")]
    watched: Vec<usize>,
    /// Watches Pods of this API and says what it saw
    #[arg(long, hide = true, value_name = "KUBECONFIG", requires = "watch_pods")]
    watch_child: Option<PathBuf>,
    /// How many
    #[arg(long, hide = true, value_name = "N")]
    watch_pods: Option<usize>,
    /// Already in a mount namespace of its own
    #[arg(long, hide = true)]
    inside: bool,
    /// Measures one OCI runtime and prints milliseconds
    #[arg(long, hide = true, value_name = "RUNTIME", requires = "bundle")]
    oci_peer: Option<String>,
    /// The bundle of that measurement
    #[arg(long, hide = true, value_name = "DIR")]
    bundle: Option<PathBuf>,
}

/// A group of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// One Pod, 20 Pods, 50 Pods
    Pods,
    /// Create and start one container, run a command in it
    Container,
    /// Shims and agent with idle Pods
    Memory,
    /// From the end of a container to its status
    Exits,
    /// The agent's cost with idle Pods
    Idle,
    /// A full relist of many containers, over a runtime in memory (built with `--features fake`)
    #[cfg(feature = "fake")]
    Relist,
    /// Runner pools: jobs queued at once, and the planner
    Runners,
    /// Unpacking a layer
    Unpack,
    /// On a containerd out of Debian's packages (fetched once), and the embedded runtime beside it
    Cri,
    /// The embedded API beside kube-apiserver and etcd
    Api,
    /// The pod watcher over the embedded API
    Watch,
    /// Pods of a node of the embedded API
    Node,
}

fn main() -> ExitCode {
    // The embedded runtime's shims are this program, started again.
    if let Some(code) = minke_oci::reexec() {
        return code;
    }
    let cli = Cli::parse();
    // ring is the only provider compiled in; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let (Some(kubeconfig), Some(pods)) = (&cli.watch_child, cli.watch_pods) {
        return end(watch::child(kubeconfig, pods));
    }
    let outcome = match (&cli.oci_peer, &cli.bundle) {
        (Some(runtime), Some(bundle)) => container::measure_peer(runtime, bundle, cli.runs),
        _ if cli.inside => measure(&cli),
        _ => start_inside(),
    };
    end(outcome)
}

fn end(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", error_chain(&failure));
            ExitCode::FAILURE
        }
    }
}

/// Starts this program again in a mount namespace of its own.
fn start_inside() -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::NotRoot);
    }
    let own = std::env::current_exe().map_err(Failure::file("finding", Path::new("this program")))?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(own).arg("--inside").args(std::env::args_os().skip(1));
    let status = command.status().map_err(|source| Failure::Start { program: "unshare".to_owned(), source })?;
    // It has said what is wrong.
    if status.success() { Ok(()) } else { Err(Failure::Unexpected(format!("the measurement ended with {status}"))) }
}

fn measure(cli: &Cli) -> Result<(), Failure> {
    let minke = match &cli.minke {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .map_err(Failure::file("finding", Path::new("this program")))?
            .with_file_name("minke"),
    };
    if !minke.exists() {
        return Err(Failure::NoBinary(minke));
    }
    hide_cni();
    let wanted = |section| cli.only.is_empty() || cli.only.contains(&section);
    let mut report = Report::default();
    let mut add = |rows: Vec<Row>| {
        for row in rows {
            eprintln!("{row}");
            report.rows.push(row);
        }
    };
    if wanted(Section::Pods) {
        add(pods::measure(&minke, cli.runs)?);
    }
    if wanted(Section::Container) {
        add(container::measure(cli.runs)?);
    }
    if wanted(Section::Memory) {
        add(memory::measure(&minke, cli.idle_pods)?);
    }
    if wanted(Section::Exits) {
        add(exits::measure(cli.runs, cli.exits)?);
    }
    if wanted(Section::Idle) {
        add(idle::measure(&minke, &cli.idle, Duration::from_secs(cli.idle_span))?);
    }
    #[cfg(feature = "fake")]
    if wanted(Section::Relist) {
        add(relist::measure(cli.containers, cli.runs)?);
    }
    if wanted(Section::Runners) {
        add(runners::measure(&cli.jobs, cli.runs)?);
    }
    if wanted(Section::Unpack) {
        add(unpack::measure(&minke, cli.layer, cli.runs.min(5))?);
    }
    if wanted(Section::Cri) {
        add(cri::measure(&minke, cli.runs, Duration::from_secs(cli.idle_span.min(20)))?);
    }
    if wanted(Section::Api) {
        let peer = match Programs::get(&cli.kube_cache) {
            Ok(programs) => Some(Candidate::Kube(programs)),
            Err(why) => {
                eprintln!("no peer of the API: {why}");
                None
            }
        };
        let sizes = api::Sizes { starts: cli.runs.min(5), pods: cli.api_pods, watchers: cli.api_watchers };
        add(api::measure(&Candidate::Minke(minke.clone()), peer.as_ref(), sizes)?);
    }
    if wanted(Section::Watch) {
        add(watch::measure(&cli.watched, cli.runs)?);
    }
    if wanted(Section::Node) {
        add(node::measure(&minke, &cli.kube_cache, &cli.node_pods, cli.runs)?);
    }
    println!("{report}");
    Ok(())
}

/// Plugins of the machine would measure themselves rather than Minke.
fn hide_cni() {
    let directory = Path::new("/etc/cni/net.d");
    if directory.exists()
        && let Err(error) = rustix::mount::mount("tmpfs", directory, "tmpfs", rustix::mount::MountFlags::empty(), None)
    {
        eprintln!("could not hide {}: {error}; Pods may be connected by CNI plugins", directory.display());
    }
}
