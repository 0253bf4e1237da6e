//! The images that scenarios need.

use std::path::Path;

use minke_testkit::registry::Access;
use minke_testkit::{BUSYBOX, Image, Registry, busybox_image};

/// What containers run.
pub(crate) const MAIN: &str = "localhost/minke/busybox:1";

/// What may be removed.
pub(crate) const SPARE: &str = "localhost/minke/spare:1";

fn busybox(name: &str) -> Image {
    // Another variable is another configuration, and so another id.
    busybox_image(Path::new(BUSYBOX)).unwrap().env("IMAGE", name).name(name).build()
}

pub(crate) fn main() -> Image {
    busybox(MAIN)
}

pub(crate) fn spare() -> Image {
    busybox(SPARE)
}

/// A registry from which everybody may have `good:1`, and nobody `secret:1`.
pub(crate) async fn registry() -> Registry {
    let access = Access::Bearer {
        user: "somebody".to_owned(),
        password: "else".to_owned(),
        identity_token: None,
        public: ["good", "missing"].map(str::to_owned).to_vec(),
    };
    let registry = Registry::with_access(access).await.unwrap();
    for repository in ["good", "secret"] {
        registry.push(repository, "1", &busybox(repository));
    }
    registry
}
