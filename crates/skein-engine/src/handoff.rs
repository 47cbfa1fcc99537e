//! Handing a session over, to one actor or to several at once: lock, prepare, commit; or revert.
//!
//! The lock is a compare-and-set, so of many with the same expected version one gets it. Between lock and
//! commit the recipients' workspaces are prepared. A crash in between leaves a locked session and its
//! journal row; [`crate::Engine::recover`] reverts it before anyone is served.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skein_domain::session::NewSession;
use skein_domain::{
    Actor, AgentName, Handoff, HandoffId, Kind, Mode, Phase, Project, Role, Session, SessionId,
    Step, capacity, fact::Change,
};
use skein_store::Writer;
use skein_store::reply::Earlier;
use skein_transcript::TranscriptId;

use crate::caller::{Answer, Idempotency, Outcome};
use crate::desk::Desk;
use crate::error::Error;
use crate::spawn::{insert, live_children, set_aside};
use crate::turn::require_open_thread;

type StoreResult<T> = Result<T, skein_store::Error>;

/// Prepares what recipients need before the handoff is committed. Called between lock and commit; undoing
/// must be safe to repeat, and is called after a crash as well.
pub trait Provisioner: Send + Sync + std::fmt::Debug {
    fn prepare<'a>(
        &'a self,
        handoff: &'a Handoff,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
    fn undo<'a>(
        &'a self,
        handoff: &'a Handoff,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
}

/// For sessions without workspaces there is nothing to prepare.
#[derive(Debug)]
pub struct NoWorkspaces;

impl Provisioner for NoWorkspaces {
    fn prepare<'a>(
        &'a self,
        _: &'a Handoff,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn undo<'a>(
        &'a self,
        _: &'a Handoff,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The handoffs at work in this process, which recovery must leave alone.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashSet<HandoffId>>);

impl Running {
    fn lock(&self) -> MutexGuard<'_, HashSet<HandoffId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn holds(&self, id: &HandoffId) -> bool {
        self.lock().contains(id)
    }

    fn begin(&self, id: HandoffId) -> AtWork<'_> {
        self.lock().insert(id.clone());
        AtWork { running: self, id }
    }
}

/// Ends with the saga, also when that panics or is aborted: from then on it is recovery's.
struct AtWork<'a> {
    running: &'a Running,
    id: HandoffId,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.running.lock().remove(&self.id);
    }
}

enum Locked {
    Replayed(String),
    Now(Handoff),
}

impl Desk {
    /// Moves the session to a new owner: same id, same transcript, ownership one version further.
    pub async fn handoff(
        &self,
        reference: String,
        to: Actor,
        expect_version: Option<u64>,
    ) -> Result<Answer, Error> {
        self.hand_over(
            "hand over a session",
            reference,
            Mode::Single { to },
            expect_version,
        )
        .await
    }

    /// Gives each recipient a child session; the source keeps its owner and waits for them.
    pub async fn broadcast(
        &self,
        reference: String,
        to: Vec<Actor>,
        expect_version: Option<u64>,
    ) -> Result<Answer, Error> {
        self.hand_over(
            "broadcast a session",
            reference,
            Mode::Broadcast { to },
            expect_version,
        )
        .await
    }

    async fn hand_over(
        &self,
        op: &'static str,
        reference: String,
        mode: Mode,
        expect_version: Option<u64>,
    ) -> Result<Answer, Error> {
        mode.check_shape()?;
        if let Err(refused) = self.caller.role.require(Role::Operate, op) {
            return Err(self.refused(op, refused.into()).await);
        }
        // The saga goes on when the caller hangs up: half a handoff is worse than an unheard answer.
        let desk = self.clone();
        let saga = async move { desk.saga(op, reference, mode, expect_version).await };
        self.shared
            .tasks
            .run("handoff", saga)
            .await
            .map_err(|_| Error::Stopped)?
    }

    async fn saga(
        &self,
        op: &'static str,
        reference: String,
        mode: Mode,
        expect_version: Option<u64>,
    ) -> Result<Answer, Error> {
        let id = HandoffId::from_random(self.shared.ids.bits());
        let _at_work = self.shared.running.begin(id.clone());
        self.saga_steps(op, id, reference, mode, expect_version)
            .await
    }

    async fn saga_steps(
        &self,
        op: &'static str,
        id: HandoffId,
        reference: String,
        mode: Mode,
        expect_version: Option<u64>,
    ) -> Result<Answer, Error> {
        let lock = self.lock(id.clone(), reference, mode, expect_version);
        let handoff = match lock.await {
            Ok(Locked::Now(handoff)) => handoff,
            Ok(Locked::Replayed(body)) => return Ok(Answer::Replayed(body)),
            Err(error) => {
                // Only the answer may have been lost, and the lock be there.
                if error.kind() == Kind::Unavailable {
                    self.give_up(&id, &error.to_string()).await;
                }
                return Err(self.refused(op, error.into()).await);
            }
        };
        let error = match self.shared.provisioner.prepare(&handoff).await {
            Err(why) => Error::HandoffUndone {
                session: handoff.session.clone(),
                why,
            },
            Ok(()) => match self.commit(&handoff).await {
                Ok(outcome) => return Ok(Answer::Fresh(outcome)),
                Err(error) => Error::Store(error),
            },
        };
        self.give_up(&handoff.id, &error.to_string()).await;
        Err(self.refused(op, error).await)
    }

    /// A revert that fails is retried by the sweep; the first error is what the caller hears.
    async fn give_up(&self, id: &HandoffId, why: &str) {
        if let Err(failed) = self.revert(id, why).await {
            tracing::error!(handoff = %id, error = %failed, "a handoff could not be undone yet");
        }
    }

    async fn lock(
        &self,
        id: HandoffId,
        reference: String,
        mode: Mode,
        expect_version: Option<u64>,
    ) -> StoreResult<Locked> {
        let actor = self.caller.actor.clone();
        let must_own = self.must_own();
        let request: Option<Idempotency> = self.caller.idempotency.clone();
        self.store
            .write(&self.caller.actor, self.now(), move |writer| {
                if let Some(request) = &request
                    && let Earlier::Answered(body) = writer
                        .reader()
                        .earlier(&request.key, &request.fingerprint)?
                {
                    return Ok(Locked::Replayed(body));
                }
                let session: Session = writer.reader().resolve(&reference)?;
                session.check_owner(must_own.as_ref())?;
                session.check_owner_version(expect_version)?;
                session.check_free()?;
                let handoff = Handoff {
                    id: id.clone(),
                    session: session.id.clone(),
                    mode: mode.clone(),
                    actor: actor.clone(),
                    key: request.as_ref().map(|r| r.key.clone()),
                    at: writer.now(),
                };
                let locked = handoff.locked(&session, writer.now())?;
                handoff.mode.check_recipient(&session)?;
                require_open_thread(&writer.reader(), &session)?;
                let to = check_room(writer, &session, &handoff.mode)?;
                writer.update(&locked)?;
                writer.insert(&handoff)?;
                if let Some(request) = &request {
                    writer.reply_pending(&request.key, &request.fingerprint, &handoff.id)?;
                }
                let mode = handoff.mode.as_str();
                writer.tell(
                    &Change::Locked {
                        handoff: handoff.id.clone(),
                        mode,
                        to,
                    }
                    .of(&locked),
                )?;
                Ok(Locked::Now(handoff))
            })
            .await
    }

    async fn commit(&self, handoff: &Handoff) -> StoreResult<Outcome> {
        let handoff = handoff.clone();
        let request = self.caller.idempotency.clone();
        let (shared, tenant) = (self.shared.clone(), self.tenant().clone());
        let recorded = move |child: &SessionId| {
            if let Some(books) = shared.books.get() {
                books.beginnings.add(&tenant, TranscriptId::from(child));
            }
        };
        self.store
            .write(&self.caller.actor, self.now(), move |writer| {
                // The journal row is the right to commit: a handoff that was undone meanwhile has none.
                let handoff: Handoff = writer.reader().get(handoff.id.as_str())?;
                let locked: Session = writer.reader().get(handoff.session.as_str())?;
                let outcome = match &handoff.mode {
                    Mode::Single { to } => commit_single(writer, &handoff, &locked, to)?,
                    Mode::Broadcast { to } => {
                        commit_broadcast(writer, &handoff, &locked, to, &recorded)?
                    }
                };
                writer.delete(&handoff)?;
                if let Some(request) = &request {
                    let body = (request.render)(&outcome);
                    writer.keep_reply(&request.key, &request.fingerprint, body)?;
                }
                Ok(outcome)
            })
            .await
    }

    /// Unlocks the session as it was before, and undoes what was prepared. Safe to repeat: without a journal
    /// row the handoff is over, and if it was committed, what it prepared is in use. A session waits for no
    /// undo; where that fails the row stays, for another try. Returns whether nothing is left to do.
    pub(crate) async fn revert(&self, id: &HandoffId, why: &str) -> Result<bool, Error> {
        let row = id.clone();
        let found = self.store.read(move |r| r.find::<Handoff>(row.as_str()));
        let Some(handoff) = found.await? else {
            return Ok(true);
        };
        let undone = self.shared.provisioner.undo(&handoff).await;
        if let Err(error) = &undone {
            tracing::error!(handoff = %id, %error, "what a handoff prepared could not be undone");
        }
        let (over, why) = (undone.is_ok(), why.to_owned());
        self.store
            .write(&self.caller.actor, self.now(), move |writer| {
                write_revert(writer, &handoff.id, &why, &undone)
            })
            .await?;
        Ok(over)
    }
}

fn write_revert(
    writer: &mut Writer<'_>,
    id: &HandoffId,
    why: &str,
    undone: &Result<(), String>,
) -> StoreResult<()> {
    let Some(handoff) = writer.reader().find::<Handoff>(id.as_str())? else {
        return Ok(());
    };
    let session: Session = writer.reader().get(handoff.session.as_str())?;
    let told = |why: String| Change::Reverted {
        handoff: handoff.id.clone(),
        why,
    };
    // An earlier try may have unlocked it already; then only the undo is left.
    if session.phase == Phase::Locked(handoff.id.clone()) {
        let after = handoff.reverted(&session, writer.now())?;
        writer.update(&after)?;
        if let Some(key) = &handoff.key {
            writer.forget_reply(key)?;
        }
        let why = match undone {
            Ok(()) => why.to_owned(),
            Err(error) => format!("{why}; what it prepared is still to be undone: {error}"),
        };
        writer.tell(&told(why).of(&after))?;
    } else if undone.is_ok() {
        writer.tell(&told("what it prepared is undone now".into()).of(&session))?;
    }
    if undone.is_ok() {
        writer.delete(&handoff)?;
    }
    Ok(())
}

/// Refuses a broadcast there is no room for, before anything is prepared. A locked session takes no other
/// children, so the room is still there at the commit.
fn check_room(writer: &Writer<'_>, session: &Session, mode: &Mode) -> StoreResult<Vec<Actor>> {
    match mode {
        Mode::Single { to } => Ok(vec![to.clone()]),
        Mode::Broadcast { to } => {
            let project: Project = writer.reader().get(session.project.as_str())?;
            let asked = u32::try_from(to.len()).unwrap_or(u32::MAX);
            capacity::check(
                &project.limits,
                &session.id,
                session.depth,
                live_children(writer, session)?,
                asked,
            )?;
            let share = session.budget.equal_share(&session.usage, u64::from(asked));
            session.budget.reserve(&session.id, &session.usage, share)?;
            Ok(to.clone())
        }
    }
}

fn commit_single(
    writer: &mut Writer<'_>,
    handoff: &Handoff,
    locked: &Session,
    to: &Actor,
) -> StoreResult<Outcome> {
    let after = handoff.committed(locked, to, writer.now())?;
    writer.update(&after)?;
    let change = Change::HandedOver {
        handoff: handoff.id.clone(),
        from: locked.owner.clone(),
        to: to.clone(),
        owner_version: after.owner_version,
    };
    writer.tell(&change.of(&after))?;
    Ok(Outcome::Session(Box::new(after)))
}

fn commit_broadcast(
    writer: &mut Writer<'_>,
    handoff: &Handoff,
    locked: &Session,
    to: &[Actor],
    recorded: &impl Fn(&SessionId),
) -> StoreResult<Outcome> {
    let project: Project = writer.reader().get(locked.project.as_str())?;
    let share = locked.budget.equal_share(&locked.usage, to.len() as u64);
    let mut source = locked.clone();
    let mut children = Vec::new();
    for recipient in to {
        let (charged, allowance) = set_aside(writer, &source, share)?;
        source = charged;
        let child = Session::ready(NewSession {
            id: writer.next_session_id(&project)?,
            project: source.project.clone(),
            thread: source.thread.clone(),
            parent: Some(source.id.clone()),
            depth: source.depth + 1,
            owner: recipient.clone(),
            agent: AgentName::none(),
            task: source.task.clone(),
            allowance,
            broadcast: Some(handoff.id.clone()),
            at: writer.now(),
        });
        recorded(&child.id);
        insert(writer, &child, allowance)?;
        children.push(child);
    }
    let mut after = source.step(Step::AwaitMerge(handoff.id.clone()), writer.now())?;
    after.owner_version += 1;
    writer.update(&after)?;
    let change = Change::Broadcast {
        handoff: handoff.id.clone(),
        children: children
            .iter()
            .map(|c| (c.id.clone(), c.owner.clone()))
            .collect(),
        owner_version: after.owner_version,
    };
    writer.tell(&change.of(&after))?;
    Ok(Outcome::Sessions(children))
}
