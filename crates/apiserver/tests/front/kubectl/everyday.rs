//! What people type every day beside the basics, with the newest kubectl: other outputs, `set`, acting as others, waiting, cascades,
//! kustomize, a proxy, and what kinds that are absent say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use super::{Kubectl, POD};

/// A thing that may own others.
fn owned(name: &str, owner: &str, uid: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  ownerReferences:\n  - apiVersion: v1\n    kind: \
         ConfigMap\n    name: {owner}\n    uid: {uid}\n    blockOwnerDeletion: true\n"
    )
}

/// All of it.
pub(super) async fn conversation(k: &Kubectl<'_>) {
    outputs(k).await;
    changes(k).await;
    absent(k).await;
    descriptions(k).await;
    others(k).await;
    waiting(k).await;
    cascades(k).await;
    files(k).await;
    proxy(k).await;
    // The server's own Service comes back.
    k.has(&k.yes(&["delete", "all", "--all"], "").await, &["service \"kubernetes\" deleted"]);
    for _ in 0..100 {
        if k.output(&["get", "service", "kubernetes"], "").await.status.success() {
            return;
        }
    }
    panic!("the Service of the server is gone");
}

async fn outputs(k: &Kubectl<'_>) {
    let run = ["run", "shop", "--image=example.com/x:1", "--labels=app=shop", "--port=80", "--env=A=b"];
    k.has(&k.yes(&run, "").await, &["pod/shop created"]);
    let columns = "-o=custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image";
    k.has(&k.yes(&["get", "pod", "shop", columns], "").await, &["NAME", "IMAGE", "shop", "example.com/x:1"]);
    k.has(&k.yes(&["get", "pod", "shop", "-o=go-template={{.spec.restartPolicy}}"], "").await, &["Always"]);
    k.has(&k.yes(&["get", "pod", "shop", "-o=jsonpath-as-json={.spec.containers[*].name}"], "").await, &["\"shop\""]);
    k.has(&k.yes(&["get", "pod", "shop", "-o", "json"], "").await, &["\"kind\": \"Pod\"", "\"containerPort\": 80"]);
    k.has(&k.yes(&["get", "pod", "shop", "-o", "json", "--show-managed-fields"], "").await, &["kubectl-run"]);
    k.has(&k.yes(&["get", "pods", "-L", "app", "--show-labels"], "").await, &["APP", "LABELS", "app=shop"]);
    k.has(&k.yes(&["get", "pods", "--field-selector=status.phase=Pending", "-o", "name"], "").await, &["pod/shop"]);
    k.has(&k.yes(&["get", "pods,cm", "-o", "name"], "").await, &["pod/shop", "configmap/kube-root-ca.crt"]);
    k.has(&k.yes(&["get", "pod", "shop", "--subresource=status", "-o", "name"], "").await, &["pod/shop"]);
    // The watch lists first, so it does not matter who is faster.
    let watch = ["get", "configmaps", "-w", "--output-watch-events", "--request-timeout=4s"];
    let create = ["create", "configmap", "seen", "--from-literal=a=b"];
    let (watched, _) = tokio::join!(k.output(&watch, ""), k.yes(&create, ""));
    k.has(&String::from_utf8_lossy(&watched.stdout), &["EVENT", "ADDED", "seen"]);
}

async fn changes(k: &Kubectl<'_>) {
    k.has(&k.yes(&["set", "image", "pod/shop", "shop=example.com/x:2"], "").await, &["pod/shop image updated"]);
    k.has(&k.yes(&["set", "env", "pod/shop", "--list"], "").await, &["A=b"]);
    for refused in [&["set", "env", "pod/shop", "X=y"][..], &["set", "serviceaccount", "pod", "shop", "robot"]] {
        k.has(&k.no(refused, "").await, &["pod updates may not change fields other than `spec.containers[*].image`"]);
    }
    let status =
        ["patch", "pod", "shop", "--subresource=status", "--type=merge", "-p", r#"{"status":{"message":"hi"}}"#];
    k.has(&k.yes(&status, "").await, &["pod/shop patched"]);
    let test = ["patch", "pod", "shop", "--type=json", "-p", r#"[{"op":"test","path":"/metadata/name","value":"x"}]"#];
    k.has(&k.no(&test, "").await, &["The request is invalid"]);
    k.has(&k.yes(&["label", "pods", "--all", "tier=x"], "").await, &["pod/shop labeled"]);
    k.has(&k.no(&["label", "pod", "shop", "tier=y"], "").await, &["already has a value (x)", "--overwrite is false"]);
    k.has(&k.yes(&["label", "pod", "shop", "tier-"], "").await, &["pod/shop unlabeled"]);
    k.has(&k.yes(&["expose", "pod", "shop", "--name=front"], "").await, &["service/front exposed"]);
    let copy = ["debug", "shop", "--image=example.com/d:1", "--copy-to=copied", "--profile=general"];
    k.yes(&copy, "").await;
    k.has(&k.yes(&["get", "pod", "copied", "-o=jsonpath={.spec.containers[*].name}"], "").await, &["shop debugger-"]);
    let force = ["delete", "pod", "copied", "--grace-period=0", "--force"];
    k.has(&k.yes(&force, "").await, &["pod \"copied\" force deleted"]);
    let node = ["debug", "node/nope", "--image=example.com/d:1", "--profile=general"];
    k.has(&k.no(&node, "").await, &["nodes \"nope\" not found"]);
    for unbound in [&["exec", "shop", "--", "true"][..], &["cp", "shop:/x", "/dev/null"], &["attach", "shop"]] {
        k.has(&k.no(unbound, "").await, &["pod shop does not have a host assigned"]);
    }
}

/// What this server does not have, it does not have in words that say so.
async fn absent(k: &Kubectl<'_>) {
    for command in [
        &["get", "deployments"][..],
        &["rollout", "status", "deployment/x"],
        &["rollout", "restart", "deployment/x"],
        &["rollout", "undo", "daemonset/x"],
        &["get", "jobs.batch"],
        &["scale", "deployment", "x", "--replicas=2"],
    ] {
        k.has(&k.no(command, "").await, &["the server doesn't have a resource type"]);
    }
    k.has(&k.no(&["rollout", "restart", "pod/shop"], "").await, &["pods \"shop\" restarting is not supported"]);
    k.has(&k.no(&["autoscale", "pod", "shop", "--max=3"], "").await, &["cannot autoscale a Pod"]);
    let could_not = "the server could not find the requested resource";
    k.has(&k.no(&["create", "deployment", "x", "--image=x"], "").await, &[could_not]);
    k.has(&k.no(&["create", "job", "x", "--image=x"], "").await, &[could_not]);
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\n";
    k.has(
        &k.no(&["apply", "-f", "-"], deployment).await,
        &["no matches for kind \"Deployment\" in version \"apps/v1\""],
    );
    k.has(&k.yes(&["api-versions"], "").await, &["apiextensions.k8s.io/v1", "coordination.k8s.io/v1", "v1"]);
    k.has(&k.yes(&["get", "--raw", "/readyz?verbose"], "").await, &["[+]storage ok", "readyz check passed"]);
    k.has(&k.yes(&["cluster-info"], "").await, &["is running at https://127.0.0.1"]);
    k.has(&k.yes(&["explain", "pod.spec.affinity", "--recursive"], "").await, &["nodeAffinity", "-required-"]);
}

async fn descriptions(k: &Kubectl<'_>) {
    let volume = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: claim\nspec:\n  accessModes: [ReadWriteOnce]\n  \
                  resources:\n    requests:\n      storage: 1Gi\n";
    k.has(&k.yes(&["create", "-f", "-"], volume).await, &["persistentvolumeclaim/claim created"]);
    k.has(&k.yes(&["create", "secret", "generic", "quiet", "--from-literal=word=whisper"], "").await, &["created"]);
    for (what, parts) in [
        (&["namespace", "default"][..], &["Name:", "default", "Active"][..]),
        (&["serviceaccount", "default"], &["Tokens:"]),
        (&["service", "front"], &["Selector:", "app=shop", "IP:", "10."]),
        (&["secret", "quiet"], &["Opaque", "word:", "7 bytes"]),
        (&["pvc", "claim"], &["Status:", "Pending"]),
        (&["priorityclass", "system-node-critical"], &["2000001000"]),
        (&["crd"], &[]),
        (&["nodes"], &[]),
    ] {
        let told = k.yes(&[&["describe"], what].concat(), "").await;
        k.has(&told, parts);
        assert!(!told.contains("whisper"), "{told}");
    }
}

/// As somebody else.
async fn others(k: &Kubectl<'_>) {
    k.has(&k.yes(&["auth", "whoami", "--as=bob", "--as-group=dev"], "").await, &["bob", "dev", "system:authenticated"]);
    let account = "--as=system:serviceaccount:default:default";
    k.has(&k.no(&["get", "secrets", account], "").await, &["system:serviceaccount:default:default", "cannot list"]);
    let asked = k.output(&["auth", "can-i", "list", "secrets", account], "").await;
    k.has(&String::from_utf8_lossy(&asked.stdout), &["no"]);
    k.has(&k.yes(&["auth", "can-i", "create", "pods/exec"], "").await, &["yes"]);
    k.has(&k.yes(&["auth", "can-i", "--list", account], "").await, &["selfsubjectaccessreviews"]);
    k.has(&k.no(&["get", "pods", "--as-group=dev", "--as="], "").await, &["without impersonating a user"]);
}

async fn waiting(k: &Kubectl<'_>) {
    let wait = |arguments: &[&'static str]| [&["wait", "pod"], arguments].concat();
    let timed_out = ["timed out waiting for the condition on pods/shop"];
    k.has(&k.no(&wait(&["shop", "--for=condition=Ready", "--timeout=1s"]), "").await, &timed_out);
    k.has(&k.no(&wait(&["shop", "--for=delete", "--timeout=1s"]), "").await, &timed_out);
    k.has(&k.no(&wait(&["nope", "--for=condition=Ready", "--timeout=1s"]), "").await, &["\"nope\" not found"]);
    let ready = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let patch = ["patch", "pod", "shop", "--subresource=status", "--type=merge", "-p", ready];
    let waits = wait(&["shop", "--for=condition=Ready", "--timeout=30s"]);
    let (waited, _) = tokio::join!(k.yes(&waits, ""), k.yes(&patch, ""));
    k.has(&waited, &["pod/shop condition met"]);
    let waits = wait(&["shop", "--for=delete", "--timeout=30s"]);
    let (_, deleted) = tokio::join!(k.yes(&waits, ""), k.yes(&["delete", "pod", "shop", "--now"], ""));
    k.has(&deleted, &["pod \"shop\" deleted"]);
    k.yes(&["delete", "pod", "shop", "--ignore-not-found"], "").await;
}

async fn cascades(k: &Kubectl<'_>) {
    for (policy, stays) in [("orphan", true), ("background", false), ("foreground", false)] {
        k.yes(&["create", "configmap", "owner"], "").await;
        let uid = k.yes(&["get", "configmap", "owner", "-o=jsonpath={.metadata.uid}"], "").await;
        k.has(&k.yes(&["create", "-f", "-"], &owned("part", "owner", &uid)).await, &["created"]);
        k.yes(&["delete", "configmap", "owner", &format!("--cascade={policy}"), "--timeout=20s"], "").await;
        if stays {
            let owners = k.yes(&["get", "configmap", "part", "-o=jsonpath={.metadata.ownerReferences}"], "").await;
            assert_eq!(owners, "", "{policy}");
            k.yes(&["delete", "configmap", "part"], "").await;
        } else {
            k.yes(&["wait", "configmap/part", "--for=delete", "--timeout=20s"], "").await;
        }
    }
}

async fn files(k: &Kubectl<'_>) {
    let directory = k.home.join("kustomized");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("pod.yaml"), POD).unwrap();
    let text = "resources: [pod.yaml]\nnamePrefix: my-\nconfigMapGenerator:\n- name: settings\n  literals: [a=b]\n";
    std::fs::write(directory.join("kustomization.yaml"), text).unwrap();
    let path = directory.to_str().unwrap();
    k.has(&k.yes(&["apply", "-k", path], "").await, &["pod/my-web created", "configmap/my-settings-"]);
    k.has(&k.yes(&["diff", "-k", path], "").await, &[]);
    k.has(&k.yes(&["apply", "view-last-applied", "pod/my-web"], "").await, &["image: example.com/x:1"]);
    let manifest = POD.replace("name: web", "name: my-web").replace("x:1", "x:2");
    let differs = k.output(&["diff", "-f", "-"], &manifest).await;
    assert_eq!(differs.status.code(), Some(1));
    k.has(&String::from_utf8_lossy(&differs.stdout), &["-  - image: example.com/x:1", "+  - image: example.com/x:2"]);
    let whole = k.yes(&["get", "pod", "my-web", "-o", "yaml"], "").await.replace("x:1", "x:3");
    k.has(&k.yes(&["replace", "-f", "-"], &whole).await, &["pod/my-web replaced"]);
    k.has(&k.no(&["replace", "-f", "-"], &whole).await, &["the object has been modified"]);
    k.has(&k.yes(&["replace", "--force", "-f", "-"], &manifest).await, &["pod/my-web replaced"]);
    k.has(&k.yes(&["delete", "-k", path], "").await, &["pod \"my-web\" deleted"]);
    let events = "apiVersion: v1\nkind: Event\nmetadata:\n  name: e\ninvolvedObject: {apiVersion: v1, kind: Pod, name: gone, namespace: default}\nreason: \
                  Told\nmessage: a story\ntype: Warning\n";
    k.has(&k.yes(&["create", "-f", "-"], events).await, &["event/e created"]);
    k.has(&k.yes(&["events", "--for=pod/gone"], "").await, &["Warning", "Told", "a story"]);
    k.has(&k.yes(&["events", "--types=Warning"], "").await, &["Told"]);
    k.has(&k.yes(&["get", "events", "--field-selector=reason=Told"], "").await, &["a story"]);
}

/// A proxy passes requests on as who started it.
async fn proxy(k: &Kubectl<'_>) {
    let mut command = Command::new(k.program);
    command.arg("--kubeconfig").arg(&k.server.kubeconfig).args(["proxy", "--port=0"]).env_clear().env("HOME", &k.home);
    let talk = move || {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(&address) {
            stream.write_all(b"GET /api/v1/namespaces/default HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
            stream.read_to_string(&mut answer).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        format!("{line}{answer}")
    };
    let said = tokio::task::spawn_blocking(talk).await.unwrap();
    k.has(&said, &["Starting to serve on", "200 OK", "\"kind\":\"Namespace\""]);
}
