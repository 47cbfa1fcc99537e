//! A disk that fails or loses its power when it is told to, below the databases of a home. `disk.c` does it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::library;
use crate::storm::random::Random;

pub(crate) struct Disk {
    folder: tempfile::TempDir,
    library: PathBuf,
    home: PathBuf,
}

/// How often the disk failed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(crate) refused: usize,
    pub(crate) full: usize,
    pub(crate) short: usize,
    pub(crate) torn: usize,
    pub(crate) sync: usize,
    pub(crate) truncate: usize,
}

impl Failures {
    pub(crate) fn all(self) -> usize {
        self.refused + self.full + self.short + self.torn + self.sync + self.truncate
    }
}

impl Disk {
    pub(crate) fn below(home: &Path) -> Self {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let library = library::compile(include_str!("disk.c"), folder.path());
        let home = home.canonicalize().expect("the home is there");
        fs::create_dir(folder.path().join("undo")).expect("a folder of our own");
        Self {
            folder,
            library,
            home,
        }
    }

    /// Lets `command` run on this disk.
    pub(crate) fn carry(&self, command: &mut Command, seed: u64) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("SKEIN_DISK_FOLDER", &self.home)
            .env("SKEIN_DISK_CONTROL", self.control())
            .env("SKEIN_DISK_LOG", self.log())
            .env("SKEIN_DISK_UNDO", self.undo())
            .env("SKEIN_DISK_SEED", seed.to_string());
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    fn undo(&self) -> PathBuf {
        self.folder.path().join("undo")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("failures")
    }

    /// From now on one call in so many fails.
    pub(crate) fn break_down(&self, one_in: u64) {
        let fresh = self.folder.path().join("control.new");
        fs::write(&fresh, one_in.to_string()).expect("a folder of our own");
        fs::rename(&fresh, self.control()).expect("a folder of our own");
    }

    /// Calls that are at work now may still fail.
    pub(crate) fn mend(&self) {
        fs::remove_file(self.control()).expect("it was broken");
    }

    pub(crate) fn failures(&self) -> Failures {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let count = |kind| text.lines().filter(|line| *line == kind).count();
        Failures {
            refused: count("write refused"),
            full: count("write full"),
            short: count("write short"),
            torn: count("write torn"),
            sync: count("sync"),
            truncate: count("truncate"),
        }
    }

    /// Takes back what was never synced, of a daemon that is gone: all of it, or whatever the disk did not get to.
    /// How many writes were unsynced.
    pub(crate) fn lose_power(&self, random: &mut Random) -> usize {
        let mut unsynced = 0;
        for entry in fs::read_dir(self.undo()).expect("it was made") {
            let undo = entry.expect("it can be listed").path();
            let records = records(&fs::read(&undo).expect("it is ours"));
            let name = undo.file_name().expect("it has one");
            let file = File::options().write(true).open(self.home.join(name));
            let done = file.and_then(|file| lose(&file, &records, random));
            done.expect("the real disk is well");
            fs::remove_file(&undo).expect("it is ours");
            unsynced += records.len();
        }
        unsynced
    }
}

/// One write, or one change of the size if nothing was written.
struct Record {
    at: u64,
    size_before: u64,
    before: Vec<u8>,
    written: Vec<u8>,
}

/// The last one may be cut short; its write was never begun.
fn records(mut bytes: &[u8]) -> Vec<Record> {
    let mut records = vec![];
    while let Some(record) = record(&mut bytes) {
        records.push(record);
    }
    records
}

fn record(bytes: &mut &[u8]) -> Option<Record> {
    let mut number = || {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u64::from_ne_bytes(*number))
    };
    let (at, size_before) = (number()?, number()?);
    let (before, written) = (number()?, number()?);
    let mut take = |length: u64| {
        let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        *bytes = rest;
        Some(taken.to_vec())
    };
    Some(Record {
        at,
        size_before,
        before: take(before)?,
        written: take(written)?,
    })
}

fn lose(file: &File, records: &[Record], random: &mut Random) -> io::Result<()> {
    for record in records.iter().rev() {
        file.write_all_at(&record.before, record.at)?;
        file.set_len(record.size_before)?;
    }
    if random.one_in(2) {
        return Ok(());
    }
    for record in records {
        match (random.one_in(2), record.written.is_empty()) {
            (true, true) => file.set_len(record.at)?,
            (true, false) => file.write_all_at(&record.written, record.at)?,
            (false, _) => {}
        }
    }
    Ok(())
}
