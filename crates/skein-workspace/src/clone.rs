//! A clone that shares nothing with the project's repository. Its backups and its branch go to the project's
//! repository, because the clone is removed with its folder.

use std::fs;
use std::path::PathBuf;

use skein_domain::{Backup, Workspace, WorkspaceKind, WorkspaceState};

use crate::backup::{self, BackupRequest};
use crate::error::Error;
use crate::kind::{BuiltFolder, LockedWorkspace, ManagedKind, ProviderState, joined};
use crate::lfs;
use crate::loose::{self, KNOWN_OF_PROJECT};
use crate::options::WorkspaceOptions;
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::{erase, is_empty, move_to};
use crate::snapshot::fetch;
use crate::start::{self, ExistingRefs, Head, Start};
use crate::state::{Refs, head_branch};
use crate::submodule;

/// The remote for the project's folder.
const SOURCE: &str = "skein-source";

#[derive(Debug)]
pub struct Clone(ProviderState);

impl Clone {
    pub fn new(root: PathBuf, options: WorkspaceOptions) -> Self {
        Self(ProviderState::new(root, options))
    }

    fn clone(&self, locked: &LockedWorkspace<'_>) -> Result<BuiltFolder> {
        let LockedWorkspace {
            workspace,
            managed,
            home,
            lock,
        } = locked;
        let existing = ExistingRefs::of(home, managed, workspace)?;
        let Start {
            head,
            contents,
            note,
        } = start::start(home, Refs::Cloned, managed, workspace, &existing)?;
        let making = self.0.root.making(managed);
        if let Some(folder) = making.parent() {
            crate::root::make(folder).map_err(Error::io("make", folder))?;
        }
        self.0
            .git()
            .write("/", "clone")
            .args([
                "--quiet",
                "--no-checkout",
                "--local",
                "--dissociate",
                "--origin",
                SOURCE,
                "--",
            ])
            .arg(&home.common)
            .arg(&making)
            .holding(lock)
            .run()?;
        let own = Repo::open(self.0.git(), &making)?;
        own.git
            .write(&making, "remote")
            .args(["set-url", SOURCE])
            .arg(&home.folder)
            .run()?;
        take_over(&own, home)?;
        if workspace.state != WorkspaceState::Planned {
            // Content that went to the project's repository when the folder was removed.
            lfs::share(home, &own)?;
        }
        sync(&own, home)?;
        bring_remotes(&own, home)?;
        let (branch, at) = match &head {
            Head::New(branch, at) => (Some(branch), at.clone()),
            Head::Branch(branch) => (
                Some(branch),
                home.tip(branch)?
                    .ok_or_else(|| unknown(home, branch.as_str()))?,
            ),
            Head::Detached(at) => (None, at.clone()),
        };
        fetch(&own, &home.common, at.as_str())?;
        let call = own
            .git
            .write(&making, "switch")
            .args(["--quiet", "--no-guess"])
            .holding(lock);
        match branch {
            // A fresh clone has no branch to protect: its `main` is the project's.
            Some(branch) => call
                .args(["--no-track", "-C", branch.as_str(), at.as_str()])
                .run()?,
            None => call.args(["--detach", at.as_str()]).run()?,
        };
        let planned = self.0.remotes.take_note(&managed.path);
        let mut notes: Vec<String> = planned.into_iter().chain(note).collect();
        notes.extend(submodule::bring(&own, self.0.options.submodules, lock)?);
        if let Some(contents) = &contents {
            fetch(&own, &home.common, contents.commit.as_str())?;
            crate::restore::bring_refs(&own, contents)?;
            crate::restore::apply(&own, contents, managed.session.as_str())?;
        }
        move_to(&making, &managed.path).map_err(Error::io("make", &managed.path))?;
        Ok(BuiltFolder {
            anew: true,
            note: joined(&notes),
            left: existing.left,
        })
    }
}

impl ManagedKind for Clone {
    const KIND: WorkspaceKind = WorkspaceKind::Clone;
    const REFS: Refs<'static> = Refs::Cloned;

    fn shared(&self) -> &ProviderState {
        &self.0
    }

    /// Updates what the clone knows of the project's repository.
    fn refresh(&self, own: &Repo<'_>, workspace: &Workspace) -> Result<()> {
        sync(own, &self.0.home(workspace)?)
    }

    fn clear(&self, locked: &LockedWorkspace<'_>) -> Result<Option<String>> {
        self.0.root.empty_trash(&locked.managed)?;
        erase(&self.0.root.making(&locked.managed))?;
        Ok(None)
    }

    fn build(&self, locked: &LockedWorkspace<'_>) -> Result<BuiltFolder> {
        let LockedWorkspace { managed, home, .. } = locked;
        if managed.path.join(".git").is_dir() {
            return Ok(BuiltFolder {
                anew: locked.workspace.state != WorkspaceState::Ready,
                note: None,
                left: home.find_ref(&backup::left_ref(managed))?,
            });
        }
        if managed.path.exists() {
            if !is_empty(&managed.path) {
                return Err(Error::HoldsWork {
                    path: managed.path.clone(),
                    what: "files without a repository are in the clone's folder".into(),
                });
            }
            fs::remove_dir(&managed.path).map_err(Error::io("remove", &managed.path))?;
        }
        let built = self.clone(locked)?;
        self.0.root.tidy(managed);
        Ok(built)
    }

    fn back_up(&self, own: &Repo<'_>, request: &BackupRequest<'_>) -> Result<Option<Backup>> {
        let home = self.0.home(request.workspace)?;
        hand_over(own, &home)?;
        lfs::share(own, &home)?;
        let snapshot = request.snapshot(own, Refs::Cloned)?;
        if !snapshot.needed {
            return backup::find(&home, request.session, request.saga);
        }
        fetch(&home, &own.common, snapshot.commit.as_str())?;
        let backup = backup::store(&home, request, snapshot.commit)?;
        let managed = self.0.root.managed(&request.workspace.path)?;
        home.set_ref(&backup::left_ref(&managed), &backup.commit)?;
        Ok(Some(backup))
    }
}

/// Copies the clone's branch to the project's repository, unless a branch of that name exists there.
fn hand_over(own: &Repo<'_>, home: &Repo<'_>) -> Result<()> {
    let Some(branch) = head_branch(own)? else {
        return Ok(());
    };
    let Some(tip) = own.find_ref(&branch)? else {
        return Ok(());
    };
    if !loose::is_loose(own, Refs::Cloned, &tip)? || home.find_ref(&branch)?.is_some() {
        return Ok(());
    }
    // If the branch cannot be made there, the backup still contains it.
    match fetch(home, &own.common, &format!("{branch}:{branch}")) {
        Ok(()) | Err(Error::GitFailed { .. }) => sync(own, home),
        Err(e) => Err(e),
    }
}

fn unknown(repo: &Repo<'_>, base: &str) -> Error {
    Error::UnknownBase {
        base: base.to_owned(),
        path: repo.folder.clone(),
    }
}

/// Records in the clone what the project's repository has.
fn sync(own: &Repo<'_>, home: &Repo<'_>) -> Result<()> {
    fetch_refs(own, home, &KNOWN_OF_PROJECT)
}

/// Gives a new clone the project's branches as a remote, and the remote branches that the project last fetched.
fn bring_remotes(own: &Repo<'_>, home: &Repo<'_>) -> Result<()> {
    let source = format!("+refs/heads/*:refs/remotes/{SOURCE}/*");
    fetch_refs(own, home, &[&source])?;
    fetch(
        own,
        &home.common,
        "+refs/remotes/origin/*:refs/remotes/origin/*",
    )
}

fn fetch_refs(own: &Repo<'_>, home: &Repo<'_>, refspecs: &[&str]) -> Result<()> {
    own.write("fetch")
        .setting("protocol.file.allow=always")
        .setting("fetch.fsckObjects=false")
        .setting("transfer.fsckObjects=false")
        .args([
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--prune",
        ])
        .arg("--")
        .arg(&home.common)
        .args(refspecs)
        .done()
}

/// Copies the project's remote and the identity of its user.
fn take_over(own: &Repo<'_>, home: &Repo<'_>) -> Result<()> {
    let url = home
        .read("config")
        .args(["--get", "remote.origin.url"])
        .find()?;
    if let Some(url) = url {
        let relative = url.starts_with("./") || url.starts_with("../");
        let url = if relative {
            home.folder.join(url).into_os_string()
        } else {
            url.into()
        };
        own.write("remote").args(["add", "origin"]).arg(url).run()?;
    }
    for name in ["user.name", "user.email", "user.signingKey"] {
        let value = home
            .read("config")
            .args(["--local", "--get", name])
            .find()?;
        if let Some(value) = value {
            own.write("config").args(["--local", name, &value]).run()?;
        }
    }
    Ok(())
}
