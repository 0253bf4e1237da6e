//! An address as a source, asked every 20 s.

use minke_core::manifest::Input;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Report;
use super::directory::PERIOD;
use super::files::{Files, Look};
use crate::source::fetch;

/// Reports what the address answers, until nobody listens.
pub(super) async fn run(index: usize, url: String, mut files: Files, reports: mpsc::Sender<Report>) {
    let mut heard = false;
    loop {
        let next = Instant::now() + PERIOD;
        let look = match fetch(&url).await {
            Ok(Input { name, bytes }) => Look::Read(Input { name, bytes }),
            Err(error) => Look::Unreadable(error),
        };
        // An address that has never answered has not been heard: what an earlier agent ran of it stays.
        heard |= matches!(look, Look::Read(_));
        let manifests = files.take(vec![look]);
        if heard && reports.send(Report { index, manifests }).await.is_err() {
            return;
        }
        sleep_until(next).await;
    }
}
