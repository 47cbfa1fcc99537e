//! A clone that shares nothing with the project's repository. Its backups and its branch go to the project's
//! repository, because the clone is removed with its folder.

use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::{
    Backup, SagaId, SessionId, Timestamp, Workspace, WorkspaceKind, WorkspaceOrigin, WorkspaceState,
};

use crate::backup;
use crate::base::Remotes;
use crate::branch;
use crate::error::Error;
use crate::furnish;
use crate::git::Git;
use crate::lfs;
use crate::lock::Lock;
use crate::loose::{self, KNOWN_OF_PROJECT};
use crate::options::WorkspaceOptions;
use crate::provider::{
    Contents, CreatedWorkspace, Plan, Removal, Result, WorkspaceProvider, WorkspaceSetup,
};
use crate::repo::{Repo, folder_of};
use crate::root::{Place, Root, abs, erase, move_to};
use crate::snapshot::{self, fetch};
use crate::start::{self, Head, Start, Traces};
use crate::state::{self, Refs, head_branch};
use crate::submodule;
use crate::worktree::{forget, is_empty, remove_branch};

/// The remote for the project's folder.
const SOURCE: &str = "skein-source";

#[derive(Debug)]
pub struct Clone {
    root: Root,
    options: WorkspaceOptions,
    remotes: Remotes,
}

impl Clone {
    pub fn new(root: PathBuf, options: WorkspaceOptions) -> Self {
        Self {
            root: Root::new(root),
            remotes: Remotes::new(options.fetch),
            options,
        }
    }

    fn git(&self) -> &Git {
        &self.options.git
    }

    fn home(&self, workspace: &Workspace) -> Result<Repo<'_>> {
        Repo::open(self.git(), folder_of(workspace.repo.as_ref())?)
    }

    /// Opens the clone and updates what it knows of the project's repository.
    fn open(&self, workspace: &Workspace) -> Result<Repo<'_>> {
        let folder = Path::new(workspace.path.as_str());
        backup::check_exists(folder)?;
        if fs::symlink_metadata(folder.join(".git")).is_err() {
            return Err(Error::NotARepository {
                path: folder.into(),
            });
        }
        let own = Repo::open(self.git(), folder)?;
        let home = self.home(workspace)?;
        sync(&own, &home)?;
        Ok(own)
    }

    fn build(
        &self,
        home: &Repo<'_>,
        place: &Place,
        workspace: &Workspace,
        lock: &Lock,
    ) -> Result<Option<String>> {
        let traces = Traces::of(home, place, workspace)?;
        let Start { head, kept, note } =
            start::start(home, Refs::Cloned, place, workspace, &traces)?;
        let making = self.root.making(place);
        erase(&making)?;
        if let Some(folder) = making.parent() {
            crate::root::make(folder).map_err(Error::io("make", folder))?;
        }
        self.git()
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
        let own = Repo::open(self.git(), &making)?;
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
        let planned = self.remotes.recall(&place.folder);
        let mut notes: Vec<String> = planned.into_iter().chain(note).collect();
        notes.extend(submodule::bring(&own, self.options.submodules, lock)?);
        if let Some(kept) = &kept {
            fetch(&own, &home.common, kept.commit.as_str())?;
            crate::restore::bring_refs(&own, kept)?;
            crate::restore::apply(&own, kept, place.session.as_str())?;
        }
        move_to(&making, &place.folder).map_err(Error::io("make", &place.folder))?;
        Ok((!notes.is_empty()).then(|| notes.join("; ")))
    }

    /// Copies the clone's branch to the project's repository, unless a branch of that name exists there.
    fn hand_over(&self, own: &Repo<'_>, home: &Repo<'_>) -> Result<()> {
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

    fn leave(
        &self,
        home: &Repo<'_>,
        place: &Place,
        workspace: &Workspace,
        removal: Removal,
    ) -> Result<()> {
        let found = self
            .open(workspace)
            .and_then(|own| Ok((state::look(&own, Refs::Cloned, "look")?.work, own)));
        let (work, own) = match (found, removal) {
            (Ok(found), _) => found,
            (Err(_), Removal::Discard) => return Ok(()),
            (Err(_), _) if is_empty(&place.folder) => return Ok(()),
            (Err(e), Removal::KeepWork | Removal::BackedUp) => {
                return Err(Error::HoldsWork {
                    path: place.folder.clone(),
                    what: format!("it cannot be inspected: {e}"),
                });
            }
        };
        let kept = backup::matching(&own, Refs::Cloned, home, &place.session, workspace)?;
        backup::check_kept(place, removal, &work, kept.as_ref())?;
        lfs::share(&own, home)?;
        backup::record_left(home, place, kept.as_ref())
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
    own.git
        .write(&own.folder, "fetch")
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
        .run()?;
    Ok(())
}

/// Copies the project's remote and the identity of its user.
fn take_over(own: &Repo<'_>, home: &Repo<'_>) -> Result<()> {
    let url = home
        .git
        .read(&home.folder, "config")
        .args(["--get", "remote.origin.url"])
        .find()?;
    if let Some(url) = url {
        let relative = url.starts_with("./") || url.starts_with("../");
        let url = if relative {
            home.folder.join(url).into_os_string()
        } else {
            url.into()
        };
        own.git
            .write(&own.folder, "remote")
            .args(["add", "origin"])
            .arg(url)
            .run()?;
    }
    for name in ["user.name", "user.email", "user.signingKey"] {
        let value = home
            .git
            .read(&home.folder, "config")
            .args(["--local", "--get", name])
            .find()?;
        if let Some(value) = value {
            own.git
                .write(&own.folder, "config")
                .args(["--local", name, &value])
                .run()?;
        }
    }
    Ok(())
}

impl WorkspaceProvider for Clone {
    fn kind(&self) -> WorkspaceKind {
        WorkspaceKind::Clone
    }

    fn plan(&self, plan: &Plan) -> Result<Workspace> {
        let place = self.root.place(&plan.tenant, &plan.session)?;
        let home = Repo::open(self.git(), folder_of(plan.project.as_ref())?)?;
        let choice = branch::choose(&home, &self.remotes, plan)?;
        self.remotes.remember(&place.folder, choice.note);
        Ok(Workspace {
            kind: WorkspaceKind::Clone,
            path: abs(&place.folder)?,
            repo: plan.project.clone(),
            branch: Some(choice.branch),
            branch_made: choice.made,
            base: plan.base.clone(),
            base_commit: Some(choice.base),
            origin: WorkspaceOrigin::Made,
            state: WorkspaceState::Planned,
            backups: Vec::new(),
        })
    }

    fn make(&self, session: &SessionId, workspace: &Workspace) -> Result<CreatedWorkspace> {
        let place = self.root.managed(&workspace.path)?;
        if place.session != *session {
            return Err(Error::Unmanaged { path: place.folder });
        }
        let home = self.home(workspace)?;
        let lock = self.root.lock(&place)?;
        self.root.empty_trash(&place)?;
        erase(&self.root.making(&place))?;
        let ready = workspace.in_state(WorkspaceState::Ready);
        if place.folder.join(".git").is_dir() {
            forget(&home, &backup::left_ref(&place))?;
            return Ok(CreatedWorkspace {
                workspace: ready,
                anew: workspace.state != WorkspaceState::Ready,
                note: None,
            });
        }
        if place.folder.exists() {
            if !is_empty(&place.folder) {
                return Err(Error::HoldsWork {
                    path: place.folder,
                    what: "files without a repository are in the clone's folder".into(),
                });
            }
            fs::remove_dir(&place.folder).map_err(Error::io("remove", &place.folder))?;
        }
        let note = self.build(&home, &place, workspace, &lock)?;
        forget(&home, &backup::left_ref(&place))?;
        self.root.tidy(&place);
        Ok(CreatedWorkspace {
            workspace: ready,
            anew: true,
            note,
        })
    }

    fn furnish(
        &self,
        workspace: &Workspace,
        furnishing: &WorkspaceSetup,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let folder = Path::new(workspace.path.as_str());
        backup::check_exists(folder)?;
        let project = folder_of(workspace.repo.as_ref())?;
        furnish::bring(self.git(), project, folder, furnishing, progress)?;
        furnish::set_up(folder, furnishing, progress)
    }

    fn look(&self, workspace: &Workspace) -> Result<Contents> {
        let own = self.open(workspace)?;
        Ok(state::look(&own, Refs::Cloned, "look")?.contents)
    }

    fn backup(
        &self,
        session: &SessionId,
        workspace: &Workspace,
        saga: &SagaId,
        now: Timestamp,
    ) -> Result<Option<Backup>> {
        let home = self.home(workspace)?;
        if !Path::new(workspace.path.as_str()).is_dir() {
            return backup::find(&home, session, saga);
        }
        let own = self.open(workspace)?;
        self.hand_over(&own, &home)?;
        lfs::share(&own, &home)?;
        let snapshot = backup::snapshot(&own, Refs::Cloned, session, Some(saga), now)?;
        if !snapshot.needed {
            return backup::find(&home, session, saga);
        }
        fetch(&home, &own.common, snapshot.commit.as_str())?;
        let n = backup::store(&home, session, workspace, saga, &snapshot.commit)?;
        // If someone deletes the folder now, this backup must be restored into it.
        let place = self.root.managed(&workspace.path)?;
        home.set_ref(&backup::left_ref(&place), &snapshot.commit)?;
        Ok(Some(Backup {
            n,
            commit: snapshot.commit,
            at: now,
        }))
    }

    fn remove(&self, workspace: &Workspace, removal: Removal) -> Result<()> {
        let place = self.root.managed(&workspace.path)?;
        if !workspace.is_managed() {
            return Err(Error::Unmanaged { path: place.folder });
        }
        let home = self.home(workspace)?;
        let _lock = self.root.lock(&place)?;
        self.root.empty_trash(&place)?;
        erase(&self.root.making(&place))?;
        if fs::symlink_metadata(&place.folder).is_ok() {
            self.leave(&home, &place, workspace, removal)?;
            self.root.remove(&place, &place.folder)?;
        }
        remove_branch(&home, workspace)?;
        self.root.tidy(&place);
        Ok(())
    }

    fn diff(&self, workspace: &Workspace, stat: bool) -> Result<String> {
        let own = self.open(workspace)?;
        snapshot::diff(
            self.git(),
            &own,
            Refs::Cloned,
            workspace.base_commit.as_ref(),
            "diff",
            stat,
        )
    }
}
