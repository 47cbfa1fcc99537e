//! A run's log: its output, filtered and bounded.
//!
//! The file contains text and sequences that draw it, never any that does something else. Each begins with the size of
//! the terminal, so that [`read_log`] can replay it. It consists of two halves, `LOG` and the older `LOG.1`, so that it is
//! bounded without being rewritten.

mod filter;
mod replay;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub use filter::EscapeFilter;
pub(crate) use filter::acts;

use self::replay::LogRenderer;
use crate::error::Error;
use crate::runtime::{Result, Size};

/// Most bytes of a log.
pub const BOUND: u64 = 4 << 20;

/// The path of the older half.
pub fn older(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// What the log shows, or its last `tail` lines; empty if it does not exist.
pub fn read_log(path: &Path, tail: Option<usize>, colours: bool) -> Result<String> {
    let mut renderer = LogRenderer::new();
    for part in [older(path), path.to_owned()] {
        let read = |renderer: &mut LogRenderer| -> io::Result<()> {
            let mut file = File::open(&part)?;
            // A longer file was not written by Skein.
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(BOUND)))?;
            let mut file = file.take(BOUND);
            let mut buffer = vec![0; 64 << 10];
            loop {
                match file.read(&mut buffer)? {
                    0 => return Ok(()),
                    count => renderer.add(&buffer[..count]),
                }
            }
        };
        match read(&mut renderer) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("cannot read", part, error));
            }
            _ => {}
        }
    }
    let text = renderer.finish(colours);
    Ok(match tail {
        None => text,
        Some(lines) => last(&text, lines).to_owned(),
    })
}

/// Records the size of the terminal in a log. Terminals ignore it: it is the code of a key.
fn size_mark(size: Size) -> String {
    format!("\x1b[{};{}~", size.rows, size.cols)
}

/// The size at the begin of `text`.
fn size_from(text: &str) -> Option<Size> {
    let (rows, cols) = text
        .strip_prefix("\x1b[")?
        .split_once('~')?
        .0
        .split_once(';')?;
    let (rows, cols) = (rows.parse().ok()?, cols.parse().ok()?);
    Some(Size { rows, cols })
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
    size: Size,
}

impl Log {
    pub(crate) fn open(path: &Path, size: Size) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = append(path)?;
        let written = file.metadata()?.len();
        let mut log = Self {
            path: path.to_owned(),
            file,
            written,
            filter: EscapeFilter::keeping_moves(),
            size,
        };
        log.resize(size);
        Ok(log)
    }

    /// Records the new size of the terminal.
    pub(crate) fn resize(&mut self, size: Size) {
        self.size = size;
        self.append(&size_mark(size));
    }

    pub(crate) fn write(&mut self, output: &[u8]) {
        let text = self.filter.text(output);
        if !text.is_empty() {
            self.append(&text);
        }
    }

    fn append(&mut self, text: &str) {
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
        let mark = size_mark(self.size);
        let is_written = self.file.write_all(mark.as_bytes()).is_ok();
        self.written = if is_written { mark.len() as u64 } else { 0 };
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
        let mut log = Log::open(&path, Size { rows: 5, cols: 200 }).unwrap();
        let line = "x".repeat(1022) + "\r\n";
        for _ in 0..20_000 {
            log.write(line.as_bytes());
        }
        log.write(b"the end\r\n");
        let total = fs::metadata(&path).unwrap().len() + fs::metadata(older(&path)).unwrap().len();
        assert!(total <= BOUND, "{total}");
        assert!(total > BOUND / 2 - 4096, "{total}");
        assert_eq!(read_log(&path, Some(1), false).unwrap(), "the end\n");
        assert_eq!(
            read_log(&path, Some(2), false).unwrap(),
            format!("{}\nthe end\n", line.trim_end())
        );
        assert_eq!(read_log(&path, Some(0), false).unwrap(), "");
        assert_eq!(
            read_log(&folder.path().join("none"), None, false).unwrap(),
            ""
        );
    }
}
