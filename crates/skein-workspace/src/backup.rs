//! Backups: snapshots under `refs/skein/backup/<session>/<n>` (L5).
//!
//! Other homes and tenants may have sessions of the same id in the same repository. A backup belongs to the session if
//! its record names number and commit, or if the backup carries the calling saga.

use std::path::Path;

use skein_domain::workspace::backup_ref;
use skein_domain::{AbsPath, Backup, CommitId, SagaId, SessionId, Timestamp, Workspace};

use crate::add::key;
use crate::error::{Error, quoted};
use crate::git::Git;
use crate::loose::ProjectRefs;
use crate::note::NotePart;
use crate::provider::{Removal, Result};
use crate::repo::Repo;
use crate::restore::{BackupContents, raw_files};
use crate::root::ManagedFolder;
use crate::snapshot::{self, Snapshot, SnapshotRequest};
use crate::state::Refs;

const ALL: &str = "refs/skein/backup/";
/// Attempts to find a free number while others use numbers too.
const TRIES: usize = 20;

/// Every backup in a repository, by session and number.
pub fn backups(repo: &AbsPath) -> Result<Vec<(SessionId, u64, CommitId, Timestamp)>> {
    let git = Git::default();
    let all = list(&git, Path::new(repo.as_str()), ALL)?;
    let flat = |found: BackupRef| {
        let Backup { n, commit, at } = found.backup;
        (found.session, n, commit, at)
    };
    Ok(all.into_iter().map(flat).collect())
}

/// Deletes one backup if it still is this commit; succeeds also if it is gone.
pub fn drop_backup(repo: &AbsPath, session: &SessionId, n: u64, commit: &CommitId) -> Result<()> {
    let git = Git::default();
    let folder = Path::new(repo.as_str());
    let text = git
        .read(folder, "for-each-ref")
        .args(["--format=%(objectname) %(refname)", "--"])
        .args([format!("{LEFT}{session}/"), backup_ref(session, n)])
        .text()?;
    // A ref to a backup is deleted before the backup it points to.
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_by_key(|line| !line.contains(LEFT));
    for line in lines {
        if let Some((id, name)) = line.split_once(' ')
            && id == commit.as_str()
        {
            git.write(folder, "update-ref")
                .args(["--no-deref", "-d", name, id])
                .run()?;
        }
    }
    Ok(())
}

/// A command line that checks a backup out beside the repository.
pub fn how_to_get_back(session: &SessionId, backup: &Backup, repo: &AbsPath) -> String {
    let name = backup.name(session);
    let n = backup.n;
    let folder = format!("{}-{session}-{n}", repo.as_str().trim_end_matches('/'));
    let git = format!("git -C {}", quoted(repo.as_str()));
    let mut line = format!("{git} worktree add --detach {} {name}", quoted(&folder));
    let files = exact(repo, &backup.commit).unwrap_or_default();
    for (object, path) in files {
        let path = quoted(Path::new(&folder).join(path));
        line.push_str(&format!(" && {git} cat-file blob {object} > {path}"));
    }
    line
}

/// Files that a checkout would write with other bytes.
fn exact(repo: &AbsPath, commit: &CommitId) -> Result<Vec<(String, std::path::PathBuf)>> {
    let git = Git::default();
    let repo = Repo::open(&git, repo.as_str())?;
    match BackupContents::read(&repo, commit)?
        .note
        .find(&NotePart::Raw)
    {
        Some(raw) => raw_files(&repo, raw),
        None => Ok(Vec::new()),
    }
}

const LEFT: &str = "refs/skein/left/";

/// Names the backup with the content of a removed workspace, to restore when the workspace is made again; deleted
/// after that. Its name contains the folder, which is unique to this home and tenant.
pub(crate) fn left_ref(managed: &ManagedFolder) -> String {
    format!("{LEFT}{}/{}", managed.session, key(&managed.path))
}

/// Records the backup to restore into a folder that is about to be removed, or that there is none.
pub(crate) fn record_left(
    repo: &Repo<'_>,
    managed: &ManagedFolder,
    backup: Option<&Backup>,
) -> Result<()> {
    let left = left_ref(managed);
    match backup {
        Some(backup) => repo.set_ref(&left, &backup.commit),
        None => match repo.find_ref(&left)? {
            Some(commit) => repo.delete_ref(&left, &commit),
            None => Ok(()),
        },
    }
}

/// Refuses a removal that would lose work. `backup` is a backup of all of it.
pub(crate) fn check_backed_up(
    managed: &ManagedFolder,
    removal: Removal,
    work: &[String],
    backup: Option<&Backup>,
) -> Result<()> {
    let may_go = match removal {
        Removal::KeepWork => work.is_empty(),
        Removal::BackedUp => work.is_empty() || backup.is_some(),
        Removal::Discard => true,
    };
    if may_go {
        return Ok(());
    }
    Err(Error::HoldsWork {
        path: managed.path.clone(),
        what: work.join(", "),
    })
}

/// A backup ref in the repository.
#[derive(Debug)]
struct BackupRef {
    session: SessionId,
    backup: Backup,
    saga: Option<SagaId>,
}

fn list(git: &Git, folder: &Path, below: &str) -> Result<Vec<BackupRef>> {
    let text = git
        .read(folder, "for-each-ref")
        .args([
            "--format=%(objectname) %(committerdate:unix) %(refname) %(trailers:key=Skein-Saga,valueonly,separator=%2C)",
            "--",
            below,
        ])
        .text()?;
    let mut all: Vec<_> = text.lines().filter_map(parse).collect();
    all.sort_by(|a, b| (&a.session, a.backup.n).cmp(&(&b.session, b.backup.n)));
    Ok(all)
}

/// Skips refs that Skein did not make.
fn parse(line: &str) -> Option<BackupRef> {
    let mut words = line.split(' ');
    let commit = words.next()?.parse().ok()?;
    let seconds: i64 = words.next()?.parse().ok()?;
    let (session, n) = words.next()?.strip_prefix(ALL)?.split_once('/')?;
    let backup = Backup {
        n: n.parse().ok()?,
        commit,
        at: Timestamp::from_micros(seconds.saturating_mul(1_000_000)),
    };
    Some(BackupRef {
        session: session.parse().ok()?,
        backup,
        saga: words.next().and_then(|saga| saga.parse().ok()),
    })
}

/// The newest backup of the record that still exists.
pub(crate) fn newest(
    repo: &Repo<'_>,
    session: &SessionId,
    workspace: &Workspace,
) -> Result<Option<Backup>> {
    let mut recorded: Vec<&Backup> = workspace.backups.iter().collect();
    recorded.sort_by_key(|backup| std::cmp::Reverse(backup.n));
    for backup in recorded {
        if repo.find_ref(&backup.name(session))?.as_ref() == Some(&backup.commit) {
            return Ok(Some(backup.clone()));
        }
    }
    Ok(None)
}

/// The newest backup under a session's id, which may be missing in its record after a crash. It may belong to another
/// home's session, so it is only shown to the user.
pub(crate) fn newest_ref(repo: &Repo<'_>, session: &SessionId) -> Result<Option<String>> {
    let all = list(repo.git, &repo.folder, &format!("{ALL}{session}/"))?;
    Ok(all.last().map(|found| found.backup.name(session)))
}

/// The backup that an earlier call of the saga made.
pub(crate) fn find(repo: &Repo<'_>, session: &SessionId, saga: &SagaId) -> Result<Option<Backup>> {
    let all = list(repo.git, &repo.folder, &format!("{ALL}{session}/"))?;
    let own = all
        .into_iter()
        .find(|found| found.saga.as_ref() == Some(saga));
    Ok(own.map(|found| found.backup))
}

/// A call of [`crate::provider::WorkspaceProvider::backup`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackupRequest<'a> {
    pub(crate) session: &'a SessionId,
    pub(crate) workspace: &'a Workspace,
    pub(crate) saga: &'a SagaId,
    pub(crate) now: Timestamp,
}

impl BackupRequest<'_> {
    /// A snapshot of a work tree, without a ref yet.
    pub(crate) fn snapshot(&self, repo: &Repo<'_>, refs: Refs<'_>) -> Result<Snapshot> {
        snapshot(repo, refs, self.session, Some(self.saga), self.now)
    }
}

/// Stores a snapshot under the saga's own ref, or under an unused number.
pub(crate) fn store(
    repo: &Repo<'_>,
    request: &BackupRequest<'_>,
    commit: CommitId,
) -> Result<Backup> {
    let BackupRequest {
        session,
        workspace,
        saga,
        now,
    } = *request;
    let recorded = workspace.backups.iter().map(|b| b.n).max().unwrap_or(0);
    for _ in 0..TRIES {
        let all = list(repo.git, &repo.folder, &format!("{ALL}{session}/"))?;
        let own = all.iter().find(|found| found.saga.as_ref() == Some(saga));
        let (n, seen) = match own {
            Some(own) => (own.backup.n, Some(&own.backup.commit)),
            None => {
                let used = all.last().map_or(0, |last| last.backup.n);
                (used.max(recorded).saturating_add(1), None)
            }
        };
        if repo.move_ref(&backup_ref(session, n), seen, &commit)? {
            let at = now;
            return Ok(Backup { n, commit, at });
        }
    }
    Err(Error::Busy {
        path: repo.folder.clone(),
    })
}

fn snapshot(
    repo: &Repo<'_>,
    refs: Refs<'_>,
    session: &SessionId,
    saga: Option<&SagaId>,
    now: Timestamp,
) -> Result<Snapshot> {
    let request = SnapshotRequest {
        name: session.as_str(),
        seconds: now.as_micros().div_euclid(1_000_000),
        saga,
        project: ProjectRefs::of(repo, refs),
    };
    snapshot::take(repo, refs, &request)
}

/// Backs up a work tree of the repository itself.
pub(crate) fn make(repo: &Repo<'_>, request: &BackupRequest<'_>) -> Result<Option<Backup>> {
    let snapshot = request.snapshot(repo, Refs::Shared)?;
    match snapshot.needed {
        true => store(repo, request, snapshot.commit).map(Some),
        false => find(repo, request.session, request.saga),
    }
}

/// The newest backup of the record, if it has exactly the present content of the work tree: a snapshot with the same
/// name and time is then the same commit.
pub(crate) fn matching(
    own: &Repo<'_>,
    refs: Refs<'_>,
    home: &Repo<'_>,
    session: &SessionId,
    workspace: &Workspace,
) -> Result<Option<Backup>> {
    let Some(backup) = newest(home, session, workspace)? else {
        return Ok(None);
    };
    let saga = BackupContents::read(home, &backup.commit)?.note.saga;
    let now = snapshot(own, refs, session, saga.as_ref(), backup.at)?;
    Ok((now.commit == backup.commit).then_some(backup))
}
