//! Real files, a real server on loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use minke_core::manifest::MAX_BYTES;
use minke_core::runtime::error_chain;

use super::*;

fn pod(name: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n")
}

async fn load_path(path: &Path) -> Result<Manifests, LoadError> {
    load(&[Source::Path(path.to_owned())], Validate::Strict).await
}

fn names(manifests: &Manifests) -> Vec<&str> {
    manifests.pods().filter_map(|pod| pod.metadata.name.as_deref()).collect()
}

/// The only source that can't be read, with all causes.
#[track_caller]
fn read_failure(result: Result<Manifests, LoadError>) -> String {
    match result {
        Err(LoadError::Read(failures)) if failures.len() == 1 => error_chain(&failures[0]),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_directory_is_its_files_in_order_without_dot_files_and_directories() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (file, name) in
        [("b.yaml", "b"), ("a.json", "a"), ("10.yml", "ten"), ("9.txt", "nine"), (".hidden.yaml", "hidden")]
    {
        std::fs::write(at(file), pod(name)).unwrap();
    }
    std::fs::create_dir(at("sub.yaml")).unwrap();
    std::fs::write(at("sub.yaml").join("c.yaml"), pod("linked")).unwrap();
    std::os::unix::fs::symlink(at("sub.yaml").join("c.yaml"), at("link.yaml")).unwrap();
    std::os::unix::fs::symlink(at("sub.yaml"), at("dirlink")).unwrap();
    let manifests = load_path(directory.path()).await.unwrap();
    assert_eq!(
        names(&manifests),
        ["ten", "nine", "a", "b", "linked"],
        "a link to a file counts, as in mounted ConfigMaps"
    );
}

#[tokio::test]
async fn sources_are_one_set() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a.yaml"), directory.path().join("b.yaml"));
    std::fs::write(&a, pod("web")).unwrap();
    std::fs::write(&b, pod("web")).unwrap();
    let sources = [Source::Path(a.clone()), Source::Path(b.clone())];
    let Err(LoadError::Invalid(invalid)) = load(&sources, Validate::Strict).await else { panic!("duplicate accepted") };
    let expected = format!(
        "{}:3:18: metadata.name: duplicate Pod \"default/web\"; the first is at {}:3:18",
        b.display(),
        a.display()
    );
    assert_eq!(invalid.errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let result = load_path(Path::new("/nonexistent/pod.yaml")).await;
    assert_eq!(read_failure(result), "can't read /nonexistent/pod.yaml: there is no such file or directory");
}

#[tokio::test]
async fn a_dangling_link_in_a_directory_is_not_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/nonexistent", directory.path().join("a.yaml")).unwrap();
    let failure = read_failure(load_path(directory.path()).await);
    assert!(failure.ends_with("a.yaml: there is no such file or directory"), "{failure}");
}

#[tokio::test]
async fn every_source_that_fails_is_named() {
    let sources = ["/nonexistent/a", "/nonexistent/b"].map(|path| Source::Path(path.into()));
    let Err(error @ LoadError::Read(_)) = load(&sources, Validate::Strict).await else { panic!("read something") };
    assert_eq!(error.to_string(), "2 of the sources can't be read");
}

#[tokio::test]
async fn nothing_to_run_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("m.yaml");
    for text in ["", "# only words\n---\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"] {
        std::fs::write(&file, text).unwrap();
        let error = load_path(&file).await.unwrap_err();
        assert_eq!(error.to_string(), format!("nothing to run: no Pod, Job or Deployment in {}", file.display()));
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(load_path(empty.path()).await, Err(LoadError::Empty { .. })));
}

#[tokio::test]
async fn text_that_is_not_utf8_is_a_diagnostic() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("m.yaml");
    std::fs::write(&file, b"a: \xff").unwrap();
    let Err(LoadError::Invalid(invalid)) = load_path(&file).await else { panic!("accepted") };
    assert_eq!(invalid.errors[0].to_string(), format!("{}:1:4: this is not UTF-8", file.display()));
}

#[tokio::test]
async fn a_large_file_is_refused_by_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("m.yaml");
    // Sparse: reading it would take 50 GB of memory.
    std::fs::File::create(&file).unwrap().set_len(50 << 30).unwrap();
    let failure = read_failure(load_path(&file).await);
    assert!(failure.ends_with("it is larger than 10 MiB, the most that a manifest may have; split it"), "{failure}");
}

#[test]
fn what_never_ends_is_read_no_further_than_the_limit() {
    struct Endless(usize);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 += buffer.len();
            buffer.fill(b'a');
            Ok(buffer.len())
        }
    }
    let mut endless = Endless(0);
    assert!(file::read_bounded("-", &mut endless, 0).is_err());
    assert!(endless.0 <= MAX_BYTES + 1, "{}", endless.0);
    assert_eq!(file::read_bounded("-", &b"abc"[..], 0).unwrap(), b"abc");
}

/// Serves one answer after the other, each to one connection, and ends.
fn serve(answers: Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(n) => request.extend_from_slice(&buffer[..n]),
                }
            }
            // The client may have heard enough before the end.
            let _ = stream.write_all(&answer);
        }
    });
    format!("http://{address}/pod.yaml")
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

async fn load_url(url: &str) -> Result<Manifests, LoadError> {
    load(&[Source::Url(url.to_owned())], Validate::Strict).await
}

#[tokio::test]
async fn an_address_is_fetched() {
    let url = serve(vec![answer("200 OK", "", pod("web").as_bytes())]);
    assert_eq!(names(&load_url(&url).await.unwrap()), ["web"]);
}

#[tokio::test]
async fn redirects_are_followed() {
    let url =
        serve(vec![answer("302 Found", "Location: /other.yaml\r\n", b""), answer("200 OK", "", pod("web").as_bytes())]);
    assert_eq!(names(&load_url(&url).await.unwrap()), ["web"]);
}

#[tokio::test]
async fn any_status_but_200_is_a_failure() {
    for status in ["404 Not Found", "500 Internal Server Error", "204 No Content"] {
        let url = serve(vec![answer(status, "", b"")]);
        let failure = read_failure(load_url(&url).await);
        assert_eq!(failure, format!("can't read {url}: the server answered {status}, not 200"));
    }
}

#[tokio::test]
async fn a_large_answer_is_cut_off_however_it_is_announced() {
    let body = vec![b'a'; MAX_BYTES + 100_000];
    let announced = format!("Content-Length: {}\r\n", body.len());
    for headers in ["", announced.as_str()] {
        let url = serve(vec![answer("200 OK", headers, &body)]);
        let failure = read_failure(load_url(&url).await);
        assert!(
            failure.ends_with("it is larger than 10 MiB, the most that a manifest may have; split it"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_password() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for scheme in ["http", "https"] {
        let failure = read_failure(load_url(&format!("{scheme}://me:hunter2@127.0.0.1:{port}/p.yaml")).await);
        assert!(failure.starts_with(&format!("can't read {scheme}://***@127.0.0.1:{port}/p.yaml: ")), "{failure}");
        assert!(!failure.contains("hunter2"), "{failure}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_longer_than_the_limit() {
    // It accepts and stays silent. Time is paused only once the connection stands, and then runs on by itself.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let started = tokio::time::Instant::now();
    let (accepted, connected) = tokio::sync::oneshot::channel();
    let held = std::thread::spawn(move || {
        let stream = listener.accept();
        let _ = accepted.send(());
        stream
    });
    let mut loading = tokio::spawn(async move { load_url(&format!("http://{address}/")).await });
    tokio::select! {
        connected = connected => connected.unwrap(),
        early = &mut loading => panic!("ended before it connected: {early:?}"),
    }
    tokio::time::pause();
    let failure = read_failure(loading.await.unwrap());
    assert!(started.elapsed() <= std::time::Duration::from_secs(11), "{:?}", started.elapsed());
    assert!(failure.contains("operation timed out"), "{failure}");
    drop(held.join());
}
