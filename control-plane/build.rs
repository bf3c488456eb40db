//! Embeds the built dashboard, or a page that says how to build it: `cargo build` must work without Node.

use std::path::{Path, PathBuf};

const PLACEHOLDER: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Weir</title></head>\n\
    <body><h1>Weir</h1><p>This build has no dashboard. Run <code>make web</code> and build again. \
    The admin API is at <code>/v1</code>, its description at <a href=\"/docs/\">/docs</a>.</p></body></html>\n";

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../migrations");
    let built = Path::new("../web/dist");
    if built.join("index.html").is_file() {
        memory_serve::load_directory(built);
        return Ok(());
    }
    // No watch on the missing folder: cargo would run this again on every build. `make web` touches this file instead.
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("placeholder");
    let page = folder.join("index.html");
    if std::fs::read_to_string(&page).ok().as_deref() != Some(PLACEHOLDER) {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(&page, PLACEHOLDER)?;
    }
    memory_serve::load_directory(&folder);
    Ok(())
}
