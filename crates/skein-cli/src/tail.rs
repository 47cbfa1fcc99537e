//! Following a file that another process writes.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::error::UserError;

/// Reads a file that grows and is sometimes replaced by a new one.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    file: Option<File>,
}

impl Tail {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// The bytes added since the last call.
    pub(crate) fn read(&mut self) -> Result<Vec<u8>, UserError> {
        let path = self.path.clone();
        let failed = |error: std::io::Error| {
            UserError::failed(format!("cannot read `{}`", path.display())).caused_by(&error)
        };
        let mut bytes = vec![];
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut bytes).map_err(failed)?;
            if !bytes.is_empty() || self.is_current() {
                return Ok(bytes);
            }
            // The old file may have grown before it was replaced.
            if let Some(file) = &mut self.file {
                file.read_to_end(&mut bytes).map_err(failed)?;
            }
        }
        match File::open(&self.path) {
            Ok(mut file) => {
                file.read_to_end(&mut bytes).map_err(failed)?;
                self.file = Some(file);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(bytes)
    }

    fn is_current(&self) -> bool {
        let ours = self.file.as_ref().and_then(|file| file.metadata().ok());
        match (ours, std::fs::metadata(&self.path)) {
            (Some(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_replaced_loses_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.read().unwrap(), b"");
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(tail.read().unwrap(), b"one\n");
        assert_eq!(tail.read().unwrap(), b"");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        std::fs::rename(&path, temp.path().join("log.1")).unwrap();
        std::fs::write(&path, "three\n").unwrap();
        let mut all = tail.read().unwrap();
        all.extend(tail.read().unwrap());
        assert_eq!(all, b"two\nthree\n");
    }
}
