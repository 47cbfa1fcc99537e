//! The key that signs run credentials: one file per home, made at the first start.

use std::fs::{OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::io::Errno;
use skein_ledger::{CredentialKey, IdSource as _, SystemIds};

use crate::error::UserError;
use crate::home::{Home, write_private};

/// Reads the home's key, or makes one. The caller holds the daemon's lock, so no other daemon makes one at the same time.
///
/// A missing key is replaced: the hooks of agents that still run are refused until they are restored, and Skein knows
/// these agents only by their screens and files.
pub(super) fn open(home: &Home) -> Result<CredentialKey, UserError> {
    let path = home.credential_key();
    let secret = match read(&path) {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            let fault = match path.exists() {
                true => Some("damaged"),
                // The first start of a home makes its key before its identity.
                false => home.identity().exists().then_some("missing"),
            };
            if let Some(fault) = fault {
                tracing::warn!(path = %path.display(), "the key of run credentials is {fault} and replaced; hooks of running agents are refused until their sessions are restored");
            }
            let secret = SystemIds.secret();
            write_private(&path, &secret).map_err(|error| failed(&path, &error))?;
            secret
        }
        Err(error) => return Err(failed(&path, &error)),
    };
    Ok(CredentialKey::new(secret, home.mark()))
}

fn failed(path: &Path, error: &std::io::Error) -> UserError {
    UserError::unavailable(format!(
        "cannot use the key of run credentials in `{}`",
        path.display()
    ))
    .caused_by(error)
}

/// The key, if the file is complete.
fn read(path: &Path) -> std::io::Result<Option<[u8; 32]>> {
    let mut bytes = vec![];
    match OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
    {
        Ok(file) => {
            // A process that can read the key can issue credentials for any agent.
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.take(33).read_to_end(&mut bytes)?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // A link was not made by Skein; the new key replaces it.
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(bytes.try_into().ok())
}
