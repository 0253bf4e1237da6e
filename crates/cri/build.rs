//! Generates the CRI client (and, for tests, the server) from the vendored `proto/api.proto`, without protoc.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("proto");
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["api.proto"], [directory])?;
    tonic_prost_build::configure()
        .build_transport(false)
        // Upstream's comments are prose in another markup; rustdoc would read their lists as code.
        .disable_comments(["."])
        // The tests' server has what a test needs; all else is as in a runtime that does not know the call.
        .generate_default_stubs(true)
        .server_mod_attribute(".", "#[cfg(test)]")
        .compile_fds(files)?;
    Ok(())
}
