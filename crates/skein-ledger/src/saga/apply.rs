//! Records what the saga machine decided: the session, other changes in the ledger, the events and the journal row, in
//! the caller's transaction.

use skein_domain::fact::{SagaChange, SessionChange};
use skein_domain::saga::{Decision, ForkRequest, LedgerCommand, NextState, SagaEvent};
use skein_domain::session::NewSession;
use skein_domain::{
    Actor, AgentName, Allowance, ForkedFrom, Project, Reason, Refused, Saga, SagaId, SagaRequest,
    SagaState, Session, Step, Thread,
};
use skein_store::Writer;

use crate::caller::RequestOutcome;
use crate::ending::end_session;
use crate::error::StoreResult;
use crate::receipt::close_written;
use crate::spawn::{insert, set_aside};

/// Where a saga is after a transaction.
#[derive(Debug)]
pub enum SagaProgress {
    Go(Box<Saga>),
    /// Tried again later, for this reason.
    Retry(Box<Saga>, Reason),
    /// Over; with what it made, if that answers a caller.
    Over(Option<RequestOutcome>),
}

/// A journal row for a request that is being accepted.
pub fn new_saga(writer: &Writer<'_>, id: SagaId, session: &Session, request: SagaRequest) -> Saga {
    let kind = request.kind();
    let state = match kind.queues() {
        true => SagaState::Queued,
        false => SagaState::Doing {
            step: kind.steps()[0],
        },
    };
    Saga {
        id,
        session: session.id.clone(),
        request,
        state,
        prompt: None,
        shared: None,
        actor: writer.actor().clone(),
        reply: None,
        version: 1,
        at: writer.now(),
    }
}

/// Journals a saga of a session with an agent.
pub fn begin_saga(writer: &mut Writer<'_>, saga: &Saga, session: &Session) -> StoreResult<()> {
    writer.insert(saga)?;
    append_saga_event(writer, saga, session, SagaChange::Queued)
}

pub fn append_saga_event(
    writer: &mut Writer<'_>,
    saga: &Saga,
    session: &Session,
    change: SagaChange,
) -> StoreResult<()> {
    let change = SessionChange::Saga {
        saga: saga.id.clone(),
        kind: saga.kind(),
        change,
    };
    writer.append_event(&change.of(session))
}

/// Decides what follows from `event` and records it.
pub fn apply(
    writer: &mut Writer<'_>,
    saga: &Saga,
    session: &Session,
    event: SagaEvent,
) -> StoreResult<SagaProgress> {
    let decision = saga.decide(session, event, writer.now())?;
    let Decision {
        next,
        session: changed,
        ledger,
        changes,
    } = decision;
    let mut session = session.clone();
    if let Some(changed) = changed {
        session = *changed;
        writer.update(&session)?;
    }
    let outcome = match ledger {
        None => RequestOutcome::Session(Box::new(session.clone())),
        Some(LedgerCommand::EndSession { outcome, reason }) => {
            close_written(writer, &session)?;
            session = end_session(writer, &session, outcome, reason)?;
            RequestOutcome::Session(Box::new(session.clone()))
        }
        Some(LedgerCommand::MakeChildren { to }) => {
            let children = make_children(writer, &saga.id, &session, &to)?;
            RequestOutcome::Sessions(children)
        }
        Some(LedgerCommand::MakeFork(fork)) => {
            let fork = make_fork(writer, saga, &session, &fork)?;
            RequestOutcome::Session(Box::new(fork))
        }
    };
    for change in changes {
        writer.append_event(&change.of(&session))?;
    }
    Ok(match next {
        NextState::Go(next) => {
            if next.version != saga.version {
                writer.update(&*next)?;
            }
            SagaProgress::Go(next)
        }
        NextState::Later(next, why) => {
            writer.update(&*next)?;
            SagaProgress::Retry(next, why)
        }
        NextState::Retry(why) => SagaProgress::Retry(Box::new(saga.clone()), why),
        NextState::Over => {
            let is_undone = matches!(saga.state, SagaState::Undoing { .. });
            if let Some(reply) = saga.reply.as_deref().filter(|_| is_undone) {
                writer.forget_reply(reply)?;
            }
            writer.delete(saga)?;
            SagaProgress::Over(Some(outcome).filter(|_| !is_undone))
        }
    })
}

/// A child for each recipient of a broadcast, with an equal share of what is left of the source's budget.
fn make_children(
    writer: &mut Writer<'_>,
    broadcast: &SagaId,
    locked: &Session,
    to: &[Actor],
) -> StoreResult<Vec<Session>> {
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
            broadcast: Some(broadcast.clone()),
            at: writer.now(),
        });
        insert(writer, &child, allowance)?;
        children.push(child);
    }
    let mut after = source.step(Step::AwaitMerge(broadcast.clone()), writer.now())?;
    after.owner_version += 1;
    writer.update(&after)?;
    let change = SessionChange::Broadcast {
        handoff: broadcast.clone(),
        children: children
            .iter()
            .map(|c| (c.id.clone(), c.owner.clone()))
            .collect(),
        owner_version: after.owner_version,
    };
    writer.append_event(&change.of(&after))?;
    Ok(children)
}

/// The session of a fork whose transcript is there. It has no parent.
fn make_fork(
    writer: &mut Writer<'_>,
    saga: &Saga,
    source: &Session,
    fork: &ForkRequest,
) -> StoreResult<Session> {
    let thread: Thread = writer.reader().get(fork.thread.as_str())?;
    let project = check_fork_place(writer, &thread)?;
    let from = ForkedFrom {
        session: source.id.clone(),
        message: saga.shared.clone(),
    };
    let session = Session {
        forked_from: Some(from.clone()),
        ..Session::ready(NewSession {
            id: fork.target.clone(),
            project: project.id,
            thread: thread.id,
            parent: None,
            depth: 0,
            owner: fork.owner.clone(),
            agent: AgentName::none(),
            task: fork.task.clone(),
            allowance: Allowance::UNLIMITED,
            broadcast: None,
            at: writer.now(),
        })
    };
    insert(writer, &session, Allowance::UNLIMITED)?;
    writer.append_event(&SessionChange::Forked(from).of(&session))?;
    Ok(session)
}

/// The project a fork goes to, if its thread takes sessions.
pub fn check_fork_place(writer: &Writer<'_>, thread: &Thread) -> StoreResult<Project> {
    thread.require_open()?;
    let project: Project = writer.reader().get(thread.project.as_str())?;
    if project.removed_at.is_some() {
        let project = project.id;
        return Err(Refused::ProjectRemoved { project }.into());
    }
    Ok(project)
}
