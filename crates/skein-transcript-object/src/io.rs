//! Maps errors of the file system.

use std::io::{Error as IoError, ErrorKind};
use std::path::Path;

use skein_transcript::{Error, Result};

pub(crate) const TIER: &str = "cold";

/// Adds the operation and the path to a failure.
pub(crate) trait At<T> {
    fn at(self, what: &str, path: &Path) -> Result<T>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, what: &str, path: &Path) -> Result<T> {
        self.map_err(|error| tier_error(&error, what, path))
    }
}

impl<T> At<T> for rustix::io::Result<T> {
    fn at(self, what: &str, path: &Path) -> Result<T> {
        self.map_err(|error| tier_error(&error.into(), what, path))
    }
}

fn tier_error(error: &IoError, what: &str, path: &Path) -> Error {
    let reason = format!("cannot {what} `{}`: {error}", path.display());
    let path = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => Error::Denied {
            tier: TIER,
            reason,
            hint: format!("allow the daemon's user to read and write `{path}`"),
        },
        ErrorKind::ReadOnlyFilesystem => Error::Denied {
            tier: TIER,
            reason,
            hint: "mount it for writing, or choose another folder".into(),
        },
        ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::AlreadyExists => {
            Error::Misconfigured {
                tier: TIER,
                reason,
                hint: format!("a file that does not belong to Skein is at `{path}`; move it away"),
            }
        }
        // The other failures may pass: a full disk can be emptied, a broken one repaired.
        _ => Error::cold(reason),
    }
}
