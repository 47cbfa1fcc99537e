//! Operations on the files of a folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use skein_transcript::cold::{Object, PutCondition, PutResult, Tag};
use skein_transcript::{Error, Result};

use super::lock::Locks;
use super::temp::Temp;
use crate::LARGEST;
use crate::io::At;

/// Contains locks and temporary files. No object's name begins like this.
const OURS: &str = ".skein";
/// Attempts of a put whose empty folder a concurrent delete removes.
const ATTEMPTS: usize = 100;

#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    temp: PathBuf,
    locks: Locks,
}

impl Disk {
    pub(super) fn open(root: &Path) -> Result<Self> {
        let root = std::path::absolute(root).at("find", root)?;
        let temp = root.join(OURS).join("temp");
        let locks = root.join(OURS).join("locks");
        for folder in [&temp, &locks] {
            make_folders(folder)?;
        }
        sync_up(&temp, root.parent().unwrap_or(&root))?;
        Temp::sweep(&temp)?;
        Ok(Self {
            root,
            temp,
            locks: Locks::new(locks),
        })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// A missing folder (a disk that is not mounted) is not an empty one.
    pub(super) fn check(&self) -> Result<()> {
        if self.temp.is_dir() {
            return Ok(());
        }
        let root = self.root.display();
        Err(Error::cold(format!(
            "the folder `{root}` is missing; is its disk mounted?"
        )))
    }

    pub(super) fn get(&self, name: &str) -> Result<Option<Object>> {
        let path = self.root.join(name);
        let Some(body) = read(&path)? else {
            self.check()?;
            return Ok(None);
        };
        // The caller may drop the other copy once it has seen this object.
        self.sync(&path)?;
        let tag = tag(&body);
        Ok(Some(Object { body, tag }))
    }

    pub(super) fn put(&self, name: &str, body: &[u8], when: &PutCondition) -> Result<PutResult> {
        let path = self.root.join(name);
        // Avoids writing an object that would be refused, as a repeated flush does.
        if *when == PutCondition::Absent && exists(&path)? {
            self.sync(&path)?;
            return Ok(PutResult::Refused);
        }
        self.check()?;
        let temp = Temp::write(&self.temp, body)?;
        let _lock = self.locks.lock(name)?;
        let holds = match when {
            PutCondition::Absent => !exists(&path)?,
            PutCondition::Unchanged(seen) => read(&path)?.is_some_and(|body| tag(&body) == *seen),
        };
        if holds {
            self.publish(&temp, &path)?;
            self.sync(&path)?;
            return Ok(PutResult::Done);
        }
        if *when == PutCondition::Absent {
            self.sync(&path)?;
        }
        Ok(PutResult::Refused)
    }

    fn publish(&self, temp: &Temp, path: &Path) -> Result<()> {
        let mut left = ATTEMPTS;
        loop {
            make_folders(path.parent().unwrap_or(&self.root))?;
            match fs::rename(temp.path(), path) {
                Err(e) if e.kind() == ErrorKind::NotFound && left > 0 => left -= 1,
                other => return other.at("write", path),
            }
        }
    }

    pub(super) fn delete(&self, name: &str) -> Result<()> {
        let path = self.root.join(name);
        self.check()?;
        let _lock = self.locks.lock(name)?;
        match fs::remove_file(&path) {
            Err(e) if is_nothing(&e) => {}
            other => other.at("remove", &path)?,
        }
        self.sync(&path)?;
        // The folder of a purged transcript reveals its name. The removal fails if the folder is in use.
        if let Some(folder) = path.parent().filter(|folder| *folder != self.root) {
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    fn sync(&self, path: &Path) -> Result<()> {
        sync_up(path.parent().unwrap_or(&self.root), &self.root)
    }
}

fn tag(body: &[u8]) -> Tag {
    Tag(blake3::hash(body).to_hex().to_string())
}

fn is_nothing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn exists(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if is_nothing(&e) => Ok(false),
        Err(e) => Err(e).at("read", path),
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let no_links = OFlags::NOFOLLOW.bits().cast_signed();
    let file = match OpenOptions::new()
        .read(true)
        .custom_flags(no_links)
        .open(path)
    {
        Err(e) if is_nothing(&e) => return Ok(None),
        other => other.at("open", path)?,
    };
    let size = file.metadata().at("read", path)?.len();
    if size > LARGEST {
        let name = path.display();
        return Err(Error::corrupt(
            name,
            format!("it has {size} bytes, more than Skein ever writes"),
        ));
    }
    let mut body = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(LARGEST).read_to_end(&mut body).at("read", path)?;
    Ok(Some(body))
}

fn make_folders(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.at("create the folder", folder)
}

/// Makes the entries of `folder` and of every folder up to `top` durable. All of them each time: a folder may have
/// been made by a process that was killed before its sync. Unchanged folders cost almost nothing.
fn sync_up(folder: &Path, top: &Path) -> Result<()> {
    for folder in folder.ancestors() {
        match File::open(folder) {
            Err(e) if is_nothing(&e) => {}
            opened => opened.and_then(|f| f.sync_all()).at("sync", folder)?,
        }
        if folder == top {
            break;
        }
    }
    Ok(())
}
