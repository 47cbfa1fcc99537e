//! The folder of all state, and the paths inside it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::env::Environment;
use crate::error::UserError;

/// The path of a Unix socket must fit in 108 bytes; a longer one gets a short folder elsewhere.
const SOCKET_LIMIT: usize = 100;

/// What to do about [`Home::without_ledger`].
pub(crate) const LEDGER_LOST: &str = "put `skein.db` back from a backup of the home, or set SKEIN_HOME to a new folder to start empty";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    pub(crate) fn from_environment(environment: &Environment) -> Result<Self, UserError> {
        let root = if let Some(home) = &environment.skein_home {
            home.clone()
        } else if let Some(data) = &environment.xdg_data_home {
            data.join("skein")
        } else if let Some(home) = &environment.home {
            home.join(".local/share/skein")
        } else {
            return Err(UserError::misuse(
                "cannot choose a folder for Skein's state: HOME is not set",
            )
            .hint("set SKEIN_HOME to a folder that you own"));
        };
        let root = std::path::absolute(&root)
            .map_err(|error| UserError::misuse("cannot resolve SKEIN_HOME").caused_by(&error))?;
        Ok(Self {
            root: resolved(&root),
        })
    }

    /// A home at this path.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn database(&self) -> PathBuf {
        self.root.join("skein.db")
    }

    /// The file that proves that a home without a ledger, or with an empty one, once had one.
    pub(crate) fn without_ledger(&self) -> Option<PathBuf> {
        let is_lost = match fs::metadata(self.database()) {
            Ok(found) => found.is_file() && found.len() == 0,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        // Both are made after the ledger.
        let others = [self.identity(), self.transcripts()];
        others.into_iter().find(|other| is_lost && other.exists())
    }

    pub fn transcripts(&self) -> PathBuf {
        self.root.join("transcripts.db")
    }

    /// The search index; can be rebuilt from the transcripts.
    pub fn search(&self) -> PathBuf {
        self.root.join("search.db")
    }

    /// The cold tier, unless the settings name another.
    pub fn cold(&self) -> PathBuf {
        self.root.join("cold")
    }

    /// The identity of this home; see `daemon::transcripts`.
    pub fn identity(&self) -> PathBuf {
        self.root.join("home-id")
    }

    /// The key that signs run credentials.
    pub fn credential_key(&self) -> PathBuf {
        self.root.join("credential.key")
    }

    /// Names this home in run credentials, so that a command knows which daemon a credential is for.
    pub(crate) fn mark(&self) -> String {
        let hash = blake3::hash(self.root.as_os_str().as_bytes()).to_hex();
        hash[..16].to_owned()
    }

    pub fn lock(&self) -> PathBuf {
        self.root.join("daemon.lock")
    }

    /// Locked by the daemon while its socket exists.
    pub fn serving(&self) -> PathBuf {
        self.root.join("daemon.serving")
    }

    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub fn socket(&self) -> PathBuf {
        self.socket_folder().join("skeind.sock")
    }

    /// The socket of the tmux server that shows sessions.
    pub fn tmux_socket(&self) -> PathBuf {
        self.socket_folder().join("tmux.sock")
    }

    /// The folder of the sockets: the home itself, or a short one if the home's path is too long.
    pub fn socket_folder(&self) -> PathBuf {
        let usual = self.root.join("skeind.sock");
        if usual.as_os_str().len() <= SOCKET_LIMIT {
            return self.root.clone();
        }
        let hash = blake3::hash(self.root.as_os_str().as_bytes()).to_hex();
        let user = rustix::process::getuid().as_raw();
        PathBuf::from(format!("/tmp/skein-{user}-{}", &hash[..12]))
    }

    /// Creates the folders, private to the user. Leaves existing ones as they are, but refuses a short socket folder
    /// that another user owns or can enter, because it is in a folder that everyone can write to.
    pub fn create(&self) -> Result<(), UserError> {
        private_folder(&self.root)?;
        private_folder(&self.logs())?;
        let folder = self.socket_folder();
        if folder != self.root {
            private_folder(&folder)?;
            check_owner(&folder)?;
        }
        Ok(())
    }
}

/// Resolves links in the part of the path that exists, so that two names of one folder are one home.
fn resolved(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return if rest.as_os_str().is_empty() {
                real
            } else {
                real.join(rest)
            };
        }
    }
    path.to_owned()
}

fn private_folder(path: &Path) -> Result<(), UserError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| {
            UserError::unavailable(format!("cannot make the folder `{}`", path.display()))
                .caused_by(&error)
                .hint("set SKEIN_HOME to another folder")
        })
}

/// Writes a file that only its owner can read, durably and as a whole.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A fixed name: what a crash leaves is overwritten by the next attempt.
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

pub(crate) fn check_owner(folder: &Path) -> Result<(), UserError> {
    let refuse = |reason: &str| {
        UserError::refused(format!(
            "the socket's folder `{}` {reason}",
            folder.display()
        ))
        .hint("set SKEIN_HOME to a shorter path, so that the socket fits inside")
    };
    let metadata = std::fs::symlink_metadata(folder)
        .map_err(|error| refuse("cannot be examined").caused_by(&error))?;
    if !metadata.is_dir() {
        return Err(refuse("is not a folder"));
    }
    if metadata.uid() != rustix::process::getuid().as_raw() {
        return Err(refuse("belongs to another user"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(refuse("can be entered by other users"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_homes_get_a_short_socket() {
        let short = Home::at("/home/ann/.local/share/skein");
        assert_eq!(
            short.socket(),
            Path::new("/home/ann/.local/share/skein/skeind.sock")
        );
        let long = Home::at(format!("/{}", "x".repeat(200)));
        assert!(long.socket().as_os_str().len() <= SOCKET_LIMIT);
        assert!(long.socket().starts_with("/tmp"));
        assert!(long.tmux_socket().as_os_str().len() <= SOCKET_LIMIT);
        assert_ne!(
            long.socket(),
            Home::at(format!("/{}", "y".repeat(200))).socket()
        );
    }

    #[test]
    fn homes_are_private() {
        let temp = tempfile::tempdir().unwrap();
        let home = Home::at(temp.path().join("a/b"));
        home.create().unwrap();
        let mode = std::fs::metadata(home.root()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        check_owner(home.root()).unwrap();
    }
}
