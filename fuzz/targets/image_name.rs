#![no_main]

#[path = "../bodies/image_name.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
