//! The identity of this home, so that homes that share a bucket or a Redis are kept apart, and the location of its
//! transcripts, so that a missing or other location is not taken for an empty one.
//!
//! Everything is in the file `home-id`, which is copied and moved with the home. Only the daemon that holds the home's
//! lock writes it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::UserError;
use crate::home::{Home, write_private};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FormV1 {
    version: u32,
    id: String,
    /// The location that was written to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cold: Option<String>,
    /// The hot tier that was used last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hot: Option<String>,
}

#[derive(Debug)]
pub(super) struct HomeIdentity {
    path: PathBuf,
    form: Mutex<FormV1>,
}

/// Whether the identity that the ledger has recorded was found.
#[derive(Debug)]
pub(super) enum IdentityCheck {
    Here(HomeIdentity),
    Missing,
    Replaced,
}

impl HomeIdentity {
    /// Reads it, or makes it once. A home with a `recorded` identity gets no other one.
    pub(super) fn open(home: &Home, recorded: Option<&str>) -> Result<IdentityCheck, UserError> {
        let path = home.identity();
        let failed = |why: &str| {
            UserError::unavailable(format!("`{}` {why}", path.display())).hint(
                "it identifies this home's cold transcripts: restore it from a backup of the home",
            )
        };
        let form = match std::fs::read(&path) {
            Ok(bytes) => {
                let form: FormV1 = serde_json::from_slice(&bytes)
                    .map_err(|e| failed("cannot be understood").caused_by(&e))?;
                if form.version != 1 || !is_id(&form.id) {
                    return Err(failed("is not of this version"));
                }
                if recorded.is_some_and(|recorded| recorded != form.id) {
                    return Ok(IdentityCheck::Replaced);
                }
                form
            }
            Err(error) if error.kind() == ErrorKind::NotFound && recorded.is_some() => {
                return Ok(IdentityCheck::Missing);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let id = random().map_err(|e| failed("cannot be made").cause(e))?;
                let form = FormV1 {
                    version: 1,
                    id,
                    cold: None,
                    hot: None,
                };
                write(&path, &form).map_err(|e| failed("cannot be written").caused_by(&e))?;
                form
            }
            Err(error) => return Err(failed("cannot be read").caused_by(&error)),
        };
        Ok(IdentityCheck::Here(Self {
            path,
            form: Mutex::new(form),
        }))
    }

    pub(super) fn id(&self) -> String {
        self.lock().id.clone()
    }

    /// The location that was written to last.
    pub(super) fn cold(&self) -> Option<String> {
        self.lock().cold.clone()
    }

    pub(super) fn hot(&self) -> Option<String> {
        self.lock().hot.clone()
    }

    /// Records where cold transcripts are from now on. Blocks.
    pub(super) fn note_cold(&self, location: &str) -> std::io::Result<()> {
        self.note(|form| form.cold = Some(location.to_owned()))
    }

    /// Records which hot tier is used from now on. Blocks.
    pub(super) fn note_hot(&self, label: &str) -> std::io::Result<()> {
        self.note(|form| form.hot = Some(label.to_owned()))
    }

    fn note(&self, change: impl FnOnce(&mut FormV1)) -> std::io::Result<()> {
        let mut form = self.lock();
        let mut changed = form.clone();
        change(&mut changed);
        write(&self.path, &changed)?;
        *form = changed;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FormV1> {
        self.form.lock().unwrap_or_else(PoisonError::into_inner)
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

fn write(path: &Path, form: &FormV1) -> std::io::Result<()> {
    let mut bytes = serde_json::to_vec(form)?;
    bytes.push(b'\n');
    write_private(path, &bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn open(home: &Home) -> HomeIdentity {
        match HomeIdentity::open(home, None).unwrap() {
            IdentityCheck::Here(identity) => identity,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_home_is_the_same_ever_after_and_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let (a, b) = (
            Home::at(temp.path().join("a")),
            Home::at(temp.path().join("b")),
        );
        a.create().unwrap();
        b.create().unwrap();
        let first = open(&a);
        assert_eq!((is_id(&first.id()), first.cold()), (true, None));
        first.note_cold("s3://bucket").unwrap();
        let again = open(&a);
        assert_eq!(again.id(), first.id());
        assert_eq!(again.cold().as_deref(), Some("s3://bucket"));
        assert_ne!(open(&b).id(), first.id());
        let mode = std::fs::metadata(a.identity()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(a.identity(), "{").unwrap();
        assert!(
            HomeIdentity::open(&a, None).is_err(),
            "what is damaged is not made anew"
        );
    }
}
