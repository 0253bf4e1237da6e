//! Any bytes as a manifest: never a panic; what is accepted is as good as it says, and survives a round trip.

use std::sync::Arc;

use minke_core::defaults::default_pod;
use minke_core::identity::PodKey;
use minke_core::manifest::{Input, Validate, parse};
use minke_core::validation::validate_pod;

pub(crate) fn run(data: &[u8]) {
    let input = |bytes: &[u8]| [Input { name: "fuzz".into(), bytes: bytes.to_vec() }];
    let strict = parse(&input(data), Validate::Strict);
    for validate in [Validate::Warn, Validate::Ignore] {
        // Whatever strictness accepts, leniency does.
        assert!(parse(&input(data), validate).is_ok() || strict.is_err());
    }
    let manifests = match strict {
        Ok(manifests) => manifests,
        Err(invalid) => {
            assert!(!invalid.errors.is_empty(), "a refusal has a reason");
            for error in &invalid.errors {
                drop(error.to_string());
            }
            return;
        }
    };
    for pod in manifests.pods() {
        PodKey::of(pod).expect("an accepted Pod has an identity");
        assert!(validate_pod(pod).is_empty(), "an accepted Pod is valid");
        let mut again = (**pod).clone();
        default_pod(&mut again);
        assert_eq!(again, **pod, "defaults are set once and for all");

        let mut json = serde_json::to_value(&**pod).expect("a Pod is JSON");
        json["apiVersion"] = "v1".into();
        json["kind"] = "Pod".into();
        if let Some(metadata) = json["metadata"].as_object_mut() {
            // A Pod of a controller has an owner that is not there the second time.
            metadata.remove("ownerReferences");
            metadata.remove("generateName");
        }
        let text = serde_json::to_vec(&json).expect("JSON is text");
        let mut first = (**pod).clone();
        (first.metadata.owner_references, first.metadata.generate_name) = (None, None);
        match parse(&input(&text), Validate::Strict) {
            Ok(second) => {
                let second: Vec<Arc<_>> = second.pods().cloned().collect();
                assert_eq!(second.len(), 1);
                let mut second = (*second[0]).clone();
                (second.metadata.owner_references, second.metadata.generate_name) = (None, None);
                assert_eq!(second.spec, first.spec, "a round trip changes nothing");
                assert_eq!(second.metadata.name, first.metadata.name);
                assert_eq!(second.metadata.namespace, first.metadata.namespace);
            }
            // It may refer to a ConfigMap or Secret beside it.
            Err(_) if !manifests.objects.is_empty() => {}
            Err(invalid) => panic!("what was accepted is refused when it is written out: {:?}", invalid.errors),
        }
    }
}
