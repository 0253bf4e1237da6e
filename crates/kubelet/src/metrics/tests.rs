use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[test]
fn names_are_shown_as_registered() {
    let metrics = Metrics::default();
    metrics.register("things_total", "Things", Counter::<u64>::default()).inc();
    metrics.register("kubelet_things", "Things as upstream names them", PlainCounter::default()).inc_by(2);
    metrics.register("level", "Now", Gauge::<i64>::default()).set(3);
    metrics.computed("age_seconds", "When asked", || 4.5);
    metrics.register("took_seconds", "Durations", histogram()).observe(0.3);
    let text = metrics.text();
    for line in [
        "# TYPE things counter",
        "things_total 1",
        "# TYPE kubelet_things unknown",
        "kubelet_things 2",
        "# TYPE level gauge",
        "level 3",
        "age_seconds 4.5",
        "took_seconds_bucket{le=\"0.25\"} 0",
        "took_seconds_bucket{le=\"0.5\"} 1",
        "took_seconds_count 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(metrics.names(), ["age_seconds", "kubelet_things", "level", "things_total", "took_seconds"]);
}

#[test]
fn a_family_has_one_line_for_each_of_its_labels() {
    let metrics = Metrics::default();
    let family: Family<Kind, PlainCounter> = metrics.register("kubelet_kinds", "By kind", Family::default());
    for kind in ["a", "b", "a"] {
        family.get_or_create(&Kind { kind }).inc();
    }
    let text = metrics.text();
    assert!(text.contains("kubelet_kinds{kind=\"a\"} 2\n"), "{text}");
    assert!(text.contains("kubelet_kinds{kind=\"b\"} 1\n"), "{text}");
}

#[test]
fn a_name_is_never_shown_twice() {
    let metrics = Metrics::default();
    let first = metrics.register("twice", "First", Gauge::<i64>::default());
    let second = metrics.register("twice", "Second", Gauge::<i64>::default());
    first.set(1);
    second.set(2);
    let text = metrics.text();
    assert_eq!(text.matches("# TYPE twice").count(), 1, "{text}");
    assert!(text.contains("twice 1\n"), "{text}");
}
