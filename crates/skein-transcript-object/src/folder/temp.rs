//! Temporary files, which no reader takes for objects.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use skein_transcript::{Error, Result};

use crate::io::At;

/// Removed when dropped, unless it was renamed. Locked while it is written, so that a sweep recognises files of
/// killed writers.
#[derive(Debug)]
pub(super) struct Temp {
    path: PathBuf,
    _file: File,
}

impl Temp {
    /// Writes the body to a new file in `folder` and makes it durable.
    pub(super) fn write(folder: &Path, body: &[u8]) -> Result<Self> {
        loop {
            let mut random = [0; 16];
            getrandom::fill(&mut random)
                .map_err(|e| Error::cold(format!("no random bytes: {e}")))?;
            let path = folder.join(format!("{:032x}", u128::from_le_bytes(random)));
            let mut options = OpenOptions::new();
            options.create_new(true).write(true).mode(0o600);
            let mut file = options.open(&path).at("create", &path)?;
            flock(&file, FlockOperation::LockExclusive).at("lock", &path)?;
            // A sweep may have removed it between `open` and `flock`.
            if file.metadata().at("read", &path)?.nlink() == 0 {
                continue;
            }
            let written = file.write_all(body).and_then(|()| file.sync_all());
            let temp = Self { path, _file: file };
            written.at("write", &temp.path)?;
            return Ok(temp);
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes files of killed writers.
    pub(super) fn sweep(folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).at("read", folder)? {
            let path = entry.at("read", folder)?.path();
            let Ok(file) = File::open(&path) else {
                continue;
            };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // Another sweep may have removed it first.
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // Fails after a rename, which is fine because names are random.
        let _ = fs::remove_file(&self.path);
    }
}
