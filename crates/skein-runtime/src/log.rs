//! A run's log: its output, filtered and bounded.
//!
//! The file contains text, colours and line ends, never anything that acts on a terminal. It consists of two halves,
//! `LOG` and the older `LOG.1`, so that it is bounded without being rewritten.

mod filter;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub use filter::EscapeFilter;
pub(crate) use filter::acts;

use crate::error::Error;
use crate::runtime::Result;

/// Most bytes of a log.
pub const BOUND: u64 = 4 << 20;

/// The path of the older half.
pub fn older(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// The log, or its last `tail` lines; empty if it does not exist.
pub fn read_log(path: &Path, tail: Option<usize>) -> Result<String> {
    let mut bytes = Vec::new();
    for part in [older(path), path.to_owned()] {
        let read = |bytes: &mut Vec<u8>| -> io::Result<()> {
            let mut file = File::open(&part)?;
            // A longer file was not written by Skein.
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(BOUND)))?;
            file.take(BOUND).read_to_end(bytes)?;
            Ok(())
        };
        match read(&mut bytes) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("cannot read", part, error));
            }
            _ => {}
        }
    }
    // Filtered again, so that nothing depends on the writer of the file.
    let text = EscapeFilter::default().text(&bytes);
    Ok(match tail {
        None => text,
        Some(lines) => last(&text, lines).to_owned(),
    })
}

fn last(text: &str, lines: usize) -> &str {
    let ends = text.strip_suffix('\n').unwrap_or(text);
    let Some(skip) = lines.checked_sub(1) else {
        return "";
    };
    match ends.rmatch_indices('\n').nth(skip) {
        Some((at, _)) => &text[at + 1..],
        None => text,
    }
}

/// Writes a log. Failed writes are lost: an agent does not stop because a disk is full.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    written: u64,
    filter: EscapeFilter,
}

impl Log {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = append(path)?;
        let written = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            written,
            filter: EscapeFilter::default(),
        })
    }

    pub(crate) fn write(&mut self, output: &[u8]) {
        let text = self.filter.text(output);
        if text.is_empty() {
            return;
        }
        if self.written + text.len() as u64 > BOUND / 2 {
            self.turn();
        }
        if self.file.write_all(text.as_bytes()).is_ok() {
            self.written += text.len() as u64;
        }
    }

    fn turn(&mut self) {
        if fs::rename(&self.path, older(&self.path)).is_ok()
            && let Ok(file) = append(&self.path)
        {
            self.file = file;
        } else {
            // The bound holds even if the file cannot be renamed.
            let _ = self.file.set_len(0);
        }
        self.written = 0;
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_keeps_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::open(&path).unwrap();
        let line = "x".repeat(1023) + "\n";
        for _ in 0..20_000 {
            log.write(line.as_bytes());
        }
        log.write(b"the end\n");
        let total = fs::metadata(&path).unwrap().len() + fs::metadata(older(&path)).unwrap().len();
        assert!(total <= BOUND, "{total}");
        assert!(total > BOUND / 2 - 4096, "{total}");
        assert_eq!(read_log(&path, Some(1)).unwrap(), "the end\n");
        assert_eq!(
            read_log(&path, Some(2)).unwrap(),
            format!("{line}the end\n")
        );
        assert_eq!(read_log(&path, Some(0)).unwrap(), "");
        assert_eq!(read_log(&folder.path().join("none"), None).unwrap(), "");
    }
}
