//! Backups: snapshots under `refs/skein/backup/<session>/<n>` (L5), listed, dropped and got back.

use std::path::Path;

use skein_domain::workspace::backup_ref;
use skein_domain::{AbsPath, Backup, CommitId, SessionId, Timestamp};

use crate::error::{Error, quoted};
use crate::git::Git;
use crate::provider::Result;
use crate::repo::Repo;
use crate::restore::{Kept, raw_files};
use crate::snapshot::{self, Order, Snapshot};
use crate::state::Refs;

const ALL: &str = "refs/skein/backup/";

/// The number the session's next backup gets.
pub fn next_backup(repo: &AbsPath, session: &SessionId) -> Result<u64> {
    let git = Git::default();
    let all = list(&git, Path::new(repo.as_str()), &format!("{ALL}{session}/"))?;
    Ok(all.last().map_or(1, |(_, backup)| backup.n + 1))
}

/// Every backup in a repository, by session and number.
pub fn backups(repo: &AbsPath) -> Result<Vec<(SessionId, u64, CommitId, Timestamp)>> {
    let all = list(&Git::default(), Path::new(repo.as_str()), ALL)?;
    let flat = |(session, b): (SessionId, Backup)| (session, b.n, b.commit, b.at);
    Ok(all.into_iter().map(flat).collect())
}

/// Drops one backup; one that is gone already is fine.
pub fn drop_backup(repo: &AbsPath, session: &SessionId, n: u64) -> Result<()> {
    let git = Git::default();
    let folder = Path::new(repo.as_str());
    for name in [left_ref(session), backup_ref(session, n)] {
        let Some(commit) = git.commit(folder, &backup_ref(session, n))? else {
            return Ok(());
        };
        if git.commit(folder, &name)?.as_ref() == Some(&commit) {
            git.write(folder, "update-ref")
                .args(["--no-deref", "-d", &name, commit.as_str()])
                .run()?;
        }
    }
    Ok(())
}

/// A command line that brings a backup's files back, in a folder beside the repository.
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

/// Files a checkout would write with other bytes.
fn exact(repo: &AbsPath, commit: &CommitId) -> Result<Vec<(String, std::path::PathBuf)>> {
    let git = Git::default();
    let repo = Repo::open(&git, repo.as_str())?;
    match Kept::read(&repo, commit)?.note.raw() {
        Some(raw) => raw_files(&repo, raw),
        None => Ok(Vec::new()),
    }
}

/// Points to the backup that holds what was in the workspace when it was removed, and so belongs back in it.
/// Gone once it is back.
pub(crate) fn left_ref(session: &SessionId) -> String {
    format!("refs/skein/left/{session}")
}

pub(crate) fn list(git: &Git, folder: &Path, below: &str) -> Result<Vec<(SessionId, Backup)>> {
    let text = git
        .read(folder, "for-each-ref")
        .args([
            "--format=%(objectname) %(committerdate:unix) %(refname)",
            "--",
            below,
        ])
        .text()?;
    let mut all: Vec<_> = text.lines().filter_map(parse).collect();
    all.sort_by(|(a, x), (b, y)| (a, x.n).cmp(&(b, y.n)));
    Ok(all)
}

/// Refs that are not of our making are passed over.
fn parse(line: &str) -> Option<(SessionId, Backup)> {
    let mut words = line.split(' ');
    let commit = words.next()?.parse().ok()?;
    let seconds: i64 = words.next()?.parse().ok()?;
    let (session, n) = words.next()?.strip_prefix(ALL)?.split_once('/')?;
    let backup = Backup {
        n: n.parse().ok()?,
        commit,
        at: Timestamp::from_micros(seconds.saturating_mul(1_000_000)),
    };
    Some((session.parse().ok()?, backup))
}

pub(crate) fn newest(git: &Git, folder: &Path, session: &SessionId) -> Result<Option<Backup>> {
    let all = list(git, folder, &format!("{ALL}{session}/"))?;
    Ok(all.into_iter().next_back().map(|(_, backup)| backup))
}

/// A backup made by an earlier call, when its workspace is gone by now.
pub(crate) fn find(
    git: &Git,
    folder: &Path,
    session: &SessionId,
    n: u64,
) -> Result<Option<Backup>> {
    let all = list(git, folder, &format!("{ALL}{session}/"))?;
    Ok(all.into_iter().map(|(_, b)| b).find(|b| b.n == n))
}

/// A snapshot of a work tree, not yet under any ref.
pub(crate) fn snapshot(
    repo: &Repo<'_>,
    refs: Refs,
    session: &SessionId,
    now: Timestamp,
) -> Result<Snapshot> {
    let inner_ref = format!("refs/skein/scratch/{session}");
    let order = Order {
        name: session.as_str(),
        inner_ref: &inner_ref,
        seconds: now.as_micros().div_euclid(1_000_000),
    };
    snapshot::take(repo, refs, &order)
}

/// Keeps a work tree of the repository itself.
pub(crate) fn keep(
    repo: &Repo<'_>,
    session: &SessionId,
    n: u64,
    now: Timestamp,
) -> Result<Option<Backup>> {
    let snapshot = snapshot(repo, Refs::Shared, session, now)?;
    if !snapshot.needed {
        return Ok(None);
    }
    repo.set_ref(&backup_ref(session, n), &snapshot.commit)?;
    Ok(Some(Backup {
        n,
        commit: snapshot.commit,
        at: now,
    }))
}

/// The backup that holds exactly what is in the work tree now.
pub(crate) fn matching(
    repo: &Repo<'_>,
    home: &Repo<'_>,
    session: &SessionId,
) -> Result<Option<Backup>> {
    let Some(backup) = newest(home.git, &home.folder, session)? else {
        return Ok(None);
    };
    let order = Order {
        name: session.as_str(),
        inner_ref: &format!("refs/skein/scratch/{session}"),
        seconds: 0,
    };
    let kept = Kept::read(home, &backup.commit)?;
    let same_head = kept.head() == repo.find_ref("HEAD")?.as_ref();
    let tree = snapshot::tree_of(home, &backup.commit)?;
    Ok((same_head && tree == snapshot::tree(repo, &order)?).then_some(backup))
}

pub(crate) fn check_there(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        Ok(())
    } else {
        Err(Error::Missing {
            path: folder.into(),
        })
    }
}
