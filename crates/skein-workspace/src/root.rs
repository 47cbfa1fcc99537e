//! The managed root: the folders that belong to Skein, and their removal.
//!
//! `<root>/<tenant>/<session>` are workspaces. Names that begin with `.` are for bookkeeping: `.locks`, `.making` (not
//! finished), `.trash` (being removed), `.pool` (prepared worktrees).

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use skein_domain::{AbsPath, SessionId, TenantId, Workspace};

use crate::error::Error;
use crate::lock::Lock;
use crate::provider::Result;

/// Time limit for a lock: an interrupted checkout may still be running.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

/// A workspace's folder below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagedFolder {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) path: PathBuf,
}

impl Root {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self(root)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn managed_folder(
        &self,
        tenant: &str,
        session: &SessionId,
    ) -> Result<ManagedFolder> {
        let tenant: TenantId = tenant.parse()?;
        let path = self.0.join(tenant.as_str()).join(session.as_str());
        Ok(ManagedFolder {
            tenant,
            session: session.clone(),
            path,
        })
    }

    /// Parses a recorded path; an error if it is not below this root.
    pub(crate) fn managed(&self, path: &AbsPath) -> Result<ManagedFolder> {
        let unmanaged = || Error::Unmanaged {
            path: path.as_str().into(),
        };
        let rest = Path::new(path.as_str())
            .strip_prefix(&self.0)
            .map_err(|_| unmanaged())?;
        let mut parts = rest.components();
        let (Some(Component::Normal(tenant)), Some(Component::Normal(session)), None) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(unmanaged());
        };
        let tenant: TenantId = tenant
            .to_str()
            .and_then(|t| t.parse().ok())
            .ok_or_else(unmanaged)?;
        let session = session
            .to_str()
            .and_then(|s| s.parse().ok())
            .ok_or_else(unmanaged)?;
        // A link here would lead out of the root.
        let parent = self.0.join(tenant.as_str());
        if fs::symlink_metadata(&parent).is_ok_and(|m| m.is_symlink()) {
            return Err(unmanaged());
        }
        self.managed_folder(tenant.as_str(), &session)
    }

    pub(crate) fn lock(&self, managed: &ManagedFolder) -> Result<Lock> {
        Lock::acquire(&self.own(".locks", managed), PATIENCE)
    }

    /// Where a workspace is assembled before it is moved to its folder.
    pub(crate) fn making(&self, managed: &ManagedFolder) -> PathBuf {
        self.own(".making", managed)
    }

    fn own(&self, kind: &str, managed: &ManagedFolder) -> PathBuf {
        self.0
            .join(kind)
            .join(format!("{}.{}", managed.tenant, managed.session))
    }

    /// Removes a folder: first renames it, then deletes it, so that an interrupted removal never leaves a partial
    /// workspace that looks like work.
    pub(crate) fn remove(&self, managed: &ManagedFolder, folder: &Path) -> Result<()> {
        self.put_away(managed, folder)?;
        self.empty_trash(managed)
    }

    /// The first half of a removal.
    pub(crate) fn put_away(&self, managed: &ManagedFolder, folder: &Path) -> Result<()> {
        let trash = self.own(".trash", managed);
        self.empty_trash(managed)?;
        gone(move_to(folder, &trash)).map_err(Error::io("remove", folder))
    }

    /// Whether a removal was interrupted after its first half.
    pub(crate) fn has_trash(&self, managed: &ManagedFolder) -> bool {
        fs::symlink_metadata(self.own(".trash", managed)).is_ok()
    }

    /// Completes an interrupted removal.
    pub(crate) fn empty_trash(&self, managed: &ManagedFolder) -> Result<()> {
        erase(&self.own(".trash", managed))
    }

    /// Removes empty folders: the tenant's and those for bookkeeping.
    pub(crate) fn tidy(&self, managed: &ManagedFolder) {
        for folder in [managed.tenant.as_str(), ".trash", ".making"] {
            // Fails if others are in it.
            drop(fs::remove_dir(self.0.join(folder)));
        }
    }
}

/// Attempts to make a folder that others concurrently remove.
const TRIES: usize = 1000;

/// Makes a folder. A concurrent removal of a workspace may remove it again while it is empty.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    let mut made = fs::create_dir_all(folder);
    for _ in 0..TRIES {
        match &made {
            // A parent existed and was removed meanwhile.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                ) =>
            {
                made = fs::create_dir_all(folder);
            }
            _ => break,
        }
    }
    made
}

/// Moves a folder, making the target's parent if needed.
pub(crate) fn move_to(folder: &Path, managed: &Path) -> io::Result<()> {
    let mut moved = Ok(());
    for _ in 0..TRIES {
        if let Some(parent) = managed.parent() {
            make(parent)?;
        }
        moved = fs::rename(folder, managed);
        match &moved {
            // Fails if the folder itself does not exist.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::symlink_metadata(folder)?;
            }
            _ => break,
        }
    }
    moved
}

/// Deletes a folder with its content, including read-only folders. Deletes links without following them.
pub(crate) fn erase(folder: &Path) -> Result<()> {
    let remove = || match fs::symlink_metadata(folder) {
        Ok(m) if m.is_dir() => fs::remove_dir_all(folder),
        Ok(_) => fs::remove_file(folder),
        Err(e) => Err(e),
    };
    match remove() {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder);
            gone(remove()).map_err(Error::io("remove", folder))
        }
        other => gone(other).map_err(Error::io("remove", folder)),
    }
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        // A file in place of a parent folder means that the folder is gone too.
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Makes folders writable, because module caches are often read-only; the next removal reports a failure.
fn open_up(folder: &Path) {
    drop(fs::set_permissions(
        folder,
        fs::Permissions::from_mode(0o700),
    ));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// The workspace's folder, which must exist.
pub(crate) fn folder_in(workspace: &Workspace) -> Result<&Path> {
    let folder = Path::new(workspace.path.as_str());
    check_exists(folder)?;
    Ok(folder)
}

pub(crate) fn check_exists(folder: &Path) -> Result<()> {
    match folder.is_dir() {
        true => Ok(()),
        false => Err(Error::Missing {
            path: folder.into(),
        }),
    }
}

pub(crate) fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

pub(crate) fn abs(path: &Path) -> Result<AbsPath> {
    Ok(path.to_string_lossy().parse()?)
}

/// Whether two paths name the same folder, existing or not; symlinks above it are resolved.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    one == other || real(one) == real(other)
}

/// A folder to compare many others with.
#[derive(Debug)]
pub(crate) struct RealPath<'a> {
    given: &'a Path,
    real: PathBuf,
}

impl<'a> RealPath<'a> {
    pub(crate) fn of(given: &'a Path) -> Self {
        let real = real(given);
        Self { given, real }
    }

    /// As [`is_same`].
    pub(crate) fn is(&self, other: &Path) -> bool {
        other == self.given || real(other) == self.real
    }
}

pub(crate) fn is_below(path: &Path, root: &Path) -> bool {
    let (path, root) = (real(path), real(root));
    path != root && path.starts_with(root)
}

fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l4_folders_that_are_removed_side_by_side_are_all_gone() {
        let temp = tempfile::tempdir().unwrap();
        let root = Root::new(temp.path().to_owned());
        let folders: Vec<ManagedFolder> = (1..=8)
            .map(|n| root.managed_folder("default", &format!("api-{n}").parse().unwrap()))
            .map(Result::unwrap)
            .collect();
        std::thread::scope(|scope| {
            for managed in &folders {
                let root = &root;
                scope.spawn(move || {
                    for _ in 0..300 {
                        let made = temp_folder(root, managed);
                        move_to(&made, &managed.path).unwrap();
                        root.remove(managed, &managed.path).unwrap();
                        assert!(!managed.path.exists());
                        root.tidy(managed);
                    }
                });
            }
        });
    }

    fn temp_folder(root: &Root, managed: &ManagedFolder) -> PathBuf {
        let folder = root.path().join(format!("new-{}", managed.session));
        fs::create_dir_all(folder.join("inner")).unwrap();
        folder
    }

    #[test]
    fn l5_only_a_sessions_own_place_is_managed() {
        let root = Root::new("/home/u/worktrees".into());
        for (path, expected) in [
            ("/home/u/worktrees/default/api-7", true),
            ("/home/u/worktrees/default", false),
            ("/home/u/worktrees", false),
            ("/home/u/worktrees/default/api-7/src", false),
            ("/home/u/worktrees/.pool/api-7", false),
            ("/home/u/worktrees2/default/api-7", false),
            ("/home/u/worktrees/default/notasession", false),
            ("/", false),
        ] {
            let managed = root.managed(&path.parse().unwrap());
            assert_eq!(managed.is_ok(), expected, "{path}");
        }
    }
}
