//! Lists what is below the managed root, to compare records with folders. Removes nothing.

use std::fs;
use std::io;
use std::path::Path;

use skein_domain::{AbsPath, SessionId, TenantId};

use crate::error::Error;
use crate::git::Git;
use crate::provider::{Contents, Result};
use crate::repo::Repo;
use crate::root::{Root, abs, is_same};
use crate::state::{self, Refs};

/// A worktree of a project below the managed root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleWorktree {
    pub tenant: String,
    pub session: SessionId,
    pub path: AbsPath,
    /// Its content; none if only git's registration is left, or it cannot be inspected.
    pub contents: Option<Contents>,
    pub present: bool,
}

/// The project's worktrees below the root. The caller decides which of them have no record.
pub fn stale(root: &Path, project: &AbsPath) -> Result<Vec<StaleWorktree>> {
    stale_with(&Git::default(), root, project)
}

pub fn stale_with(git: &Git, root: &Path, project: &AbsPath) -> Result<Vec<StaleWorktree>> {
    let repo = Repo::open(git, project.as_str())?;
    let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let mut found = Vec::new();
    for registration in repo.registrations() {
        let Some(folder) = registration.folder else {
            continue;
        };
        // git stores real paths; the record has the root as configured.
        let Ok(rest) = folder
            .strip_prefix(&real)
            .or_else(|_| folder.strip_prefix(root))
        else {
            continue;
        };
        let path = abs(&root.join(rest))?;
        let Ok(place) = Root::new(root.to_owned()).managed(&path) else {
            continue;
        };
        let present = folder.is_dir();
        let contents = match present {
            true => Repo::open(git, &folder)
                .and_then(|own| state::look(&own, Refs::Shared, "look"))
                .ok()
                .map(|look| look.contents),
            false => None,
        };
        found.push(StaleWorktree {
            tenant: place.tenant.to_string(),
            session: place.session,
            path,
            contents,
            present,
        });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Every workspace folder below the root: tenant, session, path.
pub fn managed(root: &Path) -> Result<Vec<(String, SessionId, AbsPath)>> {
    let mut found = Vec::new();
    for tenant in names(root)? {
        if tenant.parse::<TenantId>().is_err() {
            continue;
        }
        let folder = root.join(&tenant);
        for session in names(&folder)? {
            let path = folder.join(&session);
            if let Ok(session) = session.parse::<SessionId>() {
                debug_assert!(is_same(&path, &folder.join(session.as_str())), "one name");
                found.push((tenant.clone(), session, abs(&path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The folders in a folder, without links.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read", folder)(e)),
    };
    let folders = entries
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    Ok(folders
        .filter_map(|e| e.file_name().into_string().ok())
        .collect())
}
