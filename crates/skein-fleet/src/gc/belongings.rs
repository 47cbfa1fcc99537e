//! What Skein keeps for a session besides its workspace: files for its agent, and the history of its terminals.

use std::fs;
use std::path::PathBuf;

use skein_domain::{Phase, Project, Session, Timestamp, WorkspaceState};

use super::super::commands::run_blocking;
use super::{CleanUp, Item};
use crate::error::Error;

impl CleanUp<'_> {
    /// Sessions that are over give up what was kept for them, but for what a restore would read (L5). One whose
    /// workspace stays keeps all of it; `going` names those whose workspaces are about to go.
    pub(super) async fn gc_belongings(&self, going: &[String]) -> Result<Vec<Item>, Error> {
        let before = self
            .ledger
            .now()
            .minus_seconds(self.order.ended_for_seconds);
        let goes = |session: &Session| is_over(session, before, going);
        let mut items = vec![];
        let records = self.records().await?;
        self.ledger.reach("gc.belongings.listed");
        for session in records.sessions.iter().filter(|s| goes(s)) {
            let Some(claim) = self.claim(&session.id) else {
                continue;
            };
            // It may have been restored meanwhile; from now on it is not.
            if let Some(session) = self.find(&session.id).await?.filter(goes) {
                for (what, path) in self.belongings(&session).await? {
                    items.extend(clear(what, &session, path, self.order.dry_run).await?);
                }
            }
            drop(claim);
        }
        Ok(items)
    }

    async fn belongings(&self, session: &Session) -> Result<Vec<(&'static str, PathBuf)>, Error> {
        let session_key = self.ledger.session_key(&session.id);
        let mut all = vec![("log", self.fleet.programs.folders.logs(&session_key))];
        let restorable = !matches!(session.phase, Phase::Archived { .. });
        if !restorable || !self.resumes_from_private(session).await? {
            all.push(("private", self.fleet.programs.folders.private(&session_key)));
        }
        Ok(all)
    }

    /// An agent that cannot be asked may need it.
    async fn resumes_from_private(&self, session: &Session) -> Result<bool, Error> {
        let id = session.project.clone();
        let project: Project = self.ledger.read(move |r| r.get(id.as_str())).await?;
        let (fleet, session) = (self.fleet.clone(), session.clone());
        let agent = run_blocking(move || fleet.programs.agent(&session, &project)).await?;
        Ok(agent.map_or(true, |agent| agent.resumes_from_private()))
    }
}

fn is_over(session: &Session, before: Timestamp, going: &[String]) -> bool {
    let Some(gear) = session.gear.as_deref() else {
        return false;
    };
    let workspace = &gear.workspace;
    let gone = workspace.state == WorkspaceState::Gone || !workspace.is_managed();
    matches!(session.phase, Phase::Ended { .. } | Phase::Archived { .. })
        && session.last_activity_at <= before
        && session.check_free().is_ok()
        && gear.handle.is_none()
        && (gone || going.iter().any(|id| *id == session.id.as_str()))
}

/// Links inside lead to files of other people's, which stay.
async fn clear(
    what: &'static str,
    session: &Session,
    path: PathBuf,
    dry_run: bool,
) -> Result<Option<Item>, Error> {
    let shown = path.display().to_string();
    let cleared = run_blocking(move || match path.symlink_metadata() {
        Err(_) => None,
        Ok(_) if dry_run => Some(Ok(())),
        Ok(_) => Some(fs::remove_dir_all(&path)),
    })
    .await?;
    let (action, reason) = match cleared {
        None => return Ok(None),
        Some(Ok(())) => (
            "remove",
            "its session has ended, and no restore needs it".to_owned(),
        ),
        Some(Err(error)) => ("keep", format!("it could not be removed: {error}")),
    };
    Ok(Some(Item {
        what,
        id: session.id.to_string(),
        path: Some(shown),
        action,
        reason,
    }))
}
