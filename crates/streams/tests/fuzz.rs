//! What the fuzz targets run (`fuzz/bodies`), as tests: see `fuzz/harness.rs`.

#![cfg(test)]

#[path = "../../../fuzz/harness.rs"]
mod harness;

#[path = "../../../fuzz/bodies/spdy.rs"]
mod spdy;
#[path = "../../../fuzz/bodies/stream_request.rs"]
mod stream_request;

#[test]
fn any_bytes_as_spdy() {
    harness::check("spdy", 20_000, spdy::run);
}

#[test]
fn any_text_as_a_request_for_streams() {
    harness::check("stream_request", 20_000, stream_request::run);
}
