//! The node's API over TLS: who gets in, and what they are told.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::Method;
use minke_core::provider::{LogOptions, LogStreams, Since};
use minke_node::http::server_config;
use serde_json::{Value, json};

use crate::served::{Node, serving};

#[tokio::test]
async fn every_route_is_served_to_whom_it_is_for() {
    let node = Node::start().await;
    for (path, code, said) in [
        ("/healthz", 200, "ok"),
        ("/healthz/ping", 200, "ok"),
        ("/healthz/etcd", 404, "404 page not found\n"),
        ("/configz", 200, r#"{"kubeletconfig":{"maxPods":110}}"#),
        ("/containerLogs/ns/q/c", 404, r#"pod "q" does not exist"#),
        ("/containerLogs/ns/p/x", 404, r#"container "x" not found in pod "p""#),
        ("/containerLogs/ns/p/c?tailLines=x", 400, r#"{"message": "Unable to decode query."}"#),
        ("/containerLogs/ns/p/c?limitBytes=0", 422, r#"{"message": "Invalid request."}"#),
        ("/containerLogs/ns/p/i", 400, r#"container "i" in pod "p" is waiting to start: PodInitializing"#),
        ("/logs/kern.log", 405, "logs endpoint is disabled.\n"),
        ("/run/ns/p/c", 405, "run endpoint is disabled.\n"),
        ("/debug/pprof/heap", 405, "profiling endpoint is disabled.\n"),
        ("/nothing", 404, "404 page not found\n"),
    ] {
        assert_eq!(node.get("admin", Method::GET, path).await, (code, said.to_owned()), "{path}");
    }
    for path in ["/pods", "/runningpods/"] {
        let (code, said) = node.get("reader", Method::GET, path).await;
        let list: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((code, &list["kind"], &list["items"][0]["metadata"]["uid"]), (200, &json!("PodList"), &json!("u")));
    }
    let (code, said) = node.get("reader", Method::GET, "/stats/summary").await;
    let summary: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &summary["node"]["cpu"]["usageCoreNanoSeconds"]), (200, &json!(7)));
    assert_eq!(summary["pods"][0]["containers"][0]["cpu"]["usageCoreNanoSeconds"], 5);
    let (_, said) = node.get("reader", Method::GET, "/metrics").await;
    assert!(said.contains("kubelet_running_pods 1") && !said.contains("prober"), "{said}");
    assert!(said.contains(r#"kubelet_http_requests_total{method="GET",path="stats""#), "{said}");
    let (_, said) = node.get("reader", Method::GET, "/metrics/probes").await;
    assert!(said.contains("prober_probe_total 2") && !said.contains("kubelet_"), "{said}");
    let (_, said) = node.get("reader", Method::GET, "/metrics/resource").await;
    assert!(said.contains(r#"pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 0.000000005 "#), "{said}");
    let response = node.ask(None, "reader", Method::GET, "/metrics/resource").await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let response = node.ask(None, "admin", Method::POST, "/pods").await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["allow"]), (405, &"GET".parse().unwrap()));
}

#[tokio::test]
async fn who_is_unknown_or_may_not_learns_nothing() {
    let node = Node::start().await;
    for path in ["/healthz", "/pods", "/nothing", "/metrics", "/exec/ns/p/c?command=id&output=1", "/run/ns/p/c"] {
        for token in ["", "wrong"] {
            assert_eq!(node.get(token, Method::GET, path).await, (401, "Unauthorized".to_owned()), "{path}");
        }
    }
    for path in ["/exec/ns/p/c?command=id&output=1", "/attach/ns/p/c?output=1", "/portForward/ns/p"] {
        let said = "Forbidden (user=reader, verb=create, resource=nodes, subresource(s)=[proxy])\n".to_owned();
        assert_eq!(node.get("reader", Method::GET, path).await, (403, said), "{path}");
    }
    assert!(node.provider.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_certificate_says_who_asks_and_a_strangers_one_ends_the_connection() {
    let node = Node::start().await;
    let admin = node.ask(Some(node.client("admin")), "", Method::GET, "/healthz").await.unwrap();
    assert_eq!(admin.status().as_u16(), 200);
    let other = node.ask(Some(node.client("somebody")), "", Method::GET, "/healthz").await.unwrap();
    assert_eq!(other.status().as_u16(), 403);
    let stranger = Node::start().await.client("admin");
    assert!(node.ask(Some(stranger), "", Method::GET, "/healthz").await.is_err());
}

#[tokio::test]
async fn logs_arrive_whole_and_as_they_were_asked_for() {
    let node = Node::start().await;
    let log: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    *node.provider.log.lock().unwrap() = log.clone();
    let path = "/containerLogs/ns/p/c?follow=true&sinceSeconds=5&timestamps=1&stream=Stderr";
    let response = node.ask(None, "reader", Method::GET, path).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    let said = response.into_body().collect().await.unwrap().to_bytes();
    assert!(said == log);
    let expected = LogOptions {
        since: Some(Since::Seconds(5)),
        follow: true,
        timestamps: true,
        stream: LogStreams::Stderr,
        ..LogOptions::default()
    };
    assert_eq!(*node.provider.asked.lock().unwrap(), [expected]);
}

#[tokio::test]
async fn a_new_certificate_is_served_without_a_restart() {
    let node = Node::start().await;
    let next = serving();
    assert!(node.connect(&next, None).await.is_err());
    node.tls.send_replace(Arc::new(server_config(&next, Some(&node.clients)).unwrap()));
    assert!(node.connect(&next, None).await.is_ok());
    assert!(node.connect(&node.own, None).await.is_err());
}
