//! Any bytes as a pull secret: never a panic, and never a byte of it in a warning.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{LocalObjectReference, Pod, Secret};
use minke_core::objects::ObjectSet;
use minke_kubelet::images::{ImageName, pull_credentials};

pub(crate) fn run(data: &[u8]) {
    for (kind, key) in
        [("kubernetes.io/dockerconfigjson", ".dockerconfigjson"), ("kubernetes.io/dockercfg", ".dockercfg")]
    {
        let mut secret = Secret { type_: Some(kind.to_owned()), ..Secret::default() };
        secret.metadata.name = Some("s".to_owned());
        secret.metadata.namespace = Some("default".to_owned());
        secret.data = Some([(key.to_owned(), ByteString(data.to_vec()))].into());
        let mut objects = ObjectSet::default();
        objects.insert_secret(secret);
        let mut pod = Pod::default();
        pod.spec.get_or_insert_default().image_pull_secrets = Some(vec![LocalObjectReference { name: "s".to_owned() }]);
        for image in [
            "busybox",
            "r.example:5000/a/b:1",
            "a.b.example/c@sha256:0000000000000000000000000000000000000000000000000000000000000000",
        ] {
            let image = ImageName::parse(image).expect("a name");
            let found = pull_credentials(&pod, &objects, &image);
            // The marker of the corpus' passwords.
            assert!(found.warnings.iter().all(|warning| !warning.contains("hunter2")), "{:?}", found.warnings);
        }
    }
}
