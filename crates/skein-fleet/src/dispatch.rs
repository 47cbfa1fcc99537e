//! Which saga begins when: sagas wait in the order they were accepted for a place in their project and on the
//! machine, and for memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use skein_domain::observed::SagaObservation;
use skein_domain::{
    Project, ProjectId, Saga, SagaKind, SagaRequest, SagaState, SagaStep, Session, SessionId,
    TenantId,
};
use skein_runtime::runtime::Grace;
use skein_store::backend::RowFilter;
use skein_store::{Reader, RecordPage};

use super::commands::AgentCommands;
use super::programs::{agent_named, via_of};
use super::{Fleet, SessionKey};
use crate::error::Error;
use skein_ledger::LedgerRequests;
use skein_ledger::ledger::warn_of_damage;
use skein_ledger::saga::Interpreter;

/// How often the queue is looked at while a saga waits for memory: nothing notifies the dispatcher of free memory.
const FOR_MEMORY: Duration = Duration::from_secs(2);

/// What keeps a saga waiting.
enum Wait {
    /// The project is full; sagas of other projects may begin.
    Project(String),
    /// No saga may begin.
    Machine(String),
    Memory(String),
}

/// What one round over the queue has found so far.
#[derive(Default)]
struct Queue {
    /// Of the last one that waits.
    place: u64,
    /// Why no further saga may begin.
    closed: Option<String>,
    full: HashSet<ProjectId>,
    /// When to look again without being woken.
    again: Option<Duration>,
}

impl Queue {
    fn wake_after(&mut self, pause: Duration) {
        self.again = Some(self.again.map_or(pause, |again| again.min(pause)));
    }
}

impl Fleet {
    /// Adopts running sessions and continues unfinished sagas. Called once, before the first request is served.
    pub async fn start(self: &Arc<Self>) -> Result<(), Error> {
        for tenant in self.ledger.tenants()? {
            self.adopt_running_sessions(&tenant).await?;
        }
        let fleet = self.clone();
        self.ledger.tasks().start("forget runs", async move {
            if let Err(error) = fleet.forget_runs().await {
                tracing::warn!(%error, "runs that are over could not be forgotten");
            }
        });
        let (fleet, stopping) = (self.clone(), self.ledger.tasks().stopping());
        self.ledger.tasks().start("dispatch", async move {
            tokio::pin!(stopping);
            let mut again = None;
            loop {
                tokio::select! {
                    () = fleet.signals.dispatcher_woken() => {}
                    () = pause(again) => {}
                    () = &mut stopping => return,
                }
                again = fleet.dispatch().await;
            }
        });
        self.signals.wake_dispatcher();
        Ok(())
    }

    /// Retries sagas that wait after a failure.
    pub fn retry_sagas(&self) {
        self.signals.wake_dispatcher();
    }

    /// Takes a place for each session with a run, and starts its supervisor.
    async fn adopt_running_sessions(self: &Arc<Self>, tenant: &TenantId) -> Result<(), Error> {
        let requests = self.ledger.system_requests(tenant.clone());
        let sessions = requests.store().read(|r| r.sessions_with_run()).await?;
        warn_of_damage(tenant, &sessions.damaged);
        for session in &sessions.items {
            let session_key = SessionKey {
                tenant: tenant.clone(),
                session: session.id.clone(),
            };
            self.places.take(&session_key, &session.project, 0);
            // A saga watches its run itself, once it is there.
            if session.check_free().is_ok() {
                self.supervisors.supervise(&requests, session);
            }
        }
        Ok(())
    }

    /// A crash between an end's record and the removal of what is left of the run leaves the latter to the next daemon.
    /// Runs of sessions that no record knows are left to `skein gc`.
    async fn forget_runs(&self) -> Result<(), Error> {
        let runtime = &self.runtime;
        for run in runtime.list().await? {
            let Ok(tenant) = run.tenant.parse::<TenantId>() else {
                continue;
            };
            let id = run.session.clone();
            let requests = self.ledger.system_requests(tenant);
            let session = requests
                .store()
                .read(move |r| r.find::<Session>(id.as_str()));
            let session = match session.await {
                // Nothing is known of what it runs.
                Err(skein_store::Error::Damaged { .. }) => continue,
                other => other?,
            };
            let stale = session.is_some_and(|s| {
                let handle = s.gear.as_ref().and_then(|g| g.handle.as_ref());
                s.check_free().is_ok() && handle != Some(&run.handle)
            });
            if stale {
                // One that is over cannot be ended; it can be forgotten.
                let _ = runtime.end(&run.handle, Grace::default()).await;
                runtime.forget(&run.handle).await?;
            }
        }
        Ok(())
    }

    /// One round over all sagas. Returns when to look again without being woken.
    async fn dispatch(self: &Arc<Self>) -> Option<Duration> {
        let mut again = None;
        let tenants = match self.ledger.tenants() {
            Ok(tenants) => tenants,
            Err(error) => {
                tracing::warn!(%error, "the queue could not be read");
                return Some(FOR_MEMORY);
            }
        };
        for tenant in tenants {
            match self.dispatch_tenant(&tenant).await {
                Ok(pause) => again = [again, pause].into_iter().flatten().min(),
                Err(error) => {
                    tracing::warn!(%tenant, %error, "the queue could not be looked after");
                    again = Some(FOR_MEMORY);
                }
            }
        }
        again
    }

    async fn dispatch_tenant(
        self: &Arc<Self>,
        tenant: &TenantId,
    ) -> Result<Option<Duration>, Error> {
        let requests = self.ledger.system_requests(tenant.clone());
        let sagas: RecordPage<Saga> = requests
            .store()
            .read(|r| r.readable(&RowFilter::default()))
            .await?;
        let mut sagas = sagas.items;
        sagas.retain(|saga| saga.kind().is_of_agent());
        let mut queue = Queue::default();
        let above = self.above_endings(&requests, &sagas).await?;
        for saga in sagas {
            // Children end before their parents; the saga of the last child wakes the dispatcher.
            let is_first = saga.step() == Some(SagaStep::Stop);
            if is_first && above.contains(&saga.session) {
                continue;
            }
            if let Some(left) = self.ledger.claims().waits(&saga) {
                queue.wake_after(left);
                continue;
            }
            let session_key = SessionKey {
                tenant: tenant.clone(),
                session: saga.session.clone(),
            };
            // The task that works on it wakes the dispatcher when it is done.
            let Some(claim) = self.ledger.claims().claim(&session_key) else {
                continue;
            };
            let agents = AgentCommands {
                requests: requests.clone(),
                fleet: self.clone(),
                session_key,
            };
            let interpreter = Interpreter::new(&requests, agents.clone());
            let begun = match saga.state {
                SagaState::Queued => self.next_in(&mut queue, &agents, &interpreter, &saga).await,
                _ => go_on_with(&agents, &interpreter, &saga).await,
            };
            let begun = match begun {
                Err(error) if error.is_of_damaged_record() => {
                    tracing::warn!(%tenant, session = %saga.session, %error, "a saga cannot go on");
                    continue;
                }
                other => other?,
            };
            if let Some(begun) = begun {
                self.ledger
                    .tasks()
                    .start("saga", interpreter.run(claim, begun));
            }
        }
        Ok(queue.again)
    }

    /// Sessions above one that is being ended. One whose end failed and rests does not hold up its parents.
    async fn above_endings(
        &self,
        requests: &LedgerRequests,
        sagas: &[Saga],
    ) -> Result<HashSet<SessionId>, Error> {
        let ends =
            |s: &&Saga| s.kind() == SagaKind::Kill || matches!(s.state, SagaState::Undoing { .. });
        let ending: Vec<SessionId> = sagas
            .iter()
            .filter(ends)
            .filter(|s| self.ledger.claims().waits(s).is_none())
            .map(|s| s.session.clone())
            .collect();
        let look = move |r: &Reader<'_>| {
            let mut above = HashSet::new();
            for id in ending {
                let mut next = Some(id);
                while let Some(id) = next.take() {
                    next = match r.get::<Session>(id.as_str()) {
                        // The parent of a session that cannot be read is not known.
                        Err(skein_store::Error::Damaged { .. }) => None,
                        other => other?.parent,
                    };
                    above.extend(next.clone());
                }
            }
            Ok(above)
        };
        Ok(requests.store().read(look).await?)
    }

    /// Lets a saga that waits begin, if there is a place for it; says what it waits for otherwise.
    async fn next_in(
        &self,
        queue: &mut Queue,
        agents: &AgentCommands,
        interpreter: &Interpreter<AgentCommands>,
        saga: &Saga,
    ) -> Result<Option<Saga>, Error> {
        let session_key = &agents.session_key;
        let session = agents.session().await?;
        let wait = match &queue.closed {
            Some(why) => Err(Wait::Machine(why.clone())),
            None if queue.full.contains(&session.project) => {
                Err(Wait::Project("its project is full".into()))
            }
            None => self.waits(agents, saga, &session).await?,
        };
        let wait = match wait {
            Ok(megabytes) => {
                self.places.take(session_key, &session.project, megabytes);
                let begun = interpreter.admit(saga).await;
                if !matches!(begun, Ok(Some(_))) {
                    self.places.leave(session_key);
                }
                return Ok(begun?);
            }
            Err(wait) => wait,
        };
        queue.place += 1;
        let why = match wait {
            Wait::Project(why) => {
                queue.full.insert(session.project.clone());
                why
            }
            Wait::Machine(why) => {
                queue.closed = Some(why.clone());
                why
            }
            Wait::Memory(why) => {
                queue.wake_after(FOR_MEMORY);
                queue.closed = Some(why.clone());
                why
            }
        };
        let seen = SagaObservation {
            kind: saga.kind(),
            step: None,
            place: Some(queue.place),
            why: Some(why),
        };
        self.board.saga(session_key, Some(seen));
        Ok(None)
    }

    /// What keeps the saga waiting; else how much memory is set aside for its agent.
    async fn waits(
        &self,
        agents: &AgentCommands,
        saga: &Saga,
        session: &Session,
    ) -> Result<Result<u64, Wait>, Error> {
        let project: Project = agents.project(session).await?;
        let machine = self.programs.machine();
        // Settings that cannot be read hold no saga back: its own steps will report what is wrong.
        let settings = self.programs.settings_of(&project).ok();
        let limit = settings.as_ref().and_then(|s| s.concurrency);
        let taken = self.places.taken(&session.project);
        if let Some(limit) = limit.filter(|limit| taken.project >= *limit) {
            let why = format!(
                "{limit} may run at once in this project, and {} do, idle ones too; `skein kill` frees a place",
                taken.project
            );
            return Ok(Err(Wait::Project(why)));
        }
        if let Some(limit) = machine.concurrency.filter(|limit| taken.machine >= *limit) {
            let why = format!(
                "{limit} may run at once on this machine, and {} do, idle ones too; `skein kill` frees a place",
                taken.machine
            );
            return Ok(Err(Wait::Machine(why)));
        }
        // A restore was ordered without a look at the agent's settings.
        let expected = settings.and_then(|s| {
            Some(
                agent_named(&s, &session.agent, via_of(session))
                    .ok()?
                    .known()
                    .memory_mb,
            )
        });
        let asked = match &saga.request {
            SagaRequest::Spawn { memory_mb, .. } => *memory_mb,
            _ => 0,
        };
        let expected = asked.max(expected.unwrap_or(0));
        let one = self.memory.needed_by(&session.agent, expected);
        let needed = one + taken.starting_mb + machine.memory_reserve_mb;
        match self.memory.free_mb() {
            // On an empty machine the agent begins anyway: no other agent could free memory by ending.
            Some(free) if free < needed && taken.machine > 0 => {
                let why = format!("{needed} MB of memory are needed, {free} MB are free");
                Ok(Err(Wait::Memory(why)))
            }
            _ => Ok(Ok(one)),
        }
    }
}

async fn pause(again: Option<Duration>) {
    match again {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

/// Where a saga is that is to go on; none when it ended since it was listed. An agent that is being started or
/// undone has a place.
async fn go_on_with(
    agents: &AgentCommands,
    interpreter: &Interpreter<AgentCommands>,
    saga: &Saga,
) -> Result<Option<Saga>, Error> {
    let Some(saga) = interpreter.current(saga).await? else {
        return Ok(None);
    };
    if saga.kind().queues() && !matches!(saga.state, SagaState::Leftover { .. }) {
        let session = agents.session().await?;
        agents
            .fleet
            .places
            .keep(&agents.session_key, &session.project);
    }
    Ok(Some(saga))
}
