//! Files that are not for us are refused and left as they are, to the byte: those of the ledger, those of
//! transcripts. An index that cannot be used is made anew.

mod cases;
mod ledger;
mod transcripts;

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use skein_store::Error;
use skein_store_sqlite::Inspection;
use tempfile::TempDir;

/// A kind of file, and whoever opens it.
struct Subject {
    schema: u32,
    /// Opens it, or makes it. What is given closes it when dropped.
    open: fn(&Path) -> Result<Box<dyn Any>, Error>,
    /// Makes one with some hundred things in it, and closes it.
    fill: fn(&Path),
    inspect: fn(&Path) -> Result<Inspection, Error>,
}

impl Subject {
    /// A sound file, closed.
    fn sound(&self) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("skein 100%?.db");
        (self.fill)(&path);
        (folder, path)
    }

    fn error(&self, path: &Path) -> Error {
        (self.open)(path).map(|_| ()).unwrap_err()
    }

    /// Opens, expects a refusal, and sees that nothing in the folder changed.
    fn refused(&self, path: &Path) -> Error {
        let before = contents(path.parent().unwrap());
        let error = self.error(path);
        assert!(!error.hints().is_empty(), "{error}");
        assert_eq!(error.kind(), skein_domain::Kind::Unavailable);
        assert!(
            before == contents(path.parent().unwrap()),
            "refused with {error}, but changed something"
        );
        error
    }
}

fn raw(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    Connection::open_with_flags(path, flags).unwrap()
}

/// Every file of the folder, by name. The shared-memory file is SQLite's scratch space and may appear.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_string_lossy().ends_with("-shm"))
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// The files as a crash at this moment would leave them.
fn copied(path: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (from, bytes) in contents(path.parent().unwrap()) {
        fs::write(folder.path().join(from.file_name().unwrap()), bytes).unwrap();
    }
    let copy = folder.path().join(path.file_name().unwrap());
    (folder, copy)
}

fn damaged(whole: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    let overwritten = |range: Range<usize>| {
        let mut bytes = whole.to_vec();
        bytes[range].fill(0xa5);
        bytes
    };
    [
        ("cut short", whole[..whole.len() / 2].to_vec()),
        ("cut in the header", whole[..90].to_vec()),
        ("a page overwritten", overwritten(4096..8192)),
        ("the schema overwritten", overwritten(100..4096)),
    ]
}
