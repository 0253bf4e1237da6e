//! What the fuzz targets run (`fuzz/bodies`), as tests: see `fuzz/harness.rs`.

#![cfg(test)]

#[path = "../../../fuzz/harness.rs"]
mod harness;

#[path = "../../../fuzz/bodies/crilog.rs"]
mod crilog;
#[path = "../../../fuzz/bodies/docker_config.rs"]
mod docker_config;
#[path = "../../../fuzz/bodies/image_name.rs"]
mod image_name;
#[path = "../../../fuzz/bodies/machine.rs"]
mod machine;
#[path = "../../../fuzz/bodies/manifest.rs"]
mod manifest;
#[path = "../../../fuzz/bodies/quantity.rs"]
mod quantity;

use harness::check;

#[test]
fn any_bytes_as_a_manifest() {
    check("manifest", 2000, manifest::run);
}

#[test]
fn any_bytes_as_a_log() {
    check("crilog", 20_000, crilog::run);
}

#[test]
fn any_text_as_a_quantity() {
    check("quantity", 50_000, quantity::run);
}

#[test]
fn any_text_as_an_image_name() {
    check("image_name", 50_000, image_name::run);
}

#[test]
fn any_bytes_as_a_pull_secret() {
    check("docker_config", 10_000, docker_config::run);
}

#[test]
fn any_bytes_as_the_history_of_a_pod() {
    check("machine", 20_000, machine::run);
}
