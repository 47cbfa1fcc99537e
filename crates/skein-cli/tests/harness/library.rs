//! Libraries in C that are loaded into the daemon before the system's own, to play tricks on it. Linux only.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source` into `folder`.
pub(crate) fn compile(source: &str, folder: &Path) -> PathBuf {
    let (file, library) = (folder.join("preload.c"), folder.join("preload.so"));
    std::fs::write(&file, source).expect("a folder of our own");
    let ran = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([&library, &file])
        .args(["-ldl", "-lpthread"])
        .output()
        .expect("the build needs `cc` too");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
    library
}
