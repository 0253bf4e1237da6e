//! Whole conversations with real kubectl binaries: all that are beside the one in `PATH`, by version, or those that
//! `MINKE_KUBECTL` names (separated by `:`).

mod everyday;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use minke_apiserver::http::Limits;

use crate::server::TestServer;

/// By version (`1.32`): programs to run.
fn binaries() -> BTreeMap<String, PathBuf> {
    if let Some(named) = std::env::var_os("MINKE_KUBECTL") {
        return std::env::split_paths(&named).map(|path| (path.display().to_string(), path)).collect();
    }
    let mut found = BTreeMap::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path) {
        let Ok(program) = directory.join("kubectl").canonicalize() else { continue };
        // The one in `PATH` may be a dispatcher that asks the server first; those beside it are what it starts.
        for entry in program.parent().and_then(|beside| beside.read_dir().ok()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(version) = name.strip_prefix("kubectl.") {
                found.insert(version.to_owned(), entry.path());
            }
        }
        if found.is_empty() {
            found.insert("in PATH".to_owned(), program);
        }
        break;
    }
    found
}

struct Kubectl<'a> {
    version: &'a str,
    program: &'a Path,
    server: &'a TestServer,
    home: PathBuf,
}

impl Kubectl<'_> {
    async fn output(&self, arguments: &[&str], input: &str) -> Output {
        let (program, kubeconfig, home) = (self.program.to_owned(), self.server.kubeconfig.clone(), self.home.clone());
        let (arguments, input): (Vec<String>, _) =
            (arguments.iter().map(ToString::to_string).collect(), input.to_owned());
        let run = move || {
            let mut child = std::process::Command::new(program)
                .arg("--kubeconfig")
                .arg(kubeconfig)
                .args(arguments)
                .env_clear()
                .env("HOME", &home)
                .env("KUBECACHEDIR", home.join("cache"))
                .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                .env("KUBE_EDITOR", "sed -i s/edit-me/edited/")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// As who has a token, and no certificate.
    async fn output_as(&self, token: &str, arguments: &[&str]) -> Output {
        let server = format!("https://{}", self.server.address);
        let mut all = vec!["--kubeconfig=/dev/null", "--insecure-skip-tls-verify", "--server", server.as_str(), token];
        all.extend(arguments);
        self.output(&all, "").await
    }

    /// Succeeds, and says what it printed.
    async fn yes(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input).await;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {} {arguments:?}: {out}{err}", self.version);
        out.into_owned()
    }

    /// Fails, and says why.
    async fn no(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input).await;
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "kubectl {} {arguments:?} did not fail", self.version);
        err
    }

    #[track_caller]
    fn has(&self, text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "kubectl {}: no {part:?} in {text:?}", self.version);
        }
    }
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels:\n    app: web\nspec:\n  containers:\n  - name: c\n    \
                   image: example.com/x:1\n";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: conf\ndata:\n  k: edit-me\n";
const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.shop.example
spec:
  group: shop.example
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, description: How large it is.}
          status: {type: object, properties: {size: {type: integer}}}
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
"#;
const WIDGET: &str = "apiVersion: shop.example/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  size: 2\n";
const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n";

/// A request for a certificate of somebody.
fn certificate_request(name: &str) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "somebody");
    let pem = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let request = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
    format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata:\n  name: {name}\nspec:\n  request: \
         {request}\n  signerName: kubernetes.io/kube-apiserver-client\n  usages: [client auth]\n  expirationSeconds: 3600\n"
    )
}

async fn conversation(k: &Kubectl<'_>) {
    k.has(&k.yes(&["version"], "").await, &["v1.37"]);
    k.has(
        &k.yes(&["api-resources"], "").await,
        &["configmaps", "cm", "leases", "coordination.k8s.io/v1", "PriorityClass"],
    );
    // Who one is, and what one may.
    // 1.27 asks for a beta version that no server of today has.
    if k.version != "1.27" {
        k.has(&k.yes(&["auth", "whoami"], "").await, &["minke-admin", "system:masters", "system:authenticated"]);
    }
    k.has(&k.yes(&["auth", "can-i", "delete", "pods"], "").await, &["yes"]);
    k.has(&k.yes(&["auth", "can-i", "--list"], "").await, &["*.*"]);
    let token = k.yes(&["create", "token", "default", "--duration=20m"], "").await;
    let token = format!("--token={}", token.trim());
    let refused = k.output_as(&token, &["auth", "can-i", "list", "secrets"]).await;
    k.has(&String::from_utf8_lossy(&refused.stdout), &["no"]);
    let refused = k.output_as(&token, &["get", "secrets"]).await;
    k.has(
        &String::from_utf8_lossy(&refused.stderr),
        &["Error from server (Forbidden)", "system:serviceaccount:default:default"],
    );
    k.has(&k.yes(&["get", "serviceaccounts"], "").await, &["default"]);
    k.has(&k.yes(&["get", "namespaces"], "").await, &["NAME", "STATUS", "AGE", "default", "Active"]);
    let none = k.output(&["get", "pods"], "").await;
    k.has(&String::from_utf8_lossy(&none.stderr), &["No resources found in default namespace."]);

    // Writing: create, both kinds of apply, strict fields, patch, label, edit, replace.
    k.has(&k.yes(&["create", "-f", "-"], POD).await, &["pod/web created"]);
    k.has(&k.no(&["create", "-f", "-"], POD).await, &["AlreadyExists"]);
    k.has(&k.yes(&["get", "pods"], "").await, &["NAME", "READY", "STATUS", "RESTARTS", "web", "0/1", "Pending"]);
    k.has(&k.yes(&["get", "pods", "-o", "wide"], "").await, &["NODE", "<none>"]);
    k.has(
        &k.yes(&["get", "pod", "web", "-o", "yaml"], "").await,
        &["schedulerName: default-scheduler", "phase: Pending"],
    );
    k.has(&k.yes(&["get", "pods", "-o", "name", "-l", "app=web"], "").await, &["pod/web"]);
    k.has(&k.yes(&["get", "all"], "").await, &["web"]);
    k.has(&k.yes(&["get", "pods", "-A", "--sort-by=.metadata.name"], "").await, &["default", "web"]);
    k.has(&k.no(&["get", "pod", "nope"], "").await, &["Error from server (NotFound): pods \"nope\" not found"]);
    let typo = POD.replace("image:", "imagee: x\n    image:").replace("name: web", "name: typo");
    k.has(&k.no(&["create", "-f", "-"], &typo).await, &["strict decoding error", "spec.containers[0].imagee"]);
    k.has(&k.yes(&["apply", "-f", "-"], MAP).await, &["configmap/conf created"]);
    k.has(&k.yes(&["apply", "-f", "-"], MAP).await, &["configmap/conf unchanged"]);
    let more = format!("{MAP}  more: x\n");
    k.has(&k.yes(&["apply", "-f", "-"], &more).await, &["configmap/conf configured"]);
    k.has(&k.yes(&["diff", "-f", "-"], &more).await, &[]);
    k.has(&k.yes(&["apply", "--server-side", "--force-conflicts", "-f", "-"], MAP).await, &["serverside-applied"]);
    k.has(&k.yes(&["edit", "configmap", "conf"], "").await, &["configmap/conf edited"]);
    let value = k.yes(&["get", "configmap", "conf", "-o", "jsonpath={.data.k}"], "").await;
    assert_eq!(value, "edited");
    k.has(&k.yes(&["create", "configmap", "made", "--from-literal=a=b"], "").await, &["configmap/made created"]);
    k.has(
        &k.yes(&["create", "secret", "generic", "hidden", "--from-literal=a=b"], "").await,
        &["secret/hidden created"],
    );
    let secret = k.yes(&["get", "secret", "hidden", "-o", "jsonpath={.data.a}{.type}"], "").await;
    assert_eq!(secret, "Yg==Opaque");
    k.has(&k.yes(&["create", "serviceaccount", "robot"], "").await, &["serviceaccount/robot created"]);
    k.has(&k.yes(&["patch", "cm", "conf", "-p", r#"{"data":{"p":"q"}}"#], "").await, &["configmap/conf patched"]);
    k.has(
        &k.yes(&["patch", "cm", "conf", "--type=json", "-p", r#"[{"op":"remove","path":"/data/p"}]"#], "").await,
        &["patched"],
    );
    k.has(&k.yes(&["label", "pod", "web", "tier=front"], "").await, &["pod/web labeled"]);
    k.has(&k.yes(&["annotate", "pod", "web", "note=x"], "").await, &["pod/web annotate"]);
    k.has(&k.yes(&["apply", "--dry-run=server", "-f", "-"], NODE).await, &["node/n1 created (server dry run)"]);
    k.has(&k.no(&["get", "node", "n1"], "").await, &["NotFound"]);
    k.has(&k.yes(&["describe", "pod", "web"], "").await, &["Name:", "web", "tier=front", "example.com/x:1"]);
    k.has(&k.yes(&["describe", "cm", "conf"], "").await, &["edited"]);

    // What the kinds are.
    k.has(&k.yes(&["explain", "pod"], "").await, &["KIND:", "Pod", "spec", "FIELDS"]);
    k.has(&k.yes(&["explain", "pod.spec.containers"], "").await, &["imagePullPolicy", "DESCRIPTION"]);
    k.has(&k.yes(&["explain", "lease", "--recursive"], "").await, &["holderIdentity", "leaseDurationSeconds"]);

    // Kinds that come and go.
    k.has(
        &k.yes(&["apply", "-f", "-"], DEFINITION).await,
        &["customresourcedefinition.apiextensions.k8s.io/widgets.shop.example created"],
    );
    k.has(
        &k.yes(&["wait", "crd/widgets.shop.example", "--for=condition=Established", "--timeout=10s"], "").await,
        &["condition met"],
    );
    k.has(
        &k.yes(&["api-resources", "--api-group=shop.example"], "").await,
        &["widgets", "wd", "shop.example/v1", "Widget"],
    );
    k.has(&k.yes(&["apply", "-f", "-"], WIDGET).await, &["widget.shop.example/w created"]);
    k.has(&k.yes(&["apply", "-f", "-"], WIDGET).await, &["widget.shop.example/w unchanged"]);
    k.has(&k.yes(&["apply", "-f", "-"], &WIDGET.replace("size: 2", "size: 3")).await, &["configured"]);
    k.has(&k.no(&["apply", "-f", "-"], &WIDGET.replace("size: 2", "size: big")).await, &["must be of type integer"]);
    k.has(&k.no(&["apply", "-f", "-"], &WIDGET.replace("size: 2", "siez: 2")).await, &["unknown field \"spec.siez\""]);
    k.has(&k.yes(&["get", "wd"], "").await, &["NAME", "SIZE", "w", "3"]);
    k.has(&k.yes(&["explain", "widget.spec"], "").await, &["size", "<integer>", "How large it is."]);
    k.has(&k.yes(&["patch", "widget", "w", "--type=merge", "-p", r#"{"spec":{"size":4}}"#], "").await, &["patched"]);
    k.has(&k.yes(&["scale", "widget", "w", "--replicas=6"], "").await, &["scaled"]);
    k.has(&k.yes(&["get", "widget", "w", "-o", "jsonpath={.spec.size}"], "").await, &["6"]);
    k.has(&k.yes(&["apply", "--server-side", "--force-conflicts", "-f", "-"], WIDGET).await, &["serverside-applied"]);
    k.has(&k.yes(&["describe", "widget", "w"], "").await, &["Kind:", "Widget", "Size:"]);
    k.has(&k.yes(&["delete", "crd", "widgets.shop.example", "--timeout=20s"], "").await, &["deleted"]);
    k.no(&["get", "widgets.v1.shop.example"], "").await;

    // Services, debugging.
    k.has(&k.yes(&["get", "services"], "").await, &["kubernetes", "ClusterIP", "10.96.0.1", "443/TCP"]);
    k.has(&k.yes(&["create", "service", "clusterip", "front", "--tcp=80:8080"], "").await, &["service/front created"]);
    k.has(&k.yes(&["expose", "pod", "web", "--port=80", "--name=exposed"], "").await, &["service/exposed exposed"]);
    k.has(&k.yes(&["delete", "service", "front", "exposed"], "").await, &["service \"front\" deleted"]);
    k.has(&k.yes(&["get", "--raw", "/metrics"], "").await, &["apiserver_request_total", "# EOF"]);
    let debug = ["debug", "web", "--image=example.com/debug:1", "-c", "dbg", "--profile=general"];
    k.has(&k.yes(&debug, "").await, &[]);
    let debugged = k.yes(&["get", "pod", "web", "-o", "jsonpath={.spec.ephemeralContainers[*].name}"], "").await;
    assert_eq!(debugged, "dbg");

    // Certificates: asked for, approved, signed; denied.
    for name in ["wanted", "refused"] {
        k.has(&k.yes(&["create", "-f", "-"], &certificate_request(name)).await, &["created"]);
    }
    k.has(&k.yes(&["get", "csr"], "").await, &["SIGNERNAME", "REQUESTOR", "minke-admin", "60m", "Pending"]);
    k.has(&k.yes(&["certificate", "approve", "wanted"], "").await, &["approved"]);
    k.has(&k.yes(&["certificate", "deny", "refused"], "").await, &["denied"]);
    let mut state = String::new();
    // Older ones can't wait for a field to be there.
    for _ in 0..100 {
        state = k.yes(&["get", "csr", "wanted"], "").await;
        if state.contains("Issued") {
            break;
        }
    }
    k.has(&state, &["Approved,Issued"]);
    k.has(&k.yes(&["get", "csr", "refused"], "").await, &["Denied"]);
    k.has(
        &k.yes(&["describe", "csr", "wanted"], "").await,
        &["Requesting User:", "minke-admin", "Common Name:", "somebody"],
    );

    // Waiting and watching.
    k.has(
        &k.yes(&["wait", "pod/web", "--for=jsonpath={.status.phase}=Pending", "--timeout=10s"], "").await,
        &["condition met"],
    );
    k.has(&k.yes(&["get", "events"], "").await, &[]);
    k.has(&k.yes(&["get", "events.events.k8s.io"], "").await, &[]);

    // Nodes, binding, drain: the Pod is on the node and goes.
    k.has(&k.yes(&["create", "-f", "-"], NODE).await, &["node/n1 created"]);
    k.has(&k.yes(&["cordon", "n1"], "").await, &["node/n1 cordoned"]);
    k.has(&k.yes(&["uncordon", "n1"], "").await, &["node/n1 uncordoned"]);
    k.has(&k.yes(&["taint", "nodes", "n1", "a=b:NoSchedule"], "").await, &["node/n1 tainted"]);
    k.has(&k.yes(&["get", "nodes"], "").await, &["n1", "Unknown"]);
    k.has(&k.yes(&["drain", "n1", "--force"], "").await, &["drained"]);

    // Deleting: at once, a selection, a namespace with what is in it.
    k.has(&k.yes(&["delete", "pod", "web"], "").await, &["pod \"web\" deleted"]);
    k.has(&k.yes(&["delete", "cm", "-l", "nothing=here"], "").await, &[]);
    k.has(&k.yes(&["delete", "-f", "-"], MAP).await, &["deleted"]);
    k.has(
        &k.yes(&["create", "-f", "-"], "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: gone\n").await,
        &["created"],
    );
    k.has(&k.yes(&["apply", "-n", "gone", "-f", "-"], MAP).await, &["created"]);
    k.has(&k.yes(&["delete", "namespace", "gone", "--timeout=20s"], "").await, &["namespace \"gone\" deleted"]);
    k.has(&k.no(&["get", "cm", "conf", "-n", "gone"], "").await, &["NotFound"]);
    k.has(&k.no(&["delete", "namespace", "default"], "").await, &["this namespace may not be deleted"]);
    k.has(&k.yes(&["delete", "node", "n1"], "").await, &["node \"n1\" deleted"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_type_every_day() {
    // The newest one that has a version: the others are asked the basics.
    let Some((version, program)) = binaries().pop_last() else {
        println!("SKIPPED what_people_type_every_day: there is no kubectl");
        return;
    };
    let server = TestServer::start(Limits::default()).await;
    let home = server.directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    everyday::conversation(&Kubectl { version: &version, program: &program, server: &server, home }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_with_kubectl() {
    let binaries = binaries();
    if binaries.is_empty() {
        println!("SKIPPED conversations_with_kubectl: there is no kubectl");
        return;
    }
    for (version, program) in &binaries {
        let server = TestServer::start(Limits::default()).await;
        let home = server.directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        conversation(&Kubectl { version, program, server: &server, home }).await;
    }
}
