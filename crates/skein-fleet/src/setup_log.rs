//! What the set-up of a workspace printed, kept so that people can watch it and read it afterwards.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// More is cut off: a set-up command that prints without end must not fill the disk.
const MOST: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct SetupLog {
    path: PathBuf,
    file: Option<File>,
    left: usize,
}

impl SetupLog {
    /// Begins anew. There is no file until there is a line.
    pub(super) fn begin(path: PathBuf) -> Self {
        forget(&path);
        Self {
            path,
            file: None,
            left: MOST,
        }
    }

    /// A log that cannot be written is no reason not to set up.
    pub(super) fn add(&mut self, line: &str) {
        if let Err(error) = self.try_add(line) {
            self.left = 0;
            let path = self.path.display();
            tracing::warn!(%path, %error, "the output of a set-up is not kept");
        }
    }

    fn try_add(&mut self, line: &str) -> io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                if let Some(folder) = self.path.parent() {
                    fs::create_dir_all(folder)?;
                }
                self.file.insert(File::create(&self.path)?)
            }
        };
        // One write for each line, so that a program that follows the file reads whole ones.
        let line = format!("{line}\n");
        let fits = line.len() < self.left;
        self.left = if fits { self.left - line.len() } else { 0 };
        let text = if fits { &line } else { "[more was cut off]\n" };
        file.write_all(text.as_bytes())
    }
}

/// Removes what an earlier set-up printed.
pub(super) fn forget(path: &Path) {
    // Absent is what is wanted; if it cannot go, the next set-up writes over it.
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_begun_anew_and_bounded() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b/setup.log");
        let mut log = SetupLog::begin(path.clone());
        assert!(!path.exists());
        log.add("one");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        let mut log = SetupLog::begin(path.clone());
        let line = "x".repeat(1 << 20);
        for _ in 0..20 {
            log.add(&line);
        }
        let kept = fs::read_to_string(&path).unwrap();
        assert!(kept.len() <= MOST + 100, "{}", kept.len());
        assert!(kept.ends_with("[more was cut off]\n"));
    }
}
