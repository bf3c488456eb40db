//! Compiles the `.proto` files with protox: no `protoc` needed.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["proto/weir/v1/sync.proto", "proto/weir/v1/events.proto"];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
