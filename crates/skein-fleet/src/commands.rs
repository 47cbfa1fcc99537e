//! What sagas of sessions with agents do outside the ledger, command by command. Every one can be repeated after
//! being cut short anywhere.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use skein_agent::agent::{Agent, LaunchRequest, Reading, Start};
use skein_domain::observed::{Activity, Observation, RuntimeState, SagaObservation};
use skein_domain::saga::{CommandResult, RemovedWorkspace, SagaCommand, UndoCommand, UndoResult};
use skein_domain::{
    Gear, Kind, Message, Phase, Project, PromptVia, Reason, ReceiptId, RunHandle, Saga, SagaId,
    SagaState, Session, SessionId, Timestamp, Via, Workspace, WorkspaceState,
};
use skein_runtime::runtime::{Grace, Launch, Runtime, Size, TerminalInput};
use skein_runtime::window::OpenMode;
use skein_runtime::{MARK, end_marked};
use skein_workspace::provider::{Removal, WorkspaceProvider};

use super::calls::TurnsPort;
use super::programs::agent_named;
use super::settings::ProjectSettings;
use super::setup_log::{self, SetupLog};
use super::supervisor::picture;
use super::{Fleet, SessionKey};
use crate::error::{CommandError, Error, failed};
use skein_ledger::LedgerRequests;
use skein_ledger::saga::{self, Performer, SagaProgress};
use skein_ledger::tasks::blocking;

/// How long an agent is given to leave the turn it was interrupted in.
const INTERRUPT: Duration = Duration::from_millis(500);
/// How long a supervisor may take to stop before its run is ended under it.
const RELEASE: Duration = Duration::from_secs(2);

/// Performs the commands of one saga.
#[derive(Clone, Debug)]
pub(crate) struct AgentCommands {
    pub(crate) requests: LedgerRequests,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) session_key: SessionKey,
}

/// What becomes of a turn when its run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunningTurn {
    /// The agent interrupts it first, so that it can leave its files in order.
    Interrupt,
    Cut,
}

/// How the agent of a session is to be started now.
pub(crate) struct AgentStart {
    pub(crate) start: Start,
    /// Why it does not continue its conversation, when it should.
    pub(crate) fresh: Option<Reason>,
    /// How the task gets in; none when the conversation goes on by itself.
    pub(crate) prompt: Option<PromptVia>,
}

impl Performer for AgentCommands {
    async fn perform(
        &self,
        saga: &Saga,
        session: &Session,
        command: SagaCommand,
    ) -> Result<CommandResult, saga::CommandError> {
        Ok(self.perform_command(saga, session, command).await?)
    }

    /// What the session's next run is called.
    fn next_handle(&self, session: &Session) -> Option<RunHandle> {
        session.gear.as_ref()?;
        let tenant = self.session_key.tenant.as_str();
        let run = session.run + 1;
        Some(self.fleet.runtime.handle(tenant, &session.id, run))
    }

    /// Shows where the saga is, and why it waits.
    fn show(&self, saga: &Saga, waits: Option<String>) {
        let undone = match &saga.state {
            SagaState::Undoing { why, .. } => Some(format!("undone, because {}", why.text)),
            SagaState::Leftover { .. } if waits.is_none() => return,
            _ => None,
        };
        let seen = SagaObservation {
            kind: saga.kind(),
            step: saga.step(),
            place: None,
            why: waits.or(undone),
        };
        self.fleet.board.saga(&self.session_key, Some(seen));
    }

    /// What follows the end of a saga outside the ledger.
    async fn ended(&self, saga: &Saga, applied: &SagaProgress) {
        let is_retried =
            matches!(applied, SagaProgress::Retry(next, _) if next.version == saga.version);
        if is_retried {
            return;
        }
        if matches!(applied, SagaProgress::Over(_))
            || !matches!(saga.state, SagaState::Leftover { .. })
        {
            self.fleet.board.saga(&self.session_key, None);
        }
        if matches!(saga.state, SagaState::Undoing { .. }) {
            self.fleet.supervisors.release(&self.session_key).await;
        }
        if let Ok(session) = self.session().await {
            if session.has_run() {
                self.fleet.places.started(&self.session_key);
                let carries = matches!(saga.prompt, Some(PromptVia::Argv | PromptVia::Stdin));
                self.fleet
                    .supervisors
                    .supervise_launched(&self.requests, &session, carries);
                self.fleet.supervisors.wake(&self.session_key);
            } else if self.fleet.places.leave(&self.session_key) {
                self.fleet.signals.wake_dispatcher();
            }
        }
        tracing::debug!(saga = %saga.id, kind = saga.kind().as_str(), "a saga is over");
    }

    fn released(&self) {
        self.fleet.signals.wake_dispatcher();
    }
}

impl AgentCommands {
    async fn perform_command(
        &self,
        saga: &Saga,
        session: &Session,
        command: SagaCommand,
    ) -> Result<CommandResult, CommandError> {
        let gear = gear_of(session)?;
        match command {
            SagaCommand::MakeWorkspace => {
                // A person who follows the next set-up must not read the log of an earlier one.
                setup_log::forget(&self.fleet.programs.folders.setup_log(&self.session_key));
                self.make_workspace(session, gear).await
            }
            SagaCommand::SetUpWorkspace => self.set_up(session, gear).await,
            SagaCommand::Launch { resume } => self.launch(session, gear, resume).await,
            SagaCommand::DeliverTask { via, receipt } => {
                self.deliver_task(saga, session, via, receipt).await
            }
            SagaCommand::StopRun => {
                self.end_run(session, gear, RunningTurn::Interrupt).await?;
                Ok(CommandResult::RunStopped)
            }
            SagaCommand::BackUp { discard } => self.back_up(saga, session, gear, discard).await,
            SagaCommand::RemoveWorkspace { discard, with_work } => {
                self.remove(saga, session, gear, discard, with_work).await
            }
            SagaCommand::Undo { undo } => {
                let undone = self.undo(saga, session, gear, undo).await?;
                Ok(CommandResult::Undone { undone })
            }
            SagaCommand::UndoLeftover { undos } => {
                let (mut undone, mut left) = (vec![], vec![]);
                for (step, undo) in undos {
                    match self.undo(saga, session, gear, undo).await {
                        Ok(result) => undone.push(result),
                        Err(CommandError::Failed(error)) => {
                            left.push((step, Reason::from_text(&error.to_string())));
                        }
                        Err(interrupted) => return Err(interrupted),
                    }
                }
                Ok(CommandResult::LeftoverUndone { undone, left })
            }
            SagaCommand::ForkTranscript { .. } | SagaCommand::Commit => {
                Ok(CommandResult::Committed)
            }
        }
    }

    /// Each undo can be repeated, and one that fails keeps none of the others from being done.
    async fn undo(
        &self,
        saga: &Saga,
        session: &Session,
        gear: &Gear,
        undo: UndoCommand,
    ) -> Result<UndoResult, CommandError> {
        match undo {
            UndoCommand::EndRun => {
                self.end_run(session, gear, RunningTurn::Cut).await?;
                Ok(UndoResult::RunEnded)
            }
            // What was furnished goes with the workspace, in which no set-up may be at work then.
            UndoCommand::EndSetup => {
                end_setup(self.fleet.programs.setup_mark(&self.session_key)).await?;
                Ok(UndoResult::Nothing)
            }
            UndoCommand::RemoveNewWorkspace => {
                let removed = self.undo_workspace(saga, session, gear).await?;
                Ok(UndoResult::NewWorkspaceRemoved(removed))
            }
            UndoCommand::Nothing | UndoCommand::RemoveForkedTranscript => Ok(UndoResult::Nothing),
        }
    }

    pub(crate) async fn session(&self) -> Result<Session, Error> {
        let id = self.session_key.session.clone();
        Ok(self.requests.read(move |r| r.get(id.as_str())).await?)
    }

    async fn make_workspace(
        &self,
        session: &Session,
        gear: &Gear,
    ) -> Result<CommandResult, CommandError> {
        let provider = self.fleet.provider(gear.workspace.kind)?;
        let (id, workspace) = (session.id.clone(), gear.workspace.clone());
        let made = run_blocking(move || provider.make(&id, &workspace)).await??;
        // Furnishing is still to be done when it was made now, or was never finished.
        let unfurnished = made.anew || gear.workspace.state != WorkspaceState::Ready;
        let state = if unfurnished {
            WorkspaceState::Unfurnished
        } else {
            WorkspaceState::Ready
        };
        let workspace = made.workspace.in_state(state);
        Ok(CommandResult::WorkspaceMade {
            workspace: Box::new(workspace),
            note: made.note.as_deref().map(Reason::from_text),
        })
    }

    async fn set_up(&self, session: &Session, gear: &Gear) -> Result<CommandResult, CommandError> {
        if gear.workspace.state != WorkspaceState::Ready {
            let settings = self.settings(session).await?;
            let provider = self.fleet.provider(gear.workspace.kind)?;
            let workspace = gear.workspace.clone();
            let mut furnishing = settings.furnishing;
            let path = gear.launch.path.clone();
            furnishing
                .env
                .entry("PATH".into())
                .or_insert_with(|| path.unwrap_or_else(|| self.fleet.programs.usual_path()));
            for (name, value) in &self.fleet.programs.variables {
                furnishing
                    .env
                    .entry(name.clone())
                    .or_insert_with(|| value.clone());
            }
            let mark = self.fleet.programs.setup_mark(&self.session_key);
            furnishing.env.insert(MARK.into(), mark.clone());
            let (fleet, session_key) = (self.fleet.clone(), self.session_key.clone());
            // A daemon that was killed may have left set-up commands running; two set-ups would disturb each other.
            if !furnishing.setup.is_empty() {
                end_setup(mark).await?;
            }
            run_blocking(move || {
                let mut log = SetupLog::begin(fleet.programs.folders.setup_log(&session_key));
                provider.furnish(&workspace, &furnishing, &mut |line| {
                    log.add(line);
                    fleet.board.show_setup_line(&session_key, line);
                })
            })
            .await??;
        }
        Ok(CommandResult::SetUp)
    }

    pub(crate) async fn project(&self, session: &Session) -> Result<Project, Error> {
        let id = session.project.clone();
        Ok(self.requests.read(move |r| r.get(id.as_str())).await?)
    }

    async fn settings(&self, session: &Session) -> Result<ProjectSettings, Error> {
        let project = self.project(session).await?;
        let fleet = self.fleet.clone();
        run_blocking(move || fleet.programs.settings_of(&project)).await?
    }

    /// The same answer each time it is asked, so that a repeated step does the same.
    async fn agent_start(
        &self,
        session: &Session,
        resume: bool,
    ) -> Result<AgentStart, CommandError> {
        let gear = gear_of(session)?.clone();
        let settings = self.settings(session).await?;
        let agent = agent_named(&settings, &session.agent, gear.launch.via)?;
        let order = self.fleet.programs.launch_request(
            &self.session_key,
            session,
            &gear,
            &settings,
            &*agent,
        );
        Ok(open(&*agent, &order, resume)?)
    }

    async fn launch(
        &self,
        session: &Session,
        gear: &Gear,
        resume: bool,
    ) -> Result<CommandResult, CommandError> {
        let agent_start = self.agent_start(session, resume).await?;
        if resume {
            self.end_earlier_runs(session, gear).await?;
            // Before there is a process that could say something.
            if let Ok(transcripts) = self.requests.transcripts() {
                transcripts.fence(session).await;
            }
        }
        let settings = self.settings(session).await?;
        let agent = agent_named(&settings, &session.agent, gear.launch.via)?;
        let fleet = self.fleet.clone();
        let mut env =
            fleet
                .programs
                .environment(&gear.launch, &settings, &*agent, &agent_start.start.env);
        env.extend(fleet.programs.own_variables(&self.session_key, session));
        let private = fleet.programs.folders.private(&self.session_key);
        let log = fleet.programs.folders.log(&self.session_key, session.run);
        let start = agent_start.start.clone();
        let folder = private.clone();
        let log_at = log.clone();
        run_blocking(move || -> std::io::Result<()> {
            make_private(&folder)?;
            if let Some(parent) = log_at.parent() {
                make_private(parent)?;
            }
            write_files(&folder, &start)
        })
        .await?
        .map_err(|e| failed(Kind::Failed, format!("cannot write the agent's files: {e}")))?;
        let launch = Launch {
            tenant: self.session_key.tenant.to_string(),
            session: session.id.clone(),
            run: session.run,
            argv: agent_start.start.argv.clone(),
            env,
            cwd: PathBuf::from(gear.workspace.path.as_str()),
            stdin: agent_start.start.stdin.as_ref().map(|s| private.join(s)),
            size: Size::default(),
            log,
        };
        fleet.runtime.launch(launch).await?;
        let mode = OpenMode::Replace;
        fleet
            .windows
            .open(&self.session_key, gear.runtime, mode)
            .await;
        let seen = Observation {
            what: RuntimeState::Alive { pid: None },
            at: self.requests.now(),
        };
        let has_signal = agent.abilities().has_signal();
        self.fleet.board.change(&self.session_key, |o| {
            o.runtime = Some(seen);
            o.has_signal = has_signal;
        });
        Ok(CommandResult::Launched {
            native: agent_start.start.native,
            fresh: agent_start.fresh,
            prompt: agent_start.prompt,
        })
    }

    /// Two agents must not work in one workspace: whatever an earlier run left is ended before a new one begins,
    /// and when that does not work, none begins.
    async fn end_earlier_runs(&self, session: &Session, gear: &Gear) -> Result<(), CommandError> {
        let runtime = &self.fleet.runtime;
        let runs = runtime.of_session(self.session_key.tenant.as_str(), &session.id);
        for handle in runs.await? {
            if gear.handle.as_ref() == Some(&handle) {
                continue;
            }
            let ended = end_if_there(&**runtime, &handle).await;
            ended.map_err(|error| {
                let text = format!(
                    "processes of the earlier run `{handle}` may still be at work: {error}"
                );
                failed(Kind::Unavailable, text)
            })?;
            runtime.forget(&handle).await?;
        }
        Ok(())
    }

    /// Sees the task on its way. A task that is typed is accepted for delivery here, and the session is
    /// `spawning` until the agent took it, shows a dialog, or takes too long: then the session is idle, with a
    /// message that waits.
    async fn deliver_task(
        &self,
        saga: &Saga,
        session: &Session,
        via: Option<PromptVia>,
        receipt: Option<ReceiptId>,
    ) -> Result<CommandResult, CommandError> {
        let taken = match via {
            None => false,
            Some(PromptVia::Argv | PromptVia::Stdin) => {
                // Until the supervisor has looked at it.
                self.fleet
                    .board
                    .change(&self.session_key, |o| o.starting = true);
                true
            }
            Some(PromptVia::Typed) => {
                let receipt =
                    receipt.ok_or_else(|| failed(Kind::Failed, "the task has no receipt"))?;
                let message = Message::from(&session.task);
                let messages = self.requests.messages();
                let receipt = messages.accept_task(session, receipt, message).await?;
                self.fleet.supervisors.supervise(&self.requests, session);
                self.fleet.supervisors.wake(&self.session_key);
                let taken = self.fleet.supervisors.task_taken(
                    &self.requests,
                    saga,
                    &self.session_key,
                    &receipt,
                );
                taken.await?
            }
        };
        Ok(CommandResult::TaskDelivered { taken })
    }

    /// Has the run's supervisor stop, then ends the whole process tree of its agent, and records what it wrote last.
    async fn end_run(
        &self,
        session: &Session,
        gear: &Gear,
        turn: RunningTurn,
    ) -> Result<(), CommandError> {
        // A supervisor that waits for a holder which does not answer is freed by the end of the run.
        let mut released = std::pin::pin!(self.fleet.supervisors.release(&self.session_key));
        let is_released = tokio::time::timeout(RELEASE, &mut released).await.is_ok();
        if let Some(handle) = &gear.handle {
            let runtime = &self.fleet.runtime;
            if turn == RunningTurn::Interrupt && session.phase == Phase::Active && is_released {
                let interrupted = self.interrupt(session, gear, &**runtime, handle);
                let _ = tokio::time::timeout(INTERRUPT, interrupted).await;
            }
            end_if_there(&**runtime, handle).await?;
            if !is_released {
                released.await;
            }
            // On its way out it may have reported more of the turn that was cut short.
            let supervisors = &self.fleet.supervisors;
            supervisors.record_last(&self.requests, session).await?;
            runtime.forget(handle).await?;
        }
        self.fleet.board.forget_run(&self.session_key);
        Ok(())
    }

    /// Removes a spawn's workspace after a backup of its contents. Files that cannot be backed up stay.
    async fn undo_workspace(
        &self,
        saga: &Saga,
        session: &Session,
        gear: &Gear,
    ) -> Result<RemovedWorkspace, CommandError> {
        let workspace = gear.workspace.clone();
        if !workspace.is_managed() || workspace.state == WorkspaceState::Gone {
            return Ok(RemovedWorkspace::Untouched);
        }
        let provider = self.fleet.provider(workspace.kind)?;
        let (id, by, now) = (session.id.clone(), saga.id.clone(), self.requests.now());
        let removed = run_blocking(move || {
            let backup = provider.backup(&id, &workspace, &by, now)?;
            take_away(&*provider, &id, workspace.with_backup(backup), &by, now)
        });
        Ok(removed.await??)
    }

    /// Interrupts the turn and waits until the agent has ended or is at rest. A failure changes nothing: the run is
    /// ended next. The number is the same when it is done again, so that the turn is interrupted once.
    async fn interrupt(
        &self,
        session: &Session,
        gear: &Gear,
        runtime: &dyn Runtime,
        handle: &RunHandle,
    ) -> Option<()> {
        let project = self.project(session).await.ok()?;
        let agent = self.fleet.programs.agent(session, &project).ok()?;
        let run = runtime.connect(handle).await.ok()?;
        let mut sights = run.sight();
        let number = gear.input + 1;
        if gear.launch.via == Via::Terminal {
            run.write(number, TerminalInput::Keys(agent.interrupt()))
                .await
                .ok()?;
        } else {
            let private = self.fleet.programs.folders.private(&self.session_key);
            let turns = TurnsPort::new(private, session.run);
            turns.interrupt(number).await.ok()?;
        }
        while sights.borrow_and_update().exit.is_none() {
            let screen = run.screen().await.ok()?;
            let readings = agent.read_screen(picture(&screen));
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
        discard: bool,
    ) -> Result<CommandResult, CommandError> {
        if gear.workspace.state == WorkspaceState::Gone {
            return Ok(CommandResult::BackedUp { backup: None });
        }
        let provider = self.fleet.provider(gear.workspace.kind)?;
        let (id, workspace) = (session.id.clone(), gear.workspace.clone());
        let (by, now) = (saga.id.clone(), self.requests.now());
        let discard = discard && workspace.is_managed();
        let backup = run_blocking(move || {
            let there = std::path::Path::new(workspace.path.as_str()).exists();
            if discard && there && provider.inspect(&workspace)?.loose_commits == 0 {
                return Ok(None);
            }
            provider.backup(&id, &workspace, &by, now)
        })
        .await??;
        Ok(CommandResult::BackedUp { backup })
    }

    /// A kill leaves what is not clean where it is; a clean-up takes it too, since it is backed up.
    async fn remove(
        &self,
        saga: &Saga,
        session: &Session,
        gear: &Gear,
        discard: bool,
        with_work: bool,
    ) -> Result<CommandResult, CommandError> {
        let workspace = gear.workspace.clone();
        if !workspace.is_managed() || workspace.state == WorkspaceState::Gone {
            let removed = RemovedWorkspace::Untouched;
            return Ok(CommandResult::WorkspaceRemoved { removed });
        }
        let provider = self.fleet.provider(workspace.kind)?;
        let (id, by, now) = (session.id.clone(), saga.id.clone(), self.requests.now());
        let removed = run_blocking(move || -> Result<_, skein_workspace::error::Error> {
            let contents = match provider.inspect(&workspace) {
                // It went before that was recorded, with the backup this saga made, or a person took it; what
                // is left of it goes too.
                Err(skein_workspace::error::Error::Missing { .. }) => {
                    let made = provider.backup(&id, &workspace, &by, now)?;
                    provider.remove(&workspace, Removal::KeepWork)?;
                    return Ok(RemovedWorkspace::Gone(made.into_iter().collect()));
                }
                looked => looked?,
            };
            match (contents.dirty, with_work, discard) {
                (true, _, true) => {
                    provider.remove(&workspace, Removal::Discard)?;
                    Ok(RemovedWorkspace::Dropped)
                }
                (false, ..) | (true, true, false) => {
                    take_away(&*provider, &id, workspace, &by, now)
                }
                (true, false, false) => Ok(RemovedWorkspace::Kept(vec![])),
            }
        })
        .await??;
        Ok(CommandResult::WorkspaceRemoved { removed })
    }
}

/// How often a folder is backed up again because something was written into it meanwhile.
const BACKUPS: usize = 3;

/// Removes a workspace once everything in it is in a backup. What was written since the last one goes into
/// another; what cannot be kept, or never comes to rest, stays where it is.
pub(crate) fn take_away(
    provider: &dyn WorkspaceProvider,
    session: &SessionId,
    mut workspace: Workspace,
    saga: &SagaId,
    now: Timestamp,
) -> Result<RemovedWorkspace, skein_workspace::error::Error> {
    for _ in 0..BACKUPS {
        match provider.remove(&workspace, Removal::BackedUp) {
            Err(skein_workspace::error::Error::HoldsWork { .. }) => {}
            removed => return removed.map(|()| RemovedWorkspace::Gone(workspace.backups)),
        }
        let Some(backup) = provider.backup(session, &workspace, saga, now)? else {
            break;
        };
        workspace = workspace.with_backup(Some(backup));
    }
    Ok(RemovedWorkspace::Kept(workspace.backups))
}

pub(crate) fn gear_of(session: &Session) -> Result<&Gear, CommandError> {
    session
        .gear
        .as_deref()
        .ok_or_else(|| failed(Kind::Failed, "the session has no agent"))
}

/// Blocking work off the async threads.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    blocking(work).await.map_err(|_| Error::STOPPED)
}

/// Ends the processes of a run, if there are any.
pub(crate) async fn end_if_there(runtime: &dyn Runtime, run: &RunHandle) -> Result<(), Error> {
    match runtime.end(run, Grace::default()).await {
        Ok(_) | Err(skein_runtime::error::Error::Missing) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Ends the set-up commands that carry the mark.
pub(crate) async fn end_setup(mark: String) -> Result<(), CommandError> {
    match run_blocking(move || end_marked(&mark)).await? {
        true => Ok(()),
        false => Err(failed(
            Kind::Failed,
            "a set-up command of before cannot be ended",
        )),
    }
}

fn open(
    agent: &dyn Agent,
    order: &LaunchRequest,
    resume: bool,
) -> Result<AgentStart, skein_agent::error::Error> {
    if resume {
        let why = if agent.abilities().resume {
            match agent.resume(order) {
                Ok(start) => {
                    return Ok(AgentStart {
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
        return Ok(AgentStart {
            prompt: start.prompt,
            start,
            fresh: Some(Reason::from_text(&format!(
                "started fresh with its task: {why}"
            ))),
        });
    }
    let start = agent.start(order)?;
    Ok(AgentStart {
        prompt: start.prompt,
        start,
        fresh: None,
    })
}

pub(super) fn make_private(folder: &Path) -> std::io::Result<()> {
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
