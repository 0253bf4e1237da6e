//! The same requests to the real kube-apiserver and to ours, the answers compared field by field.
//!
//! `script` is what is asked; `compare` says which answers differ, pure; `known` is every difference that is meant, with its
//! reason, and is `docs/api-differences.md`. A difference that is not there fails the test, and so does one that is there
//! and does not occur any more.

mod compare;
mod known;
mod script;

use std::path::Path;

use minke_apiserver::http::Limits;
use minke_testkit::kube::{KubeApi, Programs};
use serde_json::Value;

use crate::server::{Client, PEER, TestServer};
pub(crate) use compare::Answer;
use compare::{Difference, differences};
use known::KNOWN;
use script::{Step, script};

/// One side, with what its answers have said so far.
struct Side {
    client: Client,
    token: String,
    /// By the name of a step: the object that it has answered with.
    said: std::collections::BTreeMap<&'static str, Value>,
}

impl Side {
    async fn ask(&mut self, step: &Step) -> Answer {
        let body = step.body.as_ref().map(|body| self.filled(body)).unwrap_or_default();
        let (path, content_type) = (self.filled(step.path), step.content_type);
        let mut answer = self.client.ask(&self.token, step.method.clone(), &path, content_type, &body).await;
        // What a server does by itself may take it a moment.
        for _ in 0..300 {
            if step.until.is_none_or(|until| until(&answer)) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            answer = self.client.ask(&self.token, step.method.clone(), &path, content_type, &body).await;
        }
        self.said.insert(step.name, answer.body.clone());
        answer
    }

    /// `{step:pointer}` is what that step's answer has there.
    fn filled(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{step:") {
            let (reference, after) = after.split_once('}').unwrap_or((after, ""));
            let (name, pointer) = reference.split_once(':').unwrap_or((reference, ""));
            let value = self.said.get(name).and_then(|said| said.pointer(pointer));
            out.push_str(before);
            out.push_str(
                &value
                    .map_or_else(String::new, |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            );
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_kube_apiserver() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kube");
    let programs = match Programs::get(&cache) {
        Ok(programs) => programs,
        Err(why) => return println!("SKIPPED answers_are_those_of_kube_apiserver: {why}"),
    };
    let peer = KubeApi::start(&programs).await.unwrap();
    let ours = TestServer::start(Limits::default()).await;
    let mut theirs = Side {
        client: Client::new(peer.address(), peer.certificate()),
        token: peer.token().to_owned(),
        said: std::collections::BTreeMap::new(),
    };
    let mut ours = Side { client: ours.client(), token: PEER.to_owned(), said: std::collections::BTreeMap::new() };
    let mut found: Vec<Difference> = Vec::new();
    for step in script() {
        let (mut our, mut their) = (ours.ask(&step).await, theirs.ask(&step).await);
        if let Some(part) = step.part {
            part(&mut our.body);
            part(&mut their.body);
        }
        found.extend(differences(step.name, &our, &their));
    }
    let mut unused: Vec<&known::Known> = KNOWN.iter().collect();
    found.retain(|difference| match KNOWN.iter().position(|known| known.covers(difference)) {
        Some(at) => {
            unused.retain(|known| !std::ptr::eq(*known, &KNOWN[at]));
            false
        }
        None => true,
    });
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "{} differences that are nowhere explained:\n{}", told.len(), told.join("\n"));
    assert!(unused.is_empty(), "differences that do not occur any more: {unused:#?}");
}

#[test]
fn the_document_of_differences_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api-differences.md");
    let document = known::document();
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("MINKE_WRITE_DOCUMENTS").is_some() {
        std::fs::write(&path, &document).unwrap();
        return;
    }
    assert_eq!(written, document, "MINKE_WRITE_DOCUMENTS=1 writes it anew");
}
