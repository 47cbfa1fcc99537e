//! Making sessions: alone, or below one that delegates.

use skein_domain::saga::Order;
use skein_domain::session::NewSession;
use skein_domain::{
    Actor, AgentName, Allowance, Conflict, Invalid, PhaseName, Project, ReceiptId, Refused, Role,
    SagaId, SagaKind, Session, Task, Thread, ThreadId, Title, capacity, fact::Change,
};
use skein_store::Writer;
use skein_store::backend::Filter;
use skein_transcript::TranscriptId;

use crate::access::is_at_or_below;
use crate::caller::{Answer, Outcome};
use crate::desk::Desk;
use crate::ending::{begin_saga, new_saga};
use crate::error::Error;
use crate::fleet::equip::{Equip, Prepared};
use crate::tasks::blocking;
use crate::{project, thread};

#[derive(Clone, Debug)]
pub struct Spawn {
    pub task: Task,
    pub project: Option<String>,
    pub thread: Option<String>,
    pub parent: Option<String>,
    /// Default: the caller.
    pub owner: Option<Actor>,
    /// Default: the project's, else `none`.
    pub agent: Option<AgentName>,
    pub allowance: Allowance,
    /// What a session with an agent is to have.
    pub equip: Equip,
}

const OP: &str = "spawn a session";

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
    /// Makes a session. One without an agent is ready at once; one with an agent is `spawning`, and the
    /// answer comes as soon as that is journalled: its saga does the rest.
    pub async fn spawn(&self, spawn: Spawn) -> Result<Answer, Error> {
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let spawn = self.below_caller(spawn).await?;
        let agent = self.choose_agent(&spawn).await?;
        if let Err(refused) = self.check_spawn(&spawn, &agent) {
            return Err(self.refused(OP, refused.into()).await);
        }
        if !agent.is_none() {
            return self.spawn_agent(spawn, agent).await;
        }
        if !spawn.equip.is_plain() {
            let why = "workspaces, branches, runtimes and commands go with an agent; name one with --agent";
            return Err(Invalid::new("agent", "none", why).into());
        }
        self.record_spawn(spawn, agent, None).await
    }

    /// An agent's own spawns stand below its session: at it, unless it names one further down.
    async fn below_caller(&self, mut spawn: Spawn) -> Result<Spawn, Error> {
        let Some(scope) = self.caller.scope.clone() else {
            return Ok(spawn);
        };
        let parent = spawn
            .parent
            .get_or_insert_with(|| scope.session.to_string())
            .clone();
        let asked = spawn.equip.permission;
        let refused = self
            .look(move |reader| {
                let parent: Session = reader.resolve(&parent)?;
                let own: Session = reader.get(scope.session.as_str())?;
                let caller = scope.session.clone();
                if !is_at_or_below(reader, &scope, &parent)? {
                    return Ok(Some(Refused::NotBelow {
                        caller,
                        session: parent.id,
                        op: "spawn below",
                    }));
                }
                let had = own.gear.map(|gear| gear.launch.permission);
                let op = "give a child more permission than it has itself";
                Ok((asked > had).then_some(Refused::RunMay { caller, op }))
            })
            .await?;
        match refused {
            Some(refused) => Err(self.refused(OP, refused.into()).await),
            None => Ok(spawn),
        }
    }

    /// What the caller may not ask for, whatever the project says.
    fn check_spawn(&self, spawn: &Spawn, agent: &AgentName) -> Result<(), Refused> {
        let for_child = |owner: &&Actor| owner.to_string() == format!("agent:{agent}");
        let in_scope = self.caller.scope.is_some();
        if spawn.owner.as_ref().filter(for_child).is_none() || !in_scope {
            self.acting_as(spawn.owner.clone())?;
        }
        self.check_starts(agent, &spawn.equip)
    }

    async fn spawn_agent(&self, spawn: Spawn, agent: AgentName) -> Result<Answer, Error> {
        let fleet = self.fleet()?.clone();
        let project = self.project_of(&spawn).await?;
        let prepared = match fleet.prepare(self.tenant(), &project, &agent, &spawn).await {
            Ok(prepared) => prepared,
            Err(error) => return Err(self.refused(OP, error).await),
        };
        let answer = self.record_spawn(spawn, agent, Some(prepared)).await?;
        fleet.ring();
        Ok(answer)
    }

    async fn record_spawn(
        &self,
        spawn: Spawn,
        agent: AgentName,
        prepared: Option<Prepared>,
    ) -> Result<Answer, Error> {
        let own_thread = ThreadId::from_random(self.shared.ids.bits());
        let owner = match &spawn.owner {
            Some(owner) => owner.clone(),
            // What a bound token makes is its actor's, or it could not drive it.
            None if agent.is_none() || self.caller.bound => self.caller.actor.clone(),
            None => format!("agent:{agent}").parse()?,
        };
        let must_own = self.must_own();
        let (ids, shared, tenant) = (
            self.shared.ids.clone(),
            self.shared.clone(),
            self.tenant().clone(),
        );
        self.change(OP, Role::Operate, move |writer| {
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
            let floor = prepared.as_ref().map_or(0, |p| p.floor);
            let new = NewSession {
                id: writer.next_session_id_above(&place.project, floor)?,
                project: place.project.id,
                thread: place.thread.id,
                depth: parent.as_ref().map_or(0, |p| p.depth + 1),
                parent: parent.map(|p| p.id),
                owner: owner.clone(),
                agent: agent.clone(),
                task: spawn.task.clone(),
                allowance,
                broadcast: None,
                at: writer.now(),
            };
            if let Some(books) = shared.books.get() {
                books.beginnings.add(&tenant, TranscriptId::from(&new.id));
            }
            let Some(prepared) = &prepared else {
                let session = Session::ready(new);
                insert(writer, &session, allowance)?;
                return Ok(Outcome::Session(Box::new(session)));
            };
            let saga = SagaId::from_random(ids.bits());
            let mut gear = prepared.of(&new.id)?;
            gear.saga = Some((saga.clone(), SagaKind::Spawn));
            let session = Session::spawning(new, gear);
            insert(writer, &session, allowance)?;
            let order = Order {
                receipt: prepared.typed.then(|| ReceiptId::from_random(ids.bits())),
                memory: prepared.memory_mb,
                ..Order::default()
            };
            let saga = new_saga(writer, saga, &session, SagaKind::Spawn, order);
            begin_saga(writer, &saga, &session)?;
            Ok(Outcome::Session(Box::new(session)))
        })
        .await
    }

    /// The agent named, else the one the project's settings name, else none.
    async fn choose_agent(&self, spawn: &Spawn) -> Result<AgentName, Error> {
        if let Some(agent) = &spawn.agent {
            return Ok(agent.clone());
        }
        let none = AgentName::none();
        let Some(fleet) = self.shared.fleet.get().cloned() else {
            return Ok(none);
        };
        if spawn.equip.launch.command.is_some() {
            return Ok("custom".parse()?);
        }
        let project = self.project_of(spawn).await?;
        let settings = blocking(move || fleet.settings.project(&project))
            .await
            .map_err(|_| Error::Stopped)?
            .map_err(Error::Settings)?;
        Ok(settings.agent.unwrap_or(none))
    }

    /// The project a spawn is for, as far as it can be told beforehand.
    async fn project_of(&self, spawn: &Spawn) -> Result<Project, Error> {
        let (project, thread, parent) = (
            spawn.project.clone(),
            spawn.thread.clone(),
            spawn.parent.clone(),
        );
        self.look(move |reader| {
            if let Some(parent) = parent {
                let parent: Session = reader.resolve(&parent)?;
                return reader.get(parent.project.as_str());
            }
            if let Some(thread) = thread {
                let thread: Thread = reader.resolve(&thread)?;
                return reader.get(thread.project.as_str());
            }
            match project {
                Some(reference) => project::resolve(reader, &reference),
                None => Err(no_project().into()),
            }
        })
        .await
    }
}

fn no_project() -> Invalid {
    Invalid::new("project", "", "name a project, a thread or a parent")
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
            return Err(no_project().into());
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
