//! Cleaning up: workspaces and files of ended sessions, old backups, folders and runs that no record knows. Takes
//! only what Skein made; says why for each; doing it again changes nothing.

mod belongings;

use std::sync::Arc;

use serde_json::{Value, json};
use skein_domain::{
    AbsPath, Backup, Phase, Project, Role, SagaId, SagaKind, SagaRequest, Session, SessionId,
    Workspace, WorkspaceState,
};
use skein_runtime::runtime::Grace;
use skein_store::backend::RowFilter;
use skein_workspace::provider::Removal;

use super::FleetRequests;
use super::commands::run_blocking;
use super::{Fleet, SessionKey, outside};
use crate::error::Error;
use skein_ledger::saga::{Claim, begin_saga, new_saga};
use skein_ledger::{Answer, LedgerRequests, RequestOutcome};

/// How long an answer waits for the clean-ups it began; well below the time a call may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// What to clean up.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    pub dry_run: bool,
    /// Only sessions that ended at least this long ago.
    pub ended_for_seconds: u64,
    pub backups_older_than_seconds: u64,
    /// Whether backups that old are dropped, which may hold the only copy of some work (L5).
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
struct Records {
    sessions: Vec<Session>,
    projects: Vec<Project>,
}

/// The backups of sessions that are over and with which nothing is under way.
fn backups(records: &Records) -> Vec<(SessionId, Backup)> {
    let over = records
        .sessions
        .iter()
        .filter(|s| !s.phase.is_live() && s.check_free().is_ok());
    over.flat_map(|s| {
        let backups = s.gear.iter().flat_map(|g| &g.workspace.backups);
        backups.map(|b| (s.id.clone(), b.clone()))
    })
    .collect()
}

/// A duration as the command line takes it.
fn as_option(seconds: u64) -> String {
    match (seconds / 86_400, seconds % 86_400) {
        (days, 0) if days > 0 => format!("{days}d"),
        _ => format!("{seconds}s"),
    }
}

fn old_backup(order: GcOptions) -> String {
    let age = days(order.backups_older_than_seconds);
    match order.discard {
        true => format!("it is older than {age}"),
        false => format!(
            "it is older than {age}; `skein gc --discard --backups-older-than {}` drops it, and the work in it, for good",
            as_option(order.backups_older_than_seconds)
        ),
    }
}

impl FleetRequests {
    pub async fn gc(&self, order: GcOptions) -> Result<Answer, Error> {
        let op = "clean up";
        if let Err(refused) = self.ledger.caller().role.require(Role::Admin, op) {
            return Err(self.ledger.refused(op, refused.into()).await);
        }
        if let Some(earlier) = self.ledger.earlier().await? {
            return Ok(earlier);
        }
        let clean_up = CleanUp {
            requests: self,
            ledger: &self.ledger,
            fleet: &self.fleet,
            order,
        };
        let items = clean_up.run().await?;
        self.fleet.signals.wake_dispatcher();
        let data: Vec<Value> = items.iter().map(Item::render).collect();
        let body = json!({"data": data, "next": null, "dry_run": order.dry_run});
        let render =
            move |_: &mut skein_store::Writer<'_>| Ok(RequestOutcome::Rendered(body.clone()));
        Ok(self.ledger.change(op, Role::Admin, render).await?)
    }
}

/// One clean-up under way.
struct CleanUp<'a> {
    requests: &'a FleetRequests,
    ledger: &'a LedgerRequests,
    fleet: &'a Arc<Fleet>,
    order: GcOptions,
}

impl CleanUp<'_> {
    async fn run(&self) -> Result<Vec<Item>, Error> {
        let records = self.records().await?;
        let known = backups(&records);
        let mut items = self.gc_sessions(&records).await?;
        // That took its time: what was begun or restored meanwhile is known to the ledger of now.
        let records = self.records().await?;
        self.ledger.reach("gc.backups.begin");
        items.extend(self.gc_backups(&records, &known).await?);
        self.ledger.reach("gc.backups.done");
        items.extend(self.gc_folders().await?);
        items.extend(self.gc_runs().await?);
        let going: Vec<String> = match self.order.dry_run {
            true => going(&items),
            false => vec![],
        };
        items.extend(self.gc_belongings(&going).await?);
        Ok(items)
    }

    async fn records(&self) -> Result<Records, Error> {
        let records = self.ledger.read(|r| {
            Ok(Records {
                sessions: r.all(&RowFilter::default())?,
                projects: r.all(&RowFilter::default())?,
            })
        });
        Ok(records.await?)
    }

    /// Ended sessions give their folders up; work in them is kept under a ref first.
    async fn gc_sessions(&self, records: &Records) -> Result<Vec<Item>, Error> {
        let before = self
            .ledger
            .now()
            .minus_seconds(self.order.ended_for_seconds);
        let mut items = vec![];
        for session in &records.sessions {
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
            let stays =
                gear.workspace.repo.is_none() && self.requests.dirty(session).await == Some(true);
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
            if !self.order.dry_run && !stays {
                self.begin_gc(session).await?;
            }
        }
        if !self.order.dry_run && !items.is_empty() {
            self.fleet.signals.wake_dispatcher();
            self.until_gone(&items).await;
            self.correct(&mut items).await?;
        }
        Ok(items)
    }

    /// Corrects the items of what could not be removed.
    async fn correct(&self, items: &mut [Item]) -> Result<(), Error> {
        for item in items.iter_mut().filter(|i| i.action == "remove") {
            let id = item.id.clone();
            let session: Session = self.ledger.read(move |r| r.get(&id)).await?;
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
        let saga = SagaId::from_random(self.ledger.ids().bits());
        let id = session.id.clone();
        self.ledger
            .store()
            .write(
                &self.ledger.caller().actor,
                self.ledger.now(),
                move |writer| {
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
                    let saga = new_saga(writer, saga.clone(), &after, SagaRequest::Gc);
                    begin_saga(writer, &saga, &after)
                },
            )
            .await?;
        Ok(())
    }

    /// Waits until the clean-ups are over, but not for long: callers want an answer, and can wait for the
    /// sessions themselves. Whatever rests is taken up later.
    async fn until_gone(&self, items: &[Item]) {
        let ids: Vec<String> = items.iter().map(|i| i.id.clone()).collect();
        let wait = async {
            let mut feed = self.ledger.store().subscribe();
            loop {
                let wanted = ids.clone();
                let look = self
                    .ledger
                    .read(move |r| {
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
        records: &Records,
        known: &[(SessionId, Backup)],
    ) -> Result<Vec<Item>, Error> {
        let before = self
            .ledger
            .now()
            .minus_seconds(self.order.backups_older_than_seconds);
        // What this very clean-up has kept is not up for dropping.
        let mut ours = backups(records);
        ours.retain(|backup| known.contains(backup));
        let mut items = vec![];
        let order = self.order;
        for repo in repositories(records) {
            let ours = ours.clone();
            let found = run_blocking(move || {
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
    async fn gc_folders(&self) -> Result<Vec<Item>, Error> {
        let tenant = self.ledger.tenant().to_string();
        let mut found = vec![];
        for root in self.ledger.managed_roots().to_vec() {
            let listed = run_blocking(move || outside::managed(&root)).await?;
            found.extend(listed.into_iter().filter(|f| f.tenant == tenant));
        }
        self.ledger.reach("gc.folders.listed");
        let mut items = vec![];
        for folder in found {
            // The task that works on the session decides about its folder.
            let Some(claim) = self.claim(&folder.session) else {
                continue;
            };
            if self.find(&folder.session).await?.is_some_and(|s| {
                let here = |w: &Workspace| w.state != WorkspaceState::Gone;
                s.check_free().is_err() || s.gear.as_ref().is_some_and(|g| here(&g.workspace))
            }) {
                continue;
            }
            self.ledger.reach("gc.folder.begin");
            let left = self.clear(&folder, self.order.dry_run).await?;
            self.ledger.reach("gc.folder.done");
            drop(claim);
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

    /// Claims a session that may not be in the ledger. As long as this is held no saga begins on it,
    /// so what the ledger says from now on holds until we are done.
    fn claim(&self, session: &SessionId) -> Option<Claim> {
        self.ledger.claims().claim(&SessionKey {
            tenant: self.ledger.tenant().clone(),
            session: session.clone(),
        })
    }

    async fn find(&self, session: &SessionId) -> Result<Option<Session>, Error> {
        let id = session.to_string();
        Ok(self.ledger.read(move |r| r.find(&id)).await?)
    }

    /// Removes a folder that holds no work; says why not otherwise.
    async fn clear(
        &self,
        folder: &outside::Folder,
        dry_run: bool,
    ) -> Result<Option<String>, Error> {
        let workspace = outside::guess(folder);
        let provider = self.fleet.provider(workspace.kind)?;
        run_blocking(move || match provider.inspect(&workspace) {
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
    async fn gc_runs(&self) -> Result<Vec<Item>, Error> {
        let runtime = &self.fleet.runtime;
        let found = runtime.list().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "runs could not be listed");
            vec![]
        });
        self.ledger.reach("gc.runs.listed");
        let mut items = vec![];
        for run in found {
            if run.tenant != self.ledger.tenant().as_str() {
                continue;
            }
            let Some(claim) = self.claim(&run.session) else {
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
            if !self.order.dry_run {
                self.ledger.reach("gc.run.begin");
                // One that is over cannot be ended; it can be forgotten.
                let _ = runtime.end(&run.handle, Grace::default()).await;
                self.ledger.reach("gc.run.ended");
                if let Err(error) = runtime.forget(&run.handle).await {
                    action = "keep";
                    reason = format!("{reason}; it could not be removed: {error}");
                }
                self.ledger.reach("gc.run.done");
            }
            drop(claim);
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
fn repositories(records: &Records) -> Vec<AbsPath> {
    let of_sessions = records
        .sessions
        .iter()
        .filter_map(|s| s.gear.as_ref()?.workspace.repo.clone());
    let of_projects = records
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
