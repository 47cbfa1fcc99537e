//! Making sessions: alone, or below one that delegates.

use skein_domain::session::NewSession;
use skein_domain::{
    Actor, AgentName, Allowance, Conflict, Invalid, PhaseName, Project, Role, Session, Task,
    Thread, ThreadId, Title, capacity, fact::Change,
};
use skein_store::Writer;
use skein_store::backend::Filter;

use crate::caller::{Answer, Outcome};
use crate::desk::Desk;
use crate::error::Error;
use crate::{project, thread};

#[derive(Clone, Debug)]
pub struct Spawn {
    pub task: Task,
    pub project: Option<String>,
    pub thread: Option<String>,
    pub parent: Option<String>,
    /// Default: the caller.
    pub owner: Option<Actor>,
    pub agent: AgentName,
    pub allowance: Allowance,
}

/// How many of a session's children are live.
pub(crate) fn live_children(
    writer: &Writer<'_>,
    session: &Session,
) -> Result<u32, skein_store::Error> {
    let filter = Filter {
        parent: Some(session.id.to_string()),
        live: Some(true),
        ..Filter::default()
    };
    Ok(u32::try_from(writer.reader().count::<Session>(&filter)?).unwrap_or(u32::MAX))
}

impl Desk {
    pub async fn spawn(&self, spawn: Spawn) -> Result<Answer, Error> {
        let own_thread = ThreadId::from_random(self.shared.ids.bits());
        let owner = match &spawn.owner {
            Some(owner) => owner.clone(),
            None if spawn.agent.is_none() => self.caller.actor.clone(),
            None => format!("agent:{}", spawn.agent).parse()?,
        };
        let must_own = self.must_own(None);
        self.change("spawn a session", Role::Operate, move |writer| {
            let place = find_place(writer, &spawn, &own_thread, must_own.as_ref())?;
            let (parent, allowance) = match place.parent {
                None => (None, check_root(spawn.allowance)?),
                Some(parent) => {
                    let live = live_children(writer, &parent)?;
                    capacity::check(&place.project.limits, &parent.id, parent.depth, live, 1)?;
                    let (parent, allowance) = set_aside(writer, &parent, spawn.allowance)?;
                    (Some(parent), allowance)
                }
            };
            let session = Session::ready(NewSession {
                id: writer.next_session_id(&place.project)?,
                project: place.project.id,
                thread: place.thread.id,
                depth: parent.as_ref().map_or(0, |p| p.depth + 1),
                parent: parent.map(|p| p.id),
                owner: owner.clone(),
                agent: spawn.agent.clone(),
                task: spawn.task.clone(),
                allowance,
                broadcast: None,
                at: writer.now(),
            });
            insert(writer, &session, allowance)?;
            Ok(Outcome::Session(Box::new(session)))
        })
        .await
    }
}

struct Place {
    project: Project,
    thread: Thread,
    parent: Option<Session>,
}

/// Where the session goes: beside its parent, into the thread named, or into a thread of its own.
fn find_place(
    writer: &mut Writer<'_>,
    spawn: &Spawn,
    own_thread: &ThreadId,
    must_own: Option<&Actor>,
) -> Result<Place, skein_store::Error> {
    let parent: Option<Session> = match &spawn.parent {
        Some(reference) => Some(writer.reader().resolve(reference)?),
        None => None,
    };
    if let Some(parent) = &parent {
        parent.check_owner(must_own)?;
        check_delegates(parent)?;
    }
    let thread: Option<Thread> = match (&spawn.thread, &parent) {
        (Some(reference), _) => Some(writer.reader().resolve(reference)?),
        (None, Some(parent)) => Some(writer.reader().get(parent.thread.as_str())?),
        (None, None) => None,
    };
    let project: Project = match (&thread, &spawn.project) {
        (Some(thread), _) => writer.reader().get(thread.project.as_str())?,
        (None, Some(reference)) => project::resolve(&writer.reader(), reference)?,
        (None, None) => {
            return Err(Invalid::new("project", "", "name a project, a thread or a parent").into());
        }
    };
    if let Some(reference) = &spawn.project
        && project::resolve(&writer.reader(), reference)?.id != project.id
    {
        return Err(Invalid::new(
            "project",
            reference,
            "the thread belongs to another project",
        )
        .into());
    }
    if let (Some(parent), Some(thread)) = (&parent, &thread)
        && parent.thread != thread.id
    {
        return Err(Invalid::new(
            "thread",
            thread.id.as_str(),
            "a child works on its parent's thread",
        )
        .into());
    }
    if project.removed_at.is_some() {
        return Err(skein_domain::Refused::ProjectRemoved {
            project: project.id,
        }
        .into());
    }
    let thread = match thread {
        Some(thread) => {
            thread.require_open()?;
            thread
        }
        None => thread::open_thread(
            writer,
            own_thread.clone(),
            &project,
            Title::of_task(&spawn.task),
        )?,
    };
    Ok(Place {
        project,
        thread,
        parent,
    })
}

/// A session that has ended or is changing hands cannot delegate.
pub(crate) fn check_delegates(parent: &Session) -> Result<(), Conflict> {
    match parent.phase.name() {
        PhaseName::Active
        | PhaseName::Idle
        | PhaseName::AwaitingInput
        | PhaseName::AwaitingMerge => Ok(()),
        phase @ (PhaseName::Spawning
        | PhaseName::Locked
        | PhaseName::Ended
        | PhaseName::Archived) => Err(Conflict::WrongPhase {
            session: parent.id.clone(),
            phase,
            wanted: "only a live session that is not being handed over can delegate",
        }),
    }
}

fn check_root(allowance: Allowance) -> Result<Allowance, Invalid> {
    if allowance.tokens == Some(0) || allowance.cost_micros == Some(0) {
        return Err(Invalid::new(
            "budget",
            "0",
            "nothing can be done with it; leave it out for no limit",
        ));
    }
    Ok(allowance)
}

/// Takes the child's share from the parent's budget, in the transaction that makes the child.
pub(crate) fn set_aside(
    writer: &mut Writer<'_>,
    parent: &Session,
    asked: Allowance,
) -> Result<(Session, Allowance), skein_store::Error> {
    let (budget, allowance) = parent.budget.reserve(&parent.id, &parent.usage, asked)?;
    if budget == parent.budget {
        return Ok((parent.clone(), allowance));
    }
    let after = Session {
        budget,
        ..parent.next(writer.now())
    };
    writer.update(&after)?;
    Ok((after, allowance))
}

pub(crate) fn insert(
    writer: &mut Writer<'_>,
    session: &Session,
    allowance: Allowance,
) -> Result<(), skein_store::Error> {
    writer.insert(session)?;
    writer.tell(
        &Change::Spawned {
            name: session.task.display_name(),
            owner: session.owner.clone(),
            parent: session.parent.clone(),
            depth: session.depth,
            allowance,
        }
        .of(session),
    )
}
