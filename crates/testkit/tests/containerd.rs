//! Containerds of Debian: started, killed, started again, and gone without a trace.

#![expect(clippy::unwrap_used, reason = "this is a test program")]

use std::path::Path;

use minke_testkit::BUSYBOX;
use minke_testkit::containerd::{Containerd, Network, PAUSE_IMAGE, Programs, Release};

async fn lives(release: Release) {
    let name = format!("a_real_containerd_is_started_killed_and_gone::{release}");
    if !Path::new(BUSYBOX).exists() {
        println!("SKIPPED {name}: needs /bin/busybox (Debian's busybox-static)");
        return;
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("containerd");
    let programs = match tokio::task::spawn_blocking(move || Programs::get(&cache, release)).await.unwrap() {
        Ok(programs) => programs,
        Err(reason) => {
            println!("SKIPPED {name}: {reason}");
            return;
        }
    };
    let mut containerd = Containerd::start(&programs, Network::Bridge).await.unwrap();
    let first = containerd.pid().unwrap();
    assert!(containerd.ctr(&["images", "ls", "-q"]).await.unwrap().contains(PAUSE_IMAGE));
    containerd.kill();
    assert!(containerd.ctr(&["version"]).await.is_err());
    containerd.restart().await.unwrap();
    assert_ne!(containerd.pid(), Some(first));
    assert!(containerd.ctr(&["images", "ls", "-q"]).await.unwrap().contains(PAUSE_IMAGE));
    // Its mounts are in a namespace of its own: here there are none.
    let root = containerd.root().to_owned();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&root.display().to_string()), "{mounts}");
    assert_eq!(containerd.leftovers(), "");
    let pid = containerd.pid().unwrap();
    drop(containerd);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!root.exists());
}

#[tokio::test]
async fn a_real_containerd_is_started_killed_and_gone() {
    tokio::join!(lives(Release::Bookworm), lives(Release::Trixie), lives(Release::Sid));
}
