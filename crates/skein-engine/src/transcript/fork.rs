//! Forking: a new session that goes on from a point of another's transcript.
//!
//! A saga of three steps: an id is taken and journalled; the transcript is forked into that id; the session
//! is recorded, and the journal row goes, in one transaction. The transcript comes before the session, so
//! that nobody ever sees a session whose transcript is not the one it should have, and so that a message
//! which does not exist (or is rewound away meanwhile) costs nothing but a number. Nobody else is ever given
//! the id, so a fork into it can be repeated, and undoing it is removing what is there under that id: a
//! head without entries of its own, whatever the length of what it shares. Anything else that is found
//! there is not ours, and stays.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skein_domain::fact::Change;
use skein_domain::session::NewSession;
use skein_domain::{
    Actor, AgentName, Allowance, Fork, ForkedFrom, MessageId, Project, Refused, Role, Session,
    SessionId, Task, Thread,
};
use skein_store::backend::Filter;
use skein_store::reply::Earlier;
use skein_store::{Page, Writer};
use skein_transcript::{By, Point, Run, TranscriptId};

use super::read::newest;
use crate::caller::{Answer, Outcome};
use crate::desk::Desk;
use crate::engine::warn_of_damage;
use crate::error::Error;
use crate::spawn::insert;

const OP: &str = "fork a session";

#[derive(Clone, Debug, Default)]
pub struct ForkOrder {
    pub source: String,
    /// Just after this message; none: at the end.
    pub at: Option<MessageId>,
    /// Default: the source's.
    pub thread: Option<String>,
    /// Default: the caller.
    pub owner: Option<Actor>,
    /// Default: the source's.
    pub task: Option<Task>,
}

/// The forks at work in this process, which recovery must leave alone.
#[derive(Debug, Default)]
pub(super) struct Forking(Mutex<HashSet<SessionId>>);

impl Forking {
    fn lock(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends with the saga, also when that panics or is aborted: from then on it is recovery's.
struct AtWork<'a> {
    forking: &'a Forking,
    id: SessionId,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.forking.lock().remove(&self.id);
    }
}

impl Desk {
    /// Makes a session without an agent that goes on from where `order` says. It is nobody's child.
    pub async fn fork(&self, order: ForkOrder) -> Result<Answer, Error> {
        if let Err(refused) = self.caller.role.require(Role::Operate, OP) {
            return Err(self.refused(OP, refused.into()).await);
        }
        if let Err(refused) = self.acting_as(order.owner.clone()) {
            return Err(self.refused(OP, refused.into()).await);
        }
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        // The saga goes on when the caller hangs up: half a fork is worse than an unheard answer.
        let desk = self.clone();
        let saga = async move { desk.fork_saga(order).await };
        let done = self.shared.tasks.run("fork", saga).await;
        done.map_err(|_| Error::Stopped)?
    }

    async fn fork_saga(&self, order: ForkOrder) -> Result<Answer, Error> {
        let fork = match self.reserve_fork(&order).await {
            Ok(fork) => fork,
            Err(error) => return Err(self.refused(OP, error).await),
        };
        let _at_work = AtWork {
            forking: &self.books()?.forking,
            id: fork.session.clone(),
        };
        self.reach("fork.reserved");
        let error = match self.fork_transcript(&fork, &order).await {
            Err(error) => error,
            Ok(from) => {
                self.reach("fork.transcript");
                match self.record_fork(&fork, order, from).await {
                    Ok(Answer::Fresh(outcome)) => {
                        self.reach("fork.recorded");
                        return Ok(Answer::Fresh(outcome));
                    }
                    // Another request under the same key was faster; this one leaves nothing.
                    Ok(replayed) => {
                        self.undo_fork(&fork, "the same request was answered before")
                            .await?;
                        return Ok(replayed);
                    }
                    Err(error) => error,
                }
            }
        };
        // Where only the answer was lost, the row is gone and the fork stands.
        if let Err(failed) = self.undo_fork(&fork, &error.to_string()).await {
            tracing::error!(fork = %fork.session, error = %failed, "a fork could not be undone yet");
        }
        Err(self.refused(OP, error).await)
    }

    /// Lets tests end the daemon between any two steps.
    fn reach(&self, point: &str) {
        if let Some(fleet) = self.shared.fleet.get() {
            fleet.point(point);
        }
    }

    async fn reserve_fork(&self, order: &ForkOrder) -> Result<Fork, Error> {
        self.books()?;
        let (order, shared) = (order.clone(), self.shared.clone());
        let (must_own, tenant) = (self.must_own(), self.tenant().clone());
        let reserved = self
            .store
            .write(&self.caller.actor, self.now(), move |writer| {
                let source: Session = writer.reader().resolve(&order.source)?;
                source.check_owner(must_own.as_ref())?;
                let (_, project) = place(writer, &order, &source)?;
                let fork = Fork {
                    session: writer.next_session_id(&project)?,
                    source: source.id.clone(),
                    at: writer.now(),
                };
                // Before it can be seen, so that no sweep takes it for a dead one's.
                if let Some(books) = shared.books.get() {
                    books.forking.lock().insert(fork.session.clone());
                    // The id may have been another session's that came to nothing.
                    let id = TranscriptId::from(&fork.session);
                    books.beginnings.remove(&tenant, &id);
                }
                writer.insert(&fork)?;
                let began = Change::ForkBegan {
                    fork: fork.session.clone(),
                };
                writer.tell(&began.of(&source))?;
                Ok(fork)
            });
        Ok(reserved.await?)
    }

    async fn fork_transcript(&self, fork: &Fork, order: &ForkOrder) -> Result<ForkedFrom, Error> {
        let source = self.get_session(fork.source.to_string()).await?;
        let source = self.book_of(source)?;
        self.ensure(&source).await?;
        let point = match &order.at {
            Some(message) => Point::After(message.clone()),
            None => Point::Head,
        };
        let (all, target) = (self.transcripts()?, TranscriptId::from(&fork.session));
        let by = By {
            // That of every session without an agent.
            run: Run(1),
            at: self.now(),
        };
        let id = source.transcript.id();
        all.fork(id, &point, &target, by).await?;
        let message = match &order.at {
            Some(message) => Some(message.clone()),
            // Asked of the fork: the source may have gone on.
            None => newest(&all.open(&target)).await?.map(|p| p.message.id),
        };
        Ok(ForkedFrom {
            session: fork.source.clone(),
            message,
        })
    }

    async fn record_fork(
        &self,
        fork: &Fork,
        order: ForkOrder,
        from: ForkedFrom,
    ) -> Result<Answer, Error> {
        let fork = fork.clone();
        let owner = order.owner.clone();
        let owner = owner.unwrap_or_else(|| self.caller.actor.clone());
        let request = self.caller.idempotency.clone();
        let recorded = self
            .store
            .write(&self.caller.actor, self.now(), move |writer| {
                if let Some(request) = &request
                    && let Earlier::Answered(body) = writer
                        .reader()
                        .earlier(&request.key, &request.fingerprint)?
                {
                    return Ok(Answer::Replayed(body));
                }
                // The journal row is the right to go on: a fork that was undone meanwhile has none.
                let row: Fork = writer.reader().get(fork.session.as_str())?;
                let source: Session = writer.reader().get(fork.source.as_str())?;
                let (thread, project) = place(writer, &order, &source)?;
                let session = Session {
                    forked_from: Some(from.clone()),
                    ..Session::ready(NewSession {
                        id: row.session.clone(),
                        project: project.id,
                        thread: thread.id,
                        parent: None,
                        depth: 0,
                        owner: owner.clone(),
                        agent: AgentName::none(),
                        task: order.task.clone().unwrap_or_else(|| source.task.clone()),
                        allowance: Allowance::UNLIMITED,
                        broadcast: None,
                        at: writer.now(),
                    })
                };
                insert(writer, &session, Allowance::UNLIMITED)?;
                writer.tell(&Change::Forked(from.clone()).of(&session))?;
                writer.delete(&row)?;
                let outcome = Outcome::Session(Box::new(session));
                if let Some(request) = &request {
                    let body = (request.render)(&outcome);
                    writer.keep_reply(&request.key, &request.fingerprint, body)?;
                }
                Ok(Answer::Fresh(outcome))
            });
        Ok(recorded.await?)
    }

    /// Removes what a fork left, if its session was not recorded. Safe to repeat; the row goes last.
    async fn undo_fork(&self, fork: &Fork, why: &str) -> Result<(), Error> {
        let id = fork.session.to_string();
        let stands = self.store.read(move |r| r.find::<Session>(&id)).await?;
        if stands.is_some() {
            return Ok(());
        }
        let target = TranscriptId::from(&fork.session);
        let source = TranscriptId::from(&fork.source);
        if !self.transcripts()?.open(&target).unfork(&source).await? {
            tracing::error!(fork = %fork.session, "what lies where a fork is undone is not that fork; it stays");
        }
        let (fork, why) = (fork.clone(), why.to_owned());
        let undone = self
            .store
            .write(&self.caller.actor, self.now(), move |writer| {
                let Some(row) = writer.reader().find::<Fork>(fork.session.as_str())? else {
                    return Ok(());
                };
                let source: Session = writer.reader().get(row.source.as_str())?;
                writer.delete(&row)?;
                let undone = Change::ForkUndone {
                    fork: row.session,
                    why: why.clone(),
                };
                writer.tell(&undone.of(&source))
            });
        Ok(undone.await?)
    }

    /// Undoes the forks that a crash left half-done; answers how many. The first error is told when all
    /// were tried.
    pub(crate) async fn recover_forks(&self) -> Result<usize, Error> {
        let Some(books) = self.shared.books.get() else {
            return Ok(0);
        };
        let stale: Page<Fork> = self.store.read(|r| r.readable(&Filter::default())).await?;
        warn_of_damage(self.tenant(), &stale.damaged);
        let (mut over, mut failed) = (0, None);
        for fork in stale.items {
            if books.forking.lock().contains(&fork.session) {
                continue;
            }
            match self.undo_fork(&fork, "the daemon stopped in between").await {
                Ok(()) => over += 1,
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(over), Err)
    }
}

/// Where the fork goes: the thread named, else its source's; it must be open.
fn place(
    writer: &Writer<'_>,
    order: &ForkOrder,
    source: &Session,
) -> Result<(Thread, Project), skein_store::Error> {
    let reader = writer.reader();
    let thread: Thread = match &order.thread {
        Some(reference) => reader.resolve(reference)?,
        None => reader.get(source.thread.as_str())?,
    };
    thread.require_open()?;
    let project: Project = reader.get(thread.project.as_str())?;
    if project.removed_at.is_some() {
        let project = project.id;
        return Err(Refused::ProjectRemoved { project }.into());
    }
    Ok((thread, project))
}
