//! A small world to test in: a ledger on a fresh store, one project, and ways to look behind it.

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use skein_domain::budget::Account;
use skein_domain::{
    Actor, AgentName, Allowance, Conflict, Kind, Phase, Project, Refused, Saga, Session, SessionId,
    TenantId, Thread, Timestamp, Usage,
};
use skein_ledger::project::{AddProject, ProjectUpdate};
use skein_ledger::source::CountingClock;
use skein_ledger::spawn::Spawn;
use skein_ledger::transcript::TranscriptParts;
use skein_ledger::turn::Fence;
use skein_ledger::{
    Answer, Caller, Clock, Error, FaultPoints, Idempotency, Ledger, LedgerParts, LedgerRequests,
    NoFaultPoints, RequestOutcome, TaskGroup,
};
use skein_store::backend::{Backend, RowFilter};
use skein_store::{Entity, Event, Store};
use skein_store_conformance::memory::MemoryBackend;
use skein_store_sqlite::SqliteBackend;
use tempfile::TempDir;
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;

pub(crate) const UNLIMITED: Allowance = Allowance::UNLIMITED;

pub(crate) fn tokens(n: u64) -> Allowance {
    Allowance {
        tokens: Some(n),
        cost_micros: None,
    }
}

pub(crate) fn used(tokens: u64) -> Usage {
    Usage {
        input_tokens: tokens,
        ..Usage::default()
    }
}

pub(crate) fn actor(name: &str) -> Actor {
    name.parse().unwrap()
}

pub(crate) fn actors(names: &[&str]) -> Vec<Actor> {
    names.iter().map(|name| actor(name)).collect()
}

pub(crate) fn fence() -> Fence {
    Fence::default()
}

/// A clock that counts up, and can be moved forward.
#[derive(Debug, Default)]
pub(crate) struct Ticking {
    counting: CountingClock,
    ahead: AtomicI64,
}

impl Ticking {
    pub(crate) fn forward(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::SeqCst) * 1_000_000;
        Timestamp::from_micros(self.counting.now().as_micros() + ahead)
    }
}

/// One ledger on one store. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    pub(crate) store: Store,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) tenant: TenantId,
    pub(crate) clock: Arc<Ticking>,
    _folder: Option<Arc<TempDir>>,
}

pub(crate) fn memory() -> Arc<dyn Backend> {
    Arc::new(MemoryBackend::new())
}

pub(crate) fn sqlite(folder: &Path) -> Arc<dyn Backend> {
    Arc::new(SqliteBackend::open(&folder.join("skein.db")).unwrap())
}

fn ledger(
    store: &Store,
    clock: &Arc<Ticking>,
    points: Arc<dyn FaultPoints>,
    transcripts: Option<TranscriptParts>,
) -> Ledger {
    Ledger::new(LedgerParts {
        clock: clock.clone(),
        points,
        transcripts,
        ..LedgerParts::new(store.clone(), TaskGroup::default())
    })
}

impl World {
    /// A world with a project `api` in it, in memory.
    pub(crate) async fn new() -> Self {
        Self::on(memory(), Arc::new(NoFaultPoints)).await
    }

    /// The same world over each backend.
    pub(crate) async fn everywhere() -> Vec<Self> {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let mut on_disk = Self::on(sqlite(folder.path()), Arc::new(NoFaultPoints)).await;
        on_disk._folder = Some(folder);
        vec![Self::new().await, on_disk]
    }

    pub(crate) async fn on(backend: Arc<dyn Backend>, points: Arc<dyn FaultPoints>) -> Self {
        let world = Self::over(backend, points);
        world.add_project("api").await;
        world
    }

    /// A world on the records that the backend holds; ids are random, so that a second world makes new ones.
    pub(crate) fn over(backend: Arc<dyn Backend>, points: Arc<dyn FaultPoints>) -> Self {
        let (store, clock) = (Store::new(backend.clone()), Arc::new(Ticking::default()));
        Self {
            ledger: ledger(&store, &clock, points, None),
            store,
            backend,
            tenant: TenantId::default_tenant(),
            clock,
            _folder: None,
        }
    }

    /// A new ledger on the same store: what a restart makes.
    pub(crate) fn restarted(&self, points: Arc<dyn FaultPoints>) -> Self {
        Self {
            ledger: ledger(&self.store, &self.clock, points, None),
            ..self.clone()
        }
    }

    /// The same with transcripts.
    pub(crate) fn restarted_with(&self, transcripts: TranscriptParts) -> Self {
        let points = Arc::new(NoFaultPoints);
        Self {
            ledger: ledger(&self.store, &self.clock, points, Some(transcripts)),
            ..self.clone()
        }
    }

    pub(crate) async fn add_project(&self, name: &str) -> Project {
        let add = AddProject {
            name: Some(name.parse().unwrap()),
            ..AddProject::default()
        };
        match self.requests().projects().add(add).await.unwrap() {
            Answer::Fresh(RequestOutcome::Project(project)) => project,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn set(&self, settings: ProjectUpdate) {
        self.requests()
            .projects()
            .set("api".into(), None, settings)
            .await
            .unwrap();
    }

    /// The same store, seen from another tenant.
    pub(crate) fn tenant(&self, name: &str) -> Self {
        Self {
            tenant: name.parse().unwrap(),
            ..self.clone()
        }
    }

    pub(crate) fn caller(&self, name: &str) -> Caller {
        Caller::local(self.tenant.clone(), actor(name))
    }

    /// Serves the user Ann.
    pub(crate) fn requests(&self) -> LedgerRequests {
        self.ledger.requests(self.caller("user:ann"))
    }

    pub(crate) fn keyed(&self, key: &str, request: &str) -> LedgerRequests {
        self.ledger.requests(Caller {
            idempotency: Some(idempotency(key, request)),
            ..self.caller("user:ann")
        })
    }

    pub(crate) async fn root(&self) -> Session {
        self.root_with(UNLIMITED).await
    }

    pub(crate) async fn root_with(&self, allowance: Allowance) -> Session {
        let spawn = Spawn {
            allowance,
            ..task("fix the login bug")
        };
        self.requests()
            .sessions()
            .spawn(spawn)
            .await
            .unwrap()
            .session()
            .unwrap()
    }

    pub(crate) async fn try_child(
        &self,
        parent: &SessionId,
        allowance: Allowance,
    ) -> Result<Session, Error> {
        let spawn = Spawn {
            allowance,
            ..below(parent)
        };
        Ok(self
            .requests()
            .sessions()
            .spawn(spawn)
            .await?
            .session()
            .unwrap())
    }

    pub(crate) async fn child(&self, parent: &SessionId, allowance: Allowance) -> Session {
        self.try_child(parent, allowance).await.unwrap()
    }

    /// A turn that uses so many tokens.
    pub(crate) async fn spend(&self, session: &SessionId, n: u64) {
        let (id, requests) = (session.to_string(), self.requests());
        requests.turns().begin(id.clone(), fence()).await.unwrap();
        requests.turns().end(id, fence(), used(n)).await.unwrap();
    }

    pub(crate) async fn end(&self, session: &SessionId) {
        self.requests()
            .sessions()
            .end(
                session.to_string(),
                fence(),
                skein_domain::Outcome::Done,
                None,
            )
            .await
            .unwrap();
    }

    pub(crate) async fn kill(&self, session: &SessionId) {
        self.requests()
            .sessions()
            .kill(session.to_string(), crate::common::kill(false))
            .await
            .unwrap();
    }

    pub(crate) async fn broadcast(&self, source: &SessionId, to: &[&str]) -> Vec<Session> {
        let (requests, to) = (self.requests(), actors(to));
        let answer = requests.sessions().broadcast(source.to_string(), to, None);
        match answer.await.unwrap() {
            Answer::Fresh(RequestOutcome::Sessions(children)) => children,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the sessions that were archived.
    pub(crate) async fn run_retention(&self) -> Vec<SessionId> {
        match self.requests().retention().run().await.unwrap() {
            Answer::Fresh(RequestOutcome::Archived(sessions)) => sessions,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn all<E: Entity>(&self) -> Vec<E> {
        self.store
            .tenant(self.tenant.clone())
            .read_blocking(|r| r.all(&RowFilter::default()))
            .unwrap()
    }

    pub(crate) fn session(&self, id: &SessionId) -> Session {
        self.store
            .tenant(self.tenant.clone())
            .read_blocking(|r| r.get(id.as_str()))
            .unwrap()
    }

    pub(crate) fn children(&self, parent: &SessionId) -> Vec<Session> {
        self.all::<Session>()
            .into_iter()
            .filter(|s| s.parent.as_ref() == Some(parent))
            .collect()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events_of(&self.tenant)
    }

    pub(crate) fn events_of(&self, tenant: &TenantId) -> Vec<Event> {
        self.store
            .tenant(tenant.clone())
            .read_blocking(|r| r.events(0, None, usize::MAX))
            .unwrap()
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.events().iter().filter(|e| e.kind == kind).count()
    }

    /// How often the audit trail names a rule.
    pub(crate) fn refusals(&self, rule: &str) -> usize {
        let rule = format!("\"rule\":\"{rule}\"");
        let refused = |e: &&Event| e.kind == "audit.refused" && e.data.contains(&rule);
        self.events().iter().filter(refused).count()
    }

    /// Checks what must hold whenever no request is being served.
    pub(crate) fn audit(&self) {
        for session in self.all::<Session>() {
            assert!(
                !matches!(session.phase, Phase::Locked(_)),
                "{} is still locked",
                session.id
            );
        }
        assert_eq!(self.all::<Saga>(), vec![], "a saga is still there");
        self.audit_budgets();
        self.audit_gates();
        self.audit_events();
    }

    pub(crate) fn audit_events(&self) {
        let verdict = self
            .store
            .tenant(self.tenant.clone())
            .read_blocking(|r| r.verify())
            .unwrap();
        assert_eq!(verdict.broken, None);
    }

    /// L8: every account equals a recount of all sessions.
    pub(crate) fn audit_budgets(&self) {
        let sessions = self.all::<Session>();
        let mut below: HashMap<&SessionId, Vec<&Session>> = HashMap::new();
        for session in &sessions {
            if let Some(parent) = &session.parent {
                below.entry(parent).or_default().push(session);
            }
        }
        for session in &sessions {
            let children = below.get(&session.id).cloned().unwrap_or_default();
            let truth = |pick: fn(&Session) -> (Account, u64)| {
                let limit = pick(session).0.limit;
                let (mut reserved, mut spent) = (0, 0);
                for child in &children {
                    let (account, own) = pick(child);
                    if child.phase.is_live() {
                        let taken = own + account.reserved + account.children;
                        let share = taken.max(account.limit.unwrap_or(0));
                        reserved += if limit.is_some() { share } else { 0 };
                        assert!(
                            limit.is_none() || account.limit.is_some(),
                            "{} is unlimited below {}",
                            child.id,
                            session.id
                        );
                    } else {
                        spent += own + account.reserved + account.children;
                    }
                }
                Account {
                    limit,
                    reserved,
                    children: spent,
                }
            };
            let by_tokens = truth(|s| (s.budget.tokens, s.usage.tokens()));
            let by_cost = truth(|s| (s.budget.cost, s.usage.cost_micros));
            assert_eq!(
                session.budget.tokens, by_tokens,
                "tokens of {}\n{sessions:#?}",
                session.id
            );
            assert_eq!(session.budget.cost, by_cost, "cost of {}", session.id);
        }
    }

    fn audit_gates(&self) {
        let threads: HashMap<_, _> = self
            .all::<Thread>()
            .into_iter()
            .map(|t| (t.id.clone(), t))
            .collect();
        for session in self.all::<Session>() {
            let open = threads[&session.thread].require_open().is_ok();
            assert!(
                open || !session.phase.name().blocks_archive(),
                "{} is {} on an archived thread",
                session.id,
                session.phase.name()
            );
        }
    }
}

pub(crate) fn task(text: &str) -> Spawn {
    Spawn {
        task: text.parse().unwrap(),
        project: Some("api".into()),
        thread: None,
        parent: None,
        owner: None,
        agent: Some(AgentName::none()),
        equip: skein_ledger::spawn::LaunchOptions::default(),
        allowance: UNLIMITED,
    }
}

pub(crate) fn below(parent: &SessionId) -> Spawn {
    Spawn {
        project: None,
        parent: Some(parent.to_string()),
        ..task("a part of it")
    }
}

pub(crate) fn idempotency(key: &str, request: &str) -> Idempotency {
    Idempotency {
        key: key.parse().unwrap(),
        fingerprint: *blake3::hash(request.as_bytes()).as_bytes(),
        render: Arc::new(|outcome| format!("{outcome:?}")),
    }
}

/// Runs all at once; returns the results in the order of the calls.
pub(crate) async fn race<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    racers: Vec<F>,
) -> Vec<T> {
    let start = Arc::new(Barrier::new(racers.len()));
    let mut running = JoinSet::new();
    for (number, racer) in racers.into_iter().enumerate() {
        let start = start.clone();
        running.spawn(async move {
            start.wait().await;
            (number, racer.await)
        });
    }
    let mut results = running.join_all().await;
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

pub(crate) fn kind<T: std::fmt::Debug>(result: &Result<T, Error>) -> Option<Kind> {
    result.as_ref().err().map(Error::kind)
}

pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Refused {
    let error = result.unwrap_err();
    match error.domain() {
        Some(skein_domain::Error::Refused(refused)) => refused.clone(),
        _ => panic!("not a refusal: {error:?}"),
    }
}

pub(crate) fn conflict<T: std::fmt::Debug>(result: Result<T, Error>) -> Conflict {
    let error = result.unwrap_err();
    match error.domain() {
        Some(skein_domain::Error::Conflict(conflict)) => conflict.clone(),
        _ => panic!("not a conflict: {error:?}"),
    }
}

/// The parts of a session that a revert must restore.
pub(crate) fn but_version(session: &Session) -> Session {
    Session {
        version: 0,
        updated_at: session.created_at,
        ..session.clone()
    }
}

/// Holds every handoff and broadcast between lock and commit until the test releases it.
#[derive(Debug)]
pub(crate) struct HoldPoint {
    pub(crate) entered: Notify,
    go: (Mutex<bool>, Condvar),
}

impl Default for HoldPoint {
    fn default() -> Self {
        Self {
            entered: Notify::new(),
            go: (Mutex::new(false), Condvar::new()),
        }
    }
}

impl HoldPoint {
    /// Releases the one that is held, and all later ones.
    pub(crate) fn release(&self) {
        *self.go.0.lock().unwrap() = true;
        self.go.1.notify_all();
    }
}

impl FaultPoints for HoldPoint {
    fn reach(&self, point: &str) {
        if point.ends_with(".commit.begin") {
            self.entered.notify_one();
            let mut go = self.go.0.lock().unwrap();
            while !*go {
                go = self.go.1.wait(go).unwrap();
            }
        }
    }
}

/// Waits until the log holds an event of this kind.
pub(crate) async fn wait_for_event(world: &World, kind: &str) {
    let mut follower = world
        .requests()
        .events()
        .follow(Some(0), None)
        .await
        .unwrap();
    loop {
        let events = follower.next().await.unwrap();
        assert!(!events.is_empty(), "the store was closed");
        if events.iter().any(|e| e.kind == kind) {
            return;
        }
    }
}

/// A kill of one session or of all below it, for no reason.
pub(crate) fn kill(tree: bool) -> skein_ledger::KillOptions {
    skein_ledger::KillOptions {
        tree,
        ..skein_ledger::KillOptions::default()
    }
}
