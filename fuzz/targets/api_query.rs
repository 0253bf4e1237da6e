#![no_main]

#[path = "../bodies/api_query.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
