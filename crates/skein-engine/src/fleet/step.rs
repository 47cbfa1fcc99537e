//! What each step does. Every one can be repeated after being cut short anywhere.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use skein_agent::agent::{Agent, Order, Picture, Reading, Start};
use skein_domain::fact::Change;
use skein_domain::observed::{Activity, RuntimeState, Seen};
use skein_domain::saga::Step;
use skein_domain::{
    Actor, Backup, Gear, Kind, LaunchSettings, Message, Outcome, Phase, Project, PromptVia, Reason,
    RunHandle, Saga, SagaId, SagaKind, Session, SessionId, Spent, Timestamp, Workspace,
    WorkspaceState,
};
use skein_runtime::runtime::{Grace, Input, Launch, Runtime, Size};
use skein_runtime::{MARK, end_marked};
use skein_workspace::provider::{Provider, Removal};

use super::equip::agent_named;
use super::journal::{Carrier, failed, gone, reason};
use super::settings::ProjectSettings;
use super::setup_log::{self, SetupLog};
use super::{Fleet, Member};
use crate::credential::RunClaims;
use crate::error::Error;
use crate::tasks::blocking;

/// How long an agent is given to leave the turn it was interrupted in.
const INTERRUPT: Duration = Duration::from_millis(500);
/// How long a keeper may take to let go of its run before the run is ended under it.
pub(super) const RELEASE: Duration = Duration::from_secs(2);

pub(crate) type Patch = Box<dyn Fn(&mut Gear) + Send + Sync>;

/// What a step did, to be recorded.
pub(crate) struct Done {
    pub(crate) patch: Patch,
    pub(crate) changes: Vec<Change>,
    pub(crate) finish: Finish,
    /// Of a launch: how the task gets in now.
    pub(crate) prompt: Option<PromptVia>,
}

/// What the last step does to the session itself.
#[derive(Clone, Debug)]
pub(crate) enum Finish {
    Nothing,
    Phase(skein_domain::Step),
    End(Outcome, Option<Reason>),
}

pub(crate) enum StepError {
    /// The step did not work; the saga turns round or goes on without it.
    Failed { kind: Kind, text: Reason },
    /// The store did not work; the saga rests where it is.
    Store(Error),
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(_) | Error::Stopped => Self::Store(error),
            other => {
                let mut text = other.to_string();
                for hint in other.hints() {
                    text.push_str("; ");
                    text.push_str(&hint);
                }
                failed(other.kind(), text)
            }
        }
    }
}

impl From<skein_workspace::error::Error> for StepError {
    fn from(error: skein_workspace::error::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<skein_runtime::error::Error> for StepError {
    fn from(error: skein_runtime::error::Error) -> Self {
        Error::from(error).into()
    }
}

fn nothing() -> Done {
    Done {
        patch: Box::new(|_| {}),
        changes: vec![],
        finish: Finish::Nothing,
        prompt: None,
    }
}

/// How the agent of a session is to be started now.
pub(crate) struct Opening {
    pub(crate) start: Start,
    /// Why it does not continue its conversation, when it should.
    pub(crate) fresh: Option<Reason>,
    /// How the task gets in; none when the conversation goes on by itself.
    pub(crate) prompt: Option<PromptVia>,
}

impl Carrier {
    pub(crate) async fn perform(
        &self,
        saga: &Saga,
        step: Step,
        session: &Session,
    ) -> Result<Done, StepError> {
        let gear = gear_of(session)?;
        match step {
            Step::Workspace => {
                // Whoever follows the next step must not read of an earlier one.
                setup_log::forget(&self.fleet.setup_log_of(&self.member));
                self.make_workspace(session, gear).await
            }
            Step::Setup => self.set_up(session, gear).await,
            Step::Launch => self.launch(saga, session, gear).await,
            Step::Prompt => self.prompt(saga, session).await,
            Step::Stop => self.stop(session, gear).await,
            Step::Backup => self.back_up(saga, session, gear).await,
            Step::Remove => self.remove(saga, session, gear).await,
            Step::End => Ok(self.end(saga)),
        }
    }

    async fn make_workspace(&self, session: &Session, gear: &Gear) -> Result<Done, StepError> {
        let provider = self.fleet.provider(gear.workspace.kind)?;
        let (id, workspace) = (session.id.clone(), gear.workspace.clone());
        let made = off(move || provider.make(&id, &workspace)).await??;
        // Furnishing is still to be done when it was made now, or was never finished.
        let unfurnished = made.anew || gear.workspace.state != WorkspaceState::Ready;
        let state = if unfurnished {
            WorkspaceState::Unfurnished
        } else {
            WorkspaceState::Ready
        };
        let workspace = made.workspace.in_state(state);
        let change = Change::WorkspaceReady {
            kind: workspace.kind,
            path: workspace.path.to_string(),
            branch: workspace.branch.as_ref().map(ToString::to_string),
        };
        let note = made.note.as_deref().map(reason);
        Ok(Done {
            patch: Box::new(move |gear| {
                gear.workspace = workspace.clone();
                gear.note = note.clone();
            }),
            changes: vec![change],
            ..nothing()
        })
    }

    async fn set_up(&self, session: &Session, gear: &Gear) -> Result<Done, StepError> {
        if gear.workspace.state != WorkspaceState::Ready {
            let settings = self.settings(session).await?;
            let provider = self.fleet.provider(gear.workspace.kind)?;
            let workspace = gear.workspace.clone();
            let mut furnishing = settings.furnishing;
            let path = gear.launch.path.clone();
            furnishing
                .env
                .entry("PATH".into())
                .or_insert_with(|| path.unwrap_or_else(|| self.fleet.usual_path()));
            for (name, value) in &self.fleet.environment {
                furnishing
                    .env
                    .entry(name.clone())
                    .or_insert_with(|| value.clone());
            }
            let mark = self.fleet.setup_mark(&self.member);
            furnishing.env.insert(MARK.into(), mark.clone());
            let (fleet, member) = (self.fleet.clone(), self.member.clone());
            // A daemon that was killed has left them running, and they do not bear company.
            if !furnishing.setup.is_empty() {
                end_setup(mark).await?;
            }
            off(move || {
                let mut log = SetupLog::begin(fleet.setup_log_of(&member));
                provider.furnish(&workspace, &furnishing, &mut |line| {
                    log.add(line);
                    fleet.board.tell(&member, line);
                })
            })
            .await??;
        }
        Ok(Done {
            patch: Box::new(|gear| {
                gear.workspace = gear.workspace.in_state(WorkspaceState::Ready);
            }),
            ..nothing()
        })
    }

    pub(crate) async fn project(&self, session: &Session) -> Result<Project, Error> {
        let id = session.project.clone();
        self.desk.look(move |r| r.get(id.as_str())).await
    }

    async fn settings(&self, session: &Session) -> Result<ProjectSettings, Error> {
        let project = self.project(session).await?;
        let fleet = self.fleet.clone();
        off(move || fleet.settings_of(&project)).await?
    }

    /// The same answer each time it is asked, so that a repeated step does the same.
    async fn opening(&self, saga: &Saga, session: &Session) -> Result<Opening, StepError> {
        let gear = gear_of(session)?.clone();
        let settings = self.settings(session).await?;
        let agent = agent_named(&settings, &session.agent, gear.launch.via)?;
        let order = self
            .fleet
            .order(&self.member, session, &gear, &settings, &*agent);
        open(&*agent, &order, saga.kind).map_err(|e| failed(e.kind(), e))
    }

    async fn launch(&self, saga: &Saga, session: &Session, gear: &Gear) -> Result<Done, StepError> {
        let opening = self.opening(saga, session).await?;
        if saga.kind == SagaKind::Restore {
            self.end_earlier_runs(session, gear).await?;
            // Before there is a process that could say something.
            self.desk.fence(session).await;
        }
        let settings = self.settings(session).await?;
        let agent = agent_named(&settings, &session.agent, gear.launch.via)?;
        let fleet = self.fleet.clone();
        let mut env = fleet.environment(&gear.launch, &settings, &*agent, &opening.start.env);
        env.extend(fleet.own_variables(&self.member, session));
        let private = fleet.private_of(&self.member);
        let log = fleet.log_of(&self.member, session.run);
        let start = opening.start.clone();
        let folder = private.clone();
        let log_at = log.clone();
        off(move || -> std::io::Result<()> {
            make_private(&folder)?;
            if let Some(parent) = log_at.parent() {
                make_private(parent)?;
            }
            write_files(&folder, &start)
        })
        .await?
        .map_err(|e| failed(Kind::Failed, format!("cannot write the agent's files: {e}")))?;
        let runtime = fleet.runtime(gear.runtime)?;
        let launch = Launch {
            tenant: self.member.tenant.to_string(),
            session: session.id.clone(),
            run: session.run,
            argv: opening.start.argv.clone(),
            env,
            cwd: PathBuf::from(gear.workspace.path.as_str()),
            stdin: opening.start.stdin.as_ref().map(|s| private.join(s)),
            size: Size::default(),
            log,
        };
        runtime.launch(launch).await?;
        let seen = Seen {
            what: RuntimeState::Alive { pid: None },
            at: self.desk.now(),
        };
        let has_signal = agent.abilities().has_signal();
        self.fleet.board.change(&self.member, |o| {
            o.runtime = Some(seen);
            o.has_signal = has_signal;
        });
        let native = opening.start.native.clone();
        let fresh = opening.fresh.clone();
        let mut changes = vec![Change::Launched {
            run: session.run,
            runtime: gear.runtime,
            fresh: fresh.clone(),
        }];
        if let Some(native) = native.clone().filter(|n| gear.native.as_ref() != Some(n)) {
            changes.push(Change::Named { native });
        }
        Ok(Done {
            patch: Box::new(move |gear| {
                gear.native = native.clone().or_else(|| gear.native.clone());
                if fresh.is_some() {
                    gear.note = fresh.clone();
                    // What it does from now on belongs to a conversation of its own.
                    gear.read.clear();
                    gear.spent = gear.spent.map(Spent::in_new_conversation);
                }
            }),
            changes,
            prompt: opening.prompt,
            ..nothing()
        })
    }

    /// Two agents must not work in one workspace: whatever an earlier run left is ended before a new one begins,
    /// and when that does not work, none begins.
    async fn end_earlier_runs(&self, session: &Session, gear: &Gear) -> Result<(), StepError> {
        for runtime in self.fleet.runtimes.values() {
            let runs = runtime.of_session(self.member.tenant.as_str(), &session.id);
            for handle in runs.await? {
                if gear.handle.as_ref() == Some(&handle) {
                    continue;
                }
                match runtime.end(&handle, Grace::default()).await {
                    Ok(_) | Err(skein_runtime::error::Error::Missing) => {}
                    Err(error) => {
                        let text = format!(
                            "processes of the earlier run `{handle}` may still be at work: {error}"
                        );
                        return Err(failed(Kind::Unavailable, text));
                    }
                }
                runtime.forget(&handle).await?;
            }
        }
        Ok(())
    }

    /// Sees the task on its way. A task that is typed is accepted for delivery here, and the session is
    /// `spawning` until the agent took it, shows a dialog, or lets us wait too long: then it is idle, with a
    /// message that waits.
    async fn prompt(&self, saga: &Saga, session: &Session) -> Result<Done, StepError> {
        let finish = match saga.prompt {
            None => skein_domain::Step::Ready,
            Some(PromptVia::Argv | PromptVia::Stdin) => {
                // Until somebody has looked at it.
                self.fleet.board.change(&self.member, |o| o.starting = true);
                skein_domain::Step::Launched
            }
            Some(PromptVia::Typed) => {
                let receipt = saga
                    .order
                    .receipt
                    .clone()
                    .ok_or_else(|| failed(Kind::Failed, "the task has no receipt"))?;
                let message = Message::from(&session.task);
                let receipt = self.desk.accept_task(session, receipt, message).await?;
                self.fleet.keep(&self.desk, session);
                self.fleet.wake_keeper(&self.member);
                let taken = self
                    .fleet
                    .task_taken(&self.desk, saga, &self.member, &receipt)
                    .await?;
                begun(taken)
            }
        };
        Ok(Done {
            finish: Finish::Phase(finish),
            ..nothing()
        })
    }

    /// A turn is interrupted first, by the agent's own keys, so that it can leave its files in order; then
    /// its whole tree is told to end, and killed if it does not.
    async fn stop(&self, session: &Session, gear: &Gear) -> Result<Done, StepError> {
        // A keeper that waits for a holder which does not answer is freed by the end of the run.
        let mut released = std::pin::pin!(self.fleet.release(&self.member));
        let is_released = tokio::time::timeout(RELEASE, &mut released).await.is_ok();
        if let Some(handle) = &gear.handle {
            let runtime = self.fleet.runtime(gear.runtime)?;
            if session.phase == Phase::Active && is_released {
                let interrupted = self.interrupt(session, gear, &*runtime, handle);
                let _ = tokio::time::timeout(INTERRUPT, interrupted).await;
            }
            match runtime.end(handle, Grace::default()).await {
                Ok(_) | Err(skein_runtime::error::Error::Missing) => {}
                Err(error) => return Err(error.into()),
            }
            if !is_released {
                released.await;
            }
            // Of the turn that was cut short it may have told on its way out.
            self.fleet.count_last(&self.desk, session).await?;
            runtime.forget(handle).await?;
        }
        self.fleet.board.forget_run(&self.member);
        Ok(Done {
            patch: Box::new(|gear| gear.handle = None),
            ..nothing()
        })
    }

    /// Presses the agent's own key and waits until it is over or at rest. That it cannot be told changes
    /// nothing: it is told to end next. The number is the same when it is done again, so that the key is
    /// pressed once.
    async fn interrupt(
        &self,
        session: &Session,
        gear: &Gear,
        runtime: &dyn Runtime,
        handle: &RunHandle,
    ) -> Option<()> {
        let project = self.project(session).await.ok()?;
        let agent = self.fleet.agent(session, &project).ok()?;
        let run = runtime.connect(handle).await.ok()?;
        let mut sights = run.sight();
        let keys = Input::Keys(agent.interrupt());
        run.write(gear.input + 1, keys).await.ok()?;
        while sights.borrow_and_update().exit.is_none() {
            let screen = run.screen().await.ok()?;
            let readings = agent.read_screen(Picture {
                rows: &screen.rows,
                cursor: screen.cursor,
                title: None,
            });
            let rests = |r: &Reading| {
                let ready = Activity::Ready;
                matches!(r, Reading::Activity { activity, .. } if *activity == ready)
            };
            if readings.iter().any(rests) {
                break;
            }
            sights.changed().await.ok()?;
        }
        Some(())
    }

    /// Work that is to be dropped is kept all the same if commits would go with it: they are never dropped.
    async fn back_up(
        &self,
        saga: &Saga,
        session: &Session,
        gear: &Gear,
    ) -> Result<Done, StepError> {
        if gear.workspace.state == WorkspaceState::Gone {
            return Ok(nothing());
        }
        let provider = self.fleet.provider(gear.workspace.kind)?;
        let (id, workspace) = (session.id.clone(), gear.workspace.clone());
        let (by, now) = (saga.id.clone(), self.desk.now());
        let discard = saga.order.discard && workspace.is_managed();
        let backup = off(move || {
            let there = std::path::Path::new(workspace.path.as_str()).exists();
            if discard && there && provider.look(&workspace)?.loose_commits == 0 {
                return Ok(None);
            }
            provider.backup(&id, &workspace, &by, now)
        })
        .await??;
        let changes = backup.iter().map(|b| Change::BackedUp {
            name: b.name(&session.id),
            commit: b.commit.to_string(),
        });
        Ok(Done {
            changes: changes.collect(),
            patch: Box::new(move |gear| {
                gear.workspace = gear.workspace.with_backup(backup.clone());
            }),
            ..nothing()
        })
    }

    /// A kill leaves what is not clean where it is; a clean-up takes it too, since it is backed up.
    async fn remove(&self, saga: &Saga, session: &Session, gear: &Gear) -> Result<Done, StepError> {
        let workspace = gear.workspace.clone();
        if !workspace.is_managed() || workspace.state == WorkspaceState::Gone {
            return Ok(nothing());
        }
        let provider = self.fleet.provider(workspace.kind)?;
        let (discard, kind) = (saga.order.discard, saga.kind);
        let (id, by, now) = (session.id.clone(), saga.id.clone(), self.desk.now());
        let left = off(move || -> Result<Left, skein_workspace::error::Error> {
            let contents = match provider.look(&workspace) {
                // It went before that was recorded, with the backup this saga made, or somebody took it; what
                // is left of it goes too.
                Err(skein_workspace::error::Error::Missing { .. }) => {
                    let made = provider.backup(&id, &workspace, &by, now)?;
                    provider.remove(&workspace, Removal::KeepWork)?;
                    return Ok(Left::Gone(made.into_iter().collect()));
                }
                looked => looked?,
            };
            match (contents.dirty, kind, discard) {
                (true, _, true) => {
                    provider.remove(&workspace, Removal::Discard)?;
                    Ok(Left::Dropped)
                }
                (false, ..) | (true, SagaKind::Gc, false) => {
                    take_away(&*provider, &id, workspace, &by, now)
                }
                (true, _, false) => Ok(Left::Here(vec![])),
            }
        })
        .await??;
        let path = gear.workspace.path.to_string();
        // What a discard drops is kept only if it had to be, together with commits.
        let kept = gear.workspace.backups.last().filter(|b| b.at >= saga.at);
        let note = match (&left, kept) {
            (Left::Here(_), _) => Some(format!("uncommitted work is in {path}")),
            (Left::Dropped, None) => Some("uncommitted work was dropped, as asked".to_owned()),
            (Left::Dropped, Some(kept)) => Some(format!(
                "uncommitted work is kept in {}, with commits that are on no branch",
                kept.name(&session.id)
            )),
            (Left::Gone(_), _) => None,
        };
        let backups = left.backups().to_vec();
        let newer = backups
            .iter()
            .filter(|b| !gear.workspace.backups.contains(b));
        let mut changes: Vec<Change> = newer
            .map(|b| Change::BackedUp {
                name: b.name(&session.id),
                commit: b.commit.to_string(),
            })
            .collect();
        let stays = matches!(left, Left::Here(_));
        if !stays {
            changes.push(Change::WorkspaceRemoved { path });
        }
        Ok(Done {
            patch: Box::new(move |gear| {
                if let Some(note) = &note {
                    gear.note = Some(reason(note));
                }
                for backup in &backups {
                    gear.workspace = gear.workspace.with_backup(Some(backup.clone()));
                }
                if !stays {
                    gone(gear);
                }
            }),
            changes,
            ..nothing()
        })
    }

    fn end(&self, saga: &Saga) -> Done {
        let finish = match saga.kind {
            SagaKind::Kill => Finish::End(Outcome::Killed, saga.order.reason.clone()),
            SagaKind::Gc | SagaKind::Spawn | SagaKind::Restore => Finish::Nothing,
        };
        Done {
            finish,
            ..nothing()
        }
    }
}

/// What became of a workspace that was to go, with the backups that hold what was in it.
pub(crate) enum Left {
    Gone(Vec<Backup>),
    Dropped,
    Here(Vec<Backup>),
}

impl Left {
    pub(crate) fn backups(&self) -> &[Backup] {
        match self {
            Self::Gone(backups) | Self::Here(backups) => backups,
            Self::Dropped => &[],
        }
    }
}

/// How often a folder is backed up again because something was written into it meanwhile.
const BACKUPS: usize = 3;

/// Removes a workspace once everything in it is in a backup. What was written since the last one goes into
/// another; what cannot be kept, or never comes to rest, stays where it is.
pub(crate) fn take_away(
    provider: &dyn Provider,
    session: &SessionId,
    mut workspace: Workspace,
    saga: &SagaId,
    now: Timestamp,
) -> Result<Left, skein_workspace::error::Error> {
    for _ in 0..BACKUPS {
        match provider.remove(&workspace, Removal::BackedUp) {
            Err(skein_workspace::error::Error::HoldsWork { .. }) => {}
            removed => return removed.map(|()| Left::Gone(workspace.backups)),
        }
        let Some(backup) = provider.backup(session, &workspace, saga, now)? else {
            break;
        };
        workspace = workspace.with_backup(Some(backup));
    }
    Ok(Left::Here(workspace.backups))
}

pub(crate) fn gear_of(session: &Session) -> Result<&Gear, StepError> {
    session
        .gear
        .as_deref()
        .ok_or_else(|| failed(Kind::Failed, "the session has no agent"))
}

/// Blocking work off the async threads.
pub(crate) async fn off<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    blocking(work).await.map_err(|_| Error::Stopped)
}

/// Ends the set-up commands that carry the mark.
pub(crate) async fn end_setup(mark: String) -> Result<(), StepError> {
    match off(move || end_marked(&mark)).await? {
        true => Ok(()),
        false => Err(failed(
            Kind::Failed,
            "a set-up command of before cannot be ended",
        )),
    }
}

/// What becomes of a session whose agent was started: a turn begins with a task that was taken, not before.
const fn begun(taken: bool) -> skein_domain::Step {
    if taken {
        skein_domain::Step::Launched
    } else {
        skein_domain::Step::Ready
    }
}

fn open(
    agent: &dyn Agent,
    order: &Order,
    kind: SagaKind,
) -> Result<Opening, skein_agent::error::Error> {
    if kind == SagaKind::Restore {
        let why = if agent.abilities().resume {
            match agent.resume(order) {
                Ok(start) => {
                    return Ok(Opening {
                        start,
                        fresh: None,
                        prompt: None,
                    });
                }
                Err(error) => error.to_string(),
            }
        } else {
            format!("{} cannot continue a conversation", agent.name())
        };
        let start = agent.start(order)?;
        return Ok(Opening {
            prompt: start.prompt,
            start,
            fresh: Some(reason(&format!("started fresh with its task: {why}"))),
        });
    }
    let start = agent.start(order)?;
    Ok(Opening {
        prompt: start.prompt,
        start,
        fresh: None,
    })
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

fn write_files(folder: &Path, start: &Start) -> std::io::Result<()> {
    for (name, content) in &start.files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            make_private(parent)?;
        }
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(content)?;
    }
    Ok(())
}

impl Fleet {
    pub(crate) fn order(
        &self,
        member: &Member,
        session: &Session,
        gear: &Gear,
        settings: &ProjectSettings,
        agent: &dyn Agent,
    ) -> Order {
        Order {
            session: session.id.clone(),
            run: session.run,
            task: Message::from(&session.task),
            settings: gear.launch.clone(),
            workspace: PathBuf::from(gear.workspace.path.as_str()),
            private: self.private_of(member),
            skein: self.skein.clone(),
            path: gear
                .launch
                .path
                .clone()
                .unwrap_or_else(|| self.usual_path()),
            env: self.environment(&gear.launch, settings, agent, &BTreeMap::new()),
            native: gear.native.clone(),
        }
    }

    /// What the set-up commands of a session are found by; no other home's carry it.
    pub(crate) fn setup_mark(&self, member: &Member) -> String {
        let home = self.home.display();
        format!("setup/{}/{}/{home}", member.tenant, member.session)
    }

    /// What an agent finds in its environment before anybody sets something: little of the daemon's.
    pub(crate) fn known_environment(&self, agent: &dyn Agent) -> BTreeMap<String, String> {
        let mut env = self.environment.clone();
        env.retain(|name, _| !name.starts_with("SKEIN_"));
        for name in &agent.abilities().inherits {
            if let Some(value) = self.passed(name) {
                env.insert(name.clone(), value);
            }
        }
        env
    }

    /// And with what the project passes on, what the agent itself needs, and what people set.
    pub(crate) fn environment(
        &self,
        launch: &LaunchSettings,
        settings: &ProjectSettings,
        agent: &dyn Agent,
        start: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut env = self.known_environment(agent);
        for name in &settings.pass {
            if let Some(value) = self.passed(name) {
                env.insert(name.clone(), value);
            }
        }
        if let Some(path) = &launch.path {
            env.insert("PATH".into(), path.clone());
        }
        env.extend(start.clone());
        for variable in settings.env.iter().chain(&launch.env) {
            env.insert(variable.name().to_owned(), variable.value().to_owned());
        }
        env
    }

    /// Skein's own variables, which nobody overrides.
    fn own_variables(&self, member: &Member, session: &Session) -> BTreeMap<String, String> {
        let own = [
            ("SKEIN_HOME", self.home.display().to_string()),
            ("SKEIN_TENANT", member.tenant.to_string()),
            ("SKEIN_SESSION", session.id.to_string()),
            ("SKEIN_RUN", session.run.to_string()),
            ("SKEIN_BIN", self.skein.display().to_string()),
            ("SKEIN_CREDENTIAL", self.credential(member, session)),
        ];
        own.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// What the agent proves itself with. It acts as the session's owner only if that is an agent: what a
    /// program does is never recorded as done by a person.
    fn credential(&self, member: &Member, session: &Session) -> String {
        let actor = match &session.owner {
            owner @ Actor::Agent(_) => owner.clone(),
            Actor::User(_) | Actor::System => {
                let name = format!("agent:{}", session.agent);
                name.parse().unwrap_or(Actor::System)
            }
        };
        self.credentials.issue(&RunClaims {
            tenant: member.tenant.clone(),
            session: session.id.clone(),
            run: session.run,
            actor,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "people named the variables that agents get from here"
    )]
    fn passed(&self, name: &str) -> Option<String> {
        if name.starts_with("SKEIN_") {
            return None;
        }
        std::env::var(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l2_a_session_whose_task_was_not_taken_in_time_waits_and_is_not_at_work() {
        let id: SessionId = "api-1".parse().unwrap();
        let after = |taken| Phase::Spawning.on(&id, begun(taken)).unwrap();
        assert_eq!(after(true), Phase::Active);
        assert_eq!(after(false), Phase::Idle);
    }
}
