//! Where an export goes: to stdout, into what is there, or in place of a file.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) enum ExportTarget {
    Stdout,
    /// A device, a pipe, or an open file.
    Stream,
    /// Replaced as a whole; an existing file keeps its mode.
    Whole {
        path: PathBuf,
        mode: Option<Permissions>,
    },
}

impl ExportTarget {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let there = match std::fs::metadata(path) {
            Ok(there) => there,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let path = pointed_to(path);
                return Ok(Self::Whole { path, mode: None });
            }
            Err(error) => return Err(error),
        };
        if there.is_file() && !is_open_already(path) {
            return Ok(Self::Whole {
                path: path.canonicalize()?,
                mode: Some(there.permissions()),
            });
        }
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?).metadata()?;
        if (stdout.dev(), stdout.ino()) == (there.dev(), there.ino()) {
            return Ok(Self::Stdout);
        }
        Ok(Self::Stream)
    }
}

/// The target of a dangling link.
fn pointed_to(path: &Path) -> PathBuf {
    match path.read_link() {
        Ok(target) => pointed_to(&path.parent().unwrap_or(path).join(target)),
        Err(_) => path.to_owned(),
    }
}

/// Whether the path names an open file, such as `/dev/stdout` or `/proc/self/fd/1`. It may lead to a plain file that
/// another process writes to.
fn is_open_already(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let is_theirs = |folder: PathBuf| {
        folder.starts_with("/proc") || [Path::new("/dev"), Path::new("/dev/fd")].contains(&&*folder)
    };
    if folder.is_some_and(is_theirs) {
        return true;
    }
    match path.read_link() {
        Ok(target) => is_open_already(&path.parent().unwrap_or(path).join(target)),
        Err(_) => false,
    }
}

/// The open file.
#[derive(Debug)]
pub(super) struct Sink {
    file: File,
    /// The temporary file, and the path it will get.
    half: Option<(PathBuf, PathBuf)>,
}

impl Sink {
    /// At the end, for files that are open for appending.
    pub(super) fn into(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Self { file, half: None })
    }

    /// Written beside its path first, so that an incomplete file never replaces a complete one.
    pub(super) fn beside(path: PathBuf, mode: Option<Permissions>) -> io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let half = path.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        if let Some(mode) = &mode {
            // Set before the first write, so that no other user can read a part of it.
            options.mode(mode.mode() & 0o777);
        }
        let sink = Self {
            file: options.open(&half)?,
            half: Some((half, path)),
        };
        if let Some(mode) = mode {
            sink.file.set_permissions(mode)?;
        }
        Ok(sink)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some((half, path)) = &self.half {
            self.file.sync_all()?;
            std::fs::rename(half, path)?;
        }
        self.half = None;
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some((half, _)) = &self.half {
            let _ = std::fs::remove_file(half);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn replace(path: &Path, text: &str) {
        let ExportTarget::Whole { path, mode } = ExportTarget::of(path).unwrap() else {
            panic!("{path:?} is replaced as a whole");
        };
        let mut sink = Sink::beside(path, mode).unwrap();
        sink.write(text.as_bytes()).unwrap();
        sink.finish().unwrap();
    }

    #[test]
    fn links_stay_and_what_they_point_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "old").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("new", at("dangling")).unwrap();
        replace(&at("link"), "one");
        replace(&at("dangling"), "two");
        assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "one");
        assert_eq!(std::fs::read_to_string(at("new")).unwrap(), "two");
        assert!(at("link").is_symlink() && at("dangling").is_symlink());
    }

    #[test]
    fn a_file_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "old").unwrap();
        for mode in [0o600, 0o666] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            replace(&path, "new");
            let kept = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(kept & 0o7777, mode);
        }
    }

    #[test]
    fn what_breaks_off_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let mut sink = Sink::beside(path.clone(), None).unwrap();
        sink.write(b"new").unwrap();
        drop(sink);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_file_is_written_into() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        let open = std::os::fd::AsRawFd::as_raw_fd(&file);
        let link = folder.path().join("link");
        symlink("/dev/zero", &link).unwrap();
        for path in [
            "/dev/zero",
            link.to_str().unwrap(),
            &format!("/dev/fd/{open}"),
        ] {
            let target = ExportTarget::of(Path::new(path)).unwrap();
            assert!(matches!(target, ExportTarget::Stream), "{path}: {target:?}");
        }
        for path in ["-", "/dev/stdout", "/dev/fd/1"] {
            let target = ExportTarget::of(Path::new(path)).unwrap();
            assert!(matches!(target, ExportTarget::Stdout), "{path}: {target:?}");
        }
    }
}
