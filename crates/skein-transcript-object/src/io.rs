//! What the file system answers, in our words.

use std::io::{Error as IoError, ErrorKind};
use std::path::Path;

use skein_transcript::{Error, Result};

pub(crate) const TIER: &str = "cold";

/// Gives a failure the place it happened at, and the kind it is of.
pub(crate) trait At<T> {
    fn at(self, what: &str, path: &Path) -> Result<T>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, what: &str, path: &Path) -> Result<T> {
        self.map_err(|error| told(&error, what, path))
    }
}

impl<T> At<T> for rustix::io::Result<T> {
    fn at(self, what: &str, path: &Path) -> Result<T> {
        self.map_err(|error| told(&error.into(), what, path))
    }
}

fn told(error: &IoError, what: &str, path: &Path) -> Error {
    let reason = format!("cannot {what} `{}`: {error}", path.display());
    let path = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => Error::Denied {
            tier: TIER,
            reason,
            hint: format!("let the user that runs the daemon read and write `{path}`"),
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
                hint: format!("something that is not ours lies at `{path}`; move it away"),
            }
        }
        // What is full may be emptied, what is busy or broken may be mended.
        _ => Error::cold(reason),
    }
}
