//! Who this home is, so that homes which share a bucket or a Redis keep apart, and where its cold
//! transcripts are, so that a place that went missing is not taken for an empty one.
//!
//! Both are in the file `home-id`, which goes with a home that is copied or moved. Only the daemon that holds
//! the home's lock writes it.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::UserError;
use crate::home::Home;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FormV1 {
    version: u32,
    id: String,
    /// The location that was written to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cold: Option<String>,
}

#[derive(Debug)]
pub(super) struct Identity {
    path: PathBuf,
    id: String,
    cold: Mutex<Option<String>>,
}

impl Identity {
    /// Reads it, or makes it once.
    pub(super) fn open(home: &Home) -> Result<Self, UserError> {
        let path = home.identity();
        let failed = |why: &str| {
            UserError::unavailable(format!("`{}` {why}", path.display())).hint(
                "it tells whose the cold transcripts are: restore it from a backup of the home",
            )
        };
        let form = match std::fs::read(&path) {
            Ok(bytes) => {
                let form: FormV1 = serde_json::from_slice(&bytes)
                    .map_err(|e| failed("cannot be understood").caused_by(&e))?;
                if form.version != 1 || !is_id(&form.id) {
                    return Err(failed("is not of this version"));
                }
                form
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let id = random().map_err(|e| failed("cannot be made").cause(e))?;
                let (version, cold) = (1, None);
                let form = FormV1 { version, id, cold };
                write(&path, &form).map_err(|e| failed("cannot be written").caused_by(&e))?;
                form
            }
            Err(error) => return Err(failed("cannot be read").caused_by(&error)),
        };
        Ok(Self {
            path,
            id: form.id,
            cold: Mutex::new(form.cold),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The location that was written to last.
    pub(super) fn cold(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Notes where cold transcripts are from now on. Blocks.
    pub(super) fn note_cold(&self, location: &str) -> std::io::Result<()> {
        let mut cold = self.lock();
        let form = FormV1 {
            version: 1,
            id: self.id.clone(),
            cold: Some(location.to_owned()),
        };
        write(&self.path, &form)?;
        *cold = form.cold;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.cold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn random() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| e.to_string())?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// Whole or not at all, and durable; owner only.
fn write(path: &Path, form: &FormV1) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(form)?)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_home_is_the_same_ever_after_and_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let (a, b) = (
            Home::at(temp.path().join("a")),
            Home::at(temp.path().join("b")),
        );
        a.create().unwrap();
        b.create().unwrap();
        let first = Identity::open(&a).unwrap();
        assert_eq!((is_id(first.id()), first.cold()), (true, None));
        first.note_cold("s3://bucket").unwrap();
        let again = Identity::open(&a).unwrap();
        assert_eq!(again.id(), first.id());
        assert_eq!(again.cold().as_deref(), Some("s3://bucket"));
        assert_ne!(Identity::open(&b).unwrap().id(), first.id());
        let mode = std::fs::metadata(a.identity()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(a.identity(), "{").unwrap();
        assert!(
            Identity::open(&a).is_err(),
            "what is damaged is not made anew"
        );
    }
}
