//! The interpreter of sagas: performs the command of a saga's state, records its result and the next state, and
//! repeats that until the saga is over (L4). [`skein_domain::saga`] decides the next state.
//!
//! One task of this process interprets a saga at a time. After a crash the next process finds the journal row
//! and performs the row's command again. Other requests change a saga only by cancelling it (a kill); its
//! interpreter notices by the version.
//!
//! The fleet's dispatcher begins sagas of sessions with agents when there is room. The caller of a handoff, a broadcast
//! or a fork waits for its saga; after a crash [`recover`](crate::Ledger::recover) undoes those.

mod apply;
mod claims;

use skein_domain::saga::{CommandResult, SagaCommand, SagaEvent, UndoCommand, UndoResult};
use skein_domain::{Fact, Kind, Reason, RunHandle, Saga, SagaId, SagaState, Session};
use skein_store::Writer;
use skein_transcript::TranscriptId;

pub use apply::{SagaProgress, append_saga_event, apply, begin_saga, check_fork_place, new_saga};
pub use claims::{Claim, Claims, SagaWaiter};

use crate::caller::{Answer, Idempotency, RequestOutcome};
use crate::error::{Error, StoreResult};
use crate::ledger::warn_of_damage;
use crate::requests::{LedgerRequests, SagaRequests, earlier};

/// Why a command was not performed.
#[derive(Debug)]
pub enum CommandError {
    /// It was refused, or failed: the saga undoes its steps, or goes on without it.
    Failed(Error),
    /// The store failed, or the daemon stops: the saga stays where it is.
    Interrupted(Error),
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(skein_store::Error::Domain(_)) => Self::Failed(error),
            Error::Store(_) | Error::Stopped => Self::Interrupted(error),
            other => Self::Failed(other),
        }
    }
}

/// The error of a command that failed for a reason of the session itself.
pub fn failed(kind: Kind, text: impl std::fmt::Display) -> CommandError {
    CommandError::Failed(Error::Step {
        kind,
        text: text.to_string(),
        hints: vec![],
    })
}

/// The text of an error, with its hints.
fn text_of(error: &Error) -> Reason {
    let mut text = error.to_string();
    for hint in error.hints() {
        text.push_str("; ");
        text.push_str(&hint);
    }
    Reason::from_text(&text)
}

/// The points of a saga's state where tests end the process: before and after its command, and after the next state is
/// recorded.
fn points(saga: &Saga) -> [String; 3] {
    let kind = saga.kind().as_str();
    let step = saga.step().map_or("", |step| step.as_str());
    let names = match &saga.state {
        SagaState::Queued | SagaState::Doing { .. } => ["begin", "done", "recorded"],
        SagaState::Undoing { .. } => ["undo", "undone", "undo_recorded"],
        SagaState::Leftover { .. } => ["clear", "cleared", "clear_recorded"],
    };
    names.map(|name| format!("{kind}.{step}.{name}"))
}

/// Performs the commands of sagas outside the ledger, and shows their progress.
pub trait Performer: Send + Sync + 'static {
    /// Must be repeatable: after a crash the next process performs the same command again.
    fn perform(
        &self,
        saga: &Saga,
        session: &Session,
        command: SagaCommand,
    ) -> impl Future<Output = Result<CommandResult, CommandError>> + Send;

    /// Where the next run of the session will be found.
    fn next_handle(&self, _session: &Session) -> Option<RunHandle> {
        None
    }

    /// Shows how far the saga is, or why it waits.
    fn show(&self, _saga: &Saga, _why: Option<String>) {}

    /// Called when the saga is over, or waits to be tried again.
    fn ended(&self, _saga: &Saga, _applied: &SagaProgress) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Called when the session's claim is free again.
    fn released(&self) {}
}

/// Performs the commands of handoffs, broadcasts and forks, which change only the ledger and its transcripts.
#[derive(Clone, Debug)]
struct LedgerPerformer(LedgerRequests);

impl Performer for LedgerPerformer {
    async fn perform(
        &self,
        saga: &Saga,
        _session: &Session,
        command: SagaCommand,
    ) -> Result<CommandResult, CommandError> {
        match command {
            SagaCommand::ForkTranscript {
                source,
                target,
                after,
            } => {
                let shared = self.0.transcripts()?.fork(&source, &target, after).await?;
                Ok(CommandResult::TranscriptForked { shared })
            }
            SagaCommand::Undo { undo } => {
                self.undo_fork(saga, undo).await?;
                let undone = UndoResult::Nothing;
                Ok(CommandResult::Undone { undone })
            }
            SagaCommand::UndoLeftover { undos } => {
                for (_, undo) in undos {
                    self.undo_fork(saga, undo).await?;
                }
                Ok(CommandResult::LeftoverUndone {
                    undone: vec![],
                    left: vec![],
                })
            }
            _ => Ok(CommandResult::Committed),
        }
    }
}

impl LedgerPerformer {
    async fn undo_fork(&self, saga: &Saga, undo: UndoCommand) -> Result<(), CommandError> {
        if undo == UndoCommand::RemoveForkedTranscript {
            let transcripts = self.0.transcripts()?;
            let removed = transcripts.remove_fork(&saga.session, saga.subject());
            removed.await?;
        }
        Ok(())
    }
}

/// Interprets one saga.
#[derive(Clone, Debug)]
pub struct Interpreter<P> {
    requests: LedgerRequests,
    performer: P,
    /// The request that the result answers.
    request: Option<Idempotency>,
}

impl<P: Performer> Interpreter<P> {
    pub fn new(requests: &LedgerRequests, performer: P) -> Self {
        Self {
            requests: requests.clone(),
            performer,
            request: None,
        }
    }

    /// Interprets the saga until it is over, or until a command fails that is tried again later; then the journal row
    /// stays.
    pub async fn run(self, claim: Claim, mut saga: Saga) {
        let why = loop {
            match self.advance(&saga).await {
                Ok(SagaProgress::Go(next)) => saga = *next,
                Ok(SagaProgress::Over(_)) => break None,
                Ok(SagaProgress::Retry(next, why)) => {
                    saga = *next;
                    break Some(why.to_string());
                }
                Err(error) => break Some(error.to_string()),
            }
        };
        let claims = &self.requests.ledger.claims;
        match why {
            None => claims.forget(&saga.id),
            Some(why) => {
                let seconds = claims.retry_later(&saga).as_secs();
                tracing::warn!(saga = %saga.id, session = %saga.session, why, seconds, "a saga waits");
                let why = format!("{why}; it is tried again after {seconds} s");
                self.performer.show(&saga, Some(why));
            }
        }
        drop(claim);
        self.performer.released();
    }

    /// Interprets a saga whose caller waits, to its end. The caller gets the first error; by then the saga is undone,
    /// unless that fails too: then recovery undoes it.
    pub async fn answer(
        mut self,
        _awaited: SagaWaiter,
        mut saga: Saga,
        request: Option<Idempotency>,
    ) -> Result<RequestOutcome, Error> {
        self.request = request;
        let mut first = None;
        loop {
            let error = match self.advance_awaited(&saga).await {
                Ok((SagaProgress::Go(next), error)) => {
                    saga = *next;
                    if let Some(error) = error {
                        first.get_or_insert(error);
                    }
                    continue;
                }
                Ok((SagaProgress::Over(Some(outcome)), _)) => return Ok(outcome),
                Ok((SagaProgress::Over(None), error)) => error,
                Ok((SagaProgress::Retry(_, why), error)) => {
                    tracing::error!(saga = %saga.id, %why, "a saga could not be undone yet");
                    error
                }
                Err(error) => {
                    tracing::error!(saga = %saga.id, %error, "a saga could not be undone yet");
                    Some(error)
                }
            };
            return Err(first.or(error).unwrap_or(Error::Stopped));
        }
    }

    /// Performs one command of a saga whose caller waits. Any failure makes the saga undo its steps.
    async fn advance_awaited(&self, saga: &Saga) -> Result<(SagaProgress, Option<Error>), Error> {
        let is_undone = !matches!(saga.state, SagaState::Doing { .. });
        let (event, error) = match self.perform(saga).await {
            Ok(event) => match self.record(saga, event).await {
                Ok(applied) => return Ok((applied, None)),
                // Recovery continues the undo from what the row says.
                Err(error) if is_undone => return Err(error),
                Err(error) => (failure(&error), error),
            },
            Err(CommandError::Failed(error) | CommandError::Interrupted(error)) => {
                (failure(&error), error)
            }
        };
        Ok((self.record(saga, event).await?, Some(error)))
    }

    /// Performs the command of the saga's state and records the next state.
    async fn advance(&self, saga: &Saga) -> Result<SagaProgress, Error> {
        self.performer.show(saga, None);
        let event = match self.perform(saga).await {
            Ok(event) => event,
            Err(CommandError::Failed(error)) => failure(&error),
            Err(CommandError::Interrupted(error)) => return Err(error),
        };
        let applied = match self.record(saga, event).await {
            // If the ledger refuses the result, the command counts as failed.
            Err(error) if error.domain().is_some() => self.record(saga, failure(&error)).await?,
            applied => applied?,
        };
        if let SagaProgress::Over(_) | SagaProgress::Retry(..) = &applied {
            self.performer.ended(saga, &applied).await;
        }
        Ok(applied)
    }

    async fn perform(&self, saga: &Saga) -> Result<SagaEvent, CommandError> {
        let session = self.session(saga).await?;
        if let Some(why) = saga.waits(&session) {
            return Err(CommandError::Interrupted(Error::Saga {
                why: why.to_string(),
            }));
        }
        let Some(command) = saga.command() else {
            return Ok(SagaEvent::Orphaned);
        };
        let [before, after, _] = points(saga);
        self.requests.reach(&before);
        let result = self.performer.perform(saga, &session, command).await;
        self.requests.reach(&after);
        Ok(SagaEvent::Performed {
            result: result?,
            handle: self.performer.next_handle(&session),
        })
    }

    async fn session(&self, saga: &Saga) -> Result<Session, Error> {
        let id = saga.session.clone();
        self.requests.read(move |r| r.get(id.as_str())).await
    }

    /// Records what follows from `event`, if the saga is unchanged; otherwise returns the saga as it is now.
    async fn record(&self, saga: &Saga, event: SagaEvent) -> Result<SagaProgress, Error> {
        let (expected, actor) = (saga.clone(), saga.actor.clone());
        let request = self.request.clone();
        let transcripts = self.requests.session_transcripts();
        let recording = transcripts.map(|all| all.creations.recording());
        let applied = self
            .requests
            .store
            .write(&actor, self.requests.now(), move |writer| {
                let Some(current) = writer.reader().find::<Saga>(expected.id.as_str())? else {
                    return Ok(SagaProgress::Over(None));
                };
                if current.version != expected.version {
                    return Ok(SagaProgress::Go(Box::new(current)));
                }
                let session: Session = writer.reader().get(expected.session.as_str())?;
                let applied = apply(writer, &current, &session, event.clone())?;
                if let (SagaProgress::Over(Some(outcome)), Some(request)) = (&applied, &request) {
                    let body = (request.render)(outcome);
                    writer.keep_reply(&request.key, &request.fingerprint, body)?;
                }
                Ok(applied)
            })
            .await?;
        if let (Some(recording), SagaProgress::Over(Some(RequestOutcome::Sessions(children)))) =
            (recording, &applied)
        {
            for child in children {
                recording.made(self.requests.tenant(), TranscriptId::from(&child.id));
            }
        }
        self.requests.reach(&points(saga)[2]);
        Ok(applied)
    }

    /// The saga as it is now; none when it is over. Reads through the writer: changes that were decided before the session
    /// was claimed are committed then, and later ones see the claim.
    pub async fn current(&self, saga: &Saga) -> Result<Option<Saga>, Error> {
        let id = saga.id.clone();
        let found = self
            .requests
            .store
            .write(&saga.actor.clone(), self.requests.now(), move |writer| {
                writer.reader().find::<Saga>(id.as_str())
            })
            .await?;
        Ok(found)
    }

    /// Takes a saga out of the queue; none when it was cancelled meanwhile.
    pub async fn admit(&self, saga: &Saga) -> Result<Option<Saga>, Error> {
        let begun = match self.record(saga, SagaEvent::Admitted).await? {
            SagaProgress::Go(begun) if begun.version == saga.version + 1 => Some(*begun),
            _ => None,
        };
        self.requests
            .reach(&format!("{}.queued.recorded", saga.kind().as_str()));
        Ok(begun)
    }
}

fn failure(error: &Error) -> SagaEvent {
    SagaEvent::Failed {
        kind: error.kind(),
        text: text_of(error),
    }
}

impl SagaRequests<'_> {
    /// Writes the saga that `begin` makes, with its fact and the caller's pending reply, in one transaction; then calls
    /// `begun`, interprets the saga and waits for its result. The saga goes on when the caller hangs up: half a handoff
    /// is worse than an answer that no caller reads.
    pub(crate) async fn answer(
        self,
        op: &'static str,
        mut begin: impl FnMut(&mut Writer<'_>, &SagaId) -> StoreResult<(Saga, Fact)> + Send + 'static,
        begun: impl FnOnce(&Saga),
    ) -> Result<Answer, Error> {
        let core = self.0;
        let id = SagaId::from_random(core.ledger.ids.bits());
        let awaited = core.ledger.claims.await_saga(id.clone());
        let (request, saga) = (core.caller.idempotency.clone(), id.clone());
        let journalled = core.write(move |writer| {
            if let Some(answer) = earlier(&writer.reader(), request.as_ref())? {
                return Ok(Err(answer));
            }
            let (mut saga, fact) = begin(writer, &saga)?;
            if let Some(request) = &request {
                let reply = writer.reply_pending(&request.key, &request.fingerprint, &saga.id)?;
                saga.reply = Some(reply);
            }
            writer.insert(&saga)?;
            writer.append_event(&fact)?;
            Ok(Ok(saga))
        });
        let saga = match journalled.await {
            Ok(Ok(saga)) => saga,
            Ok(Err(answer)) => return Ok(answer),
            Err(error) => {
                self.undo_unanswered(&id, error.kind()).await;
                return Err(core.refused(op, error.into()).await);
            }
        };
        begun(&saga);
        let interpreter = Interpreter::new(core, LedgerPerformer(core.clone()));
        let answer = interpreter.answer(awaited, saga, core.caller.idempotency.clone());
        let answer = core.ledger.tasks.run("saga", answer).await;
        let outcome = core
            .checked(op, answer.map_err(|_| Error::Stopped)?)
            .await?;
        Ok(Answer::Fresh(outcome))
    }

    /// If the store was unavailable, perhaps only its answer was lost: then the journal row is there, and is undone.
    async fn undo_unanswered(self, id: &SagaId, kind: Kind) {
        if kind != Kind::Unavailable {
            return;
        }
        let row = id.clone();
        let found = self.0.store.read(move |r| r.find::<Saga>(row.as_str()));
        let undone = match found.await {
            Ok(Some(saga)) => self.undo_orphan(saga).await,
            Ok(None) => return,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = undone {
            tracing::error!(saga = %id, %error, "a saga could not be undone yet");
        }
    }

    /// Undoes the sagas whose callers were lost with an earlier daemon. Tries all, notes the first error in `failed`,
    /// and returns how many are over now.
    pub(crate) async fn recover(self, failed: &mut Option<Error>) -> Result<usize, Error> {
        let rows: skein_store::RecordPage<Saga> = self
            .0
            .store
            .read(|r| r.readable(&skein_store::backend::RowFilter::default()))
            .await?;
        warn_of_damage(self.0.tenant(), &rows.damaged);
        let mut over = 0;
        for saga in rows.items {
            if !saga.kind().answers_when_over() || self.0.ledger.claims.is_awaited(&saga.id) {
                continue;
            }
            let id = saga.id.clone();
            match self.undo_orphan(saga).await {
                Ok(()) => over += 1,
                Err(error) => {
                    tracing::warn!(tenant = %self.0.tenant(), saga = %id, %error, "a saga could not be undone yet");
                    // The daemon starts in spite of a record that cannot be read, and of half a fork, which no caller
                    // sees.
                    if !error.is_of_damaged_record() && !matches!(error, Error::Transcript(_)) {
                        failed.get_or_insert(error);
                    }
                }
            }
        }
        Ok(over)
    }

    async fn undo_orphan(self, saga: Saga) -> Result<(), Error> {
        let interpreter = Interpreter::new(self.0, LedgerPerformer(self.0.clone()));
        let mut saga = saga;
        loop {
            let event = match &saga.state {
                SagaState::Doing { .. } => SagaEvent::Orphaned,
                // A failed undo is tried again unchanged: the row says what is left.
                _ => match interpreter.perform(&saga).await {
                    Ok(event) => event,
                    Err(CommandError::Failed(error) | CommandError::Interrupted(error)) => {
                        return Err(error);
                    }
                },
            };
            match interpreter.record(&saga, event).await? {
                SagaProgress::Go(next) => saga = *next,
                SagaProgress::Retry(_, why) => {
                    return Err(Error::Saga {
                        why: why.to_string(),
                    });
                }
                SagaProgress::Over(_) => return Ok(()),
            }
        }
    }
}
