//! The examples of the repository do what their comments say.

use std::path::{Path, PathBuf};
use std::time::Duration;

use minke_testkit::{BUSYBOX, Layer, busybox_image};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Instance, with_instance};

fn example(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../examples", name].iter().collect();
    path.to_str().unwrap().to_owned()
}

/// The two images that the examples use.
pub(crate) async fn import_images(m: &Instance) {
    let busybox = || busybox_image(Path::new(BUSYBOX)).unwrap();
    let web = busybox()
        .layer(Layer::new().dir("www/", 0o755).file("www/index.html", 0o644, "hello from a Pod\n"))
        .user("app")
        .entrypoint(["httpd", "-f", "-p", "8080", "-h", "/www"])
        .cmd(Vec::<String>::new());
    for (name, image) in [("busybox", busybox()), ("web", web)] {
        let archive = m.root().join(format!("{name}.tar"));
        std::fs::write(&archive, image.name(&format!("localhost/minke-demo/{name}:1")).build().oci_archive()).unwrap();
        m.minke(&["image", "import", archive.to_str().unwrap()]).await.expect(0);
    }
}

async fn completes(name: &str, says: &str) {
    with_instance(&format!("example_{}", name.trim_end_matches(".yaml")), async |m| {
        import_images(&m).await;
        let ran = m.minke(&["run", &example(name), "--until", "completed", "--timeout", "50s"]).await.expect(0);
        assert!(ran.out.contains(says), "{}", ran.out);
    })
    .await;
}

#[tokio::test]
async fn hello() {
    completes("hello.yaml", "hello from default/hello").await;
}

#[tokio::test]
async fn job() {
    completes("job.yaml", "4 squared is 16").await;
}

#[tokio::test]
async fn init_sidecar() {
    completes("init-sidecar.yaml", "saw three ticks of the sidecar").await;
}

#[tokio::test]
async fn config() {
    completes("config.yaml", "environment and files agree").await;
}

#[tokio::test]
async fn hardened() {
    completes("hardened.yaml", "no capabilities, no new privileges").await;
}

#[tokio::test]
async fn deployment() {
    with_instance("example_deployment", async |m| {
        import_images(&m).await;
        let result = m.minke(&["run", &example("deployment.yaml"), "-o", "json"]).await.expect(0).json();
        assert_eq!(result["pods"].as_array().unwrap().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn web() {
    with_instance("example_web", async |m| {
        import_images(&m).await;
        // A port that is free now, so that the test does not depend on the example's own.
        let free = std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let text = std::fs::read_to_string(example("web.yaml"))
            .unwrap()
            .replace("hostPort: 8088", &format!("hostPort: {free}"));
        assert!(text.contains(&free.to_string()));
        m.minke(&["run", &m.manifest("web.yaml", &text)]).await.expect(0);
        let get = async {
            loop {
                if let Ok(answer) = get(free).await
                    && answer.contains("hello from a Pod")
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), get).await.expect("the web server should answer");
    })
    .await;
}

async fn get(port: u16) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn crashloop() {
    with_instance("example_crashloop", async |m| {
        import_images(&m).await;
        m.minke(&["run", &example("crashloop.yaml")]).await.expect(0);
        crate::support::wait_async("the back-off", async || {
            m.ps("crashloop").await.unwrap()["containers"][0]["reason"] == "CrashLoopBackOff"
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn broken_typo() {
    with_instance("example_broken_typo", async |m| {
        let ran = m.minke(&["run", &example("broken/typo.yaml")]).await.expect(2);
        for said in ["imagee", "did you mean", "containerPort", "typo.yaml:"] {
            assert!(ran.err.contains(said), "{said}: {}", ran.err);
        }
        assert!(m.agent().is_none());
    })
    .await;
}
