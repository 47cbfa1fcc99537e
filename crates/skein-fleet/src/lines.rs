//! Files of lines in a session's private folder that are durable when they are appended to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::commands::make_private;

/// Appends a line, and returns once it is on disk. `path` is in the folder `private`, which is made if need be.
pub(super) fn append(private: &Path, path: &Path, line: &str) -> io::Result<()> {
    let is_new = !path.exists();
    if is_new {
        make_private(private)?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    // One write: concurrent writers leave whole lines, and the next line ends one that a full disk cut short.
    file.write_all(format!("\n{line}\n").as_bytes())?;
    file.sync_data()?;
    if is_new {
        File::open(private)?.sync_all()?;
    }
    Ok(())
}
