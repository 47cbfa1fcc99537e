//! Who begins when: sagas wait in the order they were accepted for a place in their project and on the
//! machine, and for memory.

use std::collections::HashSet;
use std::time::Duration;

use skein_domain::fact::SagaChange;
use skein_domain::observed::SagaSeen;
use skein_domain::{Project, ProjectId, Saga, SagaKind, SagaState, Session, SessionId, TenantId};
use skein_runtime::runtime::Grace;
use skein_store::backend::Filter;
use skein_store::{Page, Reader};

use super::equip::agent_named;
use super::journal::{Carrier, tell};
use super::via_of;
use super::{Fleet, Member};
use crate::desk::Desk;
use crate::engine::{Engine, warn_of_damage};
use crate::error::Error;

/// How often the queue is looked at while something waits for memory, which nobody announces.
const FOR_MEMORY: Duration = Duration::from_secs(2);

/// What keeps a saga waiting.
enum Wait {
    /// The project is full; others may go.
    Project(String),
    /// Nobody may go.
    Machine(String),
    Memory(String),
}

/// What one round over the queue has found so far.
#[derive(Default)]
struct Queue {
    /// Of the last one that waits.
    place: u64,
    /// Why nobody may go any more.
    closed: Option<String>,
    full: HashSet<ProjectId>,
    /// When to look again without being rung for.
    again: Option<Duration>,
}

impl Queue {
    fn look_after(&mut self, pause: Duration) {
        self.again = Some(self.again.map_or(pause, |again| again.min(pause)));
    }
}

impl Engine {
    /// Finds everything that runs and everything half-done, and goes on with it. Called once, before the
    /// first request is served.
    pub async fn start_fleet(&self) -> Result<(), Error> {
        let Some(fleet) = self.shared.fleet.get().cloned() else {
            return Ok(());
        };
        for tenant in self.tenants()? {
            self.take_up(&fleet, &tenant).await?;
        }
        let (engine, tidied) = (self.clone(), fleet.clone());
        self.shared.tasks.start("forget runs", async move {
            if let Err(error) = engine.forget_runs(&tidied).await {
                tracing::warn!(%error, "runs that are over could not be forgotten");
            }
        });
        let (engine, stopping) = (self.clone(), self.shared.tasks.stopping());
        self.shared.tasks.start("dispatch", async move {
            tokio::pin!(stopping);
            let mut again = None;
            loop {
                let fleet = fleet.clone();
                tokio::select! {
                    () = fleet.bell.notified() => {}
                    () = pause(again) => {}
                    () = &mut stopping => return,
                }
                again = engine.dispatch(&fleet).await;
            }
        });
        self.ring();
        Ok(())
    }

    fn ring(&self) {
        if let Some(fleet) = self.shared.fleet.get() {
            fleet.ring();
        }
    }

    /// Sagas that rest because something failed are taken up again.
    pub fn retry_sagas(&self) {
        self.ring();
    }

    /// Whoever has a run, or is being given one, has a place; runs are watched from now on.
    async fn take_up(&self, fleet: &std::sync::Arc<Fleet>, tenant: &TenantId) -> Result<(), Error> {
        let desk = self.system_desk(tenant.clone());
        let live = Filter {
            live: Some(true),
            ..Filter::default()
        };
        let sessions: Page<Session> = desk.store.read(move |r| r.readable(&live)).await?;
        warn_of_damage(tenant, &sessions.damaged);
        for session in sessions.items.iter().filter(|s| s.has_run()) {
            let member = Member {
                tenant: tenant.clone(),
                session: session.id.clone(),
            };
            fleet.places.take(&member, &session.project, 0);
            // A saga watches its run itself, once it is there.
            if session.check_free().is_ok() {
                fleet.keep(&desk, session);
            }
        }
        Ok(())
    }

    /// A crash between an end's record and the removal of what is left of the run leaves the latter to us.
    /// Runs of sessions that no record knows are left to a clean-up that somebody asks for.
    async fn forget_runs(&self, fleet: &std::sync::Arc<Fleet>) -> Result<(), Error> {
        for runtime in fleet.runtimes.values() {
            for run in runtime.list().await? {
                let Ok(tenant) = run.tenant.parse::<TenantId>() else {
                    continue;
                };
                let id = run.session.clone();
                let session = self.system_desk(tenant).store;
                let session = session.read(move |r| r.find::<Session>(id.as_str()));
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
        }
        Ok(())
    }

    /// One round over all sagas. Returns when to look again without being rung for.
    async fn dispatch(&self, fleet: &std::sync::Arc<Fleet>) -> Option<Duration> {
        let mut again = None;
        let tenants = match self.tenants() {
            Ok(tenants) => tenants,
            Err(error) => {
                tracing::warn!(%error, "the queue could not be read");
                return Some(FOR_MEMORY);
            }
        };
        for tenant in tenants {
            match self.dispatch_tenant(fleet, &tenant).await {
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
        &self,
        fleet: &std::sync::Arc<Fleet>,
        tenant: &TenantId,
    ) -> Result<Option<Duration>, Error> {
        let desk = self.system_desk(tenant.clone());
        let sagas: Page<Saga> = desk.store.read(|r| r.readable(&Filter::default())).await?;
        let sagas = sagas.items;
        let mut queue = Queue::default();
        let above = self.above_endings(&desk, fleet, &sagas).await?;
        for saga in sagas {
            // Children are told to end before their parents; the last of them rings.
            let first = saga.kind.steps().first().copied().map(SagaState::Doing);
            let waits = saga.kind == SagaKind::Kill && Some(&saga.state) == first.as_ref();
            if waits && above.contains(&saga.session) {
                continue;
            }
            if let Some(left) = fleet.hands.rests(&saga) {
                queue.look_after(left);
                continue;
            }
            let member = Member {
                tenant: tenant.clone(),
                session: saga.session.clone(),
            };
            // Whoever has it rings when it is free.
            let Some(held) = fleet.take_in_hand(&member) else {
                continue;
            };
            let carrier = Carrier {
                desk: desk.clone(),
                fleet: fleet.clone(),
                member,
            };
            let begun = match saga.state {
                SagaState::Queued => self.next_in(&mut queue, &carrier, &saga).await,
                _ => carrier.go_on_with(&saga).await,
            };
            let begun = match begun {
                Err(error) if error.is_of_damaged_record() => {
                    tracing::warn!(%tenant, session = %saga.session, %error, "a saga cannot go on");
                    continue;
                }
                other => other?,
            };
            if let Some(begun) = begun {
                self.shared.tasks.start("saga", carrier.carry(held, begun));
            }
        }
        Ok(queue.again)
    }

    /// Sessions with somebody below them who is on the way out. Who cannot be ended holds nobody up.
    async fn above_endings(
        &self,
        desk: &Desk,
        fleet: &Fleet,
        sagas: &[Saga],
    ) -> Result<HashSet<SessionId>, Error> {
        let ends =
            |s: &&Saga| s.kind == SagaKind::Kill || matches!(s.state, SagaState::Undoing { .. });
        let ending: Vec<SessionId> = sagas
            .iter()
            .filter(ends)
            .filter(|s| fleet.hands.rests(s).is_none())
            .map(|s| s.session.clone())
            .collect();
        let look = move |r: &Reader<'_>| {
            let mut above = HashSet::new();
            for id in ending {
                let mut next = Some(id);
                while let Some(id) = next.take() {
                    next = match r.get::<Session>(id.as_str()) {
                        // Who is above one that cannot be read is not known.
                        Err(skein_store::Error::Damaged { .. }) => None,
                        other => other?.parent,
                    };
                    above.extend(next.clone());
                }
            }
            Ok(above)
        };
        Ok(desk.store.read(look).await?)
    }

    /// Lets a saga that waits begin, if there is a place for it; says what it waits for otherwise.
    async fn next_in(
        &self,
        queue: &mut Queue,
        carrier: &Carrier,
        saga: &Saga,
    ) -> Result<Option<Saga>, Error> {
        let (fleet, member) = (&carrier.fleet, &carrier.member);
        let session = carrier.session().await?;
        let wait = match &queue.closed {
            Some(why) => Err(Wait::Machine(why.clone())),
            None if queue.full.contains(&session.project) => {
                Err(Wait::Project("its project is full".into()))
            }
            None => self.waits(fleet, carrier, saga, &session).await?,
        };
        let wait = match wait {
            Ok(megabytes) => {
                fleet.places.take(member, &session.project, megabytes);
                let begun = carrier.begin(saga).await;
                if !matches!(begun, Ok(Some(_))) {
                    fleet.places.leave(member);
                }
                return begun;
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
                queue.look_after(FOR_MEMORY);
                queue.closed = Some(why.clone());
                why
            }
        };
        let seen = SagaSeen {
            kind: saga.kind,
            step: None,
            place: Some(queue.place),
            why: Some(why),
        };
        fleet.board.saga(member, Some(seen));
        Ok(None)
    }

    /// What keeps the saga waiting; else how much memory is set aside for its agent.
    async fn waits(
        &self,
        fleet: &std::sync::Arc<Fleet>,
        carrier: &Carrier,
        saga: &Saga,
        session: &Session,
    ) -> Result<Result<u64, Wait>, Error> {
        let project: Project = carrier.project(session).await?;
        let machine = fleet.settings.machine();
        // Settings that cannot be read now hold nobody back; the saga's own steps will say what is wrong.
        let settings = fleet.settings_of(&project).ok();
        let limit = settings.as_ref().and_then(|s| s.concurrency);
        let taken = fleet.places.taken(&session.project);
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
        let expected = saga.order.memory.max(expected.unwrap_or(0));
        let one = fleet.appetites.of(&session.agent, expected);
        let needed = one + taken.starting_mb + machine.memory_reserve_mb;
        match fleet.memory.free_mb() {
            // An empty machine takes whoever comes; waiting would help nobody.
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

impl Carrier {
    /// Where a saga is that is to go on; none when it ended since it was listed. An agent that is being
    /// started or undone has a place.
    async fn go_on_with(&self, saga: &Saga) -> Result<Option<Saga>, Error> {
        let Some(saga) = self.current(saga).await? else {
            return Ok(None);
        };
        if saga.kind.queues() && !matches!(saga.state, SagaState::Leftover { .. }) {
            let session = self.session().await?;
            self.fleet.places.keep(&self.member, &session.project);
        }
        Ok(Some(saga))
    }

    /// Takes a saga out of the queue; none when somebody cancelled it.
    async fn begin(&self, saga: &Saga) -> Result<Option<Saga>, Error> {
        let expected = saga.clone();
        let begun = self
            .desk
            .store
            .write(&saga.actor.clone(), self.desk.now(), move |writer| {
                let Some(current) = writer.reader().find::<Saga>(expected.id.as_str())? else {
                    return Ok(None);
                };
                if current.version != expected.version {
                    return Ok(None);
                }
                let step = current.kind.steps()[0];
                let next = current.in_state(SagaState::Doing(step));
                writer.update(&next)?;
                let session: Session = writer.reader().get(current.session.as_str())?;
                tell(writer, &next, &session, SagaChange::Began { step })?;
                Ok(Some(next))
            })
            .await?;
        self.fleet
            .point(&format!("{}.queued.recorded", saga.kind.as_str()));
        Ok(begun)
    }
}
