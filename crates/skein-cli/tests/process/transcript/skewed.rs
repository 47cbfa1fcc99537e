//! A clock that goes as wrong as it is told to, for a daemon. `clock.c` does it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::library;

pub(crate) struct Clock {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let library = library::compile(include_str!("clock.c"), folder.path());
        Self { folder, library }
    }

    /// Lets `command` go by this clock.
    pub(crate) fn give(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("SKEIN_CLOCK_OFFSET", self.offset());
    }

    fn offset(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// From now on it is wrong by so many seconds.
    pub(crate) fn set(&self, seconds: i64) {
        let fresh = self.folder.path().join("offset.new");
        fs::write(&fresh, seconds.to_string()).expect("a folder of our own");
        fs::rename(&fresh, self.offset()).expect("a folder of our own");
    }
}
