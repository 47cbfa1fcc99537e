//! Records for the cases: small, valid and always the same.

use std::sync::Barrier;
use std::thread;

use skein_domain::fact::SessionChange;
use skein_domain::session::NewSession;
use skein_domain::{
    Actor, AgentName, Allowance, Backup, Delivery, EnvVar, Fact, Gear, LaunchSettings, Limit,
    Limits, Outcome, Permission, Phase, PhaseName, Project, ProjectId, PromptVia, Purpose,
    Question, ReadFile, Receipt, ReceiptId, Retention, RuntimeKind, Saga, SagaId, SagaKind,
    SagaRequest, SagaState, Session, SessionId, TenantId, Thread, ThreadId, ThreadState, Timestamp,
    Via, Workspace, WorkspaceKind, WorkspaceOrigin, WorkspaceState,
};

use skein_store::access::Writer;
use skein_store::backend::Result;
use skein_store::tenant::{Store, TenantStore};

pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// One tenant with a project and a thread in it.
pub(crate) struct World {
    pub(crate) tenant: TenantStore,
    pub(crate) project: Project,
    pub(crate) thread: Thread,
}

pub(crate) fn project() -> Project {
    Project {
        id: ProjectId::from_random([1; 10]),
        name: "api".parse().unwrap(),
        path: Some("/src/api".into()),
        prefix: "api".parse().unwrap(),
        limits: Limits::default(),
        retention: Retention::default(),
        version: 1,
        created_at: at(1),
        updated_at: at(1),
        removed_at: None,
    }
}

pub(crate) fn thread(n: u8) -> Thread {
    Thread {
        id: ThreadId::from_random([n; 10]),
        project: project().id,
        title: format!("work {n}").parse().unwrap(),
        state: ThreadState::Open,
        version: 1,
        created_at: at(1),
        updated_at: at(1),
    }
}

pub(crate) fn session_id(n: u64) -> SessionId {
    SessionId::new(&project().prefix, n)
}

pub(crate) fn handoff_id() -> SagaId {
    SagaId::from_random([7; 10])
}

pub(crate) fn session(n: u64, parent: Option<u64>) -> Session {
    Session::ready(new_session(n, parent))
}

fn new_session(n: u64, parent: Option<u64>) -> NewSession {
    NewSession {
        id: session_id(n),
        project: project().id,
        thread: thread(1).id,
        parent: parent.map(session_id),
        depth: u32::from(parent.is_some()),
        owner: Actor::System,
        agent: AgentName::none(),
        task: format!("task {n}").parse().unwrap(),
        allowance: Allowance::UNLIMITED,
        broadcast: None,
        at: at(i64::try_from(n).unwrap()),
    }
}

/// A session with an agent, nothing of its gear left out.
pub(crate) fn geared(n: u64) -> Session {
    let workspace = Workspace {
        kind: WorkspaceKind::Worktree,
        path: format!("/managed/{}", session_id(n)).parse().unwrap(),
        repo: Some("/src/api".parse().unwrap()),
        branch: Some(format!("skein/{}", session_id(n)).parse().unwrap()),
        branch_made: true,
        base: Some("origin/main".parse().unwrap()),
        base_commit: Some("0a".repeat(20).parse().unwrap()),
        origin: WorkspaceOrigin::Made,
        state: WorkspaceState::Ready,
        backups: vec![Backup {
            n: 1,
            commit: "0b".repeat(32).parse().unwrap(),
            at: at(3),
        }],
    };
    let launch = LaunchSettings {
        command: Some("agent --fast\n".parse().unwrap()),
        prompt_via: Some(PromptVia::Typed),
        model: Some("large".parse().unwrap()),
        permission: Permission::Edits,
        via: Via::Acp,
        resume_after_limit: true,
        env: vec![EnvVar::new("A", "b=c\n\"").unwrap()],
        path: Some("/bin:/usr/bin".into()),
    };
    let gear = Gear {
        runtime: RuntimeKind::Pty,
        launch,
        workspace,
        handle: Some("/run/holder.sock".parse().unwrap()),
        native: Some("c0ffee".parse().unwrap()),
        saga: Some((saga_id(n), SagaKind::Spawn)),
        input: 4,
        spent: None,
        read: vec![ReadFile {
            path: "/h/rollout.jsonl".into(),
            kind: "rollout".into(),
            position: 7,
            inode: Some(8),
            said: None,
        }],
        limit: Some(Limit {
            until: at(4),
            text: Some("usage limit reached".parse().unwrap()),
        }),
        note: Some("launched fresh".parse().unwrap()),
    };
    Session::spawning(new_session(n, None), gear)
}

/// Ids that fall as `n` grows, so that an order by id is not mistaken for the order of creation.
fn falling(n: u64) -> [u8; 10] {
    [u8::MAX - u8::try_from(n).unwrap(); 10]
}

pub(crate) fn saga_id(n: u64) -> SagaId {
    SagaId::from_random(falling(n))
}

pub(crate) fn saga(n: u64, session: u64) -> Saga {
    Saga {
        id: saga_id(n),
        session: session_id(session),
        request: SagaRequest::Spawn {
            memory_mb: 512 << 20,
            receipt: Some(receipt(n, session).id),
        },
        state: SagaState::Queued,
        prompt: None,
        shared: None,
        actor: Actor::System,
        reply: None,
        version: 1,
        at: at(10),
    }
}

pub(crate) fn receipt(n: u64, session: u64) -> Receipt {
    Receipt {
        id: ReceiptId::from_random(falling(n)),
        session: session_id(session),
        key: Some(format!("key-{n}").parse().unwrap()),
        purpose: Purpose::Message,
        from: Some(session_id(99)),
        text: format!("message {n}\n\tand more").parse().unwrap(),
        question: None,
        state: Delivery::Accepted,
        attempts: 0,
        history: vec![(Delivery::Accepted, at(20))],
        written: None,
        call: None,
        note: None,
        doubt: None,
        version: 1,
    }
}

pub(crate) fn phase(name: PhaseName) -> Phase {
    match name {
        PhaseName::Spawning => Phase::Spawning,
        PhaseName::Active => Phase::Active,
        PhaseName::Idle => Phase::Idle,
        PhaseName::AwaitingInput => Phase::AwaitingInput(Question {
            text: "which?".parse().unwrap(),
            options: vec![],
            kinds: vec![],
            id: None,
        }),
        PhaseName::Locked => Phase::Locked(handoff_id()),
        PhaseName::AwaitingMerge => Phase::AwaitingMerge(handoff_id()),
        PhaseName::Ended => Phase::Ended {
            outcome: Outcome::Done,
            reason: None,
        },
        PhaseName::Archived => Phase::Archived { outcome: None },
    }
}

/// A fact without consequences, for cases that only need an event.
pub(crate) fn note(message: impl ToString) -> Fact {
    Fact::Refused {
        place: None,
        op: "test",
        rule: "test",
        message: message.to_string(),
    }
}

pub(crate) fn turn_began(session: &Session) -> Fact {
    SessionChange::TurnBegan { run: session.run }.of(session)
}

pub(crate) fn tenant(store: &Store, name: &str) -> TenantStore {
    store.tenant(name.parse::<TenantId>().unwrap())
}

pub(crate) fn write<T: Send + 'static>(
    tenant: &TenantStore,
    job: impl FnMut(&mut Writer<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    tenant.write_blocking(&Actor::System, at(1_000), job)
}

pub(crate) fn world(store: &Store) -> World {
    let (tenant, project, thread) = (tenant(store, "default"), project(), thread(1));
    let (p, t) = (project.clone(), thread.clone());
    write(&tenant, move |writer| {
        writer.insert(&p)?;
        writer.insert(&t)?;
        writer.append_event(&note("a project and a thread"))
    })
    .unwrap();
    World {
        tenant,
        project,
        thread,
    }
}

impl World {
    pub(crate) fn add(&self, session: &Session) -> Result<()> {
        let session = session.clone();
        write(&self.tenant, move |writer| {
            writer.insert(&session)?;
            writer.append_event(&turn_began(&session))
        })
    }

    pub(crate) fn update(&self, session: &Session) -> Result<()> {
        let session = session.clone();
        write(&self.tenant, move |writer| {
            writer.update(&session)?;
            writer.append_event(&turn_began(&session))
        })
    }

    pub(crate) fn delete(&self, session: &Session) -> Result<()> {
        let session = session.clone();
        write(&self.tenant, move |writer| {
            writer.delete(&session)?;
            writer.append_event(&turn_began(&session))
        })
    }

    pub(crate) fn find(&self, n: u64) -> Option<Session> {
        self.tenant
            .read_blocking(|reader| reader.find(session_id(n).as_str()))
            .unwrap()
    }
}

/// Runs `racer` on `count` threads at once and gives what each returned.
pub(crate) fn race<T: Send>(count: usize, racer: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (start, racer) = (Barrier::new(count), &racer);
    thread::scope(|scope| {
        let start = &start;
        let racers: Vec<_> = (0..count)
            .map(|n| {
                scope.spawn(move || {
                    start.wait();
                    racer(n)
                })
            })
            .collect();
        racers
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .collect()
    })
}
