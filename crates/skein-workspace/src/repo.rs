//! A repository: its location, branches and worktrees.

use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::{AbsPath, BranchName, CommitId};

use crate::error::Error;
use crate::git::{self, Git, GitCommand};
use crate::provider::Result;
use crate::root::{erase, is_same};

/// A repository, as seen from one of its folders.
#[derive(Clone, Debug)]
pub(crate) struct Repo<'a> {
    pub(crate) git: &'a Git,
    /// The folder it was opened from.
    pub(crate) folder: PathBuf,
    /// This folder's own git directory.
    pub(crate) dir: PathBuf,
    /// The git directory shared by all worktrees.
    pub(crate) common: PathBuf,
    /// The hash function of its objects: `sha1` or `sha256`.
    pub(crate) object_format: String,
}

impl<'a> Repo<'a> {
    pub(crate) fn open(git: &'a Git, folder: impl AsRef<Path>) -> Result<Self> {
        git.check()?;
        let folder = folder.as_ref();
        if !folder.is_dir() {
            return Err(Error::Missing {
                path: folder.into(),
            });
        }
        let output = git
            .read(folder, "rev-parse")
            .args(["--is-bare-repository", "--is-inside-work-tree"])
            .args([
                "--path-format=absolute",
                "--absolute-git-dir",
                "--git-common-dir",
                "--show-object-format",
            ])
            .output()?;
        if output.code != Some(0) {
            let text = String::from_utf8_lossy(&output.stderr).to_lowercase();
            if text.contains("not a git repository") {
                return Err(Error::NotARepository {
                    path: folder.into(),
                });
            }
            return Err(output.failure("git rev-parse".into()));
        }
        let text = output.text();
        let lines: Vec<&str> = text.lines().collect();
        let [bare, inside, dir, common, object_format] = lines[..] else {
            return Err(output.failure("git rev-parse".into()));
        };
        if bare == "true" {
            return Err(Error::Bare {
                path: folder.into(),
            });
        }
        if inside != "true" {
            return Err(Error::NotARepository {
                path: folder.into(),
            });
        }
        Ok(Self {
            git,
            folder: folder.into(),
            dir: dir.into(),
            common: common.into(),
            object_format: object_format.into(),
        })
    }

    /// A git command in the folder that changes nothing.
    pub(crate) fn read(&self, subcommand: &str) -> GitCommand<'a> {
        self.git.read(&self.folder, subcommand)
    }

    /// A git command in the folder that may change something.
    pub(crate) fn write(&self, subcommand: &str) -> GitCommand<'a> {
        self.git.write(&self.folder, subcommand)
    }

    pub(crate) fn find_ref(&self, name: &str) -> Result<Option<CommitId>> {
        self.git.commit(&self.folder, name)
    }

    /// The commits of revisions, in one call; `None` where there is none.
    pub(crate) fn find_all(&self, revisions: &[String]) -> Result<Vec<Option<CommitId>>> {
        let lines = revisions.iter().map(|name| format!("{name}^{{commit}}\n"));
        let output = self
            .read("cat-file")
            .arg("--batch-check=%(objectname)")
            .input(lines.collect::<String>().into_bytes())
            .run()?;
        // A line that is not a commit id is an error message.
        let text = output.text();
        let found: Vec<_> = text.lines().map(|line| line.parse().ok()).collect();
        if found.len() == revisions.len() {
            Ok(found)
        } else {
            Err(output.failure("git cat-file".into()))
        }
    }

    pub(crate) fn tip(&self, branch: &BranchName) -> Result<Option<CommitId>> {
        self.find_ref(&format!("refs/heads/{branch}"))
    }

    /// Refuses a branch whose name conflicts with another branch.
    pub(crate) fn check_room(&self, branch: &BranchName) -> Result<()> {
        let top = branch.as_str().split('/').next().unwrap_or_default();
        let output = self
            .read("for-each-ref")
            .args(["--format=%(refname:lstrip=2)", "--"])
            .args([format!("refs/heads/{top}"), format!("refs/heads/{top}/")])
            .text()?;
        let beside = |one: &str, other: &str| {
            one.strip_prefix(other)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        match output
            .lines()
            .find(|other| beside(branch.as_str(), other) || beside(other, branch.as_str()))
        {
            Some(other) => Err(Error::BranchInTheWay {
                branch: branch.to_string(),
                other: other.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// The folder that has the branch checked out.
    pub(crate) fn user_of(&self, branch: &BranchName) -> Result<Option<PathBuf>> {
        let output = self
            .read("worktree")
            .args(["list", "--porcelain", "-z"])
            .run()?;
        let wanted = format!("branch refs/heads/{branch}");
        let mut folder = None;
        for part in output.parts() {
            if let Some(path) = part.strip_prefix(b"worktree ") {
                folder = Some(git::path(path));
            } else if part == wanted.as_bytes() {
                return Ok(folder);
            }
        }
        Ok(None)
    }

    /// Refuses a branch that another folder than `but` has checked out.
    pub(crate) fn check_unused(&self, branch: &BranchName, but: &Path) -> Result<()> {
        match self.user_of(branch)? {
            Some(path) if !is_same(&path, but) => Err(Error::BranchInUse {
                branch: branch.to_string(),
                path,
            }),
            _ => Ok(()),
        }
    }

    /// The registered worktrees, read from their files, because git does not list half-made ones.
    pub(crate) fn registrations(&self) -> Vec<Registration> {
        let entries = fs::read_dir(self.common.join("worktrees"));
        let entries = entries.into_iter().flatten().flatten();
        entries.map(|e| Registration::read(e.path())).collect()
    }

    pub(crate) fn registration(&self, folder: &Path) -> Option<Registration> {
        let names = |r: &Registration| r.folder.as_deref().is_some_and(|f| is_same(f, folder));
        // A complete folder names its registration itself.
        if let Some(own) = self.named_by(folder).filter(names) {
            return Some(own);
        }
        self.registrations().into_iter().find(names)
    }

    fn named_by(&self, folder: &Path) -> Option<Registration> {
        let text = fs::read_to_string(folder.join(".git")).ok()?;
        let dir = folder.join(text.strip_prefix("gitdir: ")?.trim_end_matches('\n'));
        let all = self.common.join("worktrees");
        let ours = dir.is_dir() && dir.parent().is_some_and(|parent| is_same(parent, &all));
        ours.then(|| Registration::read(dir))
    }

    /// Deletes a ref if it still has the expected value.
    pub(crate) fn delete_ref(&self, name: &str, seen: &CommitId) -> Result<()> {
        self.write("update-ref")
            .args(["--no-deref", "-d", name, seen.as_str()])
            .done()
    }

    /// Moves a ref from the expected value, or creates it; false if it has another value.
    pub(crate) fn move_ref(
        &self,
        name: &str,
        seen: Option<&CommitId>,
        to: &CommitId,
    ) -> Result<bool> {
        let none = "0".repeat(to.as_str().len());
        let output = self
            .write("update-ref")
            .setting("core.fsync=all")
            .args(["--no-deref", name, to.as_str()])
            .arg(seen.map_or(none.as_str(), CommitId::as_str))
            .output()?;
        if output.code == Some(0) {
            return Ok(true);
        }
        if self.find_ref(name)?.as_ref() == seen {
            return Err(output.failure("git update-ref".into()));
        }
        Ok(false)
    }

    pub(crate) fn set_ref(&self, name: &str, to: &CommitId) -> Result<()> {
        self.write("update-ref")
            .setting("core.fsync=all")
            .args(["--no-deref", name, to.as_str()])
            .done()
    }

    /// Whether one commit is part of another's history.
    pub(crate) fn is_ancestor(&self, one: &CommitId, of: &CommitId) -> Result<bool> {
        let output = self
            .read("merge-base")
            .args(["--is-ancestor", one.as_str(), of.as_str()])
            .output()?;
        Ok(output.code == Some(0))
    }
}

/// git's registration of one linked worktree, `.git/worktrees/<id>`.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) dir: PathBuf,
    pub(crate) folder: Option<PathBuf>,
    /// The reason of its lock, if locked.
    pub(crate) lock: Option<String>,
}

impl Registration {
    fn read(dir: PathBuf) -> Self {
        let text = |name| fs::read_to_string(dir.join(name)).ok();
        let folder = text("gitdir").and_then(|file| {
            let file = file.trim_end_matches('\n');
            // May be relative to the registration.
            let file = dir.join(file);
            (!file.as_os_str().is_empty()).then(|| file.parent().map(Path::to_owned))?
        });
        let lock = text("locked").map(|reason| reason.trim().to_owned());
        Self { dir, folder, lock }
    }

    /// Removes only this registration, as `git worktree remove` does, but also half-made ones.
    pub(crate) fn remove(&self) -> Result<()> {
        // Renamed first, so that no git process reads a partial one.
        let trash = match (
            self.dir.parent().and_then(Path::parent),
            self.dir.file_name(),
        ) {
            (Some(common), Some(name)) => {
                common.join(format!("skein-removed-{}", name.to_string_lossy()))
            }
            _ => return Ok(()),
        };
        erase(&trash)?;
        match fs::rename(&self.dir, &trash) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(Error::io("remove", &self.dir))?,
        }
        erase(&trash)?;
        if let Some(all) = self.dir.parent() {
            // Fails if others are in it.
            drop(fs::remove_dir(all));
        }
        Ok(())
    }
}

pub(crate) fn folder_of(project: Option<&AbsPath>) -> Result<&Path> {
    project
        .map(|p| Path::new(p.as_str()))
        .ok_or(Error::NoFolder)
}
