//! What is done to the files of a folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use skein_transcript::cold::{Object, Put, Tag, When};
use skein_transcript::{Error, Result};

use super::lock::Locks;
use super::temp::Temp;
use crate::LARGEST;
use crate::io::At;

/// Where what is ours lies: locks, and files being written. No object's name begins like this.
const OURS: &str = ".skein";
/// How often a put begins anew because a deleter took the empty folder away under it.
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

    /// A folder that is gone (a disk that is not mounted) is not an empty one.
    pub(super) fn check(&self) -> Result<()> {
        if self.temp.is_dir() {
            return Ok(());
        }
        let root = self.root.display();
        Err(Error::cold(format!(
            "the folder `{root}` is gone; is its disk mounted?"
        )))
    }

    pub(super) fn get(&self, name: &str) -> Result<Option<Object>> {
        let path = self.root.join(name);
        let Some(body) = read(&path)? else {
            self.check()?;
            return Ok(None);
        };
        // Who is told of an object may drop the other copy.
        self.sync(&path)?;
        let tag = tag(&body);
        Ok(Some(Object { body, tag }))
    }

    pub(super) fn put(&self, name: &str, body: &[u8], when: &When) -> Result<Put> {
        let path = self.root.join(name);
        // Spares writing what would be refused, which is what flushing again asks for.
        if *when == When::Absent && exists(&path)? {
            self.sync(&path)?;
            return Ok(Put::Refused);
        }
        self.check()?;
        let temp = Temp::write(&self.temp, body)?;
        let _lock = self.locks.lock(name)?;
        let holds = match when {
            When::Absent => !exists(&path)?,
            When::Unchanged(seen) => read(&path)?.is_some_and(|body| tag(&body) == *seen),
        };
        if holds {
            self.publish(&temp, &path)?;
            self.sync(&path)?;
            return Ok(Put::Done);
        }
        if *when == When::Absent {
            self.sync(&path)?;
        }
        Ok(Put::Refused)
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
        // The folder of a transcript that is gone tells its name. Others may be in it, or be about to.
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
        Err(e) => Err(e).at("look at", path),
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
    let size = file.metadata().at("look at", path)?.len();
    if size > LARGEST {
        let name = path.display();
        return Err(Error::corrupt(
            name,
            format!("it has {size} bytes, more than we ever put"),
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
    made.at("make the folder", folder)
}

/// Makes the entries of `folder` durable, and those of every folder up to `top`. All of them each time: one
/// that is there may have been made by a process that was killed before it could do this. Those without
/// changes cost next to nothing.
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
