//! What the fuzz targets run (`fuzz/bodies`), as tests: see `fuzz/harness.rs`.

#![cfg(test)]

#[path = "../../../fuzz/harness.rs"]
mod harness;

#[path = "../../../fuzz/bodies/api_body.rs"]
mod api_body;
#[path = "../../../fuzz/bodies/api_definition.rs"]
mod api_definition;
#[path = "../../../fuzz/bodies/api_import.rs"]
mod api_import;
#[path = "../../../fuzz/bodies/api_patch.rs"]
mod api_patch;
#[path = "../../../fuzz/bodies/api_query.rs"]
mod api_query;
#[path = "../../../fuzz/bodies/api_request.rs"]
mod api_request;
#[path = "../../../fuzz/bodies/api_token.rs"]
mod api_token;
#[path = "../../../fuzz/bodies/certificate_request.rs"]
mod certificate_request;
#[path = "../../../fuzz/bodies/proto.rs"]
mod proto;

use harness::check;

#[test]
fn any_bytes_as_a_protobuf_body() {
    check("proto", 20_000, proto::run);
}

#[test]
fn any_bytes_as_a_body() {
    check("api_body", 2_000, api_body::run);
}

#[test]
fn any_text_as_a_patch() {
    check("api_patch", 5_000, api_patch::run);
}

#[test]
fn any_text_as_a_selector() {
    check("api_query", 20_000, api_query::run);
}

#[test]
fn any_bytes_as_a_certificate_request() {
    check("certificate_request", 5_000, certificate_request::run);
}

#[test]
fn any_text_as_a_request() {
    check("api_request", 20_000, api_request::run);
}

#[test]
fn any_text_as_a_definition_and_an_object_of_it() {
    check("api_definition", 1_000, api_definition::run);
}

#[test]
fn any_bytes_as_an_import() {
    check("api_import", 10_000, api_import::run);
}

#[test]
fn any_text_as_a_token() {
    check("api_token", 1_000, api_token::run);
}
