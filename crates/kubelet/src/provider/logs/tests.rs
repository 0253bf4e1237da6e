use k8s_openapi::api::core::v1::ContainerStatus;
use serde_json::{Value, json};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn status(count: i32, state: Value, last: Value) -> ContainerStatus {
    let value = json!({
        "name": "main", "image": "i", "imageID": "", "ready": false,
        "restartCount": count, "state": state, "lastState": last,
    });
    serde_json::from_value(value).unwrap()
}

fn runs() -> Value {
    json!({"running": {}})
}

fn ended() -> Value {
    json!({"terminated": {"exitCode": 1}})
}

fn waits(reason: &str) -> Value {
    json!({"waiting": {"reason": reason}})
}

#[test]
fn which_run_is_meant_as_upstream_decides() {
    let waiting = |text: &str| Err(format!("container \"main\" in pod \"p\" is waiting to start{text}"));
    let none = || Err(no_previous("p", "main"));
    for (name, status, newest, previous) in [
        ("runs", status(0, runs(), json!({})), Ok(0), none()),
        ("runs again", status(2, runs(), ended()), Ok(2), Ok(1)),
        ("has ended", status(0, ended(), json!({})), Ok(0), none()),
        ("has ended again", status(3, ended(), ended()), Ok(3), Ok(2)),
        ("is held back", status(1, waits("CrashLoopBackOff"), ended()), Ok(1), Ok(1)),
        ("has no image", status(0, waits("ErrImagePull"), json!({})), waiting(": image can't be pulled"), none()),
        (
            "waits for its image",
            status(0, waits("ImagePullBackOff"), json!({})),
            waiting(": trying and failing to pull image"),
            none(),
        ),
        ("is created", status(0, waits("ContainerCreating"), json!({})), waiting(": ContainerCreating"), none()),
        ("nothing is known", status(0, json!({}), json!({})), waiting(" - no logs yet"), none()),
    ] {
        assert_eq!(run_wanted("p", "main", Some(&status), false), newest, "{name}");
        assert_eq!(run_wanted("p", "main", Some(&status), true), previous, "{name}, previous");
    }
    assert_eq!(
        run_wanted("p", "main", None, false),
        Err("container \"main\" in pod \"p\" is not available".to_owned())
    );
}

#[test]
fn a_run_is_over_when_it_has_ended_or_another_one_began() {
    for (name, status, run, over) in [
        ("it runs", status(1, runs(), ended()), 1, false),
        ("it has ended", status(1, ended(), json!({})), 1, true),
        ("it has ended and the next waits", status(1, waits("CrashLoopBackOff"), ended()), 1, true),
        ("the next runs", status(2, runs(), ended()), 1, true),
        ("the status is behind", status(0, ended(), json!({})), 1, false),
        ("it has not begun", status(0, waits("ContainerCreating"), json!({})), 0, false),
    ] {
        assert_eq!(is_over(Some(&status), run), over, "{name}");
    }
    assert!(!is_over(None, 0));
}

#[test]
fn times_have_nine_digits_as_upstream_writes_them() {
    use crate::logs::line::Stream;
    let line =
        Line { time: Some("2026-01-01T00:00:00.5Z".parse().unwrap()), stream: Stream::Stderr, text: vec![0xff, b'x'] };
    assert_eq!(shown(&line, true), b"2026-01-01T00:00:00.500000000Z \xffx\n");
    assert_eq!(shown(&line, false), b"\xffx\n");
}
