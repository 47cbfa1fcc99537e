//! How a saga moves: one step, one transaction, and the way back when a step fails (L4).
//!
//! A saga is carried by one task of this process at a time. After a crash the next process finds its row
//! and does the row's step again; every step and undo can be repeated. Other requests change a saga only
//! by turning it round (a kill); its carrier notices by the version.

use std::sync::Arc;

use skein_domain::fact::{Change, SagaChange};
use skein_domain::observed::SagaSeen;
use skein_domain::saga::{Failure, Step};
use skein_domain::{
    Gear, Kind, Outcome, PromptVia, Reason, Saga, SagaState, Session, WorkspaceState,
};
use skein_store::Writer;

use super::deliver::close_written;
use super::hands::Held;
use super::step::{Done, Finish, StepError};
use super::{Fleet, Member};
use crate::desk::Desk;
use crate::ending::end_session;
use crate::error::Error;

type StoreResult<T> = Result<T, skein_store::Error>;

/// What people are told of a saga that is over but for this.
pub(super) const NOT_UNDONE: &str = "it could not be undone";

/// One saga in the hands of its carrier.
#[derive(Clone, Debug)]
pub(crate) struct Carrier {
    pub(crate) desk: Desk,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) member: Member,
}

/// Where a saga stands after a transaction.
pub(super) enum Moved {
    On(Box<Saga>),
    /// It is to be tried again later, for this reason.
    Rests(Box<Saga>, String),
    Over,
}

impl Carrier {
    /// Carries the saga to its end, or until something fails that is tried again later; the row stays then.
    pub(crate) async fn carry(self, held: Held, mut saga: Saga) {
        let rests = loop {
            match self.advance(&saga).await {
                Ok(Moved::On(next)) => saga = *next,
                Ok(Moved::Over) => break None,
                Ok(Moved::Rests(next, why)) => {
                    saga = *next;
                    break Some(why);
                }
                Err(error) => break Some(error.to_string()),
            }
        };
        match rests {
            None => self.fleet.hands.forget(&saga.id),
            Some(why) => self.rest(&saga, &why),
        }
        drop(held);
        self.fleet.ring();
    }

    /// Where the saga is now; none when it is over. Asked of the writer: what was decided before the
    /// session was in our hands is done then, and what is decided later knows that it is.
    pub(crate) async fn current(&self, saga: &Saga) -> Result<Option<Saga>, Error> {
        let id = saga.id.clone();
        let found = self
            .desk
            .store
            .write(&saga.actor.clone(), self.desk.now(), move |writer| {
                writer.reader().find::<Saga>(id.as_str())
            })
            .await?;
        Ok(found)
    }

    /// Something failed that may work later.
    fn rest(&self, saga: &Saga, why: &str) {
        let pause = self.fleet.hands.rest(saga);
        let seconds = pause.as_secs();
        tracing::warn!(saga = %saga.id, session = %self.member.session, why, seconds, "a saga rests");
        let step = match &saga.state {
            SagaState::Queued => None,
            SagaState::Doing(step) | SagaState::Undoing { step, .. } => Some(*step),
            SagaState::Leftover { steps, .. } => steps.first().copied(),
        };
        let seen = SagaSeen {
            kind: saga.kind,
            step,
            place: None,
            why: Some(format!("{why}; it is tried again after {seconds} s")),
        };
        self.fleet.board.saga(&self.member, Some(seen));
    }

    async fn advance(&self, saga: &Saga) -> Result<Moved, Error> {
        self.show(saga);
        match &saga.state {
            SagaState::Queued => Ok(Moved::Over),
            SagaState::Doing(step) => self.go_on(saga, *step).await,
            SagaState::Undoing { step, why, failed } => {
                self.go_back(saga, *step, why.clone(), failed.clone()).await
            }
            SagaState::Leftover { steps, why } => self.clear_up(saga, steps, why).await,
        }
    }

    fn show(&self, saga: &Saga) {
        let (step, why) = match &saga.state {
            SagaState::Queued => (None, None),
            SagaState::Doing(step) => (Some(*step), None),
            SagaState::Undoing { step, why, .. } => {
                (Some(*step), Some(format!("undone, because {}", why.text)))
            }
            SagaState::Leftover { .. } => return,
        };
        let seen = SagaSeen {
            kind: saga.kind,
            step,
            place: None,
            why,
        };
        self.fleet.board.saga(&self.member, Some(seen));
    }

    pub(super) fn name(saga: &Saga, step: Step, what: &str) -> String {
        format!("{}.{}.{what}", saga.kind.as_str(), step.as_str())
    }

    async fn go_on(&self, saga: &Saga, step: Step) -> Result<Moved, Error> {
        self.fleet.point(&Self::name(saga, step, "begin"));
        let session = self.session().await?;
        let done = self.perform(saga, step, &session).await;
        self.fleet.point(&Self::name(saga, step, "done"));
        let moved = match done {
            Ok(done) => self.record(saga, step, done).await?,
            Err(StepError::Store(error)) => return Err(error),
            Err(StepError::Failed { kind, text }) if saga.kind.turns_back() => {
                let why = Failure {
                    step,
                    kind,
                    text,
                    outcome: Outcome::Failed,
                };
                self.turn_round(saga, why).await?
            }
            Err(StepError::Failed { text, .. }) => self.leave_out(saga, step, text).await?,
        };
        self.fleet.point(&Self::name(saga, step, "recorded"));
        Ok(moved)
    }

    pub(crate) async fn session(&self) -> Result<Session, Error> {
        let id = self.member.session.clone();
        self.desk.look(move |r| r.get(id.as_str())).await
    }

    /// Writes in the saga's name if it is still where we left it; else says where it is now.
    pub(super) async fn write(
        &self,
        saga: &Saga,
        job: impl Fn(&mut Writer<'_>, &Session, Gear) -> StoreResult<Option<Saga>> + Send + 'static,
    ) -> Result<Moved, Error> {
        let expected = saga.clone();
        let actor = saga.actor.clone();
        let result = self
            .desk
            .store
            .write(&actor, self.desk.now(), move |writer| {
                let Some(current) = writer.reader().find::<Saga>(expected.id.as_str())? else {
                    return Ok(None);
                };
                if current.version != expected.version {
                    return Ok(Some(current));
                }
                let session: Session = writer.reader().get(expected.session.as_str())?;
                let gear = session.gear.as_deref().cloned().ok_or_else(|| {
                    skein_store::Error::Bug(format!("session {} lost its gear", session.id))
                })?;
                job(writer, &session, gear)
            })
            .await?;
        Ok(match result {
            Some(saga) => Moved::On(Box::new(saga)),
            None => {
                self.fleet.board.saga(&self.member, None);
                Moved::Over
            }
        })
    }

    /// The step's result and the move to the next one, in one transaction.
    async fn record(&self, saga: &Saga, step: Step, done: Done) -> Result<Moved, Error> {
        let mut saga_now = saga.clone();
        saga_now.prompt = done.prompt.or(saga.prompt);
        let (fleet, member) = (self.fleet.clone(), self.member.clone());
        let finish = done.finish.clone();
        let moved = self
            .write(saga, move |writer, session, mut gear| {
                (done.patch)(&mut gear);
                let next = saga_now.after(step);
                let mut run = session.run;
                if next == Some(Step::Launch) {
                    // The run gets its number and its handle before it exists, so that whatever a crash
                    // leaves behind is named here.
                    run += 1;
                    gear.input = 0;
                    let runtime = fleet
                        .runtime(gear.runtime)
                        .map_err(|e| skein_store::Error::Bug(e.to_string()))?;
                    gear.handle = Some(runtime.handle(member.tenant.as_str(), &session.id, run));
                }
                if next.is_none() {
                    gear.saga = None;
                }
                let after = Session {
                    run,
                    ..session.with_gear(gear, writer.now())
                };
                let after = finish_step(writer, &after, next.is_none(), &finish)?;
                for change in &done.changes {
                    writer.tell(&change.clone().of(&after))?;
                }
                finish_saga(writer, &saga_now, &after, next)
            })
            .await?;
        if matches!(moved, Moved::Over) {
            self.over(saga).await;
        }
        Ok(moved)
    }

    /// What follows the end of a saga outside the store.
    async fn over(&self, saga: &Saga) {
        if let Ok(session) = self.session().await {
            if session.has_run() {
                self.fleet.places.started(&self.member);
                let carries = matches!(saga.prompt, Some(PromptVia::Argv | PromptVia::Stdin));
                self.fleet.keep_launched(&self.desk, &session, carries);
                self.fleet.wake_keeper(&self.member);
            } else if self.fleet.places.leave(&self.member) {
                self.fleet.ring();
            }
        }
        tracing::debug!(saga = %saga.id, kind = saga.kind.as_str(), "a saga is over");
    }

    async fn turn_round(&self, saga: &Saga, why: Failure) -> Result<Moved, Error> {
        let now = saga.clone();
        self.write(saga, move |writer, session, _| {
            turn_round(writer, &now, session, why.clone()).map(Some)
        })
        .await
    }

    /// A step of a saga that only goes forward did not work: say so and go on without it.
    async fn leave_out(&self, saga: &Saga, step: Step, text: Reason) -> Result<Moved, Error> {
        if matches!(step, Step::Stop | Step::End) {
            // Without these it would be a lie to go on; it is tried again later.
            self.fleet.board.tell(&self.member, text.as_str());
            let why = format!("{} of {}: {text}", step.as_str(), saga.session);
            return Err(Error::Saga { why });
        }
        let now = saga.clone();
        self.write(saga, move |writer, session, mut gear| {
            gear.note = Some(text.clone());
            // What could not be backed up is not removed.
            let next = Step::End;
            let after = session.with_gear(gear, writer.now());
            writer.update(&after)?;
            tell(
                writer,
                &now,
                &after,
                SagaChange::LeftOut {
                    step,
                    why: text.clone(),
                },
            )?;
            finish_saga(writer, &now, &after, Some(next))
        })
        .await
    }

    async fn go_back(
        &self,
        saga: &Saga,
        step: Step,
        why: Failure,
        mut failed: Vec<Step>,
    ) -> Result<Moved, Error> {
        self.fleet.point(&Self::name(saga, step, "undo"));
        let session = self.session().await?;
        let undone = self.undo(saga, step, &session).await;
        self.fleet.point(&Self::name(saga, step, "undone"));
        let (patch, error) = match undone {
            Ok(patch) => (Some(patch), None),
            Err(StepError::Store(error)) => return Err(error),
            Err(StepError::Failed { text, .. }) => {
                failed.push(step);
                (None, Some(text))
            }
        };
        let now = saga.clone();
        let moved = self
            .write(saga, move |writer, session, mut gear| {
                if let Some(patch) = &patch {
                    patch(&mut gear);
                }
                let before = now.before(step);
                let last = before.is_none();
                if last {
                    gear.saga = None;
                    gear.note = Some(kept_note(&why.text, session, &gear));
                }
                let mut after = session.with_gear(gear, writer.now());
                writer.update(&after)?;
                tell_backups(writer, session, &after)?;
                if let Some(text) = &error {
                    let change = SagaChange::UndoFailed {
                        step,
                        why: text.clone(),
                    };
                    tell(writer, &now, &after, change)?;
                }
                let state = match before {
                    Some(step) => SagaState::Undoing {
                        step,
                        why: why.clone(),
                        failed: failed.clone(),
                    },
                    None if failed.is_empty() => {
                        after = undone_end(writer, &now, &after, &why)?;
                        tell(writer, &now, &after, SagaChange::Undone)?;
                        writer.delete(&now)?;
                        return Ok(None);
                    }
                    None => {
                        after = undone_end(writer, &now, &after, &why)?;
                        SagaState::Leftover {
                            steps: failed.clone(),
                            why: why.clone(),
                        }
                    }
                };
                let next = now.in_state(state);
                writer.update(&next)?;
                if before.is_some() {
                    tell(writer, &now, &after, SagaChange::Began { step })?;
                    Ok(Some(next))
                } else {
                    Ok(None)
                }
            })
            .await?;
        self.fleet.point(&Self::name(saga, step, "undo_recorded"));
        if !matches!(moved, Moved::Over) {
            return Ok(moved);
        }
        self.fleet.release(&self.member).await;
        self.over(saga).await;
        Ok(match self.current(saga).await? {
            Some(left) => Moved::Rests(Box::new(left), NOT_UNDONE.to_owned()),
            None => Moved::Over,
        })
    }
}

pub(crate) fn tell(
    writer: &mut Writer<'_>,
    saga: &Saga,
    session: &Session,
    change: SagaChange,
) -> StoreResult<()> {
    let change = Change::Saga {
        saga: saga.id.clone(),
        kind: saga.kind,
        change,
    };
    writer.tell(&change.of(session))
}

/// Says where the work is that an undo kept.
pub(super) fn tell_backups(
    writer: &mut Writer<'_>,
    before: &Session,
    after: &Session,
) -> StoreResult<()> {
    let count = |s: &Session| s.gear.as_ref().map_or(0, |g| g.workspace.backups.len());
    let known = count(before);
    for backup in after
        .gear
        .iter()
        .flat_map(|g| &g.workspace.backups)
        .skip(known)
    {
        let change = Change::BackedUp {
            name: backup.name(&after.id),
            commit: backup.commit.to_string(),
        };
        writer.tell(&change.of(after))?;
    }
    Ok(())
}

/// Why a session came to nothing, and where the files are that its set-up wrote.
fn kept_note(why: &Reason, session: &Session, gear: &Gear) -> Reason {
    match gear.workspace.backups.last() {
        Some(backup) if gear.workspace.state == WorkspaceState::Gone => {
            let kept = backup.name(&session.id);
            reason(&format!("{why}; what was written is kept in {kept}"))
        }
        _ => why.clone(),
    }
}

/// Makes a saga go back from where it is; the first error is what people are told.
pub(crate) fn turn_round(
    writer: &mut Writer<'_>,
    saga: &Saga,
    session: &Session,
    why: Failure,
) -> StoreResult<Saga> {
    let change = SagaChange::Failed {
        step: why.step,
        kind: why.kind,
        why: why.text.clone(),
    };
    tell(writer, saga, session, change)?;
    let next = saga.in_state(SagaState::Undoing {
        step: why.step,
        why,
        failed: vec![],
    });
    writer.update(&next)?;
    Ok(next)
}

/// The session's own part of a step: its phase.
fn finish_step(
    writer: &mut Writer<'_>,
    after: &Session,
    last: bool,
    finish: &Finish,
) -> StoreResult<Session> {
    let stepped = match finish {
        Finish::Nothing => after.clone(),
        Finish::Phase(step) => {
            // One version for the whole transaction.
            let phase = after.phase.on(&after.id, step.clone())?;
            let turns = after.turns + u64::from(*step == skein_domain::Step::Launched);
            Session {
                phase,
                turns,
                last_activity_at: writer.now(),
                ..after.clone()
            }
        }
        Finish::End(outcome, reason) if after.phase.is_live() && last => {
            writer.update(after)?;
            close_written(writer, after)?;
            return end_session(writer, after, *outcome, reason.clone());
        }
        Finish::End(..) => after.clone(),
    };
    writer.update(&stepped)?;
    Ok(stepped)
}

fn finish_saga(
    writer: &mut Writer<'_>,
    saga: &Saga,
    session: &Session,
    next: Option<Step>,
) -> StoreResult<Option<Saga>> {
    match next {
        Some(step) => {
            let next = saga.in_state(SagaState::Doing(step));
            writer.update(&next)?;
            tell(writer, saga, session, SagaChange::Began { step })?;
            Ok(Some(next))
        }
        None => {
            writer.delete(saga)?;
            tell(writer, saga, session, SagaChange::Done)?;
            Ok(None)
        }
    }
}

/// How a session stands after its saga was undone.
fn undone_end(
    writer: &mut Writer<'_>,
    saga: &Saga,
    session: &Session,
    why: &Failure,
) -> StoreResult<Session> {
    if !session.phase.is_live() {
        return Ok(session.clone());
    }
    let (outcome, reason) = match (&saga.order.ended, why.outcome) {
        // An undone restore puts back what was, so that it can be tried again.
        (Some((outcome, reason)), Outcome::Failed) => (*outcome, reason.clone()),
        (_, outcome) => (outcome, Some(why.text.clone())),
    };
    close_written(writer, session)?;
    end_session(writer, session, outcome, reason)
}

/// A text fit for people: what is not printable becomes a space.
pub(crate) fn reason(text: &str) -> Reason {
    let clean: String = text
        .chars()
        .map(|c| {
            if c.is_control() && c != '\n' && c != '\t' {
                ' '
            } else {
                c
            }
        })
        .take(8_000)
        .collect();
    let clean = clean.trim();
    let clean = if clean.is_empty() {
        "no reason given"
    } else {
        clean
    };
    clean
        .parse()
        .unwrap_or_else(|_| "it failed".parse().expect("a short plain text is a reason"))
}

pub(crate) fn failed(kind: Kind, text: impl std::fmt::Display) -> StepError {
    StepError::Failed {
        kind,
        text: reason(&text.to_string()),
    }
}

/// A workspace that was removed.
pub(crate) fn gone(gear: &mut Gear) {
    gear.workspace = gear.workspace.in_state(WorkspaceState::Gone);
}
