//! Static Pods from an address: a real server on loopback, the scripted runtime, paused time.

#![cfg(test)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::manifest::MAX_BYTES;
use minke_kubelet::{Kubelet, PodReport, PodStage, StaticSource};
use support::{Bed, phase, until_gone};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// Gives everyone the same answer until it is told another.
struct Server {
    url: String,
    answer: Arc<Mutex<Vec<u8>>>,
    given: Arc<AtomicUsize>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/pods.yaml", listener.local_addr().unwrap());
        let (answer, given) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<AtomicUsize>::default());
        let (next, counter) = (answer.clone(), given.clone());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.is_ok_and(|n| n > 0) {}
                let answer = next.lock().unwrap().clone();
                // Who has heard enough goes before the end.
                let _ = stream.write_all(&answer).await;
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { url, answer, given }
    }

    /// Says this from now on; returns when it was heard and what follows from it has begun.
    async fn says(&self, status: &str, body: &[u8]) {
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        *self.answer.lock().unwrap() = [head.as_bytes(), body].concat();
        // Whoever asks again is done with the answer before; the first may have been cut by paused time.
        let before = self.given.load(Ordering::Relaxed);
        while self.given.load(Ordering::Relaxed) < before + 3 {
            sleep(Duration::from_secs(1)).await;
        }
    }
}

fn manifest(name: &str, image: &str) -> Vec<u8> {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 3\n  \
         containers:\n  - {{name: main, image: {image}}}\n"
    )
    .into_bytes()
}

fn uid_of(report: &PodReport) -> PodUid {
    PodUid::new(report.pod.metadata.uid.clone().unwrap()).unwrap()
}

/// The only Pod, once it runs this image.
async fn only(kubelet: &Kubelet, image: &str) -> PodReport {
    for _ in 0..600 {
        if let [report] = kubelet.reports().as_slice()
            && phase(report) == "Running"
            && report.pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image)
        {
            return report.clone();
        }
        sleep(Duration::from_secs(1)).await;
    }
    panic!("{image} never ran: {:#?}", kubelet.reports());
}

#[tokio::test(start_paused = true)]
async fn an_address_adds_changes_and_removes_and_what_is_no_answer_changes_nothing() {
    let (bed, server) = (Bed::new(), Server::start().await);
    let kubelet = bed.kubelet().await;
    let pods = kubelet.keep_static(vec![StaticSource::Url(server.url.clone())]);
    server.says("500 Internal Server Error", &manifest("web", "image:1")).await;
    assert!(kubelet.reports().is_empty(), "an error is no manifest, whatever comes with it");
    server.says("200 OK", &manifest("web", "image:1")).await;
    let web = only(&kubelet, "image:1").await;
    assert_eq!(web.pod.metadata.name.as_deref(), Some("web-node"));
    let annotations = web.pod.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["kubernetes.io/config.source"], "http");
    assert_eq!(annotations["minke.dev/manifest"], server.url);

    let huge = [manifest("other", "image:2"), vec![b'\n'; MAX_BYTES]].concat();
    let unknown_field = String::from_utf8(manifest("web", "image:2")).unwrap().replace("containers", "contaners");
    for (status, body) in [
        ("500 Internal Server Error", &b""[..]),
        ("404 Not Found", b"nothing here"),
        ("204 No Content", b""),
        ("200 OK", b"<html>Please log in</html>"),
        ("200 OK", b"kind: Pod\nspec: ["),
        ("200 OK", unknown_field.as_bytes()),
        ("200 OK", huge.as_slice()),
    ] {
        server.says(status, body).await;
        let still = kubelet.report(&uid_of(&web)).unwrap();
        assert_eq!((still.stage, phase(&still)), (PodStage::Syncing, "Running"), "{status} {} bytes", body.len());
        assert_eq!(kubelet.reports().len(), 1, "{status} {} bytes", body.len());
    }

    // The next agent has never heard it well, and leaves alone what runs.
    drop(pods);
    kubelet.shutdown().await;
    let kubelet = bed.kubelet().await;
    let _pods = kubelet.keep_static(vec![StaticSource::Url(server.url.clone())]);
    server.says("503 Service Unavailable", b"").await;
    assert_eq!(kubelet.report(&uid_of(&web)).unwrap().stage, PodStage::Syncing);

    server.says("200 OK", &manifest("web", "image:2")).await;
    let next = only(&kubelet, "image:2").await;
    assert!(uid_of(&next) != uid_of(&web), "another manifest is another pod");
    server.says("200 OK", b"").await;
    until_gone(&kubelet, &uid_of(&next)).await;
    assert_eq!(bed.runtime.running(&uid_of(&next)), 0);
    assert_eq!(bed.runtime.violations(), [""; 0]);
}
