//! The transitions of sagas.

use super::{
    CommandResult, Failure, ForkRequest, RemovedWorkspace, Saga, SagaEvent, SagaRequest, SagaState,
    SagaStep, UndoResult,
};
use crate::actor::Actor;
use crate::error::{Conflict, Kind};
use crate::fact::{SagaChange, SessionChange};
use crate::gear::{Gear, Spent};
use crate::handoff;
use crate::phase::{Outcome, Phase, Step};
use crate::run::RunHandle;
use crate::session::Session;
use crate::text::Reason;
use crate::time::Timestamp;
use crate::workspace::{Backup, WorkspaceState};

/// The effects of an event, written in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub next: NextState,
    /// The session's changed record, if it changed.
    pub session: Option<Box<Session>>,
    /// The other changes in the ledger, made after the session is written and before the events.
    pub ledger: Option<LedgerCommand>,
    /// The session's events, in this order.
    pub changes: Vec<SessionChange>,
}

/// How the saga continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextState {
    /// The interpreter performs its next command at once.
    Go(Box<Saga>),
    /// An undo failed for this reason; the interpreter retries it later.
    Later(Box<Saga>, Reason),
    /// Nothing is written; the interpreter retries the command later, for this reason.
    Retry(Reason),
    Over,
}

/// Changes that need more of the ledger than the session's own record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerCommand {
    /// Ends the session, with its open messages and its share of the parent's budget.
    EndSession {
        outcome: Outcome,
        reason: Option<Reason>,
    },
    /// Makes a child for each of them; then the session waits for the children.
    MakeChildren {
        to: Vec<Actor>,
    },
    MakeFork(ForkRequest),
}

/// The text shown for a failed undo.
const NOT_UNDONE: &str = "it could not be undone";

impl Saga {
    /// The effects of `event` on the saga and on its session.
    pub fn decide(
        &self,
        session: &Session,
        event: SagaEvent,
        now: Timestamp,
    ) -> Result<Decision, Conflict> {
        match (&self.state, event) {
            (SagaState::Queued, SagaEvent::Admitted) => Ok(self.begin()),
            (SagaState::Queued | SagaState::Doing { .. }, SagaEvent::Cancelled { reason })
                if self.kind().queues() =>
            {
                Ok(self.cancelled(reason))
            }
            (SagaState::Doing { step }, SagaEvent::Performed { result, handle }) => {
                self.advance(session, *step, result, handle, now)
            }
            (SagaState::Doing { step }, SagaEvent::Failed { kind, text }) => {
                Ok(self.failed(session, *step, kind, text, now))
            }
            (SagaState::Undoing { step, why, failed }, event) => {
                self.undone(session, *step, why, failed, event, now)
            }
            (SagaState::Leftover { why, .. }, event) => Ok(self.cleared(session, why, event, now)),
            (SagaState::Doing { step }, SagaEvent::Orphaned) if self.kind().answers_when_over() => {
                let text = Reason::from_text("the daemon stopped in between");
                Ok(self.failed(session, *step, Kind::Unavailable, text, now))
            }
            // The event changes nothing.
            (_, _) => Ok(Decision::only(NextState::Go(Box::new(self.clone())))),
        }
    }

    /// Why the interpreter must wait in this state.
    pub fn waits(&self, session: &Session) -> Option<Reason> {
        let is_leftover = matches!(self.state, SagaState::Leftover { .. });
        let is_used = session.phase.is_live() || session.check_free().is_err();
        (is_leftover && self.kind().is_of_agent() && is_used)
            .then(|| Reason::from_text("the session is in use"))
    }

    fn in_state(&self, state: SagaState) -> Box<Self> {
        Box::new(Self {
            state,
            version: self.version + 1,
            ..self.clone()
        })
    }

    fn event_of(&self, change: SagaChange) -> Option<SessionChange> {
        // The end of a handoff, broadcast or fork has an event of its own.
        let is_end = matches!(change, SagaChange::Done | SagaChange::Undone);
        let is_leftover = matches!(self.state, SagaState::Leftover { .. });
        let has_event = self.kind().is_of_agent() || !is_end || is_leftover;
        has_event.then(|| SessionChange::Saga {
            saga: self.id.clone(),
            kind: self.kind(),
            change,
        })
    }

    fn begin(&self) -> Decision {
        let step = self.kind().steps()[0];
        Decision {
            changes: self
                .event_of(SagaChange::Began { step })
                .into_iter()
                .collect(),
            ..Decision::only(NextState::Go(self.in_state(SagaState::Doing { step })))
        }
    }

    fn step_after(&self, step: SagaStep) -> Option<SagaStep> {
        let steps = self.kind().steps();
        let at = steps.iter().position(|s| *s == step)?;
        steps.get(at + 1).copied()
    }

    fn step_before(&self, step: SagaStep) -> Option<SagaStep> {
        let steps = self.kind().steps();
        let at = steps.iter().position(|s| *s == step)?;
        steps.get(at.checked_sub(1)?).copied()
    }

    /// A step succeeded.
    fn advance(
        &self,
        session: &Session,
        step: SagaStep,
        result: CommandResult,
        handle: Option<RunHandle>,
        now: Timestamp,
    ) -> Result<Decision, Conflict> {
        let mut saga = self.clone();
        match &result {
            CommandResult::Launched { prompt, .. } => saga.prompt = *prompt,
            CommandResult::TranscriptForked { shared } => saga.shared.clone_from(shared),
            _ => {}
        }
        let mut changes = self.changes_of(session, &result);
        let mut after = session.next(now);
        if let Some(gear) = after.gear.as_deref_mut() {
            self.apply(&session.id, gear, &result);
        }
        let next = self.step_after(step);
        if next == Some(SagaStep::Launch) {
            // The run gets its number and its handle before it exists, so that after a crash the record names everything
            // that the launch left behind.
            after.run += 1;
            if let Some(gear) = after.gear.as_deref_mut() {
                gear.input = 0;
                gear.handle = handle;
            }
        }
        if let CommandResult::TaskDelivered { taken } = result {
            // A turn begins when the agent takes its task, not before.
            let (step, turns) = match taken {
                true => (Step::Launched, 1),
                false => (Step::Ready, 0),
            };
            after.phase = after.phase.on(&after.id, step)?;
            after.turns += turns;
            after.last_activity_at = now;
        }
        if let Some(step) = next {
            changes.extend(self.event_of(SagaChange::Began { step }));
            return Ok(Decision {
                next: NextState::Go(saga.in_state(SagaState::Doing { step })),
                session: self.changed(session, after),
                ledger: None,
                changes,
            });
        }
        if let Some(gear) = after.gear.as_deref_mut()
            && self.kind().is_of_agent()
        {
            gear.saga = None;
        }
        let (session, ledger) = saga.over(session, after, &mut changes, now)?;
        changes.extend(self.event_of(SagaChange::Done));
        Ok(Decision {
            next: NextState::Over,
            session,
            ledger,
            changes,
        })
    }

    /// The changes of the last step in the ledger.
    fn over(
        &self,
        before: &Session,
        after: Session,
        changes: &mut Vec<SessionChange>,
        now: Timestamp,
    ) -> Result<(Option<Box<Session>>, Option<LedgerCommand>), Conflict> {
        Ok(match &self.request {
            SagaRequest::Kill { reason, .. } => {
                let end = after.phase.is_live().then(|| LedgerCommand::EndSession {
                    outcome: Outcome::Killed,
                    reason: reason.clone(),
                });
                (Some(Box::new(after)), end)
            }
            SagaRequest::Handoff { to } => {
                let after = handoff::committed(before, &self.id, to, now)?;
                changes.push(SessionChange::HandedOver {
                    handoff: self.id.clone(),
                    from: before.owner.clone(),
                    to: to.clone(),
                    owner_version: after.owner_version,
                });
                (Some(Box::new(after)), None)
            }
            SagaRequest::Broadcast { to } => {
                (None, Some(LedgerCommand::MakeChildren { to: to.clone() }))
            }
            SagaRequest::Fork(fork) => (None, Some(LedgerCommand::MakeFork(fork.clone()))),
            SagaRequest::Spawn { .. } | SagaRequest::Restore { .. } | SagaRequest::Gc => {
                (Some(Box::new(after)), None)
            }
        })
    }

    /// The steps before the last do not change a session without gear.
    fn changed(&self, before: &Session, after: Session) -> Option<Box<Session>> {
        (before.gear.is_some() && self.kind().is_of_agent()).then(|| Box::new(after))
    }

    /// Applies a result to the session's gear.
    fn apply(&self, id: &crate::id::SessionId, gear: &mut Gear, result: &CommandResult) {
        match result {
            CommandResult::WorkspaceMade { workspace, note } => {
                gear.workspace = (**workspace).clone();
                gear.note.clone_from(note);
            }
            CommandResult::SetUp => {
                gear.workspace = gear.workspace.in_state(WorkspaceState::Ready);
            }
            CommandResult::Launched { native, fresh, .. } => {
                gear.native = native.clone().or_else(|| gear.native.clone());
                if fresh.is_some() {
                    gear.note.clone_from(fresh);
                    // From now on the agent is in a new conversation.
                    gear.read.clear();
                    gear.spent = gear.spent.map(Spent::in_new_conversation);
                }
            }
            CommandResult::RunStopped => gear.handle = None,
            CommandResult::BackedUp { backup } => {
                gear.workspace = gear.workspace.with_backup(backup.clone());
            }
            CommandResult::WorkspaceRemoved { removed } => {
                if let Some(note) = self.removal_note(id, gear, removed) {
                    gear.note = Some(Reason::from_text(&note));
                }
                remove_workspace(gear, removed);
            }
            CommandResult::TaskDelivered { .. }
            | CommandResult::TranscriptForked { .. }
            | CommandResult::Committed
            | CommandResult::Undone { .. }
            | CommandResult::LeftoverUndone { .. } => {}
        }
    }

    fn removal_note(
        &self,
        id: &crate::id::SessionId,
        gear: &Gear,
        removed: &RemovedWorkspace,
    ) -> Option<String> {
        // A discard keeps uncommitted work only if it had to back up commits with it.
        let kept = gear.workspace.backups.last().filter(|b| b.at >= self.at);
        match (removed, kept) {
            (RemovedWorkspace::Kept(_), _) => {
                Some(format!("uncommitted work is in {}", gear.workspace.path))
            }
            (RemovedWorkspace::Dropped, None) => {
                Some("uncommitted work was dropped, as asked".to_owned())
            }
            (RemovedWorkspace::Dropped, Some(kept)) => Some(format!(
                "uncommitted work is kept in {}, with commits that are on no branch",
                kept.name(id)
            )),
            (RemovedWorkspace::Gone(_) | RemovedWorkspace::Untouched, _) => None,
        }
    }

    /// The events of a result.
    fn changes_of(&self, session: &Session, result: &CommandResult) -> Vec<SessionChange> {
        let Some(gear) = session.gear.as_deref() else {
            return vec![];
        };
        let backed_up = |backup: &Backup| SessionChange::BackedUp {
            name: backup.name(&session.id),
            commit: backup.commit.to_string(),
        };
        match result {
            CommandResult::WorkspaceMade { workspace, .. } => vec![SessionChange::WorkspaceReady {
                kind: workspace.kind,
                path: workspace.path.to_string(),
                branch: workspace.branch.as_ref().map(ToString::to_string),
            }],
            CommandResult::Launched { native, fresh, .. } => {
                let mut changes = vec![SessionChange::Launched {
                    run: session.run,
                    runtime: gear.runtime,
                    fresh: fresh.clone(),
                }];
                let named = native.clone().filter(|n| gear.native.as_ref() != Some(n));
                changes.extend(named.map(|native| SessionChange::Named { native }));
                changes
            }
            CommandResult::BackedUp { backup } => backup.iter().map(backed_up).collect(),
            CommandResult::WorkspaceRemoved { removed } => {
                let known = &gear.workspace.backups;
                let newer = removed.backups().iter().filter(|b| !known.contains(b));
                let mut changes: Vec<SessionChange> = newer.map(backed_up).collect();
                if matches!(
                    removed,
                    RemovedWorkspace::Gone(_) | RemovedWorkspace::Dropped
                ) {
                    let path = gear.workspace.path.to_string();
                    changes.push(SessionChange::WorkspaceRemoved { path });
                }
                changes
            }
            _ => vec![],
        }
    }

    /// A step failed, or was refused.
    fn failed(
        &self,
        session: &Session,
        step: SagaStep,
        kind: Kind,
        text: Reason,
        now: Timestamp,
    ) -> Decision {
        if self.kind().undoes_on_failure() {
            let why = Failure {
                step,
                kind,
                text,
                outcome: Outcome::Failed,
            };
            return self.start_undo(why);
        }
        if matches!(step, SagaStep::Stop | SagaStep::End) {
            // The session has not ended without these steps, so the saga cannot go on.
            let text = format!("{} of {}: {text}", step.as_str(), self.session);
            return Decision::only(NextState::Retry(Reason::from_text(&text)));
        }
        // Without a backup nothing is removed.
        let next = SagaStep::End;
        let mut after = session.next(now);
        if let Some(gear) = after.gear.as_deref_mut() {
            gear.note = Some(text.clone());
        }
        let left_out = self.event_of(SagaChange::LeftOut { step, why: text });
        let began = self.event_of(SagaChange::Began { step: next });
        Decision {
            next: NextState::Go(self.in_state(SagaState::Doing { step: next })),
            session: Some(Box::new(after)),
            ledger: None,
            changes: left_out.into_iter().chain(began).collect(),
        }
    }

    fn cancelled(&self, reason: Option<Reason>) -> Decision {
        let text =
            reason.unwrap_or_else(|| Reason::from_text("it was killed while it was being set up"));
        let why = Failure {
            step: self.step().unwrap_or(self.kind().steps()[0]),
            kind: Kind::Conflict,
            text,
            outcome: Outcome::Killed,
        };
        self.start_undo(why)
    }

    fn start_undo(&self, why: Failure) -> Decision {
        let events = self.event_of(SagaChange::Failed {
            step: why.step,
            kind: why.kind,
            why: why.text.clone(),
        });
        let state = SagaState::Undoing {
            step: why.step,
            why,
            failed: vec![],
        };
        Decision {
            changes: events.into_iter().collect(),
            ..Decision::only(NextState::Go(self.in_state(state)))
        }
    }

    /// The undo of a step succeeded or failed.
    fn undone(
        &self,
        session: &Session,
        step: SagaStep,
        why: &Failure,
        failed: &[SagaStep],
        event: SagaEvent,
        now: Timestamp,
    ) -> Result<Decision, Conflict> {
        let mut failed = failed.to_vec();
        let mut after = session.next(now);
        let mut events = None;
        match event {
            SagaEvent::Performed {
                result: CommandResult::Undone { undone },
                ..
            } => apply_undo(&mut after, &undone),
            SagaEvent::Failed { text, .. } => {
                failed.push(step);
                events = self.event_of(SagaChange::UndoFailed { step, why: text });
            }
            // The retry of the undo continues.
            _ => return Ok(Decision::only(NextState::Go(Box::new(self.clone())))),
        }
        let Some(before) = self.step_before(step) else {
            return self.all_undone(session, after, why, &failed, events, now);
        };
        let began = self.event_of(SagaChange::Began { step: before });
        let changes = new_backups(session, &after).into_iter().chain(events);
        let state = SagaState::Undoing {
            step: before,
            why: why.clone(),
            failed,
        };
        Ok(Decision {
            next: NextState::Go(self.in_state(state)),
            changes: changes.chain(began).collect(),
            session: self.changed(session, after),
            ledger: None,
        })
    }

    /// Every undo was tried: the session is as before, or ends.
    fn all_undone(
        &self,
        before: &Session,
        mut after: Session,
        why: &Failure,
        failed: &[SagaStep],
        events: Option<SessionChange>,
        now: Timestamp,
    ) -> Result<Decision, Conflict> {
        let mut changes: Vec<SessionChange> = new_backups(before, &after);
        changes.extend(events);
        let mut session = None;
        let mut ledger = None;
        match &self.request {
            SagaRequest::Handoff { .. } | SagaRequest::Broadcast { .. } => {
                if before.phase == Phase::Locked(self.id.clone()) {
                    session = Some(Box::new(handoff::reverted(before, &self.id, now)?));
                }
                changes.push(SessionChange::Reverted {
                    handoff: self.id.clone(),
                    why: why.text.to_string(),
                });
            }
            SagaRequest::Fork(fork) => changes.push(SessionChange::ForkUndone {
                fork: fork.target.clone(),
                why: why.text.to_string(),
            }),
            request => {
                if let Some(gear) = after.gear.as_deref_mut() {
                    gear.saga = None;
                    gear.note = Some(kept_note(&why.text, &before.id, gear));
                }
                if after.phase.is_live() {
                    let (outcome, reason) = match (request, why.outcome) {
                        // An undone restore recovers the earlier phase, so that a person can repeat it.
                        (
                            SagaRequest::Restore {
                                outcome, reason, ..
                            },
                            Outcome::Failed,
                        ) => (*outcome, reason.clone()),
                        (_, outcome) => (outcome, Some(why.text.clone())),
                    };
                    ledger = Some(LedgerCommand::EndSession { outcome, reason });
                }
                session = Some(Box::new(after));
            }
        }
        let next = if failed.is_empty() {
            changes.extend(self.event_of(SagaChange::Undone));
            NextState::Over
        } else {
            let state = SagaState::Leftover {
                steps: failed.to_vec(),
                why: why.clone(),
            };
            NextState::Later(self.in_state(state), Reason::from_text(NOT_UNDONE))
        };
        Ok(Decision {
            next,
            session,
            ledger,
            changes,
        })
    }

    /// The failed undos were retried.
    fn cleared(
        &self,
        session: &Session,
        why: &Failure,
        event: SagaEvent,
        now: Timestamp,
    ) -> Decision {
        let (undone, left) = match event {
            SagaEvent::Performed {
                result: CommandResult::LeftoverUndone { undone, left },
                ..
            } => (undone, left),
            SagaEvent::Failed { text, .. } => {
                let text = format!("{NOT_UNDONE}: {text}");
                return Decision::only(NextState::Retry(Reason::from_text(&text)));
            }
            _ => return Decision::only(NextState::Retry(Reason::from_text(NOT_UNDONE))),
        };
        let text = match left.last() {
            Some((_, text)) => Reason::from_text(&format!("{NOT_UNDONE}: {text}")),
            None => Reason::from_text(NOT_UNDONE),
        };
        if undone.is_empty() && !left.is_empty() {
            return Decision::only(NextState::Retry(text));
        }
        let mut after = session.next(now);
        for result in &undone {
            apply_undo(&mut after, result);
        }
        let mut changes = new_backups(session, &after);
        let next = match left.first() {
            None => {
                changes.extend(self.event_of(SagaChange::Undone));
                NextState::Over
            }
            Some((first, _)) => {
                changes.extend(self.event_of(SagaChange::Began { step: *first }));
                let state = SagaState::Leftover {
                    steps: left.iter().map(|(step, _)| *step).collect(),
                    why: why.clone(),
                };
                NextState::Later(self.in_state(state), text)
            }
        };
        Decision {
            next,
            session: self.changed(session, after),
            ledger: None,
            changes,
        }
    }
}

impl Decision {
    const fn only(next: NextState) -> Self {
        Self {
            next,
            session: None,
            ledger: None,
            changes: vec![],
        }
    }
}

fn remove_workspace(gear: &mut Gear, removed: &RemovedWorkspace) {
    for backup in removed.backups() {
        gear.workspace = gear.workspace.with_backup(Some(backup.clone()));
    }
    if matches!(
        removed,
        RemovedWorkspace::Gone(_) | RemovedWorkspace::Dropped
    ) {
        gear.workspace = gear.workspace.in_state(WorkspaceState::Gone);
    }
}

fn apply_undo(session: &mut Session, result: &UndoResult) {
    let Some(gear) = session.gear.as_deref_mut() else {
        return;
    };
    match result {
        UndoResult::RunEnded => gear.handle = None,
        UndoResult::NewWorkspaceRemoved(removed) => remove_workspace(gear, removed),
        UndoResult::Nothing => {}
    }
}

/// Names the backup of work that an undo kept.
fn new_backups(before: &Session, after: &Session) -> Vec<SessionChange> {
    let count = |s: &Session| s.gear.as_ref().map_or(0, |g| g.workspace.backups.len());
    let backups = after.gear.iter().flat_map(|g| &g.workspace.backups);
    let events = backups
        .skip(count(before))
        .map(|backup| SessionChange::BackedUp {
            name: backup.name(&after.id),
            commit: backup.commit.to_string(),
        });
    events.collect()
}

/// Why a session could not start, and where its set-up left files.
fn kept_note(why: &Reason, session: &crate::id::SessionId, gear: &Gear) -> Reason {
    match gear.workspace.backups.last() {
        Some(backup) if gear.workspace.state == WorkspaceState::Gone => {
            let kept = backup.name(session);
            Reason::from_text(&format!("{why}; what was written is kept in {kept}"))
        }
        _ => why.clone(),
    }
}
