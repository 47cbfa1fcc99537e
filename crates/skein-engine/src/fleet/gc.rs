//! Cleaning up: workspaces and files of ended sessions, old backups, folders and runs that no record knows. Takes
//! only what we made; says why for each; doing it again changes nothing.

mod belongings;

use serde_json::{Value, json};
use skein_domain::fact::SagaChange;
use skein_domain::saga::Order;
use skein_domain::{
    AbsPath, Backup, Phase, Project, Role, Saga, SagaId, SagaKind, SagaState, Session, SessionId,
    Workspace, WorkspaceState,
};
use skein_runtime::runtime::Grace;
use skein_store::backend::Filter;
use skein_workspace::provider::Removal;

use super::hands::Held;
use super::journal::tell;
use super::step::off;
use super::{Fleet, Member, outside};
use crate::caller::{Answer, Outcome};
use crate::desk::Desk;
use crate::error::Error;

/// How long an answer waits for the clean-ups it began; well below the time a call may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// What to clean up.
#[derive(Clone, Copy, Debug)]
pub struct GcOrder {
    pub dry_run: bool,
    /// Only sessions that ended at least this long ago.
    pub ended_for_seconds: u64,
    pub backups_older_than_seconds: u64,
    /// Whether backups that old are dropped, which may be the only place of somebody's work (L5).
    pub discard: bool,
}

struct Item {
    what: &'static str,
    id: String,
    path: Option<String>,
    action: &'static str,
    reason: String,
}

impl Item {
    fn render(&self) -> Value {
        json!({
            "what": self.what,
            "id": self.id,
            "path": self.path,
            "action": self.action,
            "reason": self.reason,
        })
    }
}

/// The ledger at one moment.
struct Ledger {
    sessions: Vec<Session>,
    projects: Vec<Project>,
}

/// The backups of sessions that are over and with which nothing is under way.
fn backups(ledger: &Ledger) -> Vec<(SessionId, Backup)> {
    let over = ledger
        .sessions
        .iter()
        .filter(|s| !s.phase.is_live() && s.check_free().is_ok());
    over.flat_map(|s| {
        let backups = s.gear.iter().flat_map(|g| &g.workspace.backups);
        backups.map(|b| (s.id.clone(), b.clone()))
    })
    .collect()
}

fn old_backup(order: GcOrder) -> String {
    let age = days(order.backups_older_than_seconds);
    match order.discard {
        true => format!("it is older than {age}"),
        false => format!(
            "it is older than {age}; `skein gc --discard` drops it, and the work in it, for good"
        ),
    }
}

impl Desk {
    pub async fn gc(&self, order: GcOrder) -> Result<Answer, Error> {
        let op = "clean up";
        if let Err(refused) = self.caller.role.require(Role::Admin, op) {
            return Err(self.refused(op, refused.into()).await);
        }
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let fleet = self.fleet()?.clone();
        let ledger = self.ledger().await?;
        let known = backups(&ledger);
        let mut items = self.gc_sessions(&fleet, &ledger, order).await?;
        // That took its time: what was begun or restored meanwhile is known to the ledger of now.
        let ledger = self.ledger().await?;
        fleet.point("gc.backups.begin");
        items.extend(self.gc_backups(&ledger, &known, order).await?);
        fleet.point("gc.backups.done");
        items.extend(self.gc_folders(&fleet, order).await?);
        items.extend(self.gc_runs(&fleet, order).await?);
        let going: Vec<String> = match order.dry_run {
            true => going(&items),
            false => vec![],
        };
        items.extend(self.gc_belongings(&fleet, &going, order).await?);
        fleet.ring();
        let data: Vec<Value> = items.iter().map(Item::render).collect();
        let body = json!({"data": data, "next": null, "dry_run": order.dry_run});
        self.change(op, Role::Admin, move |_| {
            Ok(Outcome::Rendered(body.clone()))
        })
        .await
    }

    async fn ledger(&self) -> Result<Ledger, Error> {
        self.look(|r| {
            Ok(Ledger {
                sessions: r.all(&Filter::default())?,
                projects: r.all(&Filter::default())?,
            })
        })
        .await
    }

    /// Ended sessions give their folders up; work in them is kept under a ref first.
    async fn gc_sessions(
        &self,
        fleet: &std::sync::Arc<Fleet>,
        ledger: &Ledger,
        order: GcOrder,
    ) -> Result<Vec<Item>, Error> {
        let before = self.now().minus_seconds(order.ended_for_seconds);
        let mut items = vec![];
        for session in &ledger.sessions {
            let Some(gear) = session.gear.as_deref() else {
                continue;
            };
            let over = matches!(session.phase, Phase::Ended { .. } | Phase::Archived { .. });
            let there = gear.workspace.state != WorkspaceState::Gone;
            if !over || !there || !gear.workspace.is_managed() || gear.saga.is_some() {
                continue;
            }
            if session.last_activity_at > before {
                continue;
            }
            let stays = gear.workspace.repo.is_none() && self.dirty(session).await == Some(true);
            let (action, reason) = match stays {
                true => (
                    "keep",
                    "its session has ended, but files are in it and no repository could keep them",
                ),
                false => (
                    "remove",
                    "its session has ended; uncommitted work is kept under a backup ref",
                ),
            };
            items.push(Item {
                what: "workspace",
                id: session.id.to_string(),
                path: Some(gear.workspace.path.to_string()),
                action,
                reason: reason.into(),
            });
            if !order.dry_run && !stays {
                self.begin_gc(session).await?;
            }
        }
        if !order.dry_run && !items.is_empty() {
            fleet.ring();
            self.until_gone(&items).await;
            self.correct(&mut items).await?;
        }
        Ok(items)
    }

    /// What could not be removed is told as it is.
    async fn correct(&self, items: &mut [Item]) -> Result<(), Error> {
        for item in items.iter_mut().filter(|i| i.action == "remove") {
            let id = item.id.clone();
            let session: Session = self.look(move |r| r.get(&id)).await?;
            let Some(gear) = session.gear.as_deref() else {
                continue;
            };
            if session.check_free().is_err() {
                item.reason.push_str("; it is under way");
            } else if gear.workspace.state != WorkspaceState::Gone {
                item.action = "keep";
                item.reason = match &gear.note {
                    Some(note) => note.to_string(),
                    None => "it could not be removed; `skein gc` tries again".into(),
                };
            }
        }
        Ok(())
    }

    async fn begin_gc(&self, session: &Session) -> Result<(), Error> {
        let saga = SagaId::from_random(self.shared.ids.bits());
        let (id, actor) = (session.id.clone(), self.caller.actor.clone());
        self.store
            .write(&self.caller.actor, self.now(), move |writer| {
                let session: Session = writer.reader().get(id.as_str())?;
                // Restored or taken by another clean-up meanwhile: then it is not ours to take.
                if session.phase.is_live() || session.check_free().is_err() {
                    return Ok(());
                }
                let Some(gear) = session.gear.as_deref() else {
                    return Ok(());
                };
                let mut gear = gear.clone();
                gear.saga = Some((saga.clone(), SagaKind::Gc));
                let after = session.with_gear(gear, writer.now());
                writer.update(&after)?;
                let saga = Saga {
                    id: saga.clone(),
                    session: id.clone(),
                    kind: SagaKind::Gc,
                    state: SagaState::Doing(SagaKind::Gc.steps()[0]),
                    order: Order::default(),
                    prompt: None,
                    actor: actor.clone(),
                    version: 1,
                    at: writer.now(),
                };
                writer.insert(&saga)?;
                tell(writer, &saga, &after, SagaChange::Queued)
            })
            .await?;
        Ok(())
    }

    /// Waits until the clean-ups are over, but not for long: callers want an answer, and can wait for the
    /// sessions themselves. Whatever rests is taken up later.
    async fn until_gone(&self, items: &[Item]) {
        let ids: Vec<String> = items.iter().map(|i| i.id.clone()).collect();
        let wait = async {
            let mut feed = self.store.subscribe();
            loop {
                let wanted = ids.clone();
                let look = self
                    .look(move |r| {
                        let head = r.head()?.seq;
                        let mut busy = false;
                        for id in &wanted {
                            let session: Session = r.get(id)?;
                            busy |= session.check_free().is_err();
                        }
                        Ok((head, busy))
                    })
                    .await;
                match look {
                    Ok((head, true)) => {
                        if !feed.beyond(head).await {
                            return;
                        }
                    }
                    Ok((_, false)) | Err(_) => return,
                }
            }
        };
        let _ = tokio::time::timeout(PATIENCE, wait).await;
    }

    /// Backups that are old, of sessions that are over. Another home's session may have the same id, so only
    /// what a record names by its commit is ours to drop.
    async fn gc_backups(
        &self,
        ledger: &Ledger,
        known: &[(SessionId, Backup)],
        order: GcOrder,
    ) -> Result<Vec<Item>, Error> {
        let before = self.now().minus_seconds(order.backups_older_than_seconds);
        // What this very clean-up has kept is not up for dropping.
        let mut ours = backups(ledger);
        ours.retain(|backup| known.contains(backup));
        let mut items = vec![];
        for repo in repositories(ledger) {
            let ours = ours.clone();
            let found = off(move || {
                let mut items = vec![];
                for backup in outside::backups(&repo) {
                    let ours = ours.iter().any(|(session, b)| backup.is(session, b));
                    if backup.at >= before || !ours {
                        continue;
                    }
                    let drops = order.discard && !order.dry_run;
                    if drops && !outside::drop_backup(&repo, &backup) {
                        continue;
                    }
                    items.push(Item {
                        what: "backup",
                        id: skein_domain::workspace::backup_ref(&backup.session, backup.n),
                        path: Some(repo.to_string()),
                        action: if order.discard { "remove" } else { "keep" },
                        reason: old_backup(order),
                    });
                }
                items
            })
            .await?;
            items.extend(found);
        }
        Ok(items)
    }

    /// Folders below our roots that no record knows. Those that hold work are only named.
    ///
    /// They are listed before the ledger is asked: a folder's path is recorded before the folder is made,
    /// so that one made meanwhile is either not listed or known.
    async fn gc_folders(
        &self,
        fleet: &std::sync::Arc<Fleet>,
        order: GcOrder,
    ) -> Result<Vec<Item>, Error> {
        let tenant = self.tenant().to_string();
        let mut found = vec![];
        for root in fleet.roots.clone() {
            let listed = off(move || outside::managed(&root)).await?;
            found.extend(listed.into_iter().filter(|f| f.tenant == tenant));
        }
        fleet.point("gc.folders.listed");
        let mut items = vec![];
        for folder in found {
            // Somebody at work on the session knows what to do with it.
            let Some(held) = self.take_in_hand(fleet, &folder.session) else {
                continue;
            };
            if self.find(&folder.session).await?.is_some_and(|s| {
                let here = |w: &Workspace| w.state != WorkspaceState::Gone;
                s.check_free().is_err() || s.gear.as_ref().is_some_and(|g| here(&g.workspace))
            }) {
                continue;
            }
            fleet.point("gc.folder.begin");
            let left = self.clear(fleet, &folder, order.dry_run).await?;
            fleet.point("gc.folder.done");
            drop(held);
            let (action, reason) = match left {
                None => (
                    "remove",
                    "no session knows this folder, and no work is in it".into(),
                ),
                Some(why) => ("keep", format!("no session knows this folder, but {why}")),
            };
            items.push(Item {
                what: "folder",
                id: folder.session.to_string(),
                path: Some(folder.path.to_string()),
                action,
                reason,
            });
        }
        Ok(items)
    }

    /// Takes a session in hand that may not be in the ledger. As long as this is held no saga begins on it,
    /// so what the ledger says from now on holds until we are done.
    fn take_in_hand(&self, fleet: &std::sync::Arc<Fleet>, session: &SessionId) -> Option<Held> {
        fleet.take_in_hand(&Member {
            tenant: self.tenant().clone(),
            session: session.clone(),
        })
    }

    async fn find(&self, session: &SessionId) -> Result<Option<Session>, Error> {
        let id = session.to_string();
        self.look(move |r| r.find(&id)).await
    }

    /// Removes a folder that holds no work; says why not otherwise.
    async fn clear(
        &self,
        fleet: &std::sync::Arc<Fleet>,
        folder: &outside::Folder,
        dry_run: bool,
    ) -> Result<Option<String>, Error> {
        let workspace = outside::guess(folder);
        let provider = fleet.provider(workspace.kind)?;
        off(move || match provider.look(&workspace) {
            Ok(contents) if contents.dirty || contents.own_commits > 0 => {
                Some("it holds work that is nowhere else".to_owned())
            }
            Ok(_) if dry_run => None,
            Ok(_) => provider
                .remove(&workspace, Removal::KeepWork)
                .err()
                .map(|e| e.to_string()),
            Err(error) => Some(error.to_string()),
        })
        .await
    }

    /// Runs that no record holds on to. Listed before the ledger is asked: a run's handle is recorded before
    /// there is a process.
    async fn gc_runs(
        &self,
        fleet: &std::sync::Arc<Fleet>,
        order: GcOrder,
    ) -> Result<Vec<Item>, Error> {
        let mut found = vec![];
        for runtime in fleet.runtimes.values() {
            match runtime.list().await {
                Ok(listed) => found.extend(listed.into_iter().map(|run| (runtime, run))),
                Err(error) => tracing::warn!(%error, "runs could not be listed"),
            }
        }
        fleet.point("gc.runs.listed");
        let mut items = vec![];
        for (runtime, run) in found {
            if run.tenant != self.tenant().as_str() {
                continue;
            }
            let Some(held) = self.take_in_hand(fleet, &run.session) else {
                continue;
            };
            if self.find(&run.session).await?.is_some_and(|s| {
                let handle = s.gear.as_ref().and_then(|g| g.handle.as_ref());
                s.check_free().is_err() || handle == Some(&run.handle)
            }) {
                continue;
            }
            let mut reason = match run.pid {
                Some(pid) => format!("no session holds on to it; process {pid}"),
                None => "it is over, and no session holds on to it".into(),
            };
            let mut action = "end";
            if !order.dry_run {
                fleet.point("gc.run.begin");
                // One that is over cannot be ended; it can be forgotten.
                let _ = runtime.end(&run.handle, Grace::default()).await;
                fleet.point("gc.run.ended");
                if let Err(error) = runtime.forget(&run.handle).await {
                    action = "keep";
                    reason = format!("{reason}; it could not be removed: {error}");
                }
                fleet.point("gc.run.done");
            }
            drop(held);
            items.push(Item {
                what: "run",
                id: format!("{}/{}", run.session, run.run),
                path: None,
                action,
                reason,
            });
        }
        Ok(items)
    }
}

/// The sessions whose workspaces would be removed.
fn going(items: &[Item]) -> Vec<String> {
    let goes = |item: &&Item| item.what == "workspace" && item.action == "remove";
    items.iter().filter(goes).map(|i| i.id.clone()).collect()
}

/// The repositories sessions have worked in.
fn repositories(ledger: &Ledger) -> Vec<AbsPath> {
    let of_sessions = ledger
        .sessions
        .iter()
        .filter_map(|s| s.gear.as_ref()?.workspace.repo.clone());
    let of_projects = ledger
        .projects
        .iter()
        .filter_map(|p| p.path.as_deref()?.parse().ok());
    let mut all: Vec<AbsPath> = of_sessions.chain(of_projects).collect();
    all.sort();
    all.dedup();
    all
}

fn days(seconds: u64) -> String {
    match seconds {
        0..=86_399 => format!("{seconds} s"),
        _ => format!("{} days", seconds / 86_400),
    }
}
