use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use minke_core::identity::PodUid;

use super::*;

fn pod(containers: &[&str], init: &[&str], default: Option<&str>) -> Pod {
    let named = |names: &[&str]| -> Vec<Container> {
        names.iter().map(|n| Container { name: (*n).to_owned(), ..Container::default() }).collect()
    };
    let mut pod = Pod::default();
    pod.metadata.annotations = default.map(|d| BTreeMap::from([(DEFAULT_CONTAINER.to_owned(), d.to_owned())]));
    pod.spec =
        Some(PodSpec { containers: named(containers), init_containers: Some(named(init)), ..PodSpec::default() });
    pod
}

fn chosen(wanted: Option<&str>, pod: &Pod) -> Result<String, Failure> {
    container(wanted, true, &PodKey::new("default", "web", PodUid::new("u").unwrap()), pod)
}

#[test]
fn the_named_container_or_the_annotated_or_the_first() {
    let two = pod(&["a", "b"], &["i"], None);
    assert_eq!(chosen(None, &two).unwrap(), "a");
    assert_eq!(chosen(Some("b"), &two).unwrap(), "b");
    assert_eq!(chosen(Some("i"), &two).unwrap(), "i");
    assert_eq!(chosen(None, &pod(&["a", "b"], &[], Some("b"))).unwrap(), "b");
    assert_eq!(chosen(None, &pod(&["a", "b"], &[], Some("gone"))).unwrap(), "a");
    let failure = chosen(Some("c"), &two).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    assert!(failure.to_string().contains("container c is not valid for pod default/web"), "{failure}");
    assert!(failure.to_string().contains("a, b, i"), "{failure}");
}
