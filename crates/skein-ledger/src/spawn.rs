//! Making sessions: alone, or below one that delegates.

use skein_domain::session::NewSession;
use skein_domain::{
    AbsPath, Actor, AgentName, Allowance, BranchName, Conflict, Gear, Invalid, LaunchSettings,
    Permission, PhaseName, Project, ReceiptId, Refused, Revision, Role, RuntimeKind, SagaId,
    SagaKind, SagaRequest, Session, SessionId, Task, Thread, ThreadId, Title, WorkspaceKind,
    WorkspaceOrigin, capacity, fact::SessionChange,
};
use skein_store::Writer;
use skein_transcript::TranscriptId;

use crate::access::is_at_or_below;
use crate::caller::{Answer, RequestOutcome};
use crate::error::{Error, StoreResult};
use crate::filter::live_of_parent;
use crate::requests::SessionRequests;
use crate::saga::{begin_saga, new_saga};
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
    /// Options of a session with an agent.
    pub equip: LaunchOptions,
}

/// What the caller asks for besides the task.
#[derive(Clone, Debug, Default)]
pub struct LaunchOptions {
    pub workspace: Option<WorkspaceKind>,
    pub branch: Option<BranchName>,
    pub base: Option<Revision>,
    pub runtime: Option<RuntimeKind>,
    pub launch: LaunchSettings,
    /// Default: the project's, else `ask`.
    pub permission: Option<Permission>,
    /// What an agent that spawns a child has itself; the project's default grants no more.
    pub permission_limit: Option<Permission>,
    /// A hand-made worktree to take over.
    pub adopt: Option<AbsPath>,
}

impl LaunchOptions {
    /// Whether nothing is asked for that only a session with an agent has.
    pub fn is_plain(&self) -> bool {
        self.workspace.is_none_or(|w| w == WorkspaceKind::None)
            && self.branch.is_none()
            && self.base.is_none()
            && self.runtime.is_none()
            && self.adopt.is_none()
            && self.launch.command.is_none()
    }
}

/// The gear of a session whose number is not known yet.
#[derive(Clone, Debug)]
pub struct PreparedAgent {
    pub gear: Gear,
    /// Whether the session gets a branch named after it.
    pub own_branch: bool,
    pub memory_mb: u64,
    /// Whether the task will be typed, and so needs a receipt.
    pub typed: bool,
    /// Session numbers up to this one are taken by branches.
    pub floor: u64,
}

impl PreparedAgent {
    /// The gear of session `id`: folder and branch are named after it.
    pub(crate) fn of(&self, id: &SessionId) -> Result<Gear, Invalid> {
        let mut gear = self.gear.clone();
        if gear.workspace.origin == WorkspaceOrigin::Made {
            gear.workspace.path = beside(&gear.workspace.path, id)?;
        }
        if self.own_branch {
            gear.workspace.branch = Some(BranchName::of_session(id));
        }
        Ok(gear)
    }
}

/// Managed folders are named after their session.
fn beside(path: &AbsPath, id: &SessionId) -> Result<AbsPath, Invalid> {
    let parent = path.as_str().rsplit_once('/').map_or("", |(p, _)| p);
    format!("{parent}/{id}").parse()
}

/// Completes "may not …" in refusals.
pub const OP: &str = "spawn a session";

/// How many of a session's children are live.
pub(crate) fn live_children(writer: &Writer<'_>, session: &Session) -> StoreResult<u32> {
    let filter = live_of_parent(&session.id);
    Ok(u32::try_from(writer.reader().count::<Session>(&filter)?).unwrap_or(u32::MAX))
}

impl SessionRequests<'_> {
    /// Makes a session without an agent, which is ready at once.
    pub async fn spawn(self, spawn: Spawn) -> Result<Answer, Error> {
        if let Some(earlier) = self.0.earlier().await? {
            return Ok(earlier);
        }
        let spawn = self.below_caller(spawn).await?;
        let agent = spawn.agent.clone().unwrap_or_else(AgentName::none);
        self.check_owner(&spawn, &agent).await?;
        if !agent.is_none() {
            let what = format!("agent `{agent}`");
            return Err(Error::NotConfigured { what });
        }
        if !spawn.equip.is_plain() {
            let why = "workspaces, branches, runtimes and commands go with an agent; name one with --agent";
            return Err(Invalid::new("agent", "none", why).into());
        }
        self.record_spawn(spawn, agent, None).await
    }

    /// Places a spawn by an agent below its own session: directly, unless it names a session further down.
    pub async fn below_caller(self, mut spawn: Spawn) -> Result<Spawn, Error> {
        let Some(scope) = self.0.caller.scope.clone() else {
            return Ok(spawn);
        };
        let parent = spawn
            .parent
            .get_or_insert_with(|| scope.session.to_string())
            .clone();
        let asked = spawn.equip.permission;
        let found = self
            .0
            .read(move |reader| {
                let parent: Session = reader.resolve(&parent)?;
                let own: Session = reader.get(scope.session.as_str())?;
                let caller = scope.session.clone();
                if !is_at_or_below(reader, &scope, &parent)? {
                    return Ok(Err(Refused::NotBelow {
                        caller,
                        session: parent.id,
                        op: "spawn below",
                    }));
                }
                let had = own.gear.map(|gear| gear.launch.permission);
                let op = "give a child more permission than it has itself";
                Ok(match asked > had {
                    true => Err(Refused::RunMay { caller, op }),
                    false => Ok(had),
                })
            })
            .await?;
        match found {
            Err(refused) => Err(self.0.refused(OP, refused.into()).await),
            Ok(had) => {
                spawn.equip.permission_limit = had;
                Ok(spawn)
            }
        }
    }

    /// Refuses an owner that the caller may not name for the session.
    pub async fn check_owner(self, spawn: &Spawn, agent: &AgentName) -> Result<(), Error> {
        let for_child = |owner: &&Actor| owner.to_string() == format!("agent:{agent}");
        let in_scope = self.0.caller.scope.is_some();
        if spawn.owner.as_ref().filter(for_child).is_none() || !in_scope {
            let named = self.0.acting_as(spawn.owner.clone());
            self.0.checked(OP, named).await?;
        }
        Ok(())
    }

    /// Records the session, and the saga of one with an agent.
    pub async fn record_spawn(
        self,
        spawn: Spawn,
        agent: AgentName,
        prepared: Option<PreparedAgent>,
    ) -> Result<Answer, Error> {
        let own_thread = ThreadId::from_random(self.0.ledger.ids.bits());
        let owner = match &spawn.owner {
            Some(owner) => owner.clone(),
            // A bound token could not drive a session of another owner.
            None if agent.is_none() || self.0.caller.bound => self.0.caller.actor.clone(),
            None => format!("agent:{agent}").parse()?,
        };
        let must_own = self.0.must_own();
        let ids = self.0.ledger.ids.clone();
        let transcripts = self.0.session_transcripts();
        let recording = transcripts.map(|all| all.creations.recording());
        let answer = self.0.change(OP, Role::Operate, move |writer| {
            let target = find_target(writer, &spawn, &own_thread, must_own.as_ref())?;
            let (parent, allowance) = match target.parent {
                None => (None, check_root(spawn.allowance)?),
                Some(parent) => {
                    let live = live_children(writer, &parent)?;
                    capacity::check(&target.project.limits, &parent.id, parent.depth, live, 1)?;
                    let (parent, allowance) = set_aside(writer, &parent, spawn.allowance)?;
                    (Some(parent), allowance)
                }
            };
            let floor = prepared.as_ref().map_or(0, |p| p.floor);
            let new = NewSession {
                id: writer.next_session_id_above(&target.project, floor)?,
                project: target.project.id,
                thread: target.thread.id,
                depth: parent.as_ref().map_or(0, |p| p.depth + 1),
                parent: parent.map(|p| p.id),
                owner: owner.clone(),
                agent: agent.clone(),
                task: spawn.task.clone(),
                allowance,
                broadcast: None,
                at: writer.now(),
            };
            let Some(prepared) = &prepared else {
                let session = Session::ready(new);
                insert(writer, &session, allowance)?;
                return Ok(RequestOutcome::Session(Box::new(session)));
            };
            let saga = SagaId::from_random(ids.bits());
            let mut gear = prepared.of(&new.id)?;
            gear.saga = Some((saga.clone(), SagaKind::Spawn));
            let session = Session::spawning(new, gear);
            insert(writer, &session, allowance)?;
            let request = SagaRequest::Spawn {
                receipt: prepared.typed.then(|| ReceiptId::from_random(ids.bits())),
                memory_mb: prepared.memory_mb,
            };
            let saga = new_saga(writer, saga, &session, request);
            begin_saga(writer, &saga, &session)?;
            Ok(RequestOutcome::Session(Box::new(session)))
        });
        let answer = answer.await?;
        if let (Some(recording), Answer::Fresh(RequestOutcome::Session(made))) =
            (recording, &answer)
        {
            recording.made(self.0.tenant(), TranscriptId::from(&made.id));
        }
        Ok(answer)
    }

    /// The project of a spawn, from the parent, thread or project that it names.
    pub async fn project_of(self, spawn: &Spawn) -> Result<Project, Error> {
        let (project, thread, parent) = (
            spawn.project.clone(),
            spawn.thread.clone(),
            spawn.parent.clone(),
        );
        self.0
            .read(move |reader| {
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

struct SpawnTarget {
    project: Project,
    thread: Thread,
    parent: Option<Session>,
}

/// The project, thread and parent of a new session. Its thread is its parent's, the one named, or a new one.
fn find_target(
    writer: &mut Writer<'_>,
    spawn: &Spawn,
    own_thread: &ThreadId,
    must_own: Option<&Actor>,
) -> StoreResult<SpawnTarget> {
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
    Ok(SpawnTarget {
        project,
        thread,
        parent,
    })
}

/// Refuses a parent that has ended or is being handed over.
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
) -> StoreResult<(Session, Allowance)> {
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
) -> StoreResult<()> {
    writer.insert(session)?;
    writer.append_event(
        &SessionChange::Spawned {
            name: session.task.display_name(),
            owner: session.owner.clone(),
            parent: session.parent.clone(),
            depth: session.depth,
            allowance,
        }
        .of(session),
    )
}
