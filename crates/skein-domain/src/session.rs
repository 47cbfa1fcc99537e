//! One agent or person at work on a thread: one owner, one transcript, at most one live run.

use crate::actor::Actor;
use crate::budget::{Allowance, Budget, Usage, Weight};
use crate::error::{Conflict, Refused};
use crate::fork::ForkedFrom;
use crate::gear::Gear;
use crate::id::{ProjectId, SagaId, SessionId, SummaryId, ThreadId};
use crate::phase::{Phase, Step};
use crate::text::{AgentName, Task};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub project: ProjectId,
    pub thread: ThreadId,
    pub parent: Option<SessionId>,
    /// 0 for a root session, its parent's depth + 1 otherwise.
    pub depth: u32,
    pub owner: Actor,
    /// Grows by one with every handoff or broadcast.
    pub owner_version: u64,
    pub previous_owners: Vec<Actor>,
    /// Grows by one with every change of the record.
    pub version: u64,
    pub phase: Phase,
    pub agent: AgentName,
    /// Number of the current or last run; the store refuses writes on behalf of another one.
    pub run: u64,
    /// Turns begun, over all runs.
    pub turns: u64,
    pub task: Task,
    pub budget: Budget,
    pub usage: Usage,
    /// The broadcast that made this session.
    pub broadcast: Option<SagaId>,
    pub merges: Vec<Merge>,
    pub summary: Option<SummaryId>,
    /// The source of its transcript, if the session is a fork.
    pub forked_from: Option<ForkedFrom>,
    /// Only sessions with an agent have one; people or external programs drive the others.
    pub gear: Option<Box<Gear>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub last_activity_at: Timestamp,
}

/// A child's work taken over by its parent.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Merge {
    pub child: SessionId,
    /// The child's turns at that moment; a child with more turns may be merged again.
    pub child_turns: u64,
    pub at: Timestamp,
}

/// The input for a new session.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub id: SessionId,
    pub project: ProjectId,
    pub thread: ThreadId,
    pub parent: Option<SessionId>,
    pub depth: u32,
    pub owner: Actor,
    pub agent: AgentName,
    pub task: Task,
    pub allowance: Allowance,
    pub broadcast: Option<SagaId>,
    pub at: Timestamp,
}

impl Session {
    /// A session without an agent: ready at once, driven by people or external programs.
    pub fn ready(new: NewSession) -> Self {
        Self {
            id: new.id,
            project: new.project,
            thread: new.thread,
            parent: new.parent,
            depth: new.depth,
            owner: new.owner,
            owner_version: 1,
            previous_owners: vec![],
            version: 1,
            phase: Phase::Idle,
            agent: new.agent,
            run: 1,
            turns: 0,
            task: new.task,
            budget: Budget::new(new.allowance),
            usage: Usage::default(),
            broadcast: new.broadcast,
            merges: vec![],
            summary: None,
            forked_from: None,
            gear: None,
            created_at: new.at,
            updated_at: new.at,
            last_activity_at: new.at,
        }
    }

    /// A session with an agent, which its spawn saga sets up; nothing runs yet.
    pub fn spawning(new: NewSession, gear: Gear) -> Self {
        Self {
            phase: Phase::Spawning,
            run: 0,
            gear: Some(Box::new(gear)),
            ..Self::ready(new)
        }
    }

    /// The record after `step`, one version later.
    pub fn step(&self, step: Step, at: Timestamp) -> Result<Self, Conflict> {
        let turns = self.turns + u64::from(step == Step::BeginTurn);
        let phase = self.phase.on(&self.id, step)?;
        Ok(Self {
            phase,
            turns,
            last_activity_at: at,
            ..self.next(at)
        })
    }

    /// As [`Session::step`], for changes that do not count as activity.
    pub fn quiet_step(&self, step: Step, at: Timestamp) -> Result<Self, Conflict> {
        let phase = self.phase.on(&self.id, step)?;
        Ok(Self {
            phase,
            ..self.next(at)
        })
    }

    /// A copy one version later, for changes that keep the phase.
    #[must_use]
    pub fn next(&self, at: Timestamp) -> Self {
        Self {
            version: self.version + 1,
            updated_at: at,
            ..self.clone()
        }
    }

    /// What this session charges its parent's budget.
    pub fn weight(&self) -> Weight {
        self.budget.weight(&self.usage, self.phase.is_live())
    }

    pub fn check_run(&self, expected: Option<u64>) -> Result<(), Conflict> {
        match expected {
            Some(expected) if expected != self.run => Err(Conflict::Run {
                session: self.id.clone(),
                expected,
                actual: self.run,
            }),
            _ => Ok(()),
        }
    }

    pub fn check_owner_version(&self, expected: Option<u64>) -> Result<(), Conflict> {
        match expected {
            Some(expected) if expected != self.owner_version => Err(Conflict::OwnerVersion {
                session: self.id.clone(),
                expected,
                actual: self.owner_version,
            }),
            _ => Ok(()),
        }
    }

    pub fn check_owner(&self, actor: Option<&Actor>) -> Result<(), Refused> {
        match actor {
            Some(actor) if *actor != self.owner => Err(Refused::NotOwner {
                session: self.id.clone(),
                owner: self.owner.clone(),
                actor: actor.clone(),
            }),
            _ => Ok(()),
        }
    }
}
